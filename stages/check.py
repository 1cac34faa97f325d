"""Check the settings of a domain, and take digests of its code: ``python stages/check.py chess``.

DVC removes the outputs of a stage and then runs it: a key that is refused must be refused by a stage before it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from outofcore.console import one_line_errors
from outofcore.domains.registry import get_domain
from outofcore.params import load_params
from outofcore.project.code import check_version, code_of
from outofcore.replacing import replace_text


def main(name: str) -> None:
    check_version(Path("requirements.txt"))
    section, domain = load_params().section(name), get_domain(name)
    domain.require_packages()
    # The same for all settings: what depends on it runs again when its own settings change, not when any does.
    for what, digests in code_of(domain, section).items():
        replace_text(Path("data/checked") / f"{name}.{what}", digests)


if __name__ == "__main__":
    with one_line_errors():
        main(sys.argv[1])
