"""Studies of estimates: how far off one number is that a release of a binary outcome tells."""
