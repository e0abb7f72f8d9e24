"""Predictions for new records and their evaluation, from a bundle: free. Uses no ledger and no other data source."""
