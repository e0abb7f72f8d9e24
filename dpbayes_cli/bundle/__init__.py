"""Bundles: the release document and its files. This package reads no data and no ledger, and replaces no file."""
