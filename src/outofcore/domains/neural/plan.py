"""Neural part of ``outofcore plan``: which way to keep the recordings fits this machine."""

from __future__ import annotations

from collections.abc import Sequence

from outofcore.domains.neural.advisor import MachineFacts, Reads, SessionSize, advice, sizes_of, total_bytes, ways
from outofcore.domains.neural.compression import holding, measure, sample_frames
from outofcore.domains.neural.params import NeuralSection
from outofcore.domains.neural.source import session_schemas
from outofcore.domains.planning import Outlook
from outofcore.hardware import usable_memory
from outofcore.inspect.table import Kind, Table
from outofcore.sizes import format_bytes

# A loader reads windows in blocks of this many chunks, up to two of them short, and holds two pools of blocks; of each
# session this many batches, as rows and as tensors; and for each sample of a pool its place in the order.
BLOCK_CHUNKS = 4
SHORT_BLOCKS = 2
POOLS = 2
BATCHES = 2 * 2
SAMPLE_BYTES = 40
# Trial and chunk tables are small compared with that.
TABLES = 1 << 17

COLUMNS: dict[str, Kind] = {
    "way": "text",
    "pixels": "text",
    "codec": "text",
    "memory": "bytes",
    "store": "bytes",
    "disk needed": "bytes",
    "decoded a second": "bytes",
    "verdict": "text",
    "settings": "text",
}


def ways_table(section: NeuralSection, outlook: Outlook) -> Table:
    """The five ways, their requirements, and which of them fit this machine."""
    stored = section.source.stimulus_dtype
    sessions = sizes_of(session_schemas(outlook.files, section))
    frames = sample_frames(outlook.files, section)
    dtypes = holding(frames, stored)
    measured = measure(frames, stored, dtypes[:2], section)
    machine = machine_facts(outlook)
    found = ways(sessions, machine, reads_of(sessions, section, outlook.machine.workers), measured, dtypes)
    rows = [
        {
            "way": way.name,
            "pixels": way.dtype,
            "codec": way.codec,
            "memory": way.memory,
            "store": way.store,
            "disk needed": way.disk,
            "decoded a second": way.decoded_per_second,
            "verdict": "fits" if way.fits else "; ".join(way.missing),
            "settings": way.settings,
        }
        for way in found
    ]
    totals = ", ".join(f"{format_bytes(total_bytes(sessions, dtype))} as {dtype}" for dtype in dtypes)
    has = f"{format_bytes(machine.usable_memory)} of memory and {format_bytes(machine.disk)} of disk"
    count = f"{len(sessions)} session{'s' * (len(sessions) != 1)}"
    title = f"{count}, {totals}; this machine has {has} for them: ways to keep them"
    return Table(tuple(COLUMNS.items()), rows, "ways", title, (f"advice: {advice(found)}", *_notes(outlook)))


def machine_facts(outlook: Outlook) -> MachineFacts:
    """Capacity of this machine: all of its memory unless a limit is set."""
    machine = outlook.machine
    memory = usable_memory().value if machine.origins.get("memory", "").startswith("measured") else machine.memory
    return MachineFacts(
        memory=memory,
        disk=outlook.free_bytes,
        margin=machine.disk_margin,
        copies=outlook.store_copies,
    )


def reads_of(sessions: Sequence[SessionSize], section: NeuralSection, threads: int) -> Reads:
    """What training reads of the sessions, and the least that its loaders hold."""
    splits, train = section.splits, section.train
    shares = 1 - splits.val - splits.test, splits.val
    pool_rows = (train.pool_blocks + SHORT_BLOCKS) * BLOCK_CHUNKS * section.store.chunk_rows
    pools = batches = 0
    for session in sessions:
        row = session.row_bytes("uint8")
        rows = int(session.bins * max(shares))
        pools += min(POOLS * pool_rows, rows) * row
        batches += BATCHES * train.batch_size * section.tensors.window * row
        batches += threads * section.store.chunk_rows * row + SAMPLE_BYTES * min(pool_rows, rows) + TABLES
    # Each loader gets half of the budget, so the larger one decides.
    return Reads(train=shares[0], val=shares[1], pools=2 * pools, batches=2 * batches)


def _notes(outlook: Outlook) -> tuple[str, ...]:
    held = (
        "memory: what the loaders hold at least; disk needed: the store, DVC's copy where it makes one, and the margin"
    )
    notes = [held, "decoded a second: by one thread, measured just now on a sample of the frames"]
    last = outlook.last_run
    if "samples_per_second" in last:
        notes.append(
            f"last training here: {last['samples_per_second']:,.0f} windows/s, {last['data_wait_share']:.0%} of the "
            f"time waiting for data, peak memory {format_bytes(last['peak_memory_bytes'])}, on {last['device']}"
        )
    return tuple(notes)
