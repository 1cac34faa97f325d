"""Train a domain's model on its store, or straight from its raw files: ``python stages/train.py chess``."""

from __future__ import annotations

import sys

from outofcore.display.console import one_line_errors, stopped_at_once

with stopped_at_once():
    from outofcore.project.locked import put_back
    from outofcore.stages import train

if __name__ == "__main__":
    with one_line_errors(hint=put_back):
        train(sys.argv[1])
