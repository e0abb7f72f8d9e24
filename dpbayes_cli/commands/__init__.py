"""One command a file: options and terminal output. Computes nothing that the Python API cannot."""
