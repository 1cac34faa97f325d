"""params.yaml, typed: every key that changes bytes or results, and none that a machine decides."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from outofcore.domains.domain import Section
from outofcore.domains.registry import DOMAINS, get_domain
from outofcore.errors import ParamsError


class Params:
    """The content of a params file, checked section by section when asked for.

    Parameters
    ----------
    content
        The parsed file.
    path
        Where it lies, for messages.

    Attributes
    ----------
    domains
        Names of the domains that have a section.
    """

    def __init__(self, content: dict[str, Any], path: Path) -> None:
        self._content = content
        self._path = path
        unknown = sorted(str(key) for key in content if key not in DOMAINS)
        if unknown:
            message = f"{path}: unknown key {unknown[0]!r}{_nearest(unknown[0], list(DOMAINS))}"
            raise ParamsError(message)
        self.domains: tuple[str, ...] = tuple(content)

    def section(self, domain: str) -> Any:
        """The typed section of a domain.

        Raises
        ------
        ParamsError
            If the section is missing, or a key of it is unknown, missing or out of range; each is named.
        """
        kind = get_domain(domain).section
        if domain not in self._content:
            message = f"{self._path}: expected a section {domain!r}, found none"
            raise ParamsError(message)
        try:
            return kind.model_validate(self._content[domain])
        except ValidationError as error:
            problems = [_describe(domain, kind, dict(item)) for item in error.errors()]
            message = f"{self._path}: {'; '.join(problems)}"
            raise ParamsError(message) from error


def load_params(path: str | Path = "params.yaml") -> Params:
    """Read a params file.

    Raises
    ------
    ParamsError
        If there is none, or it is no YAML mapping, or it has an unknown section.
    """
    file = Path(path)
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        message = f"{file}: no such file; run from the folder that holds params.yaml"
        raise ParamsError(message) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        message = f"{file}: not YAML: {' '.join(str(error).split())}"
        raise ParamsError(message) from error
    if not isinstance(content, dict):
        message = f"{file}: expected a mapping of sections, got {type(content).__name__}"
        raise ParamsError(message)
    return Params(content, file)


def _describe(domain: str, kind: type[Section], problem: dict[str, Any]) -> str:
    place = [str(step) for step in problem["loc"]]
    key = ".".join([domain, *place])
    if problem["type"] == "extra_forbidden":
        return f"unknown key {key}{_nearest(place[-1], _known(kind, place[:-1]))}"
    if problem["type"] == "missing":
        return f"missing key {key}"
    hint = " (YAML reads on, off, yes and no as booleans; quote them)" if isinstance(problem["input"], bool) else ""
    return f"{key}: {problem['msg'][:1].lower()}{problem['msg'][1:]}, got {problem['input']!r}{hint}"


def _known(kind: type[BaseModel], path: list[str]) -> list[str]:
    """Names of the keys that stand at a path of a section."""
    for step in path:
        inner = kind.model_fields[step].annotation if step in kind.model_fields else None
        if not (isinstance(inner, type) and issubclass(inner, BaseModel)):
            return []
        kind = inner
    return list(kind.model_fields)


def _nearest(word: str, known: list[str]) -> str:
    close = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
