"""Studies of classification: how well what was released of a network predicts new records."""
