"""Upload a store to object storage: shards as they become complete, next to its address; the switch comes last.

An earlier store at the address stays whole until everything of the new one is stored in ``<address>.work/<token>``, a
folder named by the token of the conversion. Then its seal is replaced by a list of what both stores have, the objects
are copied (within the storage), and the new seal is written. Nothing else is ever removed. Credentials and endpoint
come from the environment, as for reading (:mod:`outofcore.store.remote`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from outofcore.errors import StoreError
from outofcore.store.remote import RemoteFiles, connect, imported, listed, repeated, what_failed
from outofcore.store.seal import SEAL, UNFINISHED, Seal, names_of, read_seal
from outofcore.system.durable import MARK

# Concurrent files, and parts of each; memory is their product times PART_BYTES.
FILES = 4
PARTS = 4
PART_BYTES = 8 << 20
COPIES = 16


class Upload:
    """Uploads a store to an address ``s3://bucket/folder``."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._parent, _, self._name = root.rpartition("/")
        self._mark = f"{self._name}.work/{MARK}"
        self._work = ""  # the folder of the conversion that has claimed the address

    def check(self) -> None:
        """Raise StoreError for an address with other people's objects, without credentials, bucket or answer."""
        self._own_names()
        neighbours = self._listed(f"{self._name}.work")
        if neighbours and MARK not in neighbours:
            message = (
                f"{self.root}.work: expected nothing, or an unfinished conversion of ours ({MARK}), got "
                f"{min(neighbours)!r:.200}; nothing was touched: choose another address"
            )
            raise StoreError(message)

    def begin(self, token: str) -> None:
        """Claim the address for the holder of this token; raises StoreError if it is claimed, or not writable."""
        self._work = f"{self._name}.work/{token}"
        try:
            self._put(self._mark, token.encode(), mode="create")
        except self._obstore.exceptions.AlreadyExistsError as error:
            if self._get(self._mark) != token.encode():
                message = (
                    f"{self.root}: another conversion writes there, or one that was stopped in another folder or on "
                    f"another machine: continue it there, or remove {self.root}.work"
                )
                raise StoreError(message) from error

    def take(self, folder: Path, names: Iterable[str]) -> None:
        """Upload files ``names`` of ``folder``; local files remain."""
        self._each(FILES, lambda name: self.put(name, folder / name), names)

    def put(self, name: str, content: Path | bytes) -> None:
        """Upload one file of the store, from a file or as it is."""
        self._put(f"{self._work}/{name}", content)

    def finish(self, seal: Seal) -> None:
        """Give the upload its address; raises DamagedStore if an object is missing."""
        RemoteFiles(f"{self._parent}/{self._work}").compare(seal.files)
        old = self.unseal(seal.files)
        self._each(COPIES, self._copy, seal.files)
        gone = (old & self._listed(self._name)) - seal.files.keys() - {UNFINISHED}
        self._delete(self._name, sorted(gone))
        self._put(f"{self._name}/{SEAL}", seal.text().encode())
        self._delete(self._name, [UNFINISHED])

    def unseal(self, names: Iterable[str] = ()) -> set[str]:
        """Replace the seal at the address by a list of its files and of ``names``; returns those of its files."""
        old = self._own_names()
        both = Seal(dict.fromkeys((old | set(names)) - {SEAL}, (0, "")))
        self._put(f"{self._name}/{UNFINISHED}", both.text().encode())
        self._delete(self._name, [SEAL])
        return old

    def clear(self) -> None:
        """Remove what the conversion has put next to the address, the claim last."""
        self._delete(self._work, sorted(self._listed(self._work)))
        self._delete(f"{self._name}.work", [MARK])

    def put_next(self, suffix: str, file: Path) -> None:
        """Upload a file that belongs to the store but is next to it."""
        self._put(self._name + suffix, file)

    def check_next(self, suffix: str, header: bytes) -> None:
        """Raise StoreError if the object next to the store does not begin like the file that will replace it."""
        try:
            begin = bytes(self._obstore.get_range(self._store, self._name + suffix, start=0, length=len(header)))
        except FileNotFoundError:
            return
        except self._obstore.exceptions.BaseError:  # shorter than that
            begin = b""
        if begin != header:
            message = (
                f"{self.root}{suffix}: expected nothing, or the list of an earlier conversion, got something else; "
                "nothing was touched: choose another address"
            )
            raise StoreError(message)

    def _own_names(self) -> set[str]:
        """Names of the store at the address, empty if there is none; raises StoreError for anything else."""
        found = self._listed(self._name)
        if not found:
            return set()
        if UNFINISHED in found:
            with suppress(StoreError):
                listed_names = self._get(f"{self._name}/{UNFINISHED}").decode("utf-8", "replace")
                return {SEAL, *read_seal(listed_names, self.root).files}
        elif SEAL in found and (own := names_of(self._get(f"{self._name}/{SEAL}"))) is not None:
            return own
        message = (
            f"{self.root}: expected nothing, or a sealed store to replace, got {min(found)!r:.200} and no seal of a "
            "store; nothing was touched: choose an address of its own"
        )
        raise StoreError(message)

    def _copy(self, name: str) -> None:
        with self._one_line(name):
            source, target = f"{self._work}/{name}", f"{self._name}/{name}"
            repeated(self._obstore, lambda: self._obstore.copy(self._store, source, target))

    def _listed(self, folder: str) -> set[str]:
        with self._one_line("the list of objects", "read"):
            return {each.removeprefix(f"{folder}/") for each in listed(self._obstore, self._store, folder)}

    def _get(self, name: str) -> bytes:
        with self._one_line(name, "read"):
            return bytes(self._obstore.get(self._store, name).bytes())

    def _put(self, name: str, content: Path | bytes, **options: Any) -> None:
        with self._one_line(name):
            self._obstore.put(self._store, name, content, chunk_size=PART_BYTES, max_concurrency=PARTS, **options)

    def _delete(self, folder: str, names: list[str]) -> None:
        for name in names:
            with self._one_line(name):
                repeated(self._obstore, partial(self._obstore.delete, self._store, f"{folder}/{name}"))

    def _each(self, threads: int, work: Callable[[str], None], names: Iterable[str]) -> None:
        with ThreadPoolExecutor(threads, thread_name_prefix="upload") as pool:
            for _ in pool.map(work, names):
                pass

    @cached_property
    def _obstore(self) -> Any:
        return imported(self.root)

    @cached_property
    def _store(self) -> Any:
        return connect(self._parent)

    @contextmanager
    def _one_line(self, name: str, verb: str = "written") -> Iterator[None]:
        try:
            yield
        except self._obstore.exceptions.AlreadyExistsError:
            raise
        except (self._obstore.exceptions.BaseError, FileNotFoundError) as error:
            raise StoreError(what_failed(self.root, name, error, verb)) from error
