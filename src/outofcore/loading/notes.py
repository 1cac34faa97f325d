"""What a loader tells its user before the first batch: where rows are, how batches mix, which samples are left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from outofcore.loading.epoch import SplitReader
from outofcore.loading.split import Split
from outofcore.order.batching import Batching
from outofcore.settings.sizes import format_bytes
from outofcore.store.joined import splits_lines


def notes_of(readers: Sequence[SplitReader], batching: Batching, memory: int, threads: int) -> list[str]:
    """Lines for the user of the parts that are read together."""
    split = readers[0].split
    path = split.path if len(readers) == 1 else f"{len(readers)} parts"
    kinds = Counter(reader.plan.kind for reader in readers)
    chosen = ", ".join(f"{kind} of {count}" for kind, count in kinds.items())
    if len(readers) == 1:
        chosen = f"{readers[0].plan.kind}: {readers[0].plan.reason}"
    notes = [f"{path}: residency {chosen} (memory {format_bytes(memory)}, {threads} thread{'s' * (threads != 1)})"]
    if len(split.stores) > 1:
        rows = sum(reader.split.windows.rows for reader in readers)
        notes.insert(0, f"{path}: {len(split.stores)} stores, {rows:,} rows")
    for reader in readers:
        notes += [f"{reader.split.path}: {line}" for line in _lines(reader, batching, alone=len(readers) == 1)]
    rests = [rest for reader in readers if (rest := reader.sampler.positions % batching.size)]
    full = f"each epoch, so that all batches hold {batching.size:,}"
    if rests and batching.last == "drop":
        notes.append(f"{path}: {sum(rests):,} samples are dropped {full}")
    if rests and batching.last == "pad":
        notes.append(f"{path}: {sum(batching.size - rest for rest in rests):,} samples come twice {full}")
    notes += filter(None, dict.fromkeys(reader.sampler.note_for_ranks(batching.world) for reader in readers))
    notes += splits_lines(split.stores)
    return [*notes, *filter(None, (store.note(split.name, list(split.rows.fields)) for store in split.stores))]


def _lines(reader: SplitReader, batching: Batching, *, alone: bool) -> list[str]:
    """Lines on one part: how its batches mix if it is read alone, or why it has none."""
    split, sampler, lines = reader.split, reader.sampler, list[str]()
    windows, selected = split.windows, split.sequences.selected
    if not sampler.positions:
        lines.append(f"no samples, so no batches: {_why_empty(split)}")
    elif alone:
        lines.append(sampler.mixing(batching.size, selected))
    if windows.packs is not None:
        lines.append(windows.packs.report())
    if windows.window and windows.window.mode == "never" and windows.samples and windows.runs < selected:
        short = (
            f"{selected - windows.runs:,} of {selected:,} sequences have fewer rows than a window ({windows.length:,})"
        )
        lines.append(f'{short}, so no sample; with mode="pack", windows cross sequences')
    if split.selects and selected:
        lines.append(_selected(split))
    return [*lines, *sampler.report()]


def _why_empty(split: Split) -> str:
    if not split.windows.rows:
        return "the split has no rows"
    if not split.sequences.selected:
        return f"no sequence of {split.path} is one where {split.selects}"
    rows = (
        f"has the {split.windows.length:,} rows of a window; ask for shorter ones (length of window=, lags=, seq_len=)"
    )
    if split.windows.window and split.windows.window.mode == "never":
        return f'no sequence {rows}, or windows that cross sequences (mode="pack")'
    return f"no range of consecutive rows {rows}"


def _selected(split: Split) -> str:
    """How much an expression selects, and what reading it costs."""
    line = f"{split.sequences.selected:,} of {len(split.sequences):,} sequences are those where {split.selects}"
    if split.used is None or not split.windows.samples:
        return line
    rows = len(split.used) * split.rows.chunk_rows / split.windows.samples
    return f"{line}; an epoch decodes {rows:,.1f} rows for each sample, or a little more where rows are streamed"
