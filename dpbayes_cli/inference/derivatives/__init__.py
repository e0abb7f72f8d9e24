"""Regression coefficients given noisy gradients and Hessians of a log likelihood."""
