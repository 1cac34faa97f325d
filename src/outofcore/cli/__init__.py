"""``outofcore info | show | diff | trace | verify | plan | convert | train | evaluate | predict | ...``.

Exit codes: 0 all is well; 1 something is wrong with what was looked at, or the system refused to read or write; 2 a
mistake in the call or the settings; 130 stopped by Ctrl-C.
"""

from __future__ import annotations

from typing import Annotated

from outofcore.display.console import end_by_system, large_imports, stopped_at_once

with large_imports():
    import typer

    from outofcore import __version__
    from outofcore.cli import project, runs, stores

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


# As --help lists them.
for _name, _command, _short in (
    ("info", stores.info, "Summarise a store."),
    ("show", stores.show_rows, "Show rows of a store."),
    ("diff", stores.diff, "Compare two stores."),
    ("trace", stores.trace, "Name the records of any batch."),
    ("verify", stores.verify, "Check every byte of stores."),
    ("plan", project.plan, "Forecast what a run writes."),
    ("convert", runs.convert_files, "Convert raw files into a store."),
    ("train", runs.train_model, "Train a model on a store."),
    ("evaluate", runs.evaluate_model, "Read a test split with a model."),
    ("tokenizer", runs.write_tokenizer, "Train a tokenizer on raw text."),
    ("predict", runs.predict, "Try a trained model on raw files."),
    ("prove", runs.prove, "Check what a model was made of."),
    ("init", project.init, "Write a DVC project."),
    ("committed", project.committed, "Check DVC's cache after a run."),
    ("clear-cache", project.clear_cache, "Remove what is kept of object storage."),
):
    app.command(_name, short_help=_short)(_command)


def main() -> None:
    """Run the command line."""
    with stopped_at_once():  # until a command works, and after it
        try:
            app()
        except OSError as error:  # of help and version, whose output is refused
            end_by_system(error)
