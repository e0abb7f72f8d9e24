"""Posteriors from noisy statistics. The structure of an observation selects the method, never a model's name."""
