"""Commands that look into stores: ``info``, ``show``, ``diff``, ``trace``, ``verify``."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from outofcore.cli.output import EXIT_WRONG, AsJson, console, print_json
from outofcore.display.console import large_imports, one_line_errors, visible
from outofcore.display.table import print_table
from outofcore.domains.registry import contents_of
from outofcore.errors import BudgetError, ParamsError, StoreError
from outofcore.inspect import terminal
from outofcore.store.opening import open_data, open_stores, stores_in
from outofcore.store.reader import open_store
from outofcore.store.token_files import open_tokens
from outofcore.store.unsealed import Unsealed


def info(
    store: Annotated[
        Path, typer.Argument(help="A store, a folder of them, any other Zarr, a file of token ids or a recording.")
    ],
    *,
    dtype: Annotated[str | None, typer.Option(help="Of token ids, such as uint16, if the file states none.")] = None,
    as_json: AsJson = False,
) -> None:
    """Summarise a store: counts, splits, fields with their sizes, settings, sources, rejects, a sample.

    Of a Zarr or a file of token ids that outofcore did not write: its fields, and what loader() says of them. Of a
    recording (.nwb, .h5, .mat, .npz): its arrays, by the names that source.names takes.

    \b
    Examples:
      outofcore info data/stores/chess.zarr
      outofcore info data/stores/chess.zarr --json | jq .rows
      outofcore info rec.nwb
    """
    with one_line_errors(resumes=False):
        from outofcore.inspect.store import card_of, unsealed_table

        try:
            opened = open_data(store) if dtype is None else open_tokens(store, dtype)
        except StoreError as error:
            if (table := contents_of(store)) is None:
                raise
            table = replace(table, notes=(*table.notes, str(error)))
            print_json(table.records) if as_json else print_table(console(), table)
            return
        if not isinstance(opened, Unsealed):
            card = card_of(opened)
            print_json(asdict(card)) if as_json else terminal.print_card(console(), card)
            return
        with large_imports():
            from outofcore.loading.loader import loader

        try:
            lines = () if as_json else loader(opened).notes
        except BudgetError as error:
            lines = (str(error), opened.note("train", [*opened.rows("train")]))
        table = unsealed_table(opened, lines)
        print_json(table.records) if as_json else print_table(console(), table)


def show_rows(
    store: Annotated[Path, typer.Argument(help="Folder of a sealed store.")],
    *,
    split: Annotated[str | None, typer.Option(help="train, val or test; the first that has rows by default.")] = None,
    part: Annotated[str | None, typer.Option(help="Which part, such as a session, if the store has several.")] = None,
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
    """
    with one_line_errors(resumes=False):
        from outofcore.inspect.store import looks

        opened = open_store(store)
        rows = looks(opened, split, part, row, count)
        print_json([asdict(look) for look in rows]) if as_json else terminal.print_rows(console(), opened, rows)


def diff(
    old: Annotated[Path, typer.Argument(help="A sealed store, or a folder of them.")],
    new: Annotated[Path, typer.Argument(help="Another one of the same domain.")],
    *,
    show: Annotated[bool, typer.Option("--show", help="Also show ten sequences of each kind of change.")] = False,
    as_json: AsJson = False,
) -> None:
    """Compare two stores: settings, counts, and which sequences were added, removed, changed or moved between splits.

    A sequence is the same if it comes from the same place of a raw file with the same bytes. Rejects explain what was
    added or removed. No rows are read, but for --show.

    \b
    Examples:
      outofcore diff before.zarr after.zarr
      outofcore diff before.zarr after.zarr --show
      outofcore diff before.zarr after.zarr --json | jq .sequences
    """
    with one_line_errors(resumes=False):
        from outofcore.inspect.diff import diff as compare

        stores = open_stores(old), open_stores(new)
        result = compare(*stores, show=10 if show else 0)
        if as_json:
            facts: dict[str, Any] = {table.name: table.records for table in result.tables}
            facts["digests"] = [store.digest for store in stores]
            print_json(facts | {"examples": {title: asdict(look) for title, look in result.examples.items()}})
        else:
            terminal.print_diff(console(), stores, result)


