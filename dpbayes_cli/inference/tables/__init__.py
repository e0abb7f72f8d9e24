"""Posteriors of the tables of a network given their noisy counts. This package names no model and no mechanism."""
