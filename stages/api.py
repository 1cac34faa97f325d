"""Render the docstrings of what others build upon: ``make api``, then open ``build/api/index.html``."""

from __future__ import annotations

import sys
from pathlib import Path

import pdoc
import pdoc.render

import outofcore

MODULES = (
    "outofcore.store.reader",
    "outofcore.store.array",
    "outofcore.store.schema",
    "outofcore.loading.loader",
    "outofcore.loading.dataset",
    "outofcore.loading.iteration",
    "outofcore.order.windows",
    "outofcore.order.weighted",
    "outofcore.order.balanced",
    "outofcore.domains.text.stream",
    "outofcore.models",
    "outofcore.settings.machine",
    "outofcore.params",
    "outofcore.settings.sizes",
    "outofcore.errors",
    "outofcore.domains.domain",
    "outofcore.domains.sections",
    "outofcore.domains.reading",
    "outofcore.domains.task",
    "outofcore.domains.gallery",
    "outofcore.domains.registry",
    "outofcore.raw.files",
    "outofcore.raw.unit",
    "outofcore.raw.damage",
)
"""What a user's program imports, and what a further domain is made of."""


def main(folder: Path) -> None:
    for name in outofcore.__all__:
        setattr(outofcore, name, getattr(outofcore, name))  # pdoc does not ask for what is imported on demand
    pdoc.render.configure(docformat="numpy", show_source=False)
    pdoc.pdoc("outofcore", r"!outofcore\.", *MODULES, output_directory=folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("build/api"))
