"""Likelihood families that several models share. Knows no model by name."""
