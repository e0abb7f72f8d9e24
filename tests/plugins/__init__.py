"""What a third party would write: files that a copy of the package gains, each with a line of the registry."""
