"""Plug-ins as a third party would write them; tests add them to a copy of the package."""
