"""Simulation studies of what releases tell: simulated data, nothing private, nothing charged."""

NOT_PRIVATE = "NOT PRIVATE: simulated data"
"""The stamp of every file and figure of a study."""
