"""``python -m outofcore``: the command line."""

from outofcore.cli import main

main()
