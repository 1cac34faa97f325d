"""Check the settings of a domain, and record the versions and the code that it runs: ``python stages/check.py chess``.

DVC removes the outputs of a stage and then runs it: a key that is refused must be refused by a stage before it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from outofcore.display.console import one_line_errors, stopped_at_once

with stopped_at_once():
    from outofcore.domains.registry import get_domain
    from outofcore.errors import ParamsError
    from outofcore.params import load_params
    from outofcore.project.code import check_version, code_of
    from outofcore.project.entries import refuse_unlisted
    from outofcore.system.durable import replace_text

DEFINITION = Path("dvc.yaml")


def main(name: str) -> None:
    print(f"{name}: checking its settings", flush=True)
    section, domain = load_params().section(name), get_domain(name)
    domain.require_packages()
    check_version(domain)
    refuse_unlisted(domain, section)
    refuse_unread(name, section.evaluate)
    # The same for all settings: what depends on it runs again when its own settings change, not when any does.
    for what, recorded in code_of(domain).items():
        replace_text(Path("data/checked") / f"{name}.{what}", recorded)


def refuse_unread(name: str, fixed: str | None) -> None:
    """Raise ParamsError if the stage evaluate does not depend on the store that is named for it."""
    if fixed and DEFINITION.is_file() and f"${{{name}.evaluate}}" not in DEFINITION.read_text("utf-8"):
        message = f"{DEFINITION}: the stage evaluate does not depend on {name}.evaluate yet; run 'outofcore init .'"
        raise ParamsError(message)


if __name__ == "__main__":
    with one_line_errors(resumes=False):
        main(sys.argv[1])
