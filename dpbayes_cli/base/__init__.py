"""Errors, exact numbers, canonical JSON, atomic files and database drivers; nothing about privacy, models or data."""
