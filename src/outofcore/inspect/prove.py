"""Check what a model records of its origin: code, settings, store, order of batches, raw files; or train it again."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any, Literal

from outofcore.conversion.growing import Entries
from outofcore.display.console import one_line_errors
from outofcore.display.table import DisplayTable, columns
from outofcore.domains.domain import Domain
from outofcore.domains.registry import get_domain
from outofcore.errors import OutOfCoreError, ParamsError, StateError, StoreError
from outofcore.inspect.diff import rejects_of
from outofcore.inspect.store import flat_params
from outofcore.models import load_model
from outofcore.order.batching import Steps
from outofcore.params import load_params, raw_settings
from outofcore.project.code import training_code
from outofcore.raw.files import find_files
from outofcore.settings.machine import load_machine
from outofcore.settings.yaml_text import parse_json, parse_yaml
from outofcore.store.opening import open_data, open_stores, stores_in
from outofcore.store.reader import Store
from outofcore.store.seal import SEAL
from outofcore.store.verify import verify
from outofcore.training import results
from outofcore.training.arithmetic import PORTABLE, with_arithmetic
from outofcore.training.loaders import training_batches
from outofcore.training.run import run

Verdict = Literal["holds", "differs", "not here"]

_SEALED, _ORDER, _FITTING = "as sealed", "order of batches", "of these settings"
_FEW = 6  # entries that are listed in one cell
_LONG = 500  # characters of a value that is shown by its digest
_UNBOUNDED = 1 << 62  # bytes: nothing is read


@dataclass(frozen=True)
class Claim:
    """One thing that a model, or its store, records, and what is found now."""

    what: str
    verdict: Verdict
    recorded: str
    now: str


@dataclass(frozen=True)
class Proof:
    """The content of ``outofcore prove``."""

    model: str  # SHA-256 of the file
    facts: dict[str, str]  # recorded, and not checked
    claims: tuple[Claim, ...]

    @property
    def holds(self) -> bool:
        """Whether nothing differs."""
        return all(claim.verdict != "differs" for claim in self.claims)

    @property
    def markdown(self) -> str:
        """The page to print or attach."""
        counts = Counter(claim.verdict for claim in self.claims)
        facts = DisplayTable(columns("text", "recorded", "value"), list(self.facts.items()))
        rows = [(claim.what, claim.verdict, claim.recorded, claim.now) for claim in self.claims]
        claims = DisplayTable(columns("text", "claim", "verdict", "recorded", "now"), rows)
        verdict = ", ".join(f"{name}: {number}" for name, number in sorted(counts.items()))
        title = f"# {self.facts['domain']} model {self.model[:16]}: {'proved' if self.holds else 'NOT proved'}"
        return f"{title}\n\n{verdict}\n\n{facts.markdown}\n{claims.markdown}"


def prove(
    path: Path, store: Store | str | Path | None = None, raw: str | Path | None = None, *, again: bool = False
) -> Proof:
    """Compare what a model records with the code here, a store, and raw files; ``again`` also trains it again.

    ``path`` is as for :func:`outofcore.load_model`, ``raw`` a file, a folder or a pattern as for
    :func:`outofcore.convert`.

    Raises StateError for a model of a version that recorded less, or one that cannot be trained again.
    """
    file = results.model_file(path)
    content = results.read_model(file)
    try:
        identity, record = parse_json(content["identity"]), parse_json(content["record"])
        name, steps, code, order = identity["domain"], int(content["step"]), record["code"], record["order"]
        domain, section, made_of = get_domain(name), results.section_of_identity(identity), _made_of(identity)
        settings, train = identity["attributes"]["params"] | identity["params"], identity["params"]["train"]
        facts = {key: _in_turn(record["processes"], key) for key in ("device", "ranks", "micro_batch")}
        code, order = code | {"code": code.get("code")}, flat_params(order)
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise StateError(f"{file}: expected a model that records its origin, got one of an earlier version") from error
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    facts = {"model.pt (sha256)": digest, "domain": name, "steps": f"{steps:,}"} | facts
    facts |= {key: str(train[key]) for key in ("seed", "epochs", "batch_size", "arithmetic", "skip") if key in train}
    now = training_code(domain, section)
    claims = _compare("version", code | {"code": None}, now | {"code": None})
    claims += _compare("code that trains (sha256)", {"": code["code"]}, {"": now["code"]})
    claims += _compare(
        "settings of the run",
        flat_params(identity["params"]),
        flat_params(results.settings_of_run(section)),
    )
    settings.pop("match")  # which files it chooses counts, as does where they are
    claims += _compare("params.yaml", flat_params(settings), _written(results.run_folder(file), name, settings))
    claims += _compare("weights", {"": _FITTING}, _weights(file))
    problems, store = _opened(store)
    if store and store.domain != name:
        raise StateError(f"{store.root}: expected a store of {name}, as the model's was, got one of {store.domain}")
    here = _made_of(results.identity_of(store, section)) if store else {}
    for what, values in made_of.items():
        claims += _compare(what, values, here.get(what))
    claims += _compare(
        "bytes of the store", {"": _SEALED}, None if problems is None else {"": (problems or [_SEALED])[0]}
    )
    trained = any(identity["attributes"]["rows"].values())  # from a store: the order of a stream is not repeated
    claims += _compare(_ORDER, order, _order(domain, section, store, steps, record) if store and trained else None)
    claims += [*_of_rejects(store), *_of_raw(domain, section, store, raw)]
    if again:
        claims.append(_again(file, digest, name, section, record, store))
    return Proof(digest, facts, tuple(claims))


def _compare(what: str, recorded: Mapping[str, Any], now: Mapping[str, Any] | None) -> list[Claim]:
    """One claim if all values are equal or there are none to compare with, else one for each that differs."""
    entries = [f"{name} {_shown(value)}".strip() for name, value in recorded.items() if value is not None]
    summary = (", ".join(entries) or "none") if len(entries) <= _FEW else f"{len(entries):,} entries"
    if now is None:
        return [Claim(what, "not here", summary, "-")]
    differ = [name for name in sorted({**recorded, **now}) if recorded.get(name) != now.get(name)]
    sides = ((name, *(_shown(side.get(name, "-")) for side in (recorded, now))) for name in differ)
    return [Claim(f"{what}: {name}".rstrip(": "), "differs", *pair) for name, *pair in sides] or [
        Claim(what, "holds", summary, "the same")
    ]


def _shown(value: Any) -> str:
    text = str(value)
    return text if len(text) <= _LONG else f"{hashlib.sha256(text.encode()).hexdigest()} (sha256)"


def _in_turn(processes: Sequence[Mapping[str, Any]], key: str) -> str:
    """A fact of the processes that trained, with the steps up to which it held where it changed."""
    changes = [pair for pair in pairwise(processes) if pair[0][key] != pair[1][key]]
    return ", ".join([*(f"{one[key]} up to step {after['step']:,}" for one, after in changes), str(processes[-1][key])])


def _made_of(identity: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What a model records of its store, by claim."""
    attributes = dict(identity["attributes"])
    claims = {
        "store (digest)": {"": identity["store"]},
        "settings of the store": flat_params(attributes.pop("params")),
        "rows of the store": attributes.pop("rows"),
        "sequences of the store": attributes.pop("sequences"),
        "records": {name: attributes.pop(name) for name in ("found", "accepted")},
        "rejected records": attributes.pop("rejected"),
        "attributes of the store": flat_params(attributes),
        "attributes of its parts": flat_params(identity["parts"]),
        "raw input as the store lists it": {"": identity["raw"]},
    }
    return {what: dict(values) for what, values in claims.items()}


