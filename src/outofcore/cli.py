"""``outofcore info | show | diff | trace | verify | plan | convert | train | tokenizer | predict | init | ...``.

Exit codes: 0 all is well; 1 something is wrong with what was looked at, or the system refused to read or write; 2 a
mistake in the call or the settings; 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

from outofcore.display.console import end_by_system, one_line_errors, stopped_at_once, visible

with stopped_at_once():
    import shlex
    from dataclasses import asdict
    from functools import partial

    import typer
    from rich.console import Console
    from rich.text import Text

    from outofcore import __version__
    from outofcore.display.table import print_table
    from outofcore.errors import BudgetError, ParamsError
    from outofcore.inspect import terminal
    from outofcore.space.committed import committed as check_committed
    from outofcore.space.dvc_cache import find_cache
    from outofcore.store.connection import shown
    from outofcore.store.opening import open_data, open_stores, stores_in
    from outofcore.store.reader import open_store
    from outofcore.store.unsealed import Unsealed
    from outofcore.system.importing import large_imports

EXIT_WRONG = 1

app = typer.Typer(
    help="Convert raw files into stores, look into stores, plan runs, and try trained models.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _print_version(*, wanted: bool) -> None:
    if wanted:
        typer.echo(f"outofcore {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead of text.")]


@app.command(short_help="Summarise a store.")
def info(
    store: Annotated[Path, typer.Argument(help="A store, a folder of them, any other Zarr, or a file of token ids.")],
    *,
    dtype: Annotated[str | None, typer.Option(help="Of token ids, such as uint16, if the file states none.")] = None,
    as_json: AsJson = False,
) -> None:
    """Summarise a store: counts, splits, fields with their sizes, settings, sources, rejects, a sample.

    Of a Zarr or a file of token ids that outofcore did not write: its fields, and what loader() says of them.

    \b
    Examples:
      outofcore info data/stores/chess.zarr
      outofcore info data/stores/chess.zarr --json | jq .rows
    """
    with one_line_errors(resumes=False):
        from outofcore.inspect.store import card_of, unsealed_table

        opened = open_data(store, dtype=dtype)
        if not isinstance(opened, Unsealed):
            card = card_of(opened)
            _print_json(asdict(card)) if as_json else terminal.print_card(_console(), card)
            return
        with large_imports():
            from outofcore.loading.loader import loader

        try:
            lines = () if as_json else loader(opened).notes
        except BudgetError as error:
            lines = (str(error),)
        table = unsealed_table(opened, lines)
        _print_json(table.records) if as_json else print_table(_console(), table)


@app.command("show", short_help="Show rows of a store.")
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
        _print_json([asdict(look) for look in rows]) if as_json else terminal.print_rows(_console(), opened, rows)


@app.command(short_help="Compare two stores.")
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
            _print_json(facts | {"examples": {title: asdict(look) for title, look in result.examples.items()}})
        else:
            terminal.print_diff(_console(), stores, result)


@app.command(short_help="Name the records of any batch.")
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
            from outofcore.models import model_file, read_model
            from outofcore.params import given_settings
            from outofcore.training.results import MODEL

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
            _print_json(table.records) if as_json else print_table(_console(), table)
            return
        (batches,) = opened.values()
        origins = batches.trace(epoch, step or 1)
        drawn = drawn_rows(batches, origins) if show else []
        records = raw_records(batches, origins, raw_folder) if raw else {}
        if as_json:
            samples = [asdict(origin) | {"record": origin.record} for origin in origins]
            _print_json({"samples": samples, "rows": [asdict(look) for _, look in drawn], "raw": records})
            return
        print_table(_console(), origin_table(origins))
        for owner, look in drawn:
            terminal.print_rows(_console(), owner, [look])
        for name, content in records.items():
            typer.echo(f"\n{visible(name)}, of the file that the store was made of:")
            typer.echo("\n".join(map(visible, content.splitlines())))


@app.command(short_help="Check every byte of stores.")
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
        _print_json(terminal.verdict_facts(verdicts)) if as_json else terminal.print_verdicts(_console(), verdicts)
        if any(verdict.problems for verdict in verdicts):
            raise typer.Exit(EXIT_WRONG)


@app.command(short_help="Forecast what a run writes.")
def plan(
    domains: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[DOMAINS | DOMAIN RAW [STORE]]",
            help="Domains, all of params.yaml by default; or one, raw files, and the folder of their store.",
        ),
    ] = None,
    *,
    params: Annotated[Path | None, typer.Option(help="A params file; params.yaml, but none with RAW.")] = None,
    setting: Annotated[
        list[str] | None, typer.Option("-S", "--set", help="With RAW: a setting, such as filters.min_elo=2000.")
    ] = None,
    experiments: Annotated[
        int,
        typer.Option(min=0, help="Experiments side by side, each in a workspace of its own (--temp, --queue)."),
    ] = 0,
    ranks: Annotated[int, typer.Option(min=1, help="Processes that train together here (torchrun).")] = 1,
    sizes: Annotated[bool, typer.Option("--sizes", help="Also show what models of other sizes take.")] = False,
    as_json: AsJson = False,
) -> None:
    """Forecast what 'dvc repro' would write, where, and whether it fits; exit code 1 if not.

    Exit code 1 also if training would refuse this input, as far as the sample shows. With RAW, the forecast is of
    'outofcore convert' and 'outofcore train' in this folder, or of a store elsewhere.

    A sample of the real input is converted in memory; nothing is kept on disk.

    \b
    Examples:
      outofcore plan
      outofcore plan chess --sizes
      outofcore plan chess games/ -S filters.min_elo=2000
      outofcore plan chess games/ /big/disk/chess.zarr
      OUTOFCORE_DISK_MARGIN=0.5 outofcore plan --experiments 4
    """
    with one_line_errors(resumes=False):
        _begin("plan: a sample of the input is converted in memory, nothing is written")
        from outofcore.domains.registry import DOMAINS, get_domain
        from outofcore.params import given_settings, load_params, section_of
        from outofcore.settings.machine import load_machine

        machine, cache = load_machine(), find_cache()
        raw = domains[1] if domains and len(domains) in (2, 3) and domains[1] not in DOMAINS else None
        store = Path(domains[2]) if domains and raw is not None and len(domains) == 3 else None
        if raw is None and setting:
            raise ParamsError("-S: expected DOMAIN and RAW with it; the settings of a project are in its params file")
        with large_imports():
            from outofcore.pipeline import place_of, raw_settings
            from outofcore.plan import plan_domain, plan_run
            from outofcore.project.create import misread
            from outofcore.project.locked import refuse_earlier_tokenizer
            from outofcore.space.links import commit_of

        if domains and raw is not None:
            given, cache = given_settings(setting or [], domains[:1]), None
            sections = {domains[0]: section_of(domains[0], "plan", params, {**given, **raw_settings(raw, given)})}
        else:
            file = params or Path("params.yaml")
            settings = load_params(file)
            if not (names := domains or settings.domains):
                raise ParamsError(f"{file}: expected a section of a domain, found none")
            sections = {name: settings.section(name) for name in names}
            if "text" in sections:
                refuse_earlier_tokenizer(sections["text"], file.with_name("dvc.lock"))
            for name in misread(Path()):
                note = f"dvc.yaml was written for another form of {name}.raw: run 'outofcore init .' before 'dvc repro'"
                typer.echo(note, err=True)
        with terminal.waiting() as tell:
            planned = []
            for name, section in sections.items():
                tell(f"{name}: converting a sample of the input")
                domain = get_domain(name)
                place = store or place_of(domain, section)
                commit = commit_of(place, cache) if cache else None
                planned.append(plan_domain(domain, section, place, machine, commit, ranks=ranks, sizes=sizes))
        forecast = plan_run(planned, machine, experiments)
        if as_json:
            _print_json(terminal.plan_facts(forecast, machine))
        else:
            terminal.print_plan(_console(), forecast, machine)
        if not forecast.runs:
            raise typer.Exit(EXIT_WRONG)


@app.command("convert", short_help="Convert raw files into a store.")
def convert_files(
    domain: Annotated[str, typer.Argument(help="chess, go, text, neural, or one of an installed package.")],
    first: Annotated[str, typer.Argument(metavar="RAW", help="Raw file or folder; may be left out with --params.")],
    second: Annotated[str | None, typer.Argument(metavar="STORE", help="Folder of the store.")] = None,
    *,
    params: Annotated[Path | None, typer.Option(help="A params file; needed without RAW (params.yaml).")] = None,
    setting: Annotated[
        list[str] | None, typer.Option("-S", "--set", help="A setting, such as filters.min_elo=2000; may be repeated.")
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace a store of other settings.")] = False,
    as_json: AsJson = False,
) -> None:
    """Convert raw files into a sealed store, and say what is in it.

    Settings are the defaults of the domain, or those of a params file. In a DVC project, 'dvc repro' converts.

    \b
    Examples:
      outofcore convert chess games/ chess.zarr
      outofcore convert chess games/ chess.zarr -S filters.min_elo=2000 -S store.codec=lz4
      outofcore convert text text.zarr
    """
    with one_line_errors():
        _begin(f"convert {domain}: {first}{f' to {shown(second)}' if second else ''}")
        from outofcore.inspect.store import card_of
        from outofcore.params import given_settings, load_params
        from outofcore.pipeline import REJECTS, convert

        settings = given_settings(setting or [], [domain])
        if second is None:
            file = params or Path("params.yaml")
            if params is None and not file.exists():
                raise ParamsError(
                    f"expected RAW and STORE, got {first!r} alone, and no {file} here that names the raw files; write "
                    f"'outofcore convert {domain} {first} {domain}.zarr'"
                )
            raw = load_params(file).section(domain).raw
            if not isinstance(raw, str):
                raise ParamsError(f"{file}: {domain}.raw has several entries; name the path of one before the store")
            second, figures = first, convert(domain, raw, first, params=file, replace=replace, **settings)
        else:
            figures = convert(domain, first, second, params=params, replace=replace, **settings)
        if as_json:
            _print_json(figures)
            return
        terminal.print_counts(_console(), card_of(open_data(second)))
        if figures["rejected"]:
            listed = f"/*{REJECTS} list" if "digests" in figures else f"{REJECTS} lists"
            typer.echo(f"{visible(second)}{listed} the rejected records", err=True)


@app.command("train", short_help="Train a model on a store.")
def train_model(
    store: Annotated[str, typer.Argument(help="Folder or address of a store of chess, go, text or neural.")],
    out: Annotated[Path, typer.Argument(help="Folder for models, metrics and plots.")],
    *,
    params: Annotated[Path | None, typer.Option(help="A params file; the defaults of the domain without it.")] = None,
    setting: Annotated[
        list[str] | None, typer.Option("-S", "--set", help="A setting, such as train.max_steps=100; may be repeated.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="Where to train: cpu, cuda or mps; the best by default.")] = None,
    as_json: AsJson = False,
) -> None:
    """Train the model of a store's domain; prints the figures of its last validation.

    A run that was stopped resumes with the same command. In a DVC project, 'dvc repro' trains.

    \b
    Examples:
      outofcore train chess.zarr runs/first -S train.max_steps=1000
      outofcore train text.zarr runs/small -S train.preset=small -S tensors.seq_len=512 --device cuda
    """
    with one_line_errors():
        _begin(f"train: {shown(store)} into {out}")
        from outofcore.params import given_settings

        with large_imports():
            from outofcore.report.words import figure_lines
            from outofcore.training.ranks import this_rank
            from outofcore.training.run import train

        settings = given_settings(setting or [])
        tell = partial(print, sep="\n", file=sys.stderr, flush=True)
        figures = train(store, out, params=params, device=device, tell=tell, **settings)
        if this_rank().rank:
            return
        if as_json:
            _print_json(figures)
        else:
            typer.echo("\n".join(figure_lines(figures)))
            typer.echo(f"try the model: outofcore predict {shlex.quote(str(out))} RAW", err=True)


@app.command("tokenizer", short_help="Train a tokenizer on raw text.")
def write_tokenizer(
    raw: Annotated[str, typer.Argument(help="File or folder of text.")],
    file: Annotated[Path, typer.Argument(help="The tokenizer.json to write.")],
    *,
    params: Annotated[Path | None, typer.Option(help="A params file; the defaults without it.")] = None,
    setting: Annotated[
        list[str] | None, typer.Option("-S", "--set", help="A setting, such as vocab_size=8192; may be repeated.")
    ] = None,
) -> None:
    """Train a tokenizer on raw text, or take the one that the settings name; prints its size and digest as JSON.

    The file is for 'outofcore convert text ... -S tokenizer=FILE', and for outofcore.stream in a program. In a DVC
    project, 'dvc repro tokenizer' makes one.

    \b
    Examples:
      outofcore tokenizer corpus/ tokenizer.json
      outofcore tokenizer corpus/ tokenizer.json -S vocab_size=8192 -S source.text_column=body
      outofcore tokenizer corpus/ tokenizer.json -S kind=gpt2 -S given=gpt2/
    """
    with one_line_errors(resumes=False):
        from outofcore.params import given_settings
        from outofcore.tokenizer import train_tokenizer

        _print_json(train_tokenizer(raw, file, params=params, **given_settings(setting or [], ["text"])))


@app.command(short_help="Try a trained model on raw files.")
def predict(
    model: Annotated[Path, typer.Argument(help="Folder of a run, such as runs/first, or of a model: models/chess.")],
    raw: Annotated[Path, typer.Argument(help="Raw file or folder: games, a recording, a prompt; or a FEN.")],
    *,
    best: Annotated[
        int | None, typer.Option(help="Chess, Go: moves to list per position, or candidates per file; 5 by default.")
    ] = None,
    candidates: Annotated[
        Path | None, typer.Option(help="Go, task style: list for each file of RAW the nearest files of this folder.")
    ] = None,
    tokens: Annotated[int | None, typer.Option(help="Text: most tokens to write; 200 by default.")] = None,
    temperature: Annotated[
        float | None, typer.Option(help="Text: randomness, 0.8 by default; 0: always the most probable token.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Text: seed of the random choices; 0 by default.")] = None,
    device: Annotated[str, typer.Option(help="Where the model computes: cpu, cuda or mps.")] = "cpu",
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a line of JSON per prediction.")] = False,
) -> None:
    """Try a trained model on raw files, read as in training: moves with probabilities, text, rates.

    Neither its project nor its store is needed. Records that cannot be read, and the figures, go to stderr.

    \b
    Examples:
      outofcore predict models/chess game.pgn
      outofcore predict models/text prompt.txt --tokens 100 --temperature 0.5
      outofcore predict models/neural monday.npz --csv > rates.csv
      outofcore predict models/go queries/ --candidates known/ --best 1 --csv > answers.csv
    """
    with one_line_errors(resumes=False):
        _begin(f"predict: {raw} with {model}")
        with large_imports():
            from outofcore.inspect.predictions import FORMS
            from outofcore.models import load_model, summary
            from outofcore.report.words import figure_lines

        if as_csv and as_json:
            raise ParamsError("--csv and --json: expected one of them")
        chosen = {"best": best, "tokens": tokens, "temperature": temperature, "seed": seed}
        options = {name: value for name, value in chosen.items() if value is not None}
        trained = load_model(model, device)
        predictions = trained.match(raw, candidates, **options) if candidates else trained.predict(raw, **options)
        FORMS["csv" if as_csv else "json" if as_json else "table"](_console(), predictions)
        lines = [summary(predictions.rejects, predictions.rejected)] if predictions.rejects else []
        for line in (*lines, *figure_lines(predictions.figures)):
            typer.echo(visible(line), err=True)


@app.command(short_help="Check what a model was made of.")
def prove(
    model: Annotated[Path, typer.Argument(help="Folder of a run, such as runs/first, or of a model: models/chess.")],
    store: Annotated[str | None, typer.Argument(help="Folder or address of the store it was trained on.")] = None,
    raw: Annotated[Path | None, typer.Argument(help="Raw file or folder of that store.")] = None,
    *,
    again: Annotated[
        bool, typer.Option("--again", help="Also train again, and compare model.pt byte for byte.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check what a model records: versions, code, settings, store, order of batches, raw files; one page of Markdown.

    Each claim holds, differs, or cannot be checked because its files are not here. Exit code 1 if anything differs.

    \b
    Examples:
      outofcore prove models/chess
      outofcore prove models/chess data/stores/chess.zarr data/sample/chess > proof.md
      outofcore prove runs/first chess.zarr games/ --json
    """
    with one_line_errors(resumes=False):
        _begin(f"prove: {model}")
        with large_imports():
            from outofcore.inspect.prove import prove as check

        proof = check(model, open_stores(store) if store else None, raw, again=again)
        if as_json:
            _print_json(asdict(proof) | {"holds": proof.holds})
        else:
            typer.echo(visible(proof.markdown))
        if not proof.holds:
            raise typer.Exit(EXIT_WRONG)


