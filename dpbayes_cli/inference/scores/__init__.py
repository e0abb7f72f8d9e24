"""How good predictions are, given the truth: of classes, of numbers, of rankings."""
