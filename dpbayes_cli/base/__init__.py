"""Errors, exact numbers, canonical JSON, atomic files, database drivers. Knows no privacy, no model and no record."""
