"""Posteriors given noisy sums over records. Nothing here depends on a particular model or mechanism."""
