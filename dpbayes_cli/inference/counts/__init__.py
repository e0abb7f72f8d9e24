"""Posteriors of categories whose counts were seen through noise. Knows no model and no mechanism."""