def _written(project: Path | None, name: str, settings: Mapping[str, Any]) -> dict[str, Any] | None:
    """These settings in the ``params.yaml`` of a project; None for a file that has no section of the domain."""
    path = project / "params.yaml" if project else Path()
    try:
        if name not in dict(parse_yaml(path.read_text("utf-8"))):
            return None
    except (OSError, ValueError, TypeError):
        return None
    try:
        section = load_params(path).section(name)
    except ParamsError as error:
        return {"": str(error)}
    return flat_params(section.model_dump(mode="json", include=set(settings)))


def _weights(file: Path) -> dict[str, str] | None:
    """Whether the weights are those of a model of the recorded settings."""
    try:
        load_model(file)
    except StateError as error:
        return {"": str(error)}
    except ParamsError:  # a domain that makes no task without a store
        return None
    return {"": _FITTING}


def _opened(store: Store | str | Path | None) -> tuple[list[str] | None, Store | None]:
    """What is wrong with the bytes of a store, None without one; and the store, unless anything is.

    Raises StoreError if there is no store.
    """
    if store is None:
        return None, None
    root = store.root if isinstance(store, Store) else store
    problems = [problem for one in stores_in(root) or (root,) for problem in verify(one).problems]
    if problems and Path(root, SEAL).is_file():
        return problems, None
    opened = store if isinstance(store, Store) else open_stores(store)
    return problems, None if problems else opened


