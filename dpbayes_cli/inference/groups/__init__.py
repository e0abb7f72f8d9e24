"""Posteriors of groups, partially pooled, given noisy statistics of each group."""
