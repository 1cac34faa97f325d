"""Batches directly from raw text, without a store or a project."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed

from outofcore.checks import MOST, flag, one_of, whole, whole_or_none, word
from outofcore.domains.reading import Streaming
from outofcore.domains.registry import get_domain
from outofcore.domains.splits import SPLITS
from outofcore.errors import ParamsError
from outofcore.loading.arguments import budget_bytes, named_device
from outofcore.params import by_section, refuse_settings, section_of
from outofcore.pipeline import report_left_out
from outofcore.raw.files import search
from outofcore.settings.hardware import usable_cores

if TYPE_CHECKING:
    import tokenizers

    from outofcore.domains.text.stream import TextStream

_MOST_THREADS = 8


def stream(
    domain: str,
    raw: str | Path | Iterable[Mapping[str, Any]],
    /,
    split: str = "train",
    batch_size: int = 64,
    *,
    tokenizer: str | Path | Mapping[str, Any] | tokenizers.Tokenizer | None = None,
    column: str | None = None,
    shuffle: bool = True,
    seed: int = 0,
    memory: str | int = "256MiB",
    device: str | torch.device | None = None,
    threads: int | None = None,
    params: str | Path | None = None,
    **settings: Any,
) -> TextStream:
    """Batches of a split directly from raw text; nothing is stored.

    ::

        for batch in outofcore.stream("text", "corpus/", tokenizer="tokenizer.json", seq_len=256, batch_size=64):
            ...

    A batch holds what a loader gives of a store of the same text: ``inputs`` and ``targets`` (batch, seq_len) int64,
    and ``positions`` and ``segments`` if documents are kept apart. The text is read sequentially, and tokenized while
    batches are used. The order depends on the text, the settings, ``split``, ``seed``, the epoch and ``shuffle``; on
    nothing else.

    Parameters
    ----------
    domain
        ``"text"``. Other domains need a store.
    raw
        A file or a folder, as for :func:`outofcore.convert`; a ``.hub`` file; or what iterates over mappings, anew each
        time, such as a dataset of the library ``datasets``.
    split
        ``"train"``, ``"val"`` or ``"test"``: documents are in the same splits as after a conversion.
    batch_size
        Windows of a batch.
    tokenizer
        A ``tokenizer.json``, the folder that holds it or GPT-2's ``vocab.json`` and ``merges.txt``, or a
        ``tokenizers.Tokenizer``; :func:`outofcore.train_tokenizer` makes one. By default the one at
        ``tokenizer.path`` of ``params``.
    column
        The key or column that holds the text; ``"text"`` by default. The same as ``source={"text_column": ...}``.
    shuffle
        Files, and windows among at least ``shuffle_windows`` near each other; False: the order of the text, and the
        batches of a loader of its store.
    seed
        Another seed, another order.
    memory
        What the stream may hold, ``"256MiB"``; checked before reading.
    device
        Where batches go; None leaves them in this machine's memory.
    threads
        Units of text tokenized at a time; by default one a core, 8 at most, fewer if the memory requires it.
    params
        A params file whose section of the domain holds the settings; None for the defaults of the domain.
    **settings
        Settings under ``tensors`` and ``stream`` by name (``seq_len``, ``stride``, ``reset_at_documents``,
        ``shuffle_windows``, ``max_examples``, ...), and sections (``source``, ``filters``, ``splits``), each a mapping
        of the keys that differ. They take precedence over those of ``params``. An epoch of the
        split train is ``max_examples`` windows; None, the default, is all. ``train.val_examples`` of ``params`` bounds
        the split val.

    Returns
    -------
    TextStream
        With ``epoch``, ``state_dict()`` and ``load_state_dict()`` like a loader, and a ``tally`` of what was read.
        ``len()`` reads the whole text, unless the length of an epoch is given.

    Raises
    ------
    ParamsError
        If the domain cannot be streamed, a setting is unknown or out of range, or there is no tokenizer.
    RawInputError
        If there is nothing to read.
    BudgetError
        If the memory is too little.
    """
    kind = get_domain(domain)
    if not isinstance(kind, Streaming):
        raise ParamsError(
            f"stream(): only text can be streamed, got {domain!r}; convert it first, with outofcore.convert, and read "
            "the store with outofcore.loader"
        )
    initialized = torch.distributed.is_available() and torch.distributed.is_initialized()
    if initialized and (world := torch.distributed.get_world_size()) > 1:
        raise ParamsError(f"stream(): expected one rank, got {world}; convert the text, and give each rank a loader")
    refuse_settings(
        "stream()",
        settings,
        raw="the second argument",
        mode="no setting of a stream",
        train="given as batch_size and seed",
    )
    one_of("split", split, SPLITS)
    shuffle, budget, place = flag("shuffle", shuffle), budget_bytes(memory), named_device(device)
    train = {"batch_size": whole("batch_size", batch_size, 1), "seed": whole("seed", seed, 0, MOST)}
    threads = whole_or_none("threads", threads, 1)
    finished = "path" in tokenizer if isinstance(tokenizer, Mapping) else tokenizer is not None
    if params is None and not finished:
        raise ParamsError(
            "stream(): expected tokenizer=, a tokenizer.json or the folder that holds it; make one from the text with "
            "outofcore.train_tokenizer(raw, 'tokenizer.json')"
        )
    records = None if isinstance(raw, str | Path) else raw
    content = by_section(
        domain,
        ("tensors", "stream"),
        settings,
        {} if tokenizer is None else {"tokenizer": tokenizer},
        {} if column is None else {"source": {"text_column": word("column", column)}},
        {"raw": str(raw) if records is None else "records", "mode": "stream", "train": train},
    )
    section: Any = section_of(domain, "stream()", params, content)
    files = kind.raw_files(section, records)
    if records is None:
        report_left_out(section.raw, search(section.raw, section.match, kind.suffixes, section=domain).left_out)
    if threads is None:
        most = min(usable_cores().value, _MOST_THREADS)
        threads = next((count for count in range(most, 0, -1) if kind.stream_bytes(section, count) <= budget), 1)
    opened: TextStream = kind.stream(
        files, section, split, shuffle=shuffle, memory=budget, threads=threads, device=place
    )
    return opened
