"""The command line as `python -m deepbc`."""

from deepbc.cli import main

if __name__ == "__main__":
    main()
