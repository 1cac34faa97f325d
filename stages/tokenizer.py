"""Learn the tokenizer of the text domain, or take the given one: ``python stages/tokenizer.py``."""

from __future__ import annotations

from pathlib import Path

from outofcore.console import one_line_errors
from outofcore.domains.text import DOMAIN
from outofcore.domains.text.documents.hub import open_raw
from outofcore.domains.text.tokens.learn import make_tokenizer
from outofcore.params import load_params


def main() -> None:
    section = load_params().section(DOMAIN.name)
    path = Path(section.tokenizer.path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(make_tokenizer(section, open_raw(section)), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    with one_line_errors():
        main()
