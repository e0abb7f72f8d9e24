"""Posteriors of hidden Markov models whose counts were seen through noise. Knows no model and no mechanism."""
