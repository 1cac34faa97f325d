"""params.yaml, typed: all keys that change bytes or results, none that depend on the machine."""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from outofcore.domains.domain import Section
from outofcore.domains.own_network import allow_network, own_name
from outofcore.domains.registry import DOMAINS, get_domain
from outofcore.errors import ParamsError
from outofcore.settings.yaml_text import parse_yaml


class Params:
    """The content of a params file; each section is checked when accessed."""

    def __init__(self, content: dict[str, Any], path: Path) -> None:
        self._content = content
        self._path = path
        unknown = sorted(str(key) for key in content if key not in DOMAINS)
        if unknown:
            raise ParamsError(f"{path}: unknown key {unknown[0]!r}{_nearest(unknown[0], list(DOMAINS))}")
        self.domains: tuple[str, ...] = tuple(content)

    def section(self, domain: str) -> Any:
        """The typed section of a domain; raises ParamsError naming unknown, missing and invalid keys."""
        kind = get_domain(domain).section
        if domain not in self._content:
            raise ParamsError(f"{self._path}: expected a section {domain!r}, found none")
        try:
            section = kind.model_validate(self._content[domain])
        except ValidationError as error:
            called = self._path.name.endswith("()")
            problems = [_describe(domain, kind, dict(item), called=called) for item in error.errors()]
            raise ParamsError(f"{self._path}: {'; '.join(problems)}") from error
        if network := own_name(section):
            allow_network(network)  # as its user wrote it
        return section

    def content(self, domain: str) -> dict[str, Any]:
        """The keys of a section as they were given, unchecked."""
        if not isinstance(self._content.get(domain), Mapping):
            self.section(domain)
        return dict(self._content[domain])


