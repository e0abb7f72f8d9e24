"""Posteriors of the parameters of many groups at once, given a noisy statistic of each group."""
