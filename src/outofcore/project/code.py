"""Digests of the code that converts and trains a domain, which comments and docstrings do not change.

They cover the domain's own package, what domains share and the training loop. What stores and loaders promise to keep
(bytes, the order of samples) is not part of them. Versions of Python give the same digests.
"""

from __future__ import annotations

import ast
import copy
import hashlib
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from outofcore import __version__
from outofcore.domains.domain import Domain
from outofcore.domains.registry import packages
from outofcore.errors import ParamsError

PACKAGE = Path(__file__).resolve().parents[1]
LOOP = (
    "outofcore.domains.reading",
    "outofcore.domains.streaming",
    "outofcore.domains.task",
    "outofcore.training.loaders",
    "outofcore.training.loop",
)
# Only what its functions and properties compute counts: the values of settings are in params.yaml.
SETTINGS = "params"
# Methods of a domain that decide neither what is stored nor what is learned.
ASIDE = ("draw", "gallery", "plan", "sample")


# Where the code begins: modules of a domain by convention, and methods that override them.
CONVERT = (("schema", "source", "convert"), ("schemas", "units", "converter", "raw_files", "prepared"))
TRAIN = (("tensors", "model"), ("reading", "task"))
STREAM = ((), ("stream",))


def code_of(domain: Domain, section: Any) -> dict[str, str]:
    """What ``convert`` and ``train`` run: a line for each module with its digest."""
    package = type(domain).__module__
    trains = (TRAIN, STREAM) if domain.streamed(section) else (TRAIN,)
    return {
        "convert": _described(package, _begin(package, CONVERT)),
        "train": _described(package, {*LOOP}.union(*(_begin(package, each) for each in trains))),
    }


def check_version(requirements: Path) -> None:
    """Raise ParamsError if a project's requirements state other versions than those that run.

    Those of outofcore and of packages that provide domains count.
    """
    text = requirements.read_text("utf-8") if requirements.is_file() else ""
    for package, version in {**packages(), "outofcore": __version__}.items():
        name = "[-_.]+".join(re.split("[-_.]+", package))
        stated = re.search(rf"^{name}\s*(?:\[[^\]]*\])?\s*==\s*([^\s;#]+)", text, re.MULTILINE | re.IGNORECASE)
        if stated and stated[1] != version:
            message = (
                f"{requirements}: expected {package} {version}, the installed version, got {stated[1]}; install that "
                "one, or take over the installed one: 'outofcore init .'"
            )
            raise ParamsError(message)


def _begin(package: str, part: tuple[tuple[str, ...], tuple[str, ...]]) -> set[str]:
    modules, methods = part
    found = {f"{package}.{name}" for name in modules}.union(*(_used_by(package, name) for name in methods))
    return {module for module in found if _counts(module, package)}


def _described(package: str, begin: Iterable[str]) -> str:
    modules = _closure(package, {package, f"{package}.{SETTINGS}", *begin})
    return "".join(f"{module} {_digest(module, package)}\n" for module in sorted(modules))


def _closure(package: str, begin: Iterable[str]) -> set[str]:
    found: set[str] = set()
    waiting = [module for module in begin if _file(module)]
    while waiting:
        module = waiting.pop()
        if module in found:
            continue
        found.add(module)
        # The package imports what it draws and plans with as well: of its imports, those that its methods use count.
        if module != package and not _is_settings(module):
            waiting += [each for _, each in _names(module) if _counts(each, package)]
    return found


def _counts(module: str, package: str) -> bool:
    """Whether a module's code decides what a domain stores or learns."""
    shared = module.startswith("outofcore.domains.") and module.count(".") > 2
    within = module.startswith((f"{package}.", "outofcore.training.")) or shared
    return within and _file(module) is not None


def _is_settings(module: str) -> bool:
    return module.endswith(f".{SETTINGS}")


def _used_by(package: str, method: str) -> set[str]:
    """Modules whose names a method of a domain uses, by itself or through what is not of the interface of domains."""
    imported, defined = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    for name, module in _names(package):
        imported[name].add(module)
    for name, part in _definitions(_parsed(package)):
        walked = list(ast.walk(part))
        defined[name] |= {node.id for node in walked if isinstance(node, ast.Name)}
        defined[name] |= {node.attr for node in walked if isinstance(node, ast.Attribute)}
    used: set[str] = set()
    waiting = [method]
    while waiting:
        new = defined[waiting.pop()] - used
        used |= new
        waiting += [name for name in new if name in defined and not hasattr(Domain, name)]
    return set[str]().union(*(imported[name] for name in used if name in imported))


