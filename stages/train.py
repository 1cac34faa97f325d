"""Train a domain's model on its store, or straight from its raw files: ``python stages/train.py chess``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from outofcore.display.console import one_line_errors, stopped_at_once

with stopped_at_once():
    from outofcore.domains.registry import get_domain
    from outofcore.params import load_params
    from outofcore.pipeline import check_evaluated, open_result
    from outofcore.project.locked import put_back
    from outofcore.settings.machine import load_machine
    from outofcore.space.dvc_cache import find_cache
    from outofcore.space.links import commit_of
    from outofcore.system.importing import large_imports
    from outofcore.training.arithmetic import with_arithmetic

MOST_LINES = 12


def main(name: str) -> None:
    section, machine, domain = load_params().section(name), load_machine(), get_domain(name)
    machine = with_arithmetic(machine, section.train.arithmetic)
    store = open_result(domain)
    if not domain.streamed(section):
        domain.check_trainable(section, store)
    check_evaluated(domain, section, store)  # a store that evaluate would refuse is refused before the training
    tell(f"{name}: training on {store.root}", *filter(None, [machine.share]))
    with large_imports():  # which take seconds
        from outofcore.report.words import figure_lines
        from outofcore.training.ranks import this_rank
        from outofcore.training.run import run

    cache = find_cache()
    commit = commit_of(Path("models") / name, cache) if cache else None
    figures = run(domain, section, store, machine, Path(), tell, commit)
    if not this_rank().rank:
        whole = f"metrics/{name}/train.json has all figures; 'python stages/report.py' draws them"
        print(*figure_lines(figures, compared=True), whole, sep="\n")


def tell(*lines: str) -> None:
    """Print the first lines, of which recordings of many sessions have many, on the first rank."""
    if os.environ.get("RANK", "0") == "0":
        more = [f"and {len(lines) - MOST_LINES:,} lines more"] if len(lines) > MOST_LINES else []
        print(*lines[:MOST_LINES], *more, sep="\n", flush=True)


if __name__ == "__main__":
    with one_line_errors(hint=put_back):
        main(sys.argv[1])
