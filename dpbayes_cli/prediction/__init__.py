"""Predictions for new records from a released bundle: post-processing, without ledger or cost."""
