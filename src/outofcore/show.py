"""Command-line output: aligned columns, coloured on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from outofcore.card import flat_params
from outofcore.errors import OutOfCoreError
from outofcore.sizes import format_bytes
from outofcore.space.committed import Committed
from outofcore.space.dvc_cache import REMOVE_OLD
from outofcore.space.guard import ways_out
from outofcore.space.recovery import recovery
from outofcore.store.remote import shown
from outofcore.store.seal import SEAL, read_seal
from outofcore.store.verify import Verdict, verify

if TYPE_CHECKING:
    from outofcore.card import Card
    from outofcore.domains.planning import PlanTable
    from outofcore.look import Look
    from outofcore.machine import Machine
    from outofcore.plan import Plan
    from outofcore.space.forecast import Demand
    from outofcore.store.reader import Store

MOST_SOURCES = 12


def card(console: Console, found: Card) -> None:
    """Print a store's card."""
    raw = sum(field.raw_bytes or 0 for field in found.fields)
    rows = sum(found.rows.values())
    console.print(found.path, style="bold")
    each = f", {found.bytes / rows:.3g} bytes a {found.row}" if rows else ""
    facts = [
        ("domain", found.domain),
        ("digest", found.digest),
        ("on disk", f"{format_bytes(found.bytes)} in {found.files:,} sealed files{each}"),
        ("decoded", f"{format_bytes(raw)} ({raw / found.bytes:.1f} times as much), text aside"),
        (
            f"{found.sequence}s",
            f"{found.found:,} found = {found.accepted:,} accepted + {sum(found.rejected.values()):,} rejected",
        ),
    ]
    if found.parts != ("",):
        more = len(found.parts) - MOST_SOURCES
        named = ", ".join(found.parts[:MOST_SOURCES]) + (f" and {more:,} more" if more > 0 else "")
        facts.append(("parts", named))
    _table(console, (), facts)
    if found.rejected:
        _table(console, ("rejected because", "#"), [(reason, f"{n:,}") for reason, n in found.rejected.items()])
    _table(
        console,
        ("split", f"#{found.row}s", f"#{found.sequence}s"),
        [(name, f"{count:,}", f"{found.sequences[name]:,}") for name, count in found.rows.items()],
    )
    _table(
        console,
        ("field", "type", "row", "#decoded", "#on disk", "#ratio", "codec", "what it is"),
        [
            (
                field.name,
                field.dtype,
                field.shape,
                "-" if field.raw_bytes is None else format_bytes(field.raw_bytes),
                format_bytes(field.stored_bytes),
                f"{field.raw_bytes / field.stored_bytes:.1f}" if field.raw_bytes and field.stored_bytes else "-",
                field.codec,
                field.doc,
            )
            for field in found.fields
        ],
    )
    _table(console, ("setting", "value"), list(flat_params(found.params)))
    shown = found.sources[:MOST_SOURCES]
    _table(
        console,
        ("source", "#size", "#found", "#accepted", "#rejected"),
        [
            (
                each["name"],
                format_bytes(each["bytes"]),
                *(f"{each[name]:,}" for name in ("found", "accepted", "rejected")),
            )
            for each in shown
        ],
    )
    if len(found.sources) > len(shown):
        console.print(f"and {len(found.sources) - len(shown):,} more sources; --json lists them all")
    if found.sample:
        console.print(f"\nthe first {found.row}:", style="bold")
        console.print(found.sample)


def rows(console: Console, store: Store, found: Sequence[Look]) -> None:
    """Rows of a store, each below its place."""
    row, sequence = store.attributes["row"], store.attributes["sequence"]
    if not found:
        console.print(f"no {row} here")
    for each in found:
        where = f"{each.part}/{each.split}" if each.part else each.split
        title = f"{row} {each.row:,} of {where}: {row} {each.place:,} of {sequence} {each.number:,}"
        console.print(title, style="bold")
        if each.drawing:
            console.print(each.drawing)
        facts = (f"{name} {value}" for name, value in each.sequence.items() if value not in ("", None))
        console.print(", ".join(facts), style="dim")
        console.print()


def verifying(store: Path) -> Verdict:
    """Check a store in full, with a bar on a terminal."""
    try:
        total = sum(size for size, _ in read_seal((store / SEAL).read_text(), str(store)).files.values())
    except (OSError, ValueError, OutOfCoreError):  # the check itself reports what is wrong
        total = None
    with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task(f"verify {shown(store)}", total=total)
        return verify(store, lambda read: progress.advance(task, read))


def verdicts(console: Console, found: Iterable[Verdict]) -> None:
    """Results of the full check of stores, one line per problem."""
    for each in found:
        if each.problems:
            console.print(f"{each.store}: not whole", style="bold red")
            for problem in each.problems:
                console.print(f"  {problem}")
            console.print(f"to get it back: {recovery(each.store).advice}")
        else:
            console.print(
                f"{each.store}: whole, {each.files:,} sealed files, {format_bytes(each.bytes)}, digest {each.digest}",
                style="green",
            )


def verdict_facts(found: Iterable[Verdict]) -> list[dict[str, Any]]:
    """Verdicts as JSON values, each with how to recover damaged files."""
    return [
        {
            **asdict(each),
            "whole": not each.problems,
            "way_back": recovery(each.store).advice if each.problems else "",
        }
        for each in found
    ]


