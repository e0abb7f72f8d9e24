"""Studies of logistic regression: how well one private draw of the coefficients tells two classes apart."""
