"""The durable privacy account: append-only, hash-chained, exact. Knows guarantees, but neither models nor data."""
