"""Posteriors of category probabilities given noisy counts. Nothing here depends on a particular model or mechanism."""
