"""Exact draws and private chains, and what they cost. Knows no mechanism and no model by name."""
