"""Exact draws and private chains, and what they cost. No file here names a mechanism or a model."""