def plan(console: Console, found: Plan, machine: Machine) -> None:
    """What a run would write, and whether it fits."""
    _table(
        console,
        ("domain", "#files", "#raw", "#store", "#rows", "#sample", "#model"),
        [
            (
                each.domain,
                f"{each.files:,}",
                format_bytes(each.estimate.raw_bytes),
                f"about {format_bytes(each.estimate.store_bytes)}",
                f"{each.estimate.rows:,} {each.row}s",
                format_bytes(each.estimate.sampled_bytes),
                "not yet known" if each.weights is None else format_bytes(each.weights),
            )
            for each in found.domains
        ],
    )
    for domain in found.domains:
        kept = f"kept by DVC as {domain.commit}" if domain.commit else "no DVC project here"
        console.print(f"{domain.domain}: {kept}", style="dim")
    for domain in found.domains:
        if counts := ", ".join(f"{reason} {count:,}" for reason, count in domain.estimate.rejected.items()):
            nothing = domain in found.empty
            told = "none of the sample's records is accepted" if nothing else "rejected of the sample"
            console.print(f"{domain.domain}: {told}: {counts}", style="bold red" if nothing else "dim")
    for domain in found.domains:
        if domain.left_out:
            console.print(f"{domain.domain}: left out of the raw input:", style="bold red")
        for name, why in islice(domain.left_out.items(), MOST_SOURCES):
            console.print(f"  {name}: {why}")
        if (more := len(domain.left_out) - MOST_SOURCES) > 0:
            console.print(f"  and {more:,} more; --json lists them all")
    for domain in found.domains:
        for table in domain.tables:
            _plan_table(console, table)
    _table(
        console,
        ("filesystem", "#needed", "of it margin", "and reserve", "#free", "verdict", "for"),
        [
            (
                str(each.filesystem),
                format_bytes(each.asked),
                format_bytes(each.margin),
                format_bytes(each.reserve),
                format_bytes(each.free),
                "fits" if each.fits else "REFUSED",
                ", ".join(f"{purpose} {format_bytes(size)}" for purpose, size in _purposes(each).items()),
            )
            for each in found.demands
        ],
    )
    for each in found.demands:
        if not each.fits:
            console.print(f"\n{each.filesystem}: ways out", style="bold red")
            for way in ways_out(each, found.domains[0].domain):
                console.print(f"  - {way}")
    _table(console, ("machine", "value", "from"), machine.described())


def _purposes(demand: Demand) -> Counter[str]:
    """Requirements of a filesystem by purpose, over all domains."""
    asked: Counter[str] = Counter()
    for need in demand.needs:
        asked[need.purpose] += need.bytes
    return asked


def plan_facts(found: Plan, machine: Machine) -> dict[str, Any]:
    """A plan as JSON values."""
    return {
        "fits": found.fits,
        "domains": [
            {
                "domain": each.domain,
                "files": each.files,
                "left_out": dict(each.left_out),
                "estimate": asdict(each.estimate),
                "weights": each.weights,
                "in_workspace": each.commit.in_workspace if each.commit else None,
                "copies_made": each.commit.copies_made if each.commit else 0,
                "copies_kept": each.commit.copies_kept if each.commit else 1,
                "needs": [asdict(need) for need in each.needs],
                **{table.name: [dict(row) for row in table.rows] for table in each.tables},
            }
            for each in found.domains
        ],
        "filesystems": [
            {
                "mount": str(each.filesystem.mount),
                "kind": each.filesystem.kind,
                "needed": each.asked,
                "margin": each.margin,
                "reserve": each.reserve,
                "free": each.free,
                "fits": each.fits,
                "ways_out": [] if each.fits else ways_out(each, found.domains[0].domain),
            }
            for each in found.demands
        ],
        "machine": [
            {"name": name, "value": getattr(machine, name), "from": origin} for name, _, origin in machine.described()
        ],
    }


def _plan_table(console: Console, table: PlanTable) -> None:
    """A table that a domain adds to the plan."""
    forms: dict[str, Callable[[Any], str]] = {"text": str, "count": "{:,}".format, "bytes": format_bytes}
    console.print(f"\n{table.title}", style="bold")
    _table(
        console,
        tuple(name if kind == "text" else f"#{name}" for name, kind in table.columns.items()),
        [
            tuple(
                "-" if (value := row.get(name)) is None else forms[kind](value) for name, kind in table.columns.items()
            )
            for row in table.rows
        ],
    )
    for note in table.notes:
        console.print(note, style="dim")


def committed(console: Console, found: Committed) -> None:
    """Whether the cache holds everything in the lock files."""
    if found.outputs:
        _table(
            console,
            ("output", "of stage", "#size", "#files", "in the cache"),
            [
                (
                    each.path,
                    each.stage,
                    format_bytes(each.bytes),
                    f"{each.files:,}",
                    "no" if each.problem else "yes",
                )
                for each in found.outputs
            ],
        )
    elif not found.problems:
        console.print("no lock file states an output yet; run 'dvc repro'")
    for problem in found.problems:
        console.print(problem, style="red")
    count, size = found.unfinished
    if count and not found.problems:
        console.print(
            f"the cache holds {count} copies that were cut short ({format_bytes(size)}); {REMOVE_OLD} removes them"
        )


@contextmanager
def waiting() -> Iterator[Callable[[str], None]]:
    """Show the current activity on a terminal; yields the function that changes it."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status("") as status:
        yield status.update


def _table(console: Console, names: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> None:
    """Aligned columns; a name with a leading ``#`` is numeric and right-aligned."""
    table = Table(box=None, show_header=bool(names), pad_edge=False, header_style="bold")
    rows = list(rows)
    for name in names or ("",) * len(rows[0]):
        table.add_column(name.removeprefix("#"), justify="right" if name.startswith("#") else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    if names:
        console.print()
    if console.is_terminal:
        console.print(table)
        return
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().splitlines():
        console.print(line.rstrip())
