"""What the commands print: coloured on a terminal, plain lines elsewhere."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from outofcore.display.bar import Bar
from outofcore.display.console import visible
from outofcore.display.table import DisplayTable, columns, print_table
from outofcore.errors import OutOfCoreError
from outofcore.inspect.store import field_table, reject_table, setting_table, source_table, split_table
from outofcore.raw.files import by_ending, endings
from outofcore.settings.machine import FILE
from outofcore.settings.sizes import format_bytes
from outofcore.space.dvc_cache import CURE, Committed
from outofcore.space.guard import ways_out
from outofcore.store.connection import shown
from outofcore.store.seal import SEAL, read_seal
from outofcore.store.verify import Verdict, verify
from outofcore.system.project import project_of

if TYPE_CHECKING:
    from outofcore.inspect.diff import StoreDiff
    from outofcore.inspect.store import Card, Look
    from outofcore.plan import Plan
    from outofcore.project.create import ProjectFile
    from outofcore.settings.machine import Machine
    from outofcore.store.reader import Store

MOST_NAMES = 12
RESTORE = (
    "damaged; to restore: delete it and its links in DVC's cache (docs/disk-space.md, 'A damaged store'), "
    "then 'dvc pull' or 'dvc repro'"
)
RESTORE_OUTSIDE = "damaged; to restore: convert again"
"""Outside of a project."""


def print_card(console: Console, card: Card) -> None:
    """Print a store's card."""
    print_counts(console, card)
    for table in (field_table(card), setting_table(card), source_table(card, MOST_NAMES)):
        print_table(console, table)
    if card.sample:
        console.print(f"\nthe first {card.row}:", style="bold")
        console.print(card.sample)


def print_counts(console: Console, card: Card) -> None:
    """Print how much of the raw input a store has, as what, and where."""
    raw = sum(field.raw_bytes or 0 for field in card.fields)
    rows, rejected = sum(card.rows.values()), sum(card.rejected.values())
    per_row = f", {card.bytes / rows:.3g} bytes per {card.row}" if rows else ""
    facts = [
        ("domain", card.domain),
        ("digest", card.digest),
        ("on disk", f"{format_bytes(card.bytes)} in {card.files:,} sealed files{per_row}"),
        ("decoded", f"{format_bytes(raw)} ({raw / card.bytes:.1f} times as much), text aside"),
        (f"{card.sequence}s", f"{card.found:,} found = {card.accepted:,} accepted + {rejected:,} rejected"),
    ]
    facts += [(name.replace("_", " "), f"{ratio:.3g}") for name, ratio in card.ratios.items()]
    if card.parts != ("",):
        facts.append(("parts", _first(card.parts)))
    console.print(card.path, style="bold")
    print_table(console, DisplayTable(columns("text", "", ""), facts))
    if card.rejected:
        print_table(console, reject_table(card))
    print_table(console, split_table(card))


def print_rows(console: Console, store: Store, rows: Sequence[Look]) -> None:
    """Rows of a store, each below its place."""
    row, sequence = store.attributes["row"], store.attributes["sequence"]
    if not rows:
        console.print(f"no {row} here")
    for look in rows:
        where = f"{look.part}/{look.split}" if look.part else look.split
        title = f"{row} {look.row:,} of {where}: {row} {look.place:,} of {sequence} {look.number:,}"
        console.print(title, style="bold")
        if look.drawing:
            console.print(look.drawing)
        facts = (f"{name} {value}" for name, value in look.sequence.items() if value not in ("", None))
        console.print(", ".join(facts), style="dim")
        console.print()


def print_diff(console: Console, stores: tuple[Store, Store], result: StoreDiff) -> None:
    """What changed between two stores; tables without rows are left out."""
    if not result.tables:
        console.print(f"every byte is equal, digest {stores[0].digest}", style="green")
    for table in result.tables:
        if table.rows:
            print_table(console, table)
    for title, look in result.examples.items():
        console.print(f"\n{title}", style="bold")
        print_rows(console, stores[not title.startswith("removed")], [look])


def verify_visibly(store: Path) -> Verdict:
    """Check a store in full, with a bar on a terminal."""
    try:
        total = sum(size for size, _ in read_seal((store / SEAL).read_bytes(), store).files.values())
    except (OSError, ValueError, OutOfCoreError):  # the check itself reports what is wrong
        total = None
    with Bar(transient=True) as progress:
        task = progress.add_task(f"verify {visible(shown(store))}", total=total)
        return verify(store, lambda read: progress.update(task, advance=read))