def _definitions(tree: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Functions, classes and values by the names that they have in a module or a class."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name, ast.Module(body=node.body, type_ignores=[])  # types of arguments load nothing
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name):
                    yield target.id, node.value
        elif not isinstance(node, ast.FunctionDef):
            yield from _definitions(node)


def _names(module: str) -> Iterator[tuple[str, str]]:
    """Names that a module's import statements bind, with their modules."""
    file = _file(module)
    parts = module.split(".") if file and file.name == "__init__.py" else module.split(".")[:-1]
    for node in ast.walk(_parsed(module)):
        if isinstance(node, ast.ImportFrom):
            above = parts[: len(parts) + 1 - node.level] if node.level else []
            origin = ".".join((*above, node.module) if node.module else above)
            for name in node.names:
                inner = f"{origin}.{name.name}"
                yield name.asname or name.name, inner if _file(inner) else origin
        elif isinstance(node, ast.Import):
            for name in node.names:
                yield name.asname or name.name.partition(".")[0], name.name


@cache
def _parsed(module: str) -> ast.Module:
    """The code of a module, without what is only imported for types, bare strings among them docstrings."""
    file = _file(module)
    try:
        tree = ast.parse(file.read_bytes() if file else b"")
    except SyntaxError as error:
        message = f"{file}, line {error.lineno}: {error.msg}"
        raise ParamsError(message) from error
    bare: ast.Module = _Bare().visit(tree)
    return bare


class _Bare(ast.NodeTransformer):
    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        """Leave out a string that nothing uses."""
        return None if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str) else node

    def visit_If(self, node: ast.If) -> ast.AST | None:
        """Leave out what only type checkers read."""
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return None
        return self.generic_visit(node)


@cache
def _digest(module: str, package: str) -> str:
    tree = _parsed(module)
    counted = _functions(tree) if _is_settings(module) else _domain(tree) if module == package else tree
    return digest_of(counted)


def digest_of(code: Any) -> str:
    """The digest of a syntax tree, or of lists of them: the same in every version of Python that can read the code."""
    return hashlib.sha256(repr(_plain(code)).encode()).hexdigest()[:16]


def _functions(tree: ast.Module) -> list[list[Any]]:
    """What a module computes, by class."""
    owners: list[Any] = [tree, *(each for each in ast.walk(tree) if isinstance(each, ast.ClassDef))]
    found = [
        [getattr(owner, "name", ""), *(each for each in owner.body if isinstance(each, ast.FunctionDef))]
        for owner in owners
    ]
    return [each for each in found if len(each) > 1]


def _domain(tree: ast.Module) -> ast.Module:
    """A domain's package without the methods of its class that are put aside."""
    body = list(tree.body)
    for place, node in enumerate(body):
        if isinstance(node, ast.ClassDef):
            body[place] = kept = copy.copy(node)
            kept.body = [each for each in node.body if not (isinstance(each, ast.FunctionDef) and each.name in ASIDE)]
    return ast.Module(body=body, type_ignores=[])


def _plain(node: Any) -> Any:
    """A syntax tree as tuples without places, and without what versions of Python differ in.

    These are empty fields, empty strings within f-strings, and which characters ``repr`` escapes.
    """
    if isinstance(node, ast.JoinedStr):
        node = ast.JoinedStr([each for each in node.values if getattr(each, "value", None) != ""])
    if isinstance(node, ast.AST):
        fields = ((name, _plain(value)) for name, value in ast.iter_fields(node))
        return type(node).__name__, *sorted((name, value) for name, value in fields if value not in (None, ()))
    if isinstance(node, list):
        return tuple(map(_plain, node))
    return ascii(node) if node is not None else None


@cache
def _file(module: str) -> Path | None:
    """The file of a module that no import is needed to find: of this package, or of one that is loaded."""
    first, *rest = module.split(".")
    if first == PACKAGE.name:
        place = PACKAGE.joinpath(*rest)
    elif first in sys.modules and (spec := find_spec(first)) and spec.submodule_search_locations:
        place = Path(next(iter(spec.submodule_search_locations))).joinpath(*rest)
    else:
        return None
    options = (place.with_suffix(".py"), place / "__init__.py")
    return next((each for each in options if each.is_file()), None)
