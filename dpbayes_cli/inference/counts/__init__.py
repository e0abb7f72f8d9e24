"""Posteriors of category probabilities given noisy counts. Names no model and no mechanism."""
