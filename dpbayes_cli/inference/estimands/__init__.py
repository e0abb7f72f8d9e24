"""Quantities computed from joint laws or from synthetic tables: regressions on cells, and combined estimates."""
