"""Studies of what releases of a binary outcome are worth at a Renyi price: computed, not simulated."""
