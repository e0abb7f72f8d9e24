"""Guarantees, neighbor relations, composition and exact noise. Nothing here reads data or files."""
