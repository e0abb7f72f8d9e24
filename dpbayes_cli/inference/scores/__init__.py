"""Scores of predictions against the true values: of classes, of numbers, of rankings."""
