"""Check what a model records of its origin: code, settings, store, order of batches, raw files; or train it again."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import yaml

from outofcore.conversion.growing import Entries
from outofcore.display.table import DisplayTable, columns
from outofcore.domains.domain import Domain
from outofcore.domains.registry import get_domain
from outofcore.errors import OutOfCoreError, StateError
from outofcore.inspect.diff import rejects_of
from outofcore.inspect.store import flat_params
from outofcore.models import model_file, read_model
from outofcore.params import load_params
from outofcore.project.code import training_code
from outofcore.project.entries import by_entry
from outofcore.raw.files import find_files
from outofcore.settings.machine import load_machine
from outofcore.store.opening import stores_in
from outofcore.store.reader import Store
from outofcore.store.verify import verify
from outofcore.system.durable import replace_text
from outofcore.training.arithmetic import PORTABLE
from outofcore.training.loaders import training_batches
from outofcore.training.results import MODEL, order_of, raw_digest

Verdict = Literal["holds", "differs", "not here"]

_SEALED, _ORDER = "as sealed", "order of batches"
_FEW = 6  # entries that are listed in one cell


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


def prove(path: Path, store: Store | None = None, raw: Path | None = None, *, again: bool = False) -> Proof:
    """Compare what a model records with the code here, a store, and raw files; ``again`` also trains it again.

    ``path`` is as for :func:`outofcore.load_model`.

    Raises StateError for a model of a version that recorded less, or one that cannot be trained again.
    """
    file = model_file(path)
    content = read_model(file)
    try:
        identity, record = json.loads(content["identity"]), json.loads(content["record"])
        name, params, steps = identity["domain"], identity["params"], int(content["step"])
        train, code, order = dict(params["train"]), dict(record["code"]), dict(flat_params(record["order"]))
        recorded = _recorded(identity["attributes"], identity["store"], identity["raw"])
        in_store = bool(record["order"]["layout"])
        facts = {key: str(record[key]) for key in ("device", "ranks", "micro_batch")}
        domain = get_domain(name)
        section: Any = domain.section.model_validate({**params, "raw": "."})
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise StateError(f"{file}: expected a model that records its origin, got one of an earlier version") from error
    if store and store.domain != name:
        raise StateError(f"{store.root}: expected a store of {name}, as the model's was, got one of {store.domain}")
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    facts = {"model.pt (sha256)": digest, "domain": name, "steps": f"{steps:,}"} | facts
    facts |= {key: str(train[key]) for key in ("seed", "epochs", "batch_size", "arithmetic", "skip") if key in train}
    now = training_code(domain)
    claims = _compare("version", code | {"code": None}, now | {"code": None})
    claims += _compare("code that trains (sha256)", {"": code.get("code")}, {"": now["code"]})
    stated = file.absolute().parents[2] / "params.yaml"  # of the project, if it is one
    project = load_params(stated).section(name) if stated.is_file() else None
    written = project and dict(flat_params(project.model_dump(mode="json", exclude={"audit", "raw"})))
    own = {setting: value for setting, value in params.items() if setting != "raw"}  # where raw files are is no claim
    claims += _compare("params.yaml", dict(flat_params(own)), written)
    recorded |= {"bytes of the store": {"": _SEALED}, "rejects as listed": recorded["rejected records"]}
    here = _here(domain, section, store, steps if in_store else None) if store else {}
    for what, values in (recorded | {_ORDER: order}).items():
        claims += _compare(what, values, here.get(what))
    claims += _of_raw(domain, section, store, raw)
    if again:
        claims.append(_again(file, digest, name, params, record, store))
    return Proof(digest, facts, tuple(claims))


def _compare(what: str, recorded: Mapping[str, Any], now: Mapping[str, Any] | None) -> list[Claim]:
    """One claim if all values are equal or there are none to compare with, else one for each that differs."""
    entries = [f"{name} {value}".strip() for name, value in recorded.items() if value is not None]
    summary = (", ".join(entries) or "none") if len(entries) <= _FEW else f"{len(entries):,} entries"
    if now is None:
        return [Claim(what, "not here", summary, "-")]
    differ = [name for name in sorted({**recorded, **now}) if recorded.get(name) != now.get(name)]
    sides = ((name, *(str(side.get(name, "-")) for side in (recorded, now))) for name in differ)
    return [Claim(f"{what}: {name}".rstrip(": "), "differs", *pair) for name, *pair in sides] or [
        Claim(what, "holds", summary, "the same")
    ]


def _recorded(attributes: Mapping[str, Any], digest: str, raw: str) -> dict[str, dict[str, Any]]:
    """What a model records of its store."""
    return {
        "store (digest)": {"": digest},
        "settings of the store": dict(flat_params(attributes["params"])),
        "rows of the store": attributes["rows"],
        "sequences of the store": attributes["sequences"],
        "records": {name: attributes[name] for name in ("found", "accepted")},
        "rejected records": attributes["rejected"],
        "raw input as the store lists it": {"": raw},
    }


def _here(domain: Domain, section: Any, store: Store, steps: int | None) -> dict[str, dict[str, Any] | None]:
    """The same of a store here, its bytes, the rejects that are listed, and the order of so many steps on it.

    ``steps`` None is for a training directly from raw files, whose order no store has.
    """
    problems = [problem for one in (stores_in(store.root) or (store.root,)) for problem in verify(one).problems]
    listed = None
    if (rejects := rejects_of(store)) is not None:
        listed = dict(Counter(reason for _, _, reason in rejects))
    try:
        order = None if steps is None else _order(domain, section, store, steps)
    except OutOfCoreError as error:
        order = {"": str(error)}
    checked = {"bytes of the store": {"": (problems or [_SEALED])[0]}, "rejects as listed": listed, _ORDER: order}
    return _recorded(store.attributes, store.digest, raw_digest(store)) | checked


def _order(domain: Domain, section: Any, store: Store, steps: int) -> dict[str, Any]:
    """The order of a training on a store here, with these settings."""
    with training_batches(domain, section, store, load_machine().memory) as batches:
        return dict(flat_params(order_of(batches, steps)))


def _of_raw(domain: Domain, section: Any, store: Store | None, raw: Path | None) -> list[Claim]:
    """The raw files, each by its SHA-256."""
    if store is None or raw is None:
        return [Claim("raw files", "not here", "-", "-")]
    names, digests = (store.sources[name].read().tolist() for name in ("name", "digest"))
    files = find_files(raw, section.match, domain.suffixes, section=domain.name)
    # Entries of which nothing is accepted have no store.
    if empty := {name for name, own in Entries(Path(store.root)).records.items() if not own["figures"]["accepted"]}:
        files = [file for name, own in by_entry(files, domain.suffixes).items() if name not in empty for file in own]
    return _compare("raw files", dict(zip(names, digests, strict=True)), {file.name: file.digest() for file in files})


def _again(file: Path, digest: str, name: str, params: Any, record: Mapping[str, Any], store: Store | None) -> Claim:
    """Train in another process as the model was trained, and compare ``model.pt`` byte for byte."""
    if params["train"]["arithmetic"] != "portable" or record["ranks"] != 1 or store is None:
        raise StateError(f"{file}: --again needs STORE, and a model of train.arithmetic: portable, trained on one rank")
    with TemporaryDirectory() as folder:
        settings, out = Path(folder, "params.yaml"), Path(folder, "run")
        replace_text(settings, yaml.safe_dump({name: params}))
        command = [sys.executable, "-m", "outofcore", "train", str(store.root), str(out), "--params", str(settings)]
        environment = os.environ | PORTABLE | {"OUTOFCORE_MICRO_BATCH": str(record["micro_batch"])}
        ended = subprocess.run([*command, "--device", "cpu"], env=environment, check=False, stdout=subprocess.DEVNULL)  # noqa: S603 - our own command
        if ended.returncode:
            raise StateError(f"{file}: could not be trained again (exit code {ended.returncode}); the reason is above")
        now = hashlib.sha256((out / "models" / name / MODEL).read_bytes()).hexdigest()
    return Claim("model.pt, trained again (sha256)", "holds" if now == digest else "differs", digest, now)
