"""Studies of data that an adversary chooses: what a posterior sample loses on them, against the worst case."""
