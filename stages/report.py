"""Make the page that shows what ran: ``python stages/report.py``."""

from __future__ import annotations

import sys
from pathlib import Path

from outofcore.display.console import one_line_errors, stopped_at_once

with stopped_at_once():
    from outofcore.system.durable import replace_text
    from outofcore.system.extras import load

PAGE = Path("reports/index.html")


def main() -> None:
    print("drawing what ran", flush=True)
    for package in ("jinja2", "matplotlib"):
        load(package, "project", "the report")
    from outofcore.report.render import make_page  # which takes seconds

    page = make_page(Path())
    replace_text(PAGE, page)
    sys.stdout.write(f"{PAGE}: {len(page.encode()) / 1e6:.2f} MB; open it in a browser\n")


if __name__ == "__main__":
    with one_line_errors(resumes=False):
        main()
