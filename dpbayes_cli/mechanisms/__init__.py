"""One file for each mechanism."""
