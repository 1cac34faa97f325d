"""Train a domain's model on its store: ``python stages/train.py chess``."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from outofcore.console import one_line_errors
from outofcore.domains.registry import get_domain
from outofcore.loading.build import loader
from outofcore.machine import load_machine
from outofcore.params import load_params
from outofcore.store.reader import open_store
from outofcore.training.device import choose_device
from outofcore.training.fit import fit


def main(name: str) -> None:
    section, machine, domain = load_params().section(name), load_machine(), get_domain(name)
    store, settings, device = (
        open_store(f"data/stores/{name}.zarr"),
        section.train,
        choose_device(machine.device),
    )
    torch.manual_seed(settings.seed)
    task = domain.task(store, section)
    readings = task.readings(domain.reading(store.attributes, section), device)
    train, val = (
        loader(
            store,
            split,
            settings.batch_size,
            shuffle=split == "train",
            seed=settings.seed,
            pool_blocks=settings.pool_blocks,
            tensors=reading,
            memory=machine.memory // 2,
            residency=machine.residency,  # type: ignore[arg-type] # one of them, says load_machine
            device=device,
            **task.loader_options(),
        )
        for split, reading in zip(("train", "val"), readings, strict=True)
    )
    fit(
        task,
        train,
        val,
        settings,
        name=name,
        out=Path(),
        identity={"store": store.digest, "params": section.model_dump(mode="json")},
        device=str(device),
        micro_batch=machine.micro_batch,
    )


if __name__ == "__main__":
    with one_line_errors():
        main(sys.argv[1])
