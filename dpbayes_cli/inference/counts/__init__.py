"""Posteriors of category probabilities given noisy counts. This package names no model and no mechanism."""
