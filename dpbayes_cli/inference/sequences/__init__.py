"""Posteriors of hidden Markov models given noisy counts of records, for any model and mechanism with such counts."""
