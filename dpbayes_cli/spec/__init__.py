"""YAML, flags and Python arguments, made one typed release request. Opens no source and prices nothing."""
