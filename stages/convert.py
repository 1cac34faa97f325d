"""Convert a domain's raw input into a sealed store: ``python stages/convert.py chess``."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from outofcore.display.console import one_line_errors, stopped_at_once

with stopped_at_once():
    from outofcore.conversion.growing import RECORD, REJECTS
    from outofcore.domains.registry import get_domain
    from outofcore.params import load_params
    from outofcore.pipeline import (
        convert_growing,
        convert_to_folder,
        left_out_figures,
        place_of,
        report_left_out,
        write_catalogue,
    )
    from outofcore.project.code import check_version
    from outofcore.project.locked import put_back, restore
    from outofcore.raw.files import search
    from outofcore.settings.machine import load_machine
    from outofcore.settings.sizes import format_bytes
    from outofcore.space.dvc_cache import find_cache
    from outofcore.space.guard import KEPT_STORE, Guard
    from outofcore.space.links import commit_of
    from outofcore.system.durable import replace_text, replacing


def main(name: str) -> None:
    machine, domain = load_machine(), get_domain(name)
    check_version(domain)
    section = load_params().section(name)
    print(f"{name}: converting {section.raw}", *filter(None, [machine.share]), sep="\n", flush=True)
    store, rejects = place_of(domain), Path(f"data/rejects/{name}.csv")
    guard = Guard(name, machine.disk_margin, machine.disk_reserve, KEPT_STORE)
    if domain.streamed(section):
        searched = search(section.raw, section.match, domain.suffixes, section=name)
        report_left_out(section.raw, searched.left_out)
        with guard.writing(store):
            listed = write_catalogue(domain, section, rejects, threads=machine.workers)
            write(name, "convert", listed | left_out_figures(searched.left_out))
        return
    cache = find_cache()
    commit = commit_of(store, cache) if cache else None
    if section.grow:
        with guard.writing(store):
            if commit:
                restore(store, commit, first=RECORD)
            figures, run = convert_growing(domain, section, store, machine, commit)
            join_rejects(store, rejects)
    else:
        figures, run = convert_to_folder(domain, section, store, rejects, machine, commit)
    with guard.writing(Path("metrics") / name):
        write(name, "convert", figures)
        write(name, "convert_run", run)
    size, peak, most = (
        format_bytes(size) for size in (figures["bytes_store"], run["peak_memory_bytes"], machine.memory)
    )
    print(f"{name}: {figures['accepted']:,} of {figures['found']:,} {domain.sequence}s accepted, {size} stored")
    print(f"{name}: peak memory {peak} of {most} allowed")


def join_rejects(folder: Path, joined: Path) -> None:
    """Copy the rejects of all entries to one table."""
    with replacing(joined) as new, new.open("wb") as table:
        for number, path in enumerate(sorted(folder.glob(f"*{REJECTS}"))):
            with path.open("rb") as rejects:
                if number:
                    rejects.readline()
                shutil.copyfileobj(rejects, table)


def write(name: str, what: str, figures: object) -> None:
    replace_text(Path("metrics") / name / f"{what}.json", json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    with one_line_errors(hint=put_back):
        main(sys.argv[1])
