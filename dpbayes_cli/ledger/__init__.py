"""The durable budget ledger: append-only, hash-chained, exact; charged before anything can be seen."""