def load_params(path: str | Path = "params.yaml") -> Params:
    """Read a params file; raises ParamsError if it is missing, invalid, or has an unknown section."""
    file = Path(path)
    try:
        content = parse_yaml(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ParamsError(f"{file}: no such file; run from the folder that holds params.yaml") from error
    except ValueError as error:
        raise ParamsError(f"{file}: not YAML: {error}") from error
    if not isinstance(content, dict):
        raise ParamsError(f"{file}: expected a mapping of sections, got {type(content).__name__}")
    return Params(content, file)


def section_of(domain: str, caller: str, params: str | Path | None, settings: Mapping[str, Any]) -> Any:
    """The typed section for a call: its arguments, over a params file or the domain's defaults; errors name either."""
    stated = load_params(params) if params is not None else None
    given = stated.content(domain) if stated else {}
    try:
        return Params({domain: _merged(given, settings)}, Path(caller)).section(domain)
    except ParamsError:
        if stated:
            stated.section(domain)  # the error names the file if that is wrong by itself
        raise


def section_of_store(
    store: Mapping[str, Any], domain: str, caller: str, params: str | Path | None, settings: Mapping[str, Any]
) -> Any:
    """The same for a store with these attributes: raw input is read as for the store, by settings that still exist."""
    content: Mapping[str, Any] = settings
    if params is None:
        kind = get_domain(domain).section
        stored = {"raw": ".", **store.get("params", {})}
        required = [name for name, key in kind.model_fields.items() if key.is_required()]
        taken = {name: stored[name] for name in (*required, "source", "filters") if name in stored}
        for name in ("source", "filters"):
            known = _known(kind, [name])
            taken[name] = {key: value for key, value in taken.get(name, {}).items() if key in known}
        content = _merged(taken, settings)
    return section_of(domain, caller, params, content)


def raw_settings(raw: str | Path, settings: Mapping[str, Any]) -> dict[str, str]:
    """The settings for a file or a folder, or for the folder and the rest of a pattern."""
    if not isinstance(raw, str | Path):
        raise ParamsError(
            f"raw: expected a file, a folder, or a pattern such as 'games/*.pgn', got a {type(raw).__name__}"
        )
    path = Path(raw)
    named = next((place for place, step in enumerate(path.parts) if set(step) & set("*?[")), None)
    if named is None or path.exists() or "match" in settings:
        return {"raw": str(raw)}
    return {"raw": str(Path(*path.parts[:named])), "match": "/".join(path.parts[named:])}


def by_section(domain: str, sections: Sequence[str], *settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a call, later ones over earlier ones.

    A name that is no section is placed in the one of ``sections`` with such a key, else in the first, which refuses it.
    """
    kind = get_domain(domain).section
    placed: dict[str, Any] = {}
    for name, value in chain.from_iterable(mapping.items() for mapping in settings):
        where = next((section for section in sections if name in _known(kind, [section])), sections[0])
        placed = _merged(placed, {name: value} if name in kind.model_fields else {where: {name: value}})
    return placed


def refuse_settings(where: str, settings: Mapping[str, Any], **instead: str) -> None:
    """Raise ParamsError for a setting that the call ``where`` takes in another way, or not at all."""
    for name in settings.keys() & instead.keys():
        raise ParamsError(f"{where}: expected no setting {name!r}: it is {instead[name]}")


def _merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    both = dict(base)
    for key, value in changes.items():
        old = both.get(key)
        both[key] = _merged(old if isinstance(old, Mapping) else {}, value) if isinstance(value, Mapping) else value
    return both


def given_settings(words: Sequence[str], domains: Iterable[str] = DOMAINS) -> dict[str, Any]:
    """Settings of the command line, ``filters.min_elo=2000``, as nested mappings; values are YAML.

    A name may begin with that of the domain, as for 'dvc exp run'.
    """
    settings: dict[str, Any] = {}
    for word in words:
        keys, sign, value = word.partition("=")
        if not sign or not all(keys.split(".")):
            raise ParamsError(f"-S: expected a setting such as filters.min_elo=2000, got {word!r}")
        if keys.partition(".")[0] == "params":
            raise ParamsError("-S: params is no setting; begin with its section, such as filters.min_elo=2000")
        *path, last = keys.split(".")
        path = path[1:] if path and path[0] in domains else path
        place = settings
        for key in path:
            place = place.setdefault(key, {})
            if not isinstance(place, dict):
                raise ParamsError(f"-S: {keys} is inside of a setting that has a value already")
        try:
            place[last] = parse_yaml(value)
        except ValueError as error:
            raise ParamsError(f"-S: {keys}: not YAML: {_shown(value)}") from error
    return settings


def _describe(domain: str, kind: type[Section], problem: dict[str, Any], *, called: bool = False) -> str:
    # In angle brackets: which of several types a value was taken for; and pydantic's word for a key of a mapping.
    place = [str(step) for step in problem["loc"] if str(step)[:1] != "<" and step != "[key]"]
    key = ".".join([domain, *place])
    if problem["type"] == "extra_forbidden" and len(place) == 1 and (inside := _sections_with(kind, place[0])):
        written = f"{{'{place[0]}': {reprlib.repr(problem['input'])}}}"
        meant = [f"{name}={written}" if called else f"{domain}.{name}.{place[0]}" for name in inside]
        return f"unknown key {key}; did you mean {' or '.join(meant)}?"
    if problem["type"] == "extra_forbidden":
        return f"unknown key {key}{_nearest(place[-1], _known(kind, place[:-1]))}"
    if problem["type"] == "missing":
        return f"missing key {key}"
    if problem["loc"][-1:] == ("[key]",) and not isinstance(problem["input"], str):
        what = type(problem["input"]).__name__
        return f'{key}: names are texts, got {problem["input"]!r} ({what}); quote the name, as in "2024.01":'
    hint = " (YAML reads on, off, yes and no as booleans; quote them)" if isinstance(problem["input"], bool) else ""
    return f"{key}: {problem['msg'][:1].lower()}{problem['msg'][1:]}, got {_shown(problem['input'])}{hint}"


def _shown(value: object) -> str:
    try:
        return f"{reprlib.repr(value):.200}"
    except ValueError:  # Python writes no number of more than some thousand digits
        return "a number of too many digits"


def _known(kind: type[BaseModel], path: list[str]) -> list[str]:
    """Names of the keys at a path of a section."""
    for step in path:
        inner = kind.model_fields[step].annotation if step in kind.model_fields else None
        if not (isinstance(inner, type) and issubclass(inner, BaseModel)):
            return []
        kind = inner
    return list(kind.model_fields)


def _sections_with(kind: type[BaseModel], key: str) -> list[str]:
    """Names of the sections that have such a key."""
    return [name for name in kind.model_fields if key in _known(kind, [name])]


def settings_named(key: str, domain: str) -> list[str]:
    """Names of the sections of a domain that have a key; none if it is no domain here."""
    return _sections_with(get_domain(domain).section, key) if domain in DOMAINS else []


def _nearest(word: str, known: list[str]) -> str:
    close = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
