"""Posteriors of hidden Markov models given noisy counts of their records. Names no model and no mechanism."""
