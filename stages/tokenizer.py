"""Learn the tokenizer of the text domain, or take the given one: ``python stages/tokenizer.py``."""

from __future__ import annotations

from pathlib import Path

from outofcore.display.console import one_line_errors, stopped_at_once

with stopped_at_once():
    from outofcore.domains.text import DOMAIN
    from outofcore.params import load_params


def main() -> None:
    section = load_params().section(DOMAIN.name)
    learnt = section.tokenizer.learnt
    origin = section.raw if learnt else section.tokenizer.given
    print(f"{DOMAIN.name}: the tokenizer {section.tokenizer.path}, from {origin}", flush=True)
    DOMAIN.require_packages()
    from outofcore.domains.text.documents.hub import open_raw  # which imports them
    from outofcore.domains.text.tokens.learn import write_tokenizer

    write_tokenizer(Path(section.tokenizer.path), section, open_raw(section) if learnt else ())


if __name__ == "__main__":
    with one_line_errors(resumes=False):
        main()
