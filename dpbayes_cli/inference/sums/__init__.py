"""Posteriors given noisy sums over records. Names no model and no mechanism."""
