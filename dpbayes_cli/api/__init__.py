"""The Python API, which ``dpbayes_cli`` exports; the command line prints what these functions return."""
