"""Synthetic records and analyses from the joint posterior in a bundle; both are post-processing and cost nothing."""
