"""Text part of ``outofcore plan``: memory needed by training, and recommended settings."""

from __future__ import annotations

from dataclasses import asdict, fields

from outofcore.domains.planning import Outlook
from outofcore.domains.text.advice import ADVICE, BATCH_SIZE
from outofcore.domains.text.memory import Residency, TrainingMemory, training_memory
from outofcore.domains.text.network import model_size
from outofcore.domains.text.params import TextSection
from outofcore.domains.text.tokens.tokenizer import load_tokenizer
from outofcore.inspect.table import Kind, Table

RAW = "raw text"
WAYS: dict[str, Residency] = {"loaded": "loaded", "streamed": "streamed", RAW: "raw"}
MEASURED = "last run"


def memory_table(section: TextSection, outlook: Outlook) -> Table:
    """Training memory by component for each way of reading, and the peak of the last run."""
    tokenizer = load_tokenizer(section)
    tokens = round(outlook.rows * (1 - section.splits.val - section.splits.test))
    ways = WAYS if section.mode == "store" else {RAW: WAYS[RAW]}
    found = {
        way: training_memory(
            section,
            tokenizer.size,
            residency=residency,
            tokens=tokens,
            micro_batch=outlook.machine.micro_batch,
            threads=outlook.machine.workers,
        )
        for way, residency in ways.items()
    }
    base = outlook.process_bytes(section.train.optimizer)
    parts = [
        {"part": part.name, **{way: getattr(memory, part.name) for way, memory in found.items()}}
        for part in fields(TrainingMemory)
    ]
    last = outlook.last_run
    on_device = {way: memory.total - memory.data for way, memory in found.items()}
    rows = [
        *parts,
        {"part": "interpreter and libraries", **dict.fromkeys(ways, base)},
        {
            "part": "in all",
            **{way: base + memory.total for way, memory in found.items()},
            MEASURED: last.get("peak_memory_bytes"),
        },
        {"part": "of it on an accelerator", **on_device, MEASURED: last.get("peak_device_bytes") or None},
    ]
    columns: dict[str, Kind] = {"part": "text", **dict.fromkeys(ways, "bytes"), MEASURED: "bytes"}
    size = model_size(section, tokenizer.size)
    title = (
        f"{section.train.preset} model of text, {size.parameters:,} parameters "
        f"({size.layers} layers, width {size.width}){f', {tokens:,} tokens to train on' if tokens else ''}: memory"
    )
    return Table(tuple(columns.items()), rows, "training_memory", title, _notes(size.parameters, outlook))


def _notes(parameters: int, outlook: Outlook) -> tuple[str, ...]:
    ways = (
        "loaded: all tokens in memory; streamed: the least that a loader of the store takes, which fills its budget "
        "with more where there is room; raw text: text.mode stream"
    )
    last = outlook.last_run
    if "peak_memory_bytes" not in last:
        return (ways,)
    other = "" if last.get("parameters") == parameters else ", another model than this one"
    ran = f"last run: {last.get('parameters', 0):,} parameters{other}, {last.get('steps', 0):,} steps on "
    return (ways, ran + f"{last.get('device')}, micro-batch {last.get('micro_batch') or 'whole'}")


def advice_table(section: TextSection, outlook: Outlook) -> Table:
    """Settings by hardware, with the memory that each takes with the current tokenizer."""
    vocabulary = load_tokenizer(section).size
    base = outlook.process_bytes(section.train.optimizer)
    rows = []
    for advice in ADVICE:
        memory = training_memory(
            advice.applied(section), vocabulary, residency="raw", tokens=0, micro_batch=advice.micro_batch, threads=4
        )
        rows.append(asdict(advice) | {"takes": base + memory.total})
    columns: dict[str, Kind] = {
        "machine": "text",
        "preset": "text",
        "seq_len": "count",
        "optimizer": "text",
        "precision": "text",
        "shuffle_windows": "count",
        "micro_batch": "count",
        "takes": "bytes",
    }
    title = f"settings that suit a machine, with a batch_size of {BATCH_SIZE}, and what they take from raw text"
    return Table(tuple(columns.items()), rows, "advice", title)
