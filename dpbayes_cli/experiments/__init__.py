"""Simulation studies: made-up data or public files, nothing private, nothing charged. Knows no ledger."""

NOT_PRIVATE = "NOT PRIVATE: results of a study"
"""The stamp of every file and figure of a study."""
