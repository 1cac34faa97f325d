"""What the stages of a project do at its places: ``data/stores``, ``models``, ``metrics``, ``plots``."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from outofcore.conversion.growing import RECORD, REJECTS
from outofcore.conversion.summary import note_doubts
from outofcore.display.console import large_imports
from outofcore.domains.registry import get_domain
from outofcore.params import load_params
from outofcore.pipeline import convert_growing, convert_to_folder, left_out_figures, report_left_out, write_catalogue
from outofcore.project.code import check_version
from outofcore.project.entries import project_store
from outofcore.project.locked import restore
from outofcore.raw.files import search
from outofcore.settings.machine import load_machine
from outofcore.settings.sizes import format_bytes
from outofcore.space.dvc_cache import find_cache
from outofcore.space.guard import KEPT_STORE, Guard
from outofcore.space.links import commit_of
from outofcore.store.opening import open_data
from outofcore.system.durable import replacing, write_json
from outofcore.training.arithmetic import with_arithmetic

MOST_LINES = 12


def convert(name: str) -> None:
    """Convert a domain's raw input into its store, its rejects and figures; list the files of a stream."""
    machine, domain = load_machine(), get_domain(name)
    check_version(domain)
    section = load_params().section(name)
    print(f"{name}: converting {section.raw}", *filter(None, [machine.share]), sep="\n", flush=True)
    store, rejects, metrics = project_store(domain), Path(f"data/rejects/{name}.csv"), Path("metrics") / name
    guard = Guard(name, machine.disk_margin, machine.disk_reserve, KEPT_STORE)
    if domain.streamed(section):
        searched = search(section.raw, section.match, domain.suffixes, section=name)
        report_left_out(section.raw, searched.left_out)
        with guard.writing(store):
            listed = write_catalogue(domain, section, rejects, threads=machine.workers)
            write_json(metrics / "convert.json", listed | left_out_figures(searched.left_out))
        return
    cache = find_cache()
    commit = commit_of(store, cache) if cache else None
    if section.grow:
        with guard.writing(store):
            if commit:
                restore(store, commit, first=RECORD)
            figures, run = convert_growing(domain, section, store, machine, commit)
            _join_rejects(store, rejects)
    else:
        figures, run = convert_to_folder(domain, section, store, rejects, machine, commit)
        note_doubts(domain, figures)
    with guard.writing(metrics):
        write_json(metrics / "convert.json", figures)
        write_json(metrics / "convert_run.json", run)
    size, peak, most = (
        format_bytes(size) for size in (figures["bytes_store"], run["peak_memory_bytes"], machine.memory)
    )
    print(f"{name}: {figures['accepted']:,} of {figures['found']:,} {domain.sequence}s accepted, {size} stored")
    print(f"{name}: peak memory {peak} of {most} allowed")


def _join_rejects(folder: Path, joined: Path) -> None:
    """Copy the rejects of all entries to one table."""
    with replacing(joined) as new, new.open("wb") as table:
        for number, path in enumerate(sorted(folder.glob(f"*{REJECTS}"))):
            with path.open("rb") as rejects:
                if number:
                    rejects.readline()
                shutil.copyfileobj(rejects, table)


def train(name: str) -> None:
    """Train a domain's model on its store, or straight from its raw files."""
    section, machine, domain = load_params().section(name), load_machine(), get_domain(name)
    machine = with_arithmetic(machine, section.train.arithmetic)
    store = open_data(project_store(domain))
    if not domain.streamed(section):
        domain.check_trainable(section, store)
    _tell(f"{name}: training on {store.root}", *filter(None, [machine.share]))
    with large_imports():  # which take seconds
        from outofcore.evaluating import check_evaluated
        from outofcore.report.words import figure_lines
        from outofcore.training.ranks import this_rank
        from outofcore.training.run import run

    check_evaluated(domain, section, store)  # a store that evaluate would refuse is refused before the training
    cache = find_cache()
    commit = commit_of(Path("models") / name, cache) if cache else None
    figures = run(domain, section, store, machine, Path(), _tell, commit)
    if not this_rank().rank:
        all_figures = f"metrics/{name}/train.json has all figures; 'python stages/report.py' draws them"
        print(*figure_lines(figures, compared=True), all_figures, sep="\n")


def _tell(*lines: str) -> None:
    """Print the first lines, of which recordings of many sessions have many, on the first rank."""
    if os.environ.get("RANK", "0") == "0":
        more = [f"and {len(lines) - MOST_LINES:,} lines more"] if len(lines) > MOST_LINES else []
        print(*lines[:MOST_LINES], *more, sep="\n", flush=True)


def evaluate(name: str) -> None:
    """Read the test split once with a domain's trained model."""
    section, machine, domain = load_params().section(name), load_machine(), get_domain(name)
    machine = with_arithmetic(machine, section.train.arithmetic)
    store, model = open_data(project_store(domain)), Path("models") / name
    print(f"{name}: evaluating {model} on the test split of {section.evaluate or store.root}", flush=True)
    with large_imports():  # which take seconds
        from outofcore.evaluating import evaluate_split, more_of, open_evaluated
        from outofcore.report.words import figure_lines

    read, metrics = open_evaluated(domain, section, store), Path(f"metrics/{name}/test.json")
    figures = evaluate_split(domain, section, store, read, model, machine, "test")
    if "model" not in figures:
        print(f"the test split of {read.root} gives no sample: {more_of(domain, 'test')}")
    write_json(metrics, figures)
    print(*figure_lines(figures, compared=True), f"{metrics} has all figures of the test split", sep="\n")
