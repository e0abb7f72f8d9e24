"""Studies of linear regression: how far off predictions of a number are, against the prior's variance and epsilon."""
