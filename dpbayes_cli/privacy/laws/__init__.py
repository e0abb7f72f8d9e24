"""Noise laws, one per file. A law does not know which mechanism adds it or which model is inferred from it."""
