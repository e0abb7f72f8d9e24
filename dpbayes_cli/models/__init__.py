"""One file for each model."""
