"""Make the small sample input of a domain: ``python stages/sample.py chess``."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from outofcore.display.console import one_line_errors, stopped_at_once

with stopped_at_once():
    import numpy as np

    from outofcore.domains.registry import get_domain

SEED = 20_000_000


def main(name: str) -> None:
    folder = Path("data/sample") / name
    print(f"{name}: writing {folder}", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    get_domain(name).sample(folder, np.random.default_rng(SEED))


if __name__ == "__main__":
    with one_line_errors(resumes=False):
        main(sys.argv[1])
