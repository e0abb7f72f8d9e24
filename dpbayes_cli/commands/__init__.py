"""The commands, one in each file: their options and what they print. The Python API computes all their results."""
