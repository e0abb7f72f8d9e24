"""Predictions for new records, and their evaluation, from a bundle. They use no ledger, and cost no privacy."""
