"""Posteriors from noisy statistics, by methods chosen by the structure of an observation, never by a model's name."""
