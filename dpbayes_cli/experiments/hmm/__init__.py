"""Studies of hidden Markov models: how likely held-out records are under what was released, against epsilon."""
