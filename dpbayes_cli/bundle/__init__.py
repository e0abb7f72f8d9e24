"""What is on disk: the release document and its files, written at once and never over anything.

Reads no data and no ledger.
"""