def _order(domain: Domain, section: Any, store: Store, steps: int, record: Mapping[str, Any]) -> dict[str, Any]:
    """The order of so many steps of a training on a store here, with these settings."""
    try:
        with training_batches(domain, section, store, _UNBOUNDED, record["processes"][-1]["ranks"]) as batches:
            return flat_params(results.order_of(batches, steps, Steps("train.skip", section.train.skip)))
    except OutOfCoreError as error:
        return {"": str(error)}


def _of_rejects(store: Store | None) -> list[Claim]:
    """The rejected records as they are listed next to a store, by reason and by raw file."""
    by_reason, by_file = "rejects as listed", "rejects of each raw file"
    try:
        listed = rejects_of(store) if store else None
    except StoreError as error:
        return _compare(by_reason, {"": "a list"}, {"": str(error)})
    if store is None or listed is None:
        return [Claim(what, "not here", "-", "-") for what in (by_reason, by_file)]
    rejected = Counter[str]()
    for name, count in zip(*(store.sources[column].read().tolist() for column in ("name", "rejected")), strict=True):
        rejected[name] += count
    above = ((file, *map(str, PurePosixPath(file).parents)) for file, _, _ in listed)  # an archive's name is recorded
    files = Counter(next((name for name in paths if name in rejected), paths[0]) for paths in above)
    reasons = Counter(reason for _, _, reason in listed)
    return _compare(by_reason, store.attributes["rejected"], reasons) + _compare(by_file, +rejected, files)


def _of_raw(domain: Domain, section: Any, store: Store | None, raw: str | Path | None) -> list[Claim]:
    """The raw files, each by its SHA-256; those of a folder may be deeper in it than in that of the conversion."""
    if store is None or raw is None:
        return [Claim("raw files", "not here", "-", "-")]
    names, digests = (store.sources[name].read().tolist() for name in ("name", "digest"))
    recorded = list(zip(names, digests, strict=True))
    for entry in Entries(Path(store.root)).records.values():
        recorded += () if entry["figures"]["accepted"] else entry.get("files", {}).items()  # it has no store
    chosen = raw_settings(raw, {})
    files = find_files(chosen["raw"], chosen.get("match", section.match), domain.suffixes, section=domain.name)
    known = {name for name, _ in recorded}
    parts = {file.name: file.name.split("/") for file in files}
    ends = {name: ["/".join(steps[depth:]) for depth in range(len(steps))] for name, steps in parts.items()}
    here = [(next((end for end in ends[file.name] if end in known), file.name), file.digest()) for file in files]
    return _compare("raw files", _by_name(recorded), _by_name(here))


def _by_name(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Digests by name, of which files of several stores may have one."""
    return {name: ", ".join(digest for _, digest in those) for name, those in groupby(sorted(pairs), itemgetter(0))}


def _again(file: Path, digest: str, name: str, section: Any, record: Mapping[str, Any], store: Store | None) -> Claim:
    """Train in another process as the model was trained, and compare ``model.pt`` byte for byte."""
    several = any(process["ranks"] != 1 for process in record["processes"])
    if section.train.arithmetic != "portable" or several or store is None:
        raise StateError(f"{file}: --again needs STORE, and a model of train.arithmetic: portable, trained on one rank")
    if not any(store.attributes["rows"].values()):
        raise StateError(
            f"{file}: --again needs a model of rows of a store, this one read raw files (mode: stream); "
            "in its project, 'dvc repro -f -s train@text' trains it again"
        )
    with TemporaryDirectory() as out:
        code = f"import sys; from {__name__} import train_as; train_as(*sys.argv[1:])"
        command = [sys.executable, "-c", code, str(file), str(store.root), out]
        ended = subprocess.run(command, env=os.environ | PORTABLE, check=False, stdout=subprocess.DEVNULL)  # noqa: S603 - our own command
        if ended.returncode:
            raise StateError(f"{file}: could not be trained again (exit code {ended.returncode}); the reason is above")
        now = hashlib.sha256(Path(out, "models", name, results.MODEL).read_bytes()).hexdigest()
    return Claim("model.pt, trained again (sha256)", "holds" if now == digest else "differs", digest, now)


def train_as(model: str, store: str, out: str) -> None:
    """Train on a store as a model was trained, with its micro-batches, in a process of :data:`PORTABLE`."""
    with one_line_errors(resumes=False):
        content = results.read_model(Path(model))
        identity, processes = parse_json(content["identity"]), parse_json(content["record"])["processes"]
        domain, section = get_domain(identity["domain"]), results.section_of_identity(identity)
        machine = with_arithmetic(load_machine(), section.train.arithmetic)
        run(domain, section, open_data(store), machine, Path(out), processes=processes)
