"""Readers of local records, and engines that evaluate integer statistics where the records are stored.

No file here names a model or a noise law."""
