"""Full check of a store: bytes against the seal, chunks against their checksums, counts against the rows."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from outofcore.errors import StoreError
from outofcore.store.array import SealedArray
from outofcore.store.connection import shown
from outofcore.store.files import Files
from outofcore.store.reader import Store, files_of, open_sealed
from outofcore.store.seal import ADVICE, SEAL, Seal, read_seal

# Bytes per read; a chunk may be larger.
TOGETHER = 4 << 20


@dataclass(frozen=True)
class Verdict:
    """Result of a full check."""

    store: str  # path as given
    digest: str  # the store's digest; "" if the seal cannot be read
    files: int  # number checked
    bytes: int  # number checked
    problems: tuple[str, ...]  # one line each; empty for an intact store


def verify(path: str | Path, progress: Callable[[int], object] | None = None) -> Verdict:
    """Check every file against seal, checksums and counts; ``progress`` receives bytes, from several threads."""
    name, digest = shown(path), ""
    try:
        files = files_of(path)
        name = str(files.root)
        seal = read_seal(files.seal(), name)
        digest = seal.digest
        problems, read = _compare(files, seal, progress)
    except StoreError as error:
        return Verdict(name, digest, 0, 0, (str(error),))
    return Verdict(name, digest, len(seal.files), read, tuple(problems))


def _compare(files: Files, seal: Seal, progress: Callable[[int], object] | None) -> tuple[list[str], int]:
    """Problems found, and number of bytes read."""
    sizes = files.sizes()
    problems = {
        name: f"{files.root}: {name} {f'has {sizes[name]} bytes, expected {size}' if name in sizes else 'is missing'}; "
        f"{ADVICE}"
        for name, (size, _) in seal.files.items()
        if sizes.get(name) != size
    }
    whole = {name: facts for name, facts in seal.files.items() if name not in problems}
    extra = sizes.keys() - seal.files.keys() - {SEAL}
    problems |= {name: f"{files.root}: {name} is no part of the store; remove it" for name in extra}
    store, refusal = None, ""
    if len(whole) == len(seal.files):
        try:
            store = open_sealed(files)
            arrays = store.arrays()
        except StoreError as error:
            store, refusal = None, str(error)
    if store is None:
        files.compare(whole)
        arrays = {}

    def check(name: str) -> None:
        wrong = _wrong(files, arrays.get(name.rpartition("/")[0]), name, *whole[name])
        if wrong:
            problems[name] = wrong
        if progress:
            progress(whole[name][0])

    files.for_each(check, sorted(whole))
    lines = [problems[name] for name in sorted(problems)] or ([refusal] if store is None else _counts(store))
    return lines, sum(size for size, _ in whole.values())


def _wrong(files: Files, array: SealedArray | None, name: str, size: int, digest: str) -> str:
    """What is wrong with the bytes of a file, or ""."""
    hasher, damage = hashlib.sha256(), ""
    chunks: dict[int, int] = {}  # chunk numbers by offset
    edges = [*range(0, size, TOGETHER), size]
    try:
        if array is not None:
            chunks = array.chunks_of(name)
            edges = [0, *chunks, size] if chunks else edges
    except StoreError as error:
        damage = str(error)
    try:
        for cuts in _groups(edges):
            content = memoryview(files.read(name, cuts[0], cuts[-1] - cuts[0]))
            hasher.update(content)
            for start, stop in pairwise(cuts):
                if array is not None and start in chunks and not damage:
                    damage = array.damage(chunks[start], content[start - cuts[0] : stop - cuts[0]])
    except StoreError as error:
        return str(error)
    if hasher.hexdigest() != digest:
        return f"{files.root}: {name} is not what was sealed (its bytes have changed); {ADVICE}"
    return damage


def _groups(edges: list[int]) -> Iterator[list[int]]:
    """Edges in groups that are read at once; each begins where the last ended."""
    group = edges[:1]
    for edge in edges[1:]:
        if len(group) > 1 and edge - group[0] > TOGETHER:
            yield group
            group = group[-1:]
        group.append(edge)
    yield group


def _counts(store: Store) -> list[str]:
    problems = []
    for part in store.parts:
        for split in store.splits:
            try:
                store.extents(split, part)
            except StoreError as error:
                problems.append(str(error))
    return problems