@app.command(short_help="Write a DVC project.")
def init(
    folder: Annotated[Path, typer.Argument(help="Folder of the project; created if missing.")],
    *,
    domains: Annotated[
        str | None, typer.Option(help="Domains, such as chess or chess,text; by default those of the project.")
    ] = None,
) -> None:
    """Write a DVC project for some domains: dvc.yaml, params.yaml, stages/, .dvc. It runs on a small sample at once.

    Files that exist are kept. In a project that this command wrote, or in a clone of outofcore, the domains change.

    \b
    Examples:
      outofcore init my-games --domains chess
      outofcore init . --domains chess,text
    """
    with one_line_errors(resumes=False):
        from outofcore.domains.registry import DOMAINS
        from outofcore.project.create import create, domains_of

        names = tuple(filter(None, domains.split(","))) if domains is not None else domains_of(folder)
        if not names:
            raise ParamsError(f"expected --domains with one or more of {', '.join(DOMAINS)}, such as --domains chess")
        terminal.print_project(_console(), folder, names, create(folder, names))


@app.command(short_help="Check DVC's cache after a run.")
def committed(
    targets: Annotated[list[str] | None, typer.Argument(help="Stages or paths to check; all by default.")] = None,
    *,
    folder: Annotated[Path, typer.Option(help="Any folder of a DVC project.")] = Path(),
    as_json: AsJson = False,
) -> None:
    """Check that DVC's cache holds what dvc.lock states ('dvc data status'); exit code 1 if not.

    What is neither in the cache nor in the workspace was never run or pulled here; that is an error only for targets
    that you name.

    \b
    Examples:
      dvc repro && outofcore committed
      dvc repro convert@chess && outofcore committed convert@chess
      outofcore committed && dvc push
    """
    with one_line_errors(resumes=False):
        state = check_committed(folder, targets or ())
        _print_json(asdict(state)) if as_json else terminal.print_committed(_console(), state)
        if state.lacking or (targets and state.absent):
            raise typer.Exit(EXIT_WRONG)


