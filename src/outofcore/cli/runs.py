"""Commands that make, try or prove: ``convert``, ``train``, ``evaluate``, ``tokenizer``, ``predict``, ``prove``."""

from __future__ import annotations

import shlex
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from outofcore.cli.output import EXIT_WRONG, AsJson, begin, console, print_json
from outofcore.display.console import large_imports, one_line_errors, visible
from outofcore.errors import ParamsError
from outofcore.inspect import terminal
from outofcore.store.connection import shown
from outofcore.store.opening import open_data


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
        begin(f"convert {domain}: {first}{f' to {shown(second)}' if second else ''}")
        with large_imports():
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
            second, figures = first, convert(domain, raw, first, params=file, replace=replace, **settings)
        else:
            figures = convert(domain, first, second, params=params, replace=replace, **settings)
        if as_json:
            print_json(figures)
            return
        terminal.print_counts(console(), card_of(open_data(second)))
        if figures["rejected"]:
            listed = f"/*{REJECTS} list" if "digests" in figures else f"{REJECTS} lists"
            typer.echo(f"{visible(second)}{listed} the rejected records", err=True)


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
        begin(f"train: {shown(store)} into {out}")
        from outofcore.params import given_settings

        with large_imports():
            from outofcore.domains.registry import get_domain
            from outofcore.report.words import figure_lines
            from outofcore.training.ranks import this_rank
            from outofcore.training.run import train

        settings = given_settings(setting or [])
        tell = partial(print, sep="\n", file=sys.stderr, flush=True)
        figures = train(store, out, params=params, device=device, tell=tell, **settings)
        if this_rank().rank:
            return
        if as_json:
            print_json(figures)
        else:
            typer.echo("\n".join(figure_lines(figures)))
            if get_domain(open_data(store).domain).has_predictions:
                typer.echo(f"try the model: outofcore predict {shlex.quote(str(out))} RAW", err=True)


def evaluate_model(
    model: Annotated[Path, typer.Argument(help="Folder of a run, such as runs/first, or of a model: models/chess.")],
    store: Annotated[str, typer.Argument(help="Folder or address of the store it was trained on.")],
    other: Annotated[str | None, typer.Argument(help="Another store, whose split is read instead.")] = None,
    *,
    split: Annotated[str, typer.Option(help="Which split.")] = "test",
    device: Annotated[str | None, typer.Option(help="Where the model computes; the best by default.")] = None,
    as_json: AsJson = False,
) -> None:
    """Read the test split once with a trained model; prints its figures, with 95 % confidence intervals.

    Nothing is written. In a DVC project, 'dvc repro' evaluates.

    \b
    Examples:
      outofcore evaluate runs/first chess.zarr
      outofcore evaluate runs/first chess.zarr masters.zarr --json > masters.json
    """
    with one_line_errors(resumes=False):
        begin(f"evaluate: {model} on the {split} split of {shown(other or store)}")
        with large_imports():
            from outofcore.evaluating import evaluate
            from outofcore.report.words import figure_lines

        figures = evaluate(model, store, other, split=split, device=device)
        print_json(figures) if as_json else typer.echo("\n".join(figure_lines(figures, compared=True)))


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

        print_json(train_tokenizer(raw, file, params=params, **given_settings(setting or [], ["text"])))


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
    elo: Annotated[
        int | None,
        typer.Option(help="Chess: Elo of both players of a FEN, for a model that takes it."),
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
        begin(f"predict: {raw} with {model}")
        with large_imports():
            from outofcore.inspect.predictions import FORMS, counted
            from outofcore.models import load_model, summary
            from outofcore.report.words import figure_lines

        if as_csv and as_json:
            raise ParamsError("--csv and --json: expected one of them")
        chosen = {"best": best, "elo": elo, "tokens": tokens, "temperature": temperature, "seed": seed}
        options = {name: value for name, value in chosen.items() if value is not None}
        trained = load_model(model, device)
        predictions = trained.match(raw, candidates, **options) if candidates else trained.predict(raw, **options)
        FORMS["csv" if as_csv else "json" if as_json else "table"](console(), counted(predictions))
        lines = [summary(predictions.rejects, predictions.rejected)] if predictions.rejects else []
        for line in (*lines, *figure_lines(predictions.figures)):
            typer.echo(visible(line), err=True)


def prove(
    model: Annotated[Path, typer.Argument(help="Folder of a run, such as runs/first, or of a model: models/chess.")],
    store: Annotated[str | None, typer.Argument(help="Folder or address of the store it was trained on.")] = None,
    raw: Annotated[str | None, typer.Argument(help="Raw file, folder or pattern of that store.")] = None,
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
        begin(f"prove: {model}")
        with large_imports():
            from outofcore.inspect.prove import prove as check

        proof = check(model, store, raw, again=again)
        if as_json:
            print_json(asdict(proof) | {"holds": proof.holds})
        else:
            typer.echo(visible(proof.markdown))
        if not proof.holds:
            raise typer.Exit(EXIT_WRONG)
