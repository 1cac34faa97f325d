"""Check the settings of a domain and of this machine, record versions: ``python stages/check.py chess``.

DVC removes the outputs of a stage and then runs it: what is refused must be refused by a stage before it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from outofcore.display.console import one_line_errors, stopped_at_once

with stopped_at_once():
    from outofcore.display.console import large_imports
    from outofcore.domains.registry import get_domain
    from outofcore.params import load_params
    from outofcore.project.code import check_version, code_of
    from outofcore.settings.machine import load_machine
    from outofcore.system.durable import replace_text


def main(name: str) -> None:
    print(f"{name}: checking its settings", flush=True)
    domain = get_domain(name)
    load_params().section(name)
    domain.require_packages()
    check_version(domain)
    refuse_missing_device(load_machine().device)
    # The same for all settings: what depends on it runs again when its own settings change, not when any does.
    for what, recorded in code_of(domain).items():
        replace_text(Path("data/checked") / f"{name}.{what}", recorded)


def refuse_missing_device(name: str) -> None:
    """Raise ParamsError if this machine lacks a device that its settings name."""
    if name not in ("auto", "cpu"):
        with large_imports():  # torch, for which other settings need not wait
            from outofcore.training.ranks import choose_device
        choose_device(name)


if __name__ == "__main__":
    with one_line_errors(resumes=False):
        main(sys.argv[1])
