"""Posteriors of the tables of a network given noisy counts, for any model and mechanism with such tables."""
