"""``outofcore info | show | verify | plan | convert | committed``: look at stores, at disks, and at what DVC keeps.

Exit codes: 0 all is well; 1 something is wrong with what was looked at; 2 a mistake in the call or the settings; 130
stopped by Ctrl-C.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from outofcore import show
from outofcore.console import one_line_errors
from outofcore.errors import ParamsError
from outofcore.space.committed import committed as check_committed
from outofcore.space.dvc_cache import find_cache
from outofcore.store.reader import open_store

EXIT_WRONG = 1

app = typer.Typer(
    help="Look at stores, at disks, and at what DVC keeps.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead of text.")]


@app.command(short_help="Show a store's card.")
def info(
    store: Annotated[Path, typer.Argument(help="Folder of a sealed store.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Show a store's card: counts, splits, fields with their sizes, settings, sources, rejects, a sample.

    \b
    Examples:
      outofcore info data/stores/chess.zarr
      outofcore info data/stores/chess.zarr --json | jq .rows
    """  # noqa: D301 - \b keeps the lines of the examples apart
    with one_line_errors():
        from outofcore.card import card_of

        card = card_of(open_store(store))
        _print_json(asdict(card)) if as_json else show.card(_console(), card)


@app.command("show", short_help="Show rows of a store.")
def show_rows(
    store: Annotated[Path, typer.Argument(help="Folder of a sealed store.")],
    *,
    split: Annotated[str | None, typer.Option(help="train, val or test; the first that has rows by default.")] = None,
    part: Annotated[str | None, typer.Option(help="Part of a store that has several, such as a session.")] = None,
    row: Annotated[int | None, typer.Option(min=0, help="First row; rows spread over the split by default.")] = None,
    count: Annotated[int, typer.Option(min=1, help="How many rows.")] = 3,
    as_json: AsJson = False,
) -> None:
    """Show rows of a store as they are stored: boards, pieces of text, frames, and what they belong to.

    \b
    Examples:
      outofcore show data/stores/chess.zarr
      outofcore show data/stores/go.zarr --split val --row 120 --count 1
      outofcore show data/stores/neural.zarr --part monday --json | jq '.[].sequence'
    """  # noqa: D301
    with one_line_errors():
        from outofcore.look import looks

        opened = open_store(store)
        found = looks(opened, split, part, row, count)
        _print_json([asdict(each) for each in found]) if as_json else show.rows(_console(), opened, found)


@app.command(short_help="Check every byte of stores.")
def verify(
    stores: Annotated[list[Path], typer.Argument(help="Folders of stores.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Read every byte of stores and compare it with their seals; exit code 1 if anything has changed.

    \b
    Examples:
      outofcore verify data/stores/chess.zarr
      outofcore verify data/stores/*.zarr && dvc push
    """  # noqa: D301
    with one_line_errors():
        verdicts = [show.verifying(store) for store in stores]
        _print_json(show.verdict_facts(verdicts)) if as_json else show.verdicts(_console(), verdicts)
        if any(verdict.problems for verdict in verdicts):
            raise typer.Exit(EXIT_WRONG)


@app.command(short_help="Forecast what a run writes.")
def plan(
    domains: Annotated[list[str] | None, typer.Argument(help="Domains; all of params.yaml by default.")] = None,
    *,
    params: Annotated[Path, typer.Option(help="The params file.")] = Path("params.yaml"),
    experiments: Annotated[
        int,
        typer.Option(min=0, help="Experiments side by side, each in a workspace of its own (--temp, --queue)."),
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Forecast what 'dvc repro' would write, where, and whether it fits; exit code 1 if not.

    A sample of the real input is converted in memory; nothing is kept on disk.

    \b
    Examples:
      outofcore plan
      outofcore plan chess --json
      OUTOFCORE_DISK_MARGIN=0.5 outofcore plan --experiments 4
    """  # noqa: D301
    with one_line_errors():
        from outofcore.domains.registry import get_domain
        from outofcore.machine import load_machine
        from outofcore.params import load_params
        from outofcore.plan import plan_domain, plan_run

        machine, cache, settings = load_machine(), find_cache(), load_params(params)
        names = domains or settings.domains
        if not names:
            message = f"{params}: expected a section of a domain, found none"
            raise ParamsError(message)
        sections = {name: settings.section(name) for name in names}
        with show.waiting() as tell:
            planned = []
            for name, section in sections.items():
                tell(f"{name}: converting a sample of the input")
                planned.append(plan_domain(get_domain(name), section, machine, cache))
        found = plan_run(planned, machine, experiments)
        _print_json(show.plan_facts(found, machine)) if as_json else show.plan(_console(), found, machine)
        if not found.fits or found.empty:
            raise typer.Exit(EXIT_WRONG)


@app.command(short_help="Convert into an object storage.")
def convert(
    domain: Annotated[str, typer.Argument(help="A domain of params.yaml.")],
    address: Annotated[str, typer.Argument(help="Where the store goes: s3://bucket/stores/chess.zarr.")],
    *,
    params: Annotated[Path, typer.Option(help="The params file.")] = Path("params.yaml"),
) -> None:
    """Convert raw input into a store in an object storage, of which no copy stays here; prints its figures as JSON.

    'dvc repro' converts into the project. The bytes are the same, and so is what decides them: params.yaml.

    \b
    Examples:
      outofcore convert chess s3://bucket/stores/chess.zarr
      OUTOFCORE_ENGINE=dask outofcore convert text s3://bucket/stores/text.zarr
    """  # noqa: D301
    with one_line_errors():
        from outofcore.machine import load_machine
        from outofcore.params import load_params
        from outofcore.uploading import convert_to

        _print_json(convert_to(domain, address, load_params(params), load_machine()))


@app.command(short_help="Check DVC's cache after a run.")
def committed(
    stages: Annotated[list[str] | None, typer.Argument(help="Only these stages; none: all.")] = None,
    *,
    folder: Annotated[Path, typer.Option(help="Any folder of a DVC project.")] = Path(),
    as_json: AsJson = False,
) -> None:
    """Check that DVC's cache holds what dvc.lock states; exit code 1 if not. DVC itself does not tell.

    \b
    Examples:
      dvc repro && outofcore committed
      dvc repro convert@chess && outofcore committed convert@chess
      outofcore committed && dvc push
    """  # noqa: D301
    with one_line_errors():
        found = check_committed(folder, stages or ())
        _print_json(asdict(found)) if as_json else show.committed(_console(), found)
        if found.problems:
            raise typer.Exit(EXIT_WRONG)


def main() -> None:
    """Run the command line."""
    app()


def _console() -> Console:
    """Colours and the terminal's width on a terminal; elsewhere plain lines that are never broken."""
    if sys.stdout.isatty():
        return Console(markup=False, highlight=False)
    return Console(markup=False, highlight=False, no_color=True, width=10_000)


def _print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, indent=2, default=str) + "\n")
