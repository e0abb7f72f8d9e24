"""Studies of what releases tell: simulated data or public files, nothing private, nothing charged."""

NOT_PRIVATE = "NOT PRIVATE: results of a study"
"""The stamp of every file and figure of a study."""
