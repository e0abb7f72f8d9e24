"""Guarantees, neighbour relations and exact noise. Knows no data and no files."""
