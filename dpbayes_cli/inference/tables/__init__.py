"""Posteriors of the tables of a network whose counts were seen through noise. Knows no model and no mechanism."""
