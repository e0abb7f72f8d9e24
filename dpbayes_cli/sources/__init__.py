"""Readers whose records are local, and engines that evaluate integer statistics. Knows no model and no noise."""