def trace(
    place: Annotated[str, typer.Argument(help="Folder or address of a store; or of a run or model: runs/first.")],
    *,
    step: Annotated[int | None, typer.Option(min=1, help="Which batch, from 1, as training prints it.")] = None,
    epoch: Annotated[int, typer.Option(min=0, help="From which epoch on steps are counted.")] = 0,
    record: Annotated[str | None, typer.Option(help="List the steps that have this record: games.pgn:12345.")] = None,
    epochs: Annotated[int, typer.Option(min=1, help="With --record: the first epochs to look through.")] = 1,
    split: Annotated[str, typer.Option(help="Of a store: which split.")] = "train",
    batch_size: Annotated[int, typer.Option(min=1, help="Of a store: samples of a batch, over all ranks.")] = 1024,
    seed: Annotated[int, typer.Option(min=0, help="Of a store: seed of the order.")] = 0,
    setting: Annotated[
        list[str] | None, typer.Option("-S", "--set", help="Of a store: another argument of loader(), pool_blocks=8.")
    ] = None,
    store: Annotated[str | None, typer.Option(help="Of a run: its store, if it has moved.")] = None,
    show: Annotated[bool, typer.Option("--show", help="Draw the rows.")] = False,
    raw: Annotated[bool, typer.Option("--raw", help="Print the records' own bytes, from their raw files.")] = False,
    raw_folder: Annotated[
        str | None, typer.Option(help="Where the raw files are, if not where params.yaml says.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Name the records of a batch by raw file and byte, from the order of samples alone; or the batches of a record.

    A run's loader has the settings that the run was trained with. Of a store, settings are those of loader(store); with
    --record, all its splits are looked through.

    \b
    Examples:
      outofcore trace chess.zarr --epoch 7 --step 300 --batch-size 256
      outofcore trace runs/first --step 340 --raw --raw-folder games/
      outofcore trace chess.zarr --record games.pgn:12345 --epochs 3
    """
    with one_line_errors(resumes=False):
        if (step is None) == (record is None):
            raise ParamsError("expected --step, such as --step 340, or --record, such as --record games.pgn:12345")
        with large_imports():
            from outofcore.inspect.trace import (
                appearance_table,
                drawn_rows,
                loader_of_run,
                origin_table,
                raw_records,
                splits_with,
            )
            from outofcore.loading.loader import loader
            from outofcore.params import given_settings
            from outofcore.training.results import MODEL, model_file, read_model

        file = model_file(Path(place))
        if file.name == MODEL and file.is_file():
            opened = {"train": loader_of_run(file, read_model(file), store)}
        else:
            options = {"batch_size": batch_size, "seed": seed, **given_settings(setting or [], ())}
            data = open_data(place)
            splits = [split] if record is None else splits_with(data, record)
            opened = {name: loader(data, name, **options) for name in splits}
        if record is not None:
            table = appearance_table(opened, record, epochs)
            print_json(table.records) if as_json else print_table(console(), table)
            return
        (batches,) = opened.values()
        origins = batches.trace(epoch, step or 1)
        drawn = drawn_rows(batches, origins) if show else []
        records = raw_records(batches, origins, raw_folder) if raw else {}
        if as_json:
            samples = [asdict(origin) | {"record": origin.record} for origin in origins]
            print_json({"samples": samples, "rows": [asdict(look) for _, look in drawn], "raw": records})
            return
        print_table(console(), origin_table(origins))
        for owner, look in drawn:
            terminal.print_rows(console(), owner, [look])
        for name, content in records.items():
            typer.echo(f"\n{visible(name)}, of the file that the store was made of:")
            typer.echo("\n".join(map(visible, content.splitlines())))


def verify(
    stores: Annotated[list[Path], typer.Argument(help="Stores, or folders of them.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Read every byte of stores and compare it with their seals; exit code 1 if anything has changed.

    \b
    Examples:
      outofcore verify data/stores/chess.zarr
      outofcore verify data/stores/*.zarr && dvc push
    """
    with one_line_errors(resumes=False):
        paths = [path for store in stores for path in stores_in(store) or [store]]
        verdicts = [terminal.verify_visibly(path) for path in paths]
        print_json(terminal.verdict_facts(verdicts)) if as_json else terminal.print_verdicts(console(), verdicts)
        if any(verdict.problems for verdict in verdicts):
            raise typer.Exit(EXIT_WRONG)
