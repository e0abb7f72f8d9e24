"""Posteriors given noisy sums over records. Knows no model and no mechanism."""
