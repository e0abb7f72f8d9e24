"""Guarantees, neighbor relations, composition and exact noise. This layer knows no data and no files."""
