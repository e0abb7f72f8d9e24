"""Posteriors given noisy sums over records. This package names no model and no mechanism."""
