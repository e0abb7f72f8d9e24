"""Posteriors from noisy statistics, chosen by their structure. Knows no model and no mechanism by name."""
