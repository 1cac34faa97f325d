"""Read the test split once with a domain's trained model: ``python stages/evaluate.py chess``."""

from __future__ import annotations

import sys

from outofcore.display.console import one_line_errors, stopped_at_once

with stopped_at_once():
    from outofcore.stages import evaluate

if __name__ == "__main__":
    with one_line_errors(resumes=False):
        evaluate(sys.argv[1])
