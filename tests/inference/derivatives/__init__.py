"""Tests of posteriors given noisy derivatives."""
