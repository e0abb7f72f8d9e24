"""Posteriors of the counts in a published table of noisy counts, and of rates, shares and sums of these counts."""