@app.command("clear-cache", short_help="Remove what is kept of object storage.")
def clear_cache() -> None:
    """Remove what the folder of the machine's setting s3_cache keeps of stores in object storage, and nothing else.

    \b
    Examples:
      outofcore clear-cache
      OUTOFCORE_S3_CACHE=/fast/cache outofcore clear-cache
    """
    with one_line_errors(resumes=False):
        from outofcore.settings.machine import load_machine
        from outofcore.settings.sizes import format_bytes
        from outofcore.store.remote_cache import clear

        folder = load_machine().s3_cache
        if folder is None:
            raise ParamsError("s3_cache: expected a folder in machine.yaml or OUTOFCORE_S3_CACHE, it is not set")
        stores, freed = clear(folder)
        typer.echo(f"{visible(str(folder))}: removed {stores} store{'s' * (stores != 1)}, {format_bytes(freed)} freed")


def main() -> None:
    """Run the command line."""
    with stopped_at_once():  # until a command works, and after it
        try:
            app()
        except OSError as error:  # of help and version, whose output is refused
            end_by_system(error)


class _Visible(Console):
    """Prints no control character of a text, in tables neither."""

    def render_str(self, text: str, **options: Any) -> Text:
        """Turn a string into what is printed."""
        return super().render_str(visible(text), **options)


def _begin(what: str) -> None:
    """Say at a terminal what begins, before imports that take seconds."""
    if sys.stderr.isatty():
        sys.stderr.write(f"{visible(what)}\n")


def _console() -> Console:
    """Colours and the terminal's width on a terminal; elsewhere plain lines that are never broken."""
    if sys.stdout.isatty():
        return _Visible(markup=False, highlight=False, emoji=False)
    return _Visible(markup=False, highlight=False, emoji=False, no_color=True, width=10_000)


def _print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, indent=2, default=str) + "\n")
