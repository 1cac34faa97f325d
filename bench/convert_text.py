"""How fast raw text becomes a store: beside ``tokenizers`` feeding an array, and the engine alone.

    python bench/convert_text.py novels.tar.zst --tokenizer data/tokenizers/text.json --megabytes 4200 --workers 2

All three are measured in one run on the same machine. The text is made from the documents of the given file, their
paragraphs permuted anew for every repetition, as plain files of 10 MB. ``reference`` is what one would write with
``tokenizers``: ``encode_batch`` on texts of half a megabyte, in all its threads, the ids put into an array; it does the
first 8 MB. ``engine`` is gigatoken alone, one instance a thread, documents in memory, output discarded.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import gigatoken
import numpy as np
import tokenizers

from converting import convert_files
from outofcore.domains.text import DOMAIN
from outofcore.domains.text.params import TextSection
from outofcore.domains.text.tokens.learn import texts
from outofcore.raw.files import find_files
from record import Row, save

FILE_BYTES = 10_000_000
FILES = 40
"""As many at least, for a file is a document and every split wants some."""
REFERENCE_TEXTS, REFERENCE_BYTES = 16, 500_000
ENGINE_BYTES = 100_000_000


def make_text(source: Path, folder: Path, size: int) -> None:
    """Write text of this size, by repeating paragraphs in other orders."""
    section = TextSection.model_validate({"raw": str(source), "source": {"newlines": "lf"}})
    files = find_files(source, "**/*", DOMAIN.suffixes, section="text")
    documents = [b"".join(document) for file in files for document in texts(file, section)]
    paragraphs = [part + b"\n\n" for document in documents for part in document.split(b"\n\n")]
    generator = np.random.default_rng(0)
    folder.mkdir()
    written = number = 0
    piece = min(FILE_BYTES, size // FILES)
    rest = b""
    while written < size:
        rest += b"".join(paragraphs[place] for place in generator.permutation(len(paragraphs)))
        while len(rest) >= piece and written < size:
            cut = rest.rindex(b"\n\n", 0, piece) + 2
            (folder / f"{number}.txt").write_bytes(rest[:cut])
            rest, written, number = rest[cut:], written + cut, number + 1


def whole(section: TextSection, workers: int, folder: Path) -> dict[str, Any]:
    files = find_files(section.raw, section.match, DOMAIN.suffixes, section="text")
    made = convert_files(DOMAIN, section, files, folder / "text.zarr", workers)
    return {
        **{key: made.figures[key] for key in ("found", "rejected", "audited", "bytes", "tokens", "bytes_per_row")},
        "seconds": round(made.seconds, 2),
        "megabytes_per_second": round(made.figures["bytes"] / made.seconds / 1e6, 1),
        "peak_memory_mb": round(made.memory.peak_bytes / 1e6),
    }


def reference(path: Path, files: list[Path]) -> dict[str, Any]:
    tokenizer = tokenizers.Tokenizer.from_file(str(path))
    part = [file.read_text(encoding="utf-8")[:REFERENCE_BYTES] for file in files[:REFERENCE_TEXTS]]
    started = time.perf_counter()
    ids = np.concatenate([np.array(encoded.ids, np.uint16) for encoded in tokenizer.encode_batch(part)])
    seconds = time.perf_counter() - started
    size = sum(len(text.encode()) for text in part)
    return {"bytes": size, "tokens": len(ids), "megabytes_per_second": round(size / seconds / 1e6, 2)}


def engine(path: Path, files: list[Path], workers: int) -> dict[str, Any]:
    documents = [file.read_bytes() for file in files[: ENGINE_BYTES // FILE_BYTES]]
    instances = [gigatoken.Tokenizer.from_json(path.read_text(encoding="utf-8")) for _ in range(workers)]

    def work(number: int) -> None:
        for document in documents[number::workers]:
            instances[number].encode_batch([document], parallel=False)

    def run() -> float:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(workers)]
        started = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return time.perf_counter() - started

    run()  # the words are remembered
    return {"megabytes_per_second": round(sum(map(len, documents)) / run() / 1e6, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--megabytes", type=int, default=400)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--codec", choices=["none", "lz4", "zstd"], default="zstd")
    parser.add_argument("--out", type=Path, default=Path("bench/results"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        raw = Path(name) / "raw"
        make_text(options.source, raw, options.megabytes * 10**6)
        files = sorted(raw.iterdir())
        keys = {"raw": str(raw), "tokenizer": {"path": str(options.tokenizer)}, "store": {"codec": options.codec}}
        figures = {
            "whole": whole(TextSection.model_validate(keys), options.workers, Path(name)),
            "reference": reference(options.tokenizer, files),
            "engine": engine(options.tokenizer, files, options.workers),
        }
    save(
        options.out,
        "convert_text",
        "text, to tokens",
        table(figures),
        facts=(
            f"{figures['whole']['bytes'] / 1e6:,.0f} MB of text, {figures['whole']['tokens']:,} tokens",
            f"{figures['whole']['bytes_per_row']:.3g} bytes per token in the store, codec {options.codec}",
        ),
        details={"workers": options.workers, **figures},
        versions={library: version(library) for library in ("tokenizers", "gigatoken")},
    )


def table(figures: dict[str, dict[str, Any]]) -> list[Row]:
    """The figures, the reference as the unit."""
    labels = {
        "outofcore: files to a sealed store": "whole",
        "tokenizers: encode_batch in all threads, ids to an array": "reference",
        "gigatoken alone, output discarded": "engine",
    }
    unit = figures["reference"]["megabytes_per_second"]
    rows = []
    for label, part in labels.items():
        speed = figures[part]["megabytes_per_second"]
        against = {"ratio": speed / unit, "against": "tokenizers"}
        rows.append(Row(label=label, value=speed, unit="MB of text/s", table="conversion", **against))
    label, whole_ = next(iter(labels)), figures["whole"]
    rows.append(Row(label=label, value=whole_["seconds"], unit="seconds", table="conversion"))
    rows.append(Row(label=label, value=whole_["peak_memory_mb"], unit="peak MB", table="conversion"))
    return rows


if __name__ == "__main__":
    main()
