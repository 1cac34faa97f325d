"""Train a domain's model on its store: ``python stages/train.py chess``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import cast

import torch

from outofcore.console import one_line_errors
from outofcore.domains.registry import get_domain
from outofcore.loading.residency.choose import Kind
from outofcore.machine import load_machine
from outofcore.params import load_params
from outofcore.store.reader import open_store
from outofcore.training.device import choose_device
from outofcore.training.fit import fit
from outofcore.training.loaders import open_loaders


def main(name: str) -> None:
    section, machine, domain = load_params().section(name), load_machine(), get_domain(name)
    store, device = open_store(f"data/stores/{name}.zarr"), choose_device(machine.device)
    torch.manual_seed(section.train.seed)
    task = domain.task(store, section)
    reading = domain.reading(store.attributes, section)
    residency = cast("Kind", machine.residency)
    train, val = open_loaders(
        store, task, reading, section.train, memory=machine.memory, residency=residency, device=device
    )
    identity = {"store": store.digest, "params": section.model_dump(mode="json")}
    fit(
        task,
        train,
        val,
        section.train,
        name=name,
        out=Path(),
        identity=identity,
        device=str(device),
        micro_batch=machine.micro_batch,
        threads=machine.workers,
    )


if __name__ == "__main__":
    with one_line_errors():
        main(sys.argv[1])
