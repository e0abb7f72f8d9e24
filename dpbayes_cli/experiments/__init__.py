"""Simulation studies: simulated data or public files, nothing private, nothing charged. Knows no ledger."""

NOT_PRIVATE = "Study output is not private: it is computed from exact statistics"
"""The stamp of every file and figure of a study."""
