"""Studies of accuracy on simulated data or public files. They cost no privacy, and use no ledger."""

NOT_PRIVATE = "Study output is not private: it is computed from exact statistics"
"""The notice in every file and figure of a study."""
