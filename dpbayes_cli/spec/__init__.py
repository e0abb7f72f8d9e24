"""Typed release requests from YAML, flags and Python arguments; nothing here opens data or computes costs."""
