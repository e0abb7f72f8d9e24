"""Posteriors of category probabilities given noisy counts, for any model and mechanism with such counts."""
