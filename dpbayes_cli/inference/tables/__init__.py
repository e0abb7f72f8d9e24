"""Posteriors of the tables of a network given their noisy counts.

Nothing here depends on a particular model or mechanism.
"""
