"""dpbayes: Bayesian posteriors released under differential privacy, with a durable budget ledger."""

__version__ = "0.3.0"
