"""Posteriors of the tables of a network given their noisy counts. Names no model and no mechanism."""
