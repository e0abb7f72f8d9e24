"""Predictive laws of new records, given posterior draws. Knows no bundle and no file."""
