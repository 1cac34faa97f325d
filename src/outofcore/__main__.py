"""``python -m outofcore``: the command line."""

from outofcore.cli import main

if __name__ == "__main__":
    main()
