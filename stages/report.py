"""Make the page that shows what ran, or one that compares experiments: ``python stages/report.py [--experiments]``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from outofcore.console import one_line_errors

FOLDER = Path("reports")


def main(*, experiments: bool) -> None:
    print("comparing experiments" if experiments else "drawing what ran", flush=True)
    from outofcore.report.render import make_comparison, make_page  # which takes seconds

    path = FOLDER / ("experiments.html" if experiments else "index.html")
    page = make_comparison(Path()) if experiments else make_page(Path())
    FOLDER.mkdir(exist_ok=True)
    path.write_text(page, encoding="utf-8", newline="\n")
    sys.stdout.write(f"{path}: {len(page.encode()) / 1e6:.2f} MB; open it in a browser\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Make reports/index.html.")
    parser.add_argument("--experiments", action="store_true", help="compare experiments: make reports/experiments.html")
    with one_line_errors(resumes=False):
        main(experiments=parser.parse_args().experiments)
