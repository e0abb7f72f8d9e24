"""Predictive laws of new records, given posterior draws. This package knows neither bundles nor files."""
