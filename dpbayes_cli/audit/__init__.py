"""Empirical attacks on a mechanism: on its parts, then on whole releases. Reads no real data."""
