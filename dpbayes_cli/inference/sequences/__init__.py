"""Posteriors of hidden Markov models given noisy counts of records. This package names no model and no mechanism."""
