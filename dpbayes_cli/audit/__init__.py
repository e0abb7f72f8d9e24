"""Empirical attacks on the parts of a mechanism, and on whole releases of made-up data."""
