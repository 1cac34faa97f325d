"""Check the settings of a domain, before DVC removes what they would make anew: ``python stages/check.py chess``.

DVC removes the outputs of a stage and then runs it: a key that is refused must be refused by a stage before it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from outofcore.console import one_line_errors
from outofcore.params import load_params
from outofcore.replacing import replace_text


def main(name: str) -> None:
    load_params().section(name)
    # The same for all settings: what depends on it runs anew when its own settings change, not when any does.
    replace_text(Path("data/checked") / name, "every key is known and its value accepted\n")


if __name__ == "__main__":
    with one_line_errors():
        main(sys.argv[1])
