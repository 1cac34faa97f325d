"""Convert a domain's raw input into a sealed store: ``python stages/convert.py chess``."""

from __future__ import annotations

import sys

from outofcore.display.console import one_line_errors, stopped_at_once

with stopped_at_once():
    from outofcore.project.locked import put_back
    from outofcore.stages import convert

if __name__ == "__main__":
    with one_line_errors(hint=put_back):
        convert(sys.argv[1])
