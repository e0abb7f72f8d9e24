"""The ledger, an append-only hash chain of all privacy costs. It knows guarantees, but neither models nor data."""
