"""Posteriors of hidden Markov models given noisy counts of records.

Nothing here depends on a particular model or mechanism.
"""
