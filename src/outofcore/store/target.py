"""The final place of a store: one process at a time writes it, and only a store of ours is ever replaced.

In the work folder next to it, ``arriving`` is the new store on its way, ``replaced`` the one before, whole until the
new one is in its place and on the disk, and ``removed`` what is being removed, which is never put back.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from outofcore.errors import ParamsError, StoreError
from outofcore.store.reader import open_store
from outofcore.store.schema import Field
from outofcore.store.seal import CHECKSUMS, SEAL, names_of
from outofcore.system.durable import WorkFolder, remove, sync_folder, writing

SYNCS = 8  # folders flushed at a time: a disk writes the names of many with one entry in its journal


class Target(WorkFolder):
    """The place of a store, with the work folder next to it, which is its lock as well."""

    def __init__(self, final: Path) -> None:
        super().__init__(
            final.with_name(f"{final.name}.work"),
            f"{final}: another process writes this store (it works in {final.name}.work); wait until it has ended",
        )
        self.final = final
        self._arriving, self._replaced = self.path / "arriving", self.path / "replaced"
        self._removed = self.path / "removed"

    def __enter__(self) -> Self:
        self._refuse_foreign()
        return super().__enter__()

    def place(self, sealed: Path) -> None:
        """Move a sealed folder, whose files are on the disk, to the place, even from another filesystem.

        No partial store is ever visible; after an error the store before it and the sealed folder are in their places.
        """
        self._refuse_foreign()
        with writing(self.final):
            try:
                _sync_folders(sealed)  # now: between the renames it would take time
                sync_folder(sealed.parent)
                try:
                    sealed.rename(self._arriving)
                except OSError as error:
                    if error.errno != errno.EXDEV:
                        raise
                    _copy(sealed, self._arriving)
                if self.final.exists():
                    _move(self.final, self._replaced)
                self._arriving.rename(self.final)
            except BaseException:
                if self._replaced.is_dir() and not self.final.exists():
                    _move(self._replaced, self.final)
                self.put_back(sealed)
                raise
            sync_folder(self.final.parent)
            sync_folder(self.path)
        with suppress(OSError, StoreError):  # the next run removes what is left
            if self._replaced.exists():
                self._replaced.rename(self._removed)
                sync_folder(self.path)
                remove(self._removed)
            remove(sealed)

    def put_back(self, sealed: Path) -> None:
        """Undo a move that was stopped, so that no copy of a store takes room for ever."""
        with writing(self.final):
            for moved in (self._arriving, self._replaced, self._removed):
                if moved.is_symlink():
                    moved.unlink()
            if _is_whole(self._replaced) and _is_part(self.final, self._replaced):
                remove(self.final)
                _move(self._replaced, self.final)
                sync_folder(self.final.parent)
            if self._arriving.is_dir() and not sealed.exists():
                try:
                    self._arriving.rename(sealed)
                except OSError as error:
                    if error.errno != errno.EXDEV:  # then a copy, for another work folder
                        raise
            for old in (self._arriving, self._replaced, self._removed):
                with suppress(OSError):
                    remove(old)

    def _refuse_foreign(self) -> None:
        if why := foreign(self.final):
            raise StoreError(f"{self.final}: {why}")


def foreign(final: Path) -> str:
    """Why a path must not be replaced by a store: what is there is not ours, or not ours alone; "" if it may be."""
    if not os.path.lexists(final):
        return ""
    own = None
    with suppress(OSError):
        if not any(final.iterdir()):
            return ""
        if (final / SEAL).is_file():
            own = names_of((final / SEAL).read_bytes())
    if own is None:
        return "expected a new folder, or a sealed store to replace, got something else; nothing was touched"
    own |= {SEAL, CHECKSUMS}
    for path in final.rglob("*"):
        name = path.relative_to(final).as_posix()
        if name not in own and (path.is_symlink() or not path.is_dir()):
            return f"expected nothing but a sealed store to replace, got {name} in it as well; move it elsewhere"
    return ""


def refuse_replacing(path: str | Path, domain: str, params: Mapping[str, Any], fields: Sequence[Field] = ()) -> None:
    """Raise ParamsError if a store is there that was made otherwise: of another domain, or with other settings.

    One that is damaged may be replaced. ``fields`` are those that rows will have, where the settings do not say.
    """
    try:
        earlier = open_store(path)
        rows = earlier.rows(earlier.splits[0], earlier.parts[0]).fields if fields else {}
    except StoreError:
        return
    stated = earlier.attributes.get("params")
    known = stated if isinstance(stated, dict) else {}
    stored = {name: (str(array.dtype), array.shape[1:]) for name, array in rows.items()}
    if earlier.domain != domain:
        what = f"is one of {earlier.domain}"
    elif stored != {array.name: (array.dtype, tuple(array.shape)) for array in fields}:
        what = f"has other fields: {', '.join(rows)}"
    elif stated != params:
        changed = [name for name in {**params, **known} if known.get(name) != params.get(name)]
        what = f"was made with other settings: {', '.join(changed)}"
    else:
        return
    raise ParamsError(
        f"{path}: the store that is there {what}; name another path, or replace it: replace=True (--replace)"
    )


def _is_whole(folder: Path) -> bool:
    """Whether a folder has every file that its seal lists; their bytes are not examined."""
    try:
        names = names_of((folder / SEAL).read_bytes())
    except OSError:
        return False
    return names is not None and all((folder / name).is_file() for name in names)


def _is_part(final: Path, whole: Path) -> bool:
    """Whether a store is missing, or is what a move by copying has left of it."""
    if not os.path.lexists(final):
        return True
    files = {path.relative_to(final) for path in final.rglob("*") if not path.is_dir() or path.is_symlink()}
    return not _is_whole(final) and all((whole / file).is_file() for file in files)


def _sync_folders(root: Path) -> None:
    with ThreadPoolExecutor(SYNCS) as pool:
        for _ in pool.map(sync_folder, (root, *filter(Path.is_dir, root.rglob("*")))):
            pass


def _move(source: Path, target: Path) -> None:
    """Rename a folder; an overlay does not rename one of its lower layers, so that is copied."""
    try:
        os.rename(source, target)  # noqa: PTH104 - undone where Path.rename was refused
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        _copy(source, target)
        sync_folder(target.parent)
        for path in source.iterdir():  # the seal last: with it, the rest is known to be ours
            if path.name != SEAL:
                remove(path)
        remove(source)


def _copy(source: Path, target: Path) -> None:
    """Copy a folder to the disk."""
    for path in filter(Path.is_file, source.rglob("*")):
        copied = target / path.relative_to(source)
        with writing(copied):
            copied.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copied)
            with copied.open("r+b") as stream:
                os.fsync(stream.fileno())
    _sync_folders(target)