def print_verdicts(console: Console, verdicts: Iterable[Verdict]) -> None:
    """Results of the full check of stores, one line per problem."""
    for verdict in verdicts:
        if verdict.problems:
            console.print(f"{verdict.store}: not whole", style="bold red")
            for problem in verdict.problems:
                console.print(f"  {problem}")
            console.print(_way_back(verdict))
        else:
            size = f"{verdict.files:,} sealed files, {format_bytes(verdict.bytes)}"
            console.print(f"{verdict.store}: whole, {size}, digest {verdict.digest}", style="green")


def _way_back(verdict: Verdict) -> str:
    return RESTORE if project_of(Path(verdict.store)) else RESTORE_OUTSIDE


def verdict_facts(verdicts: Iterable[Verdict]) -> list[dict[str, Any]]:
    """Verdicts as JSON values, each with how to recover damaged files."""
    return [
        {
            **asdict(verdict),
            "whole": not verdict.problems,
            "way_back": _way_back(verdict) if verdict.problems else "",
        }
        for verdict in verdicts
    ]


def print_plan(console: Console, plan: Plan, machine: Machine) -> None:
    """Whether a run fits, and what it would write and hold."""
    room = "everything fits" if plan.fits else "REFUSED, too little room"
    console.print(f"disk: {room}", style="bold green" if plan.fits else "bold red")
    for domain in plan.domains:
        if domain.tables:
            verdict = domain.tables[0].title.partition("\n")[0]
            bad = domain.training is not None and not domain.training.fits
            console.print(f"{domain.domain}: {verdict}", style="bold red" if bad else "bold")
    written = [
        (
            domain.domain,
            domain.files,
            domain.estimate.raw_bytes,
            f"about {format_bytes(domain.estimate.store_bytes)}",
            f"{domain.estimate.rows:,} {domain.row}s",
            domain.estimate.sampled_bytes,
            domain.saved.weights if domain.saved else "not yet known",
        )
        for domain in plan.domains
    ]
    names = [*columns("text", "domain"), *columns("count", "files"), *columns("bytes", "raw", "store")]
    names += [*columns("count", "rows"), *columns("bytes", "sample", "model")]
    print_table(console, DisplayTable(names, written))
    for domain in plan.domains:
        if domain.memory:
            taken = f"{format_bytes(domain.memory)} of memory beyond the interpreter's"
            time = _time(domain.estimate.seconds)
            console.print(f"{domain.domain}: its conversion takes about {taken}, and {time}", style="dim")
        if domain.commit:
            console.print(f"{domain.domain}: kept by DVC as {domain.commit}", style="dim")
        if domain.done:
            here = f"stores of its raw input that are here, made with these settings: {len(domain.done):,}"
            console.print(f"{domain.domain}: {here}", style="dim")
    for domain in plan.domains:
        counts = ", ".join(f"{reason} {count:,}" for reason, count in domain.estimate.rejected.items())
        if counts and domain not in plan.empty:
            console.print(f"{domain.domain}: rejected of the sample: {counts}", style="dim")
        for doubt in domain.estimate.doubts:
            console.print(f"{domain.domain}: in the sample: {doubt}", style="bold red")
    for domain in plan.domains:
        if domain.left_out:
            console.print(f"{domain.domain}: left out of the raw input: {endings(domain.left_out)}", style="bold red")
        for name, why in islice(domain.left_out.items(), MOST_NAMES):
            console.print(f"  {name}: {why}")
        if (more := len(domain.left_out) - MOST_NAMES) > 0:
            console.print(f"  and {more:,} more; --json lists them all")
    for domain in plan.domains:
        for number, table in enumerate(domain.tables):
            rest = table.title.partition("\n")[2] if number == 0 else table.title  # its verdict is above
            print_table(console, replace(table, title=rest))
    disks = _disk_table(plan)
    print_table(console, disks)
    for row in disks.records:
        if ways := row["ways_out"]:
            console.print(f"\n{row['filesystem']}: ways out", style="bold red")
            for way in ways:
                console.print(f"  - {way}")
    print_table(console, DisplayTable(columns("text", "machine", "value", "from"), machine.described()))


