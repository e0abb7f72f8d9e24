"""Posteriors given noisy statistics; the structure of an observation selects the method, never a model's name."""
