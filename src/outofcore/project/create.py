"""``outofcore init``: a DVC project for some domains, in a new folder, a repository, or a clone of this one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from outofcore.domains.registry import DOMAINS, get_domain
from outofcore.errors import ParamsError
from outofcore.project import written
from outofcore.settings.yaml_text import parse_yaml
from outofcore.space.dvc_cache import find_cache
from outofcore.system.durable import replace_text
from outofcore.system.extras import load

IGNORED = (".gitignore", ".dvcignore")
# Entries with the new text of the file, if it is written.
Plan = list[tuple["ProjectFile", str | None]]


@dataclass(frozen=True)
class ProjectFile:
    """A file of the project."""

    path: str  # relative to its folder
    action: Literal["new", "changed", "kept"]
    note: str = ""  # what to know about one that was kept or changed


def create(folder: Path, domains: Sequence[str]) -> list[ProjectFile]:
    """Write what a project for these domains lacks; returns the files that are new, changed, or differ and were kept.

    A ``dvc.yaml`` as this function writes it, for other domains, becomes that of these, and ignore files get the lines
    that they lack; any other file that exists is left alone. Raises ParamsError, before anything is written, for an
    unknown domain, a folder that has a pipeline of its own, or files that cannot be read.
    """
    for name in domains:
        get_domain(name)
    load("dvc", "project", "outofcore init")
    if folder.exists() and not folder.is_dir():
        raise ParamsError(f"{folder}: expected a folder, or the name of a new one, found a file")
    plan = _plan(folder, written.in_order(domains))
    for entry, text in plan:
        if text is not None:
            replace_text(folder / entry.path, text)
        elif entry.action == "changed":
            (folder / entry.path).unlink()
    return [entry for entry, _ in plan]


def domains_of(folder: Path) -> tuple[str, ...]:
    """The domains of a project, by its ``dvc.yaml``."""
    return written.domains_in(_text(folder / "dvc.yaml") or "")


def in_repository(folder: Path) -> bool:
    """Whether a folder is in a Git repository."""
    place = folder.resolve()
    return any((folder_above / ".git").exists() for folder_above in (place, *place.parents))


def _plan(folder: Path, wanted: tuple[str, ...]) -> Plan:
    sources = all((folder / "src/outofcore/domains" / name).is_dir() for name in wanted)
    git = in_repository(folder)
    cache = find_cache(folder) if folder.is_dir() else None
    before = _text(folder / "dvc.yaml")
    ours = before is not None and _is_ours(before, sources=sources)
    if before is not None and not ours and set(written.domains_in(before)) != set(wanted):
        raise ParamsError(
            f"{folder / 'dvc.yaml'}: expected none, or the one that outofcore init wrote, found another; name another "
            "folder, change its domains by hand, or remove it: this command then writes that of this version"
        )
    params = _params(folder / "params.yaml", wanted)
    new = written.definition(wanted, sources=sources, sampled=written.sampled_of(params, wanted))
    plan = _put(folder, "dvc.yaml", new if ours or before is None else before) + _put(folder, "params.yaml", params)
    if before is not None and not ours and before != new:
        plan.append((ProjectFile("dvc.yaml", "kept", "differs from what this version writes"), None))
    rest = written.others(wanted, folder.resolve().name, sources=sources)
    if cache is None:
        rest |= written.dvc_files(git=git)
    elif git and "no_scm = true" in (_text(folder / ".dvc/config") or ""):
        note = "is set up without Git; to use it: dvc config --unset core.no_scm"
        plan.append((ProjectFile(".dvc", "kept", note), None))
    elif cache.types[0] != "hardlink":
        note = "copies data; to link it: dvc config cache.type hardlink,symlink"
        plan.append((ProjectFile(".dvc", "kept", note), None))
    for path, text in rest.items():
        plan += _added(folder, path, text)
    return plan if git else [(_without_git(entry), text) for entry, text in plan]


def _without_git(entry: ProjectFile) -> ProjectFile:
    """An entry of a folder that is in no repository: how to use Git is noted with the settings of DVC."""
    if entry.path != ".dvc/config" or entry.action != "new":
        return entry
    return replace(entry, note="for 'dvc exp': git init && dvc config --unset core.no_scm")


def _is_ours(text: str, *, sources: bool) -> bool:
    """Whether a ``dvc.yaml`` is as this version writes it."""
    domains = written.domains_in(text)
    return bool(domains) and text == written.definition(
        domains, sources=sources, sampled=written.domains_in(text, "sample")
    )


def _put(folder: Path, path: str, text: str) -> Plan:
    """A file that may be there."""
    before = _text(folder / path)
    return [] if before == text else [(ProjectFile(path, "new" if before is None else "changed"), text)]


def _added(folder: Path, path: str, text: str) -> Plan:
    """A new file, or how the one that is there differs."""
    before = _text(folder / path)
    if before is None or before == text:
        return _put(folder, path, text)
    lacks = [line for line in text.splitlines() if line not in before.splitlines()]
    if path in IGNORED and lacks:
        entry = ProjectFile(path, "changed", f"{len(lacks)} lines added at its end")
        return [(entry, "\n".join((before.rstrip("\n"), *lacks, "")))]
    if path == written.REQUIREMENTS and written.is_requirements(before):
        return _put(folder, path, text)
    if path in (*IGNORED, written.REQUIREMENTS):
        return [(ProjectFile(path, "kept", f"lacks {', '.join(lacks)}"), None)] if lacks else []
    return [(ProjectFile(path, "kept", "not the one of this version" if path.startswith("stages/") else ""), None)]


def _params(path: Path, wanted: Sequence[str]) -> str:
    """``params.yaml`` with the sections that it lacks at its end."""
    text = _text(path)
    if text is None:
        return written.params(wanted)
    stated = _keys(path, text)
    if unknown := sorted(str(name) for name in stated if name not in DOMAINS):
        raise ParamsError(f"{path}: expected sections of domains only, found {unknown[0]}; name another folder")
    lacking = [name for name in wanted if name not in stated]
    whole = "\n".join((f"{text.rstrip()}\n", *map(written.section, lacking))) if lacking else text
    try:
        parse_yaml(whole)
    except ValueError as error:
        raise ParamsError(
            f"{path}: expected one section below the other, as in 'go:', to add {', '.join(lacking)}"
        ) from error
    return whole


def _keys(path: Path, text: str) -> set[object]:
    try:
        content = parse_yaml(text)
    except ValueError as error:
        raise ParamsError(f"{path}: expected YAML, got {error}") from error
    if not isinstance(content, dict | None):
        raise ParamsError(f"{path}: expected sections of domains, got {type(content).__name__}")
    return set(content or ())


def _text(path: Path) -> str | None:
    try:
        return path.read_text("utf-8")
    except FileNotFoundError:
        return None
    except (IsADirectoryError, NotADirectoryError) as error:
        wrong = path if path.is_dir() else path.parent
        raise ParamsError(
            f"{wrong}: expected {'a file, found a folder' if path.is_dir() else 'a folder, found a file'}"
        ) from error
    except UnicodeDecodeError as error:
        raise ParamsError(f"{path}: expected text in UTF-8, {error.reason}") from error
