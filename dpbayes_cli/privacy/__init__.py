"""Guarantees, neighbor relations, composition and exact noise. Knows no data and no files."""
