"""Models as training leaves them, made of random weights or by a few steps."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Mapping
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

import torch
import yaml

from outofcore.domains.registry import get_domain
from outofcore.settings.machine import Machine
from outofcore.store.reader import open_store
from outofcore.training.loaders import open_loaders
from outofcore.training.loop import fit
from outofcore.training.results import identity_of, write_model
from tests.samples import ROOT

DOMAINS = ("chess", "go", "neural", "text")
GAMES = """[Event "one"]
[Result "1-0"]

1. e4 e5 2. Nf3 Nc6 3. Bc4 Bc5 4. O-O Nf6 1-0

[Event "illegal"]
[Result "1-0"]

1. e4 e5 2. Ke3 1-0

[Event "two"]
[Result "0-1"]

1. f3 e5 2. g4 Qh4# 0-1

[Event "one again"]
[Result "1-0"]

1. e4 e5 2. Nf3 Nc6 3. Bc4 Bc5 4. O-O Nf6 1-0
"""


def section_of(name: str, **settings: Mapping[str, Any]) -> Any:
    """The section of a domain as this repository has it, with other settings."""
    content = yaml.safe_load((ROOT / "params.yaml").read_text())[name]
    merged = {key: {**content[key], **values} for key, values in settings.items()}
    return get_domain(name).section.model_validate({**content, **merged})


def write_random(project: Path, name: str, out: Path, **settings: Mapping[str, Any]) -> Path:
    """A model of random weights for a store of the project."""
    store, section = open_store(project / f"data/stores/{name}.zarr"), section_of(name, **settings)
    torch.manual_seed(5)
    task = get_domain(name).task(store, section)
    for parameter in task.parameters():  # some layers begin at zero, and every answer would be the same
        torch.nn.init.normal_(parameter, std=0.2)
    write_model(out, task.eval(), json.dumps(identity_of(store, section), sort_keys=True), 0)
    return out


def copy_trained(project: Path, name: str, folder: Path) -> dict[str, Any]:
    """A copy of a store of the project and of a model trained on it, once, for a few steps; returns ``train.json``."""
    trained = project.with_name("trained") / name
    if not trained.exists():
        shutil.copytree(project / f"data/stores/{name}.zarr", trained / f"data/stores/{name}.zarr")
        with redirect_stderr(io.StringIO()):  # a test that reads it must not depend on which one comes first
            train(trained, name)
    shutil.copytree(trained, folder, dirs_exist_ok=True)
    figures: dict[str, Any] = json.loads((folder / f"metrics/{name}/train.json").read_text())
    return figures


def train(folder: Path, name: str) -> None:
    """Train a few steps on the store in a folder."""
    store = open_store(folder / f"data/stores/{name}.zarr")
    section = section_of(name, train={"max_steps": 4})
    torch.manual_seed(section.train.seed)
    task = get_domain(name).task(store, section)
    reading = get_domain(name).reading(store.attributes, section)
    cpu = torch.device("cpu")
    both = open_loaders(store, task, reading, section.train, Machine(memory=1 << 28), cpu)
    identity = identity_of(store, section)
    fit(task, *both, section.train, name=name, out=folder, identity=identity, device="cpu")
