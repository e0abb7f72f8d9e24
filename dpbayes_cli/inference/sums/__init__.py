"""Posteriors of parameters whose sums of records were seen through noise. Knows no model and no mechanism."""
