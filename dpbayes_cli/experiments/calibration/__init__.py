"""Studies of calibration: ranks of true parameters in posteriors, and how far posteriors are from non-private ones."""
