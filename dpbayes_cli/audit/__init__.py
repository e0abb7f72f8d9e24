"""Empirical attacks on a mechanism: its parts are looked at, then the whole. Reads no real data."""
