"""Likelihood families that several models share. They do not depend on any model."""
