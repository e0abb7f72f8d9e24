"""Predictions and their evaluation, from a bundle: free. Knows no ledger and no source but new records."""
