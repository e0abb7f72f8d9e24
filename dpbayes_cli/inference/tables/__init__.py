"""Posteriors of the tables of a network given their noisy counts. Knows no model and no mechanism."""
