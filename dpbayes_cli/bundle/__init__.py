"""Bundles: the release document and its files. This package reads neither data nor ledgers, and replaces no file."""
