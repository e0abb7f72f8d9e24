"""Exact draws and private chains, with their privacy costs. No file here names a mechanism or a model."""
