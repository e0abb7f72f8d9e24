"""Specs: the YAML that states a question, its typed model, and the canonical request that a release's id hashes."""
