"""A tokenizer from raw text, outside of a project."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from outofcore.domains.text import DOMAIN
from outofcore.domains.text.params import HUB
from outofcore.errors import ParamsError
from outofcore.params import by_section, refuse_settings, section_of
from outofcore.system.durable import writing


def train_tokenizer(
    raw: str | Path | Iterable[Mapping[str, Any]],
    file: str | Path,
    /,
    *,
    column: str | None = None,
    params: str | Path | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """Train a tokenizer on raw text, or take GPT-2's or another one, and write it to a file.

    ::

        outofcore.train_tokenizer("corpus/", "tokenizer.json", vocab_size=8192)
        outofcore.convert("text", "corpus/", "text.zarr", tokenizer="tokenizer.json")

    The same text and settings give the same bytes.

    Parameters
    ----------
    raw
        A file or a folder, as for :func:`outofcore.convert`; a ``.hub`` file; or what iterates over mappings, such as a
        dataset of the library ``datasets``. A share of 16 MiB is read from the beginning of each file.
    file
        The ``tokenizer.json`` to write, which :func:`outofcore.convert` and :func:`outofcore.stream` take, and the
        library ``tokenizers`` reads. An existing tokenizer is replaced.
    column
        The key or column that holds the text; ``"text"`` by default. The same as ``source={"text_column": ...}``.
    params
        A params file whose section ``text`` holds the settings; None for the defaults.
    **settings
        Settings under ``tokenizer`` by name (``vocab_size``, ``kind``, ``given``), and sections
        (``source``, ``filters``), each a mapping of the keys that differ. They take precedence over those of
        ``params``.

    Returns
    -------
    dict
        ``vocabulary``, the number of tokens, and ``digest``, the SHA-256 of the file.

    Raises
    ------
    ParamsError
        If a setting is unknown or out of range, there is no text to learn from, or ``file`` is something else.
    RawInputError
        If there is nothing to read.
    """
    DOMAIN.require_packages()
    from outofcore.domains.text.tokens.learn import is_tokenizer, write_tokenizer
    from outofcore.domains.text.tokens.tokenizer import Tokenizer

    refuse_settings("train_tokenizer()", settings, path="the second argument", raw="the first argument")
    path, records = Path(file), None if isinstance(raw, str | Path) else raw
    given = by_section(
        DOMAIN.name,
        ("tokenizer",),
        settings,
        {} if column is None else {"source": {"text_column": column}},
        {"raw": str(raw) if records is None else "records", "grow": False},  # learnt from what there is
        {"mode": "stream"} if records is None and str(raw).endswith(HUB) else {},
    )
    section = section_of(DOMAIN.name, "train_tokenizer()", params, given)
    if path.exists() and not is_tokenizer(path):
        raise ParamsError(f"{path}: expected a new file, or a tokenizer.json to replace")
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)  # noticed before minutes of training
    content = write_tokenizer(path, section, DOMAIN.raw_files(section, records))
    return {"vocabulary": Tokenizer(content, None).size, "digest": hashlib.sha256(content.encode()).hexdigest()}