def _disk_table(plan: Plan) -> DisplayTable:
    """What a run needs of each filesystem, and whether it is free."""
    rows = [
        {
            "filesystem": str(demand.filesystem),
            "mount": str(demand.filesystem.mount),
            "kind": demand.filesystem.kind,
            "needed": demand.asked,
            "margin": demand.margin,
            "reserve": demand.reserve,
            "free": demand.free,
            "verdict": "fits" if demand.fits else "REFUSED",
            "fits": demand.fits,
            "ways_out": [] if demand.fits else ways_out(demand, plan.domains[0].domain),
        }
        for demand in plan.demands
    ]
    purposes = (
        f"written to {demand.filesystem.mount}: "
        + ", ".join(f"{name} {format_bytes(size)}" for name, size in demand.purposes.items())
        for demand in plan.demands
    )
    sizes = columns("bytes", "needed", "margin", "reserve", "free")
    return DisplayTable(
        [*columns("text", "filesystem"), *sizes, *columns("text", "verdict")], rows, notes=tuple(purposes)
    )


def _time(seconds: float) -> str:
    """How long a conversion takes, in words."""
    minutes = round(seconds / 60)
    if minutes >= 120:
        return f"{round(minutes / 60):,} hours"
    return f"{minutes} minutes" if minutes > 1 else "a minute" if seconds > 30 else "less than a minute"


def plan_facts(plan: Plan, machine: Machine) -> dict[str, Any]:
    """A plan as JSON values."""
    return {
        "fits": plan.fits,
        "domains": [
            {
                "domain": domain.domain,
                "files": domain.files,
                "done": domain.done,
                "left_out": dict(domain.left_out),
                "left_out_by_ending": by_ending(domain.left_out),
                "estimate": asdict(domain.estimate),
                "weights": domain.saved and domain.saved.weights,
                "in_workspace": domain.commit.in_workspace if domain.commit else None,
                "copies_made": domain.commit.copies_made if domain.commit else 0,
                "copies_kept": domain.commit.copies_kept if domain.commit else 1,
                "needs": [asdict(need) for need in domain.needs],
                "conversion_memory": domain.memory,
                "training": domain.training and asdict(domain.training),
                **{table.name: table.records for table in domain.tables},
            }
            for domain in plan.domains
        ],
        "filesystems": _disk_table(plan).records,
        "machine": [
            {"name": name, "value": getattr(machine, name), "from": origin} for name, _, origin in machine.described()
        ],
    }


def print_committed(console: Console, committed: Committed) -> None:
    """What the cache lacks of the outputs in the lock files."""
    for path in committed.lacking[:MOST_NAMES]:
        console.print(f"{path}: not in DVC's cache", style="red")
    if committed.lacking:
        more = len(committed.lacking) - MOST_NAMES
        console.print(f"{f'and {more:,} more; ' if more > 0 else ''}{CURE}", style="red")
    elif not committed.absent:
        console.print("DVC's cache holds everything that the lock files state")
    if committed.absent:
        console.print(f"never run or pulled here: {_first(committed.absent)}")


def _first(names: Sequence[str]) -> str:
    """The first of many names, and how many more there are."""
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more:,} more" if more > 0 else "")


def print_project(
    console: Console, folder: Path, domains: Sequence[str], entries: Sequence[ProjectFile], *, git: bool
) -> None:
    """The files of a project, how to renew those of the pipeline that differ, and the next commands.

    ``dvc exp`` sees only files that Git has: in a repository these are to be committed first.
    """
    for entry in entries:
        console.print(f"{entry.action:8} {entry.path}{f': {entry.note}' if entry.note else ''}")
    if not entries:
        console.print("nothing to write: the project is complete")
    if old := [
        entry.path for entry in entries if entry.action == "kept" and entry.path.startswith(("dvc.yaml", "stages/"))
    ]:
        again = f"outofcore init {shlex.quote(str(folder))} --domains {','.join(domains)}"
        removed = " ".join(shlex.quote(str(folder / path)) for path in old)
        console.print(f"to take those of this version instead: rm {removed} && {again}")
    into = "" if folder.resolve() == Path.cwd() else f"cd {shlex.quote(str(folder))} && "
    changed = [Path(entry.path) for entry in entries if entry.action != "kept" and entry.path != FILE]  # Git ignores it
    added = shlex.join(sorted({str(path if path.parent == Path() else path.parent) for path in changed}))
    commit = f"git add {added} && git commit -m 'outofcore init' && " if git and added else ""
    console.print(f"next: {into}{commit}dvc repro", soft_wrap=True)


@contextmanager
def waiting() -> Iterator[Callable[[str], None]]:
    """Show the current activity on a terminal; yields the function that changes it."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status("") as status:
        yield status.update
