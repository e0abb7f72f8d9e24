"""Run the command line as ``python -m dpbayes_cli``."""

from dpbayes_cli.main import run

if __name__ == "__main__":
    run()
