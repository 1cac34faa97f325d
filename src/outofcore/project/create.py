"""``outofcore init``: a DVC project for some domains, in a new folder, a repository, or a clone of this one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from outofcore.domains.registry import DOMAINS, get_domain
from outofcore.errors import ParamsError
from outofcore.project import written
from outofcore.replacing import replace_text
from outofcore.space.committed import committed
from outofcore.space.dvc_cache import find_cache

IGNORED = (".gitignore", ".dvcignore")


@dataclass(frozen=True)
class Entry:
    """A file of the project."""

    path: str  # relative to its folder
    action: Literal["new", "changed", "kept"]
    note: str = ""  # what to know about one that was kept or changed


def create(folder: Path, domains: Sequence[str]) -> list[Entry]:
    """Write what a project for these domains lacks; returns the files that are new, changed, or differ and were kept.

    A ``dvc.yaml`` as this function writes it, for other domains, becomes that of these, and ignore files get the lines
    that they lack; any other file that exists is left alone. Raises ParamsError for an unknown domain or a folder that
    has a pipeline of its own.
    """
    for name in domains:
        get_domain(name)
    if folder.exists() and not folder.is_dir():
        message = f"{folder}: expected a folder, or the name of a new one, found a file"
        raise ParamsError(message)
    wanted = written.in_order(domains)
    sources = all((folder / "src/outofcore/domains" / name).is_dir() for name in wanted)
    place = folder.resolve()
    git = any((each / ".git").exists() for each in (place, *place.parents))
    before = _text(folder / "dvc.yaml")
    new = written.definition(wanted, sources=sources)
    ours = before is not None and before == written.definition(written.domains_in(before), sources=sources)
    if before is not None and not ours and set(written.domains_in(before)) != set(wanted):
        message = (
            f"{folder / 'dvc.yaml'}: expected none, or the one that outofcore init wrote, found another; name another "
            "folder, or change its domains by hand"
        )
        raise ParamsError(message)
    files = {"dvc.yaml": new if ours or before is None else before}
    files["params.yaml"] = _params(folder / "params.yaml", wanted, drop=ours)
    entries = [each for path, text in files.items() if (each := _put(folder, path, text))]
    if before is not None and not ours and before != new:
        entries.append(Entry("dvc.yaml", "kept", "differs from what this version writes"))
    if left := [name for name in written.sections_in(files["params.yaml"]) if name and name not in wanted]:
        note = f"still has {', '.join(left)}, which you changed; the report shows their results until you remove them"
        entries.append(Entry("params.yaml", "kept", note))
    if ours and before != new:
        entries += _forget(folder)
    cache = find_cache(folder) if folder.is_dir() else None
    rest = written.others(wanted, place.name, sources=sources)
    if cache is None:
        rest |= written.dvc_files(git=git)
    elif git and "no_scm = true" in (_text(folder / ".dvc/config") or ""):
        entries.append(Entry(".dvc", "kept", "is set up without Git; 'dvc config --unset core.no_scm' lets DVC use it"))
    elif cache.types[0] != "hardlink":
        note = "data is stored twice; 'dvc config cache.type hardlink,symlink' stores it once"
        entries.append(Entry(".dvc", "kept", note))
    return entries + [each for path, text in rest.items() if (each := _added(folder, path, text))]


def domains_of(folder: Path) -> tuple[str, ...]:
    """The domains of a project, by its ``dvc.yaml``."""
    return written.domains_in(_text(folder / "dvc.yaml") or "")


def _put(folder: Path, path: str, text: str) -> Entry | None:
    """Write a file that may be there."""
    before = _text(folder / path)
    if before == text:
        return None
    replace_text(folder / path, text)
    return Entry(path, "new" if before is None else "changed")


def _added(folder: Path, path: str, text: str) -> Entry | None:
    """Write a file, or say how the one that is there differs."""
    before = _text(folder / path)
    if before is None:
        return _put(folder, path, text)
    if before == text:
        return None
    lacks = [line for line in text.splitlines() if line not in before.splitlines()]
    if path in IGNORED and lacks:
        replace_text(folder / path, "\n".join((before.rstrip("\n"), *lacks, "")))
        return Entry(path, "changed", f"{len(lacks)} lines added at its end")
    if path in (*IGNORED, written.REQUIREMENTS):
        return Entry(path, "kept", f"lacks {', '.join(lacks)}") if lacks else None
    return Entry(path, "kept", "not the one of this version" if path.startswith("stages/") else "")


def _params(path: Path, wanted: Sequence[str], *, drop: bool) -> str:
    """``params.yaml`` with all sections that are wanted; with ``drop``, without those of others that nobody changed."""
    text = _text(path)
    if text is None:
        return written.params(wanted)
    there = written.sections_in(text)
    if unknown := [name for name in there if name and name not in DOMAINS]:
        message = f"{path}: expected sections of domains only, found {unknown[0]}; name another folder"
        raise ParamsError(message)
    kept = [
        name
        for name in there
        if name in wanted or (name and not (drop and there[name].rstrip() == written.section(name).rstrip()))
    ]
    if kept == [name for name in there if name] and set(wanted) <= set(kept):
        return text
    parts = [there[""], *(there.get(name) or written.section(name) for name in written.in_order((*wanted, *kept)))]
    return "\n".join(f"{part.rstrip()}\n" for part in parts if part.strip())


def _forget(folder: Path) -> list[Entry]:
    """Remove from ``dvc.lock`` what other domains, or only other machines, have run."""
    lock = folder / "dvc.lock"
    text = _text(lock)
    if text is None or find_cache(folder) is None:
        return []
    here = {each.stage for each in committed(folder).outputs}
    head, *stages = re.split(r"^(?=  \S)", text, flags=re.MULTILINE)
    kept = [each for each in stages if each.split(":")[0].strip() in here]
    if len(kept) == len(stages):
        return []
    if not kept:
        lock.unlink()
        return [Entry("dvc.lock", "changed", "removed, as nothing in it was run here")]
    replace_text(lock, head + "".join(kept))
    return [Entry("dvc.lock", "changed", f"without {len(stages) - len(kept)} stages that left or never ran here")]


def _text(path: Path) -> str | None:
    try:
        return path.read_text("utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        message = f"{path}: expected text in UTF-8, {error.reason}"
        raise ParamsError(message) from error
