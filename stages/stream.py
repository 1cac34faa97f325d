"""Train a text model straight from raw text, storing nothing (text.mode: stream): ``python stages/stream.py``."""

from __future__ import annotations

from pathlib import Path

import torch

from outofcore.console import one_line_errors
from outofcore.convert.splits import SPLITS, assign
from outofcore.domains.text import DOMAIN
from outofcore.domains.text.documents.hub import open_raw
from outofcore.domains.text.model import make_task
from outofcore.domains.text.schema import attributes
from outofcore.domains.text.stream.stream import TextStream
from outofcore.domains.text.tensors import make_reading
from outofcore.domains.text.tokens.tokenizer import load_tokenizer
from outofcore.errors import ParamsError
from outofcore.machine import load_machine
from outofcore.params import load_params
from outofcore.training.device import choose_device
from outofcore.training.fit import fit


def main() -> None:
    section, machine = load_params().section(DOMAIN.name), load_machine()
    if section.mode != "stream":
        message = f"text.mode: expected stream, got {section.mode!r}; train on the store with stages/train.py"
        raise ParamsError(message)
    settings, device = section.train, choose_device(machine.device)
    files = open_raw(section)
    facts = attributes(load_tokenizer(section))
    torch.manual_seed(settings.seed)
    task = make_task(facts, section)

    def open_stream(split: str, samples: int | None) -> TextStream:
        return TextStream(
            files,
            section,
            make_reading(facts, section),
            lambda keys: assign(keys, section.splits) == SPLITS.index(split),
            batch_size=settings.batch_size,
            samples=samples,
            repeat=split == "train",
            memory=machine.memory // 2,
            threads=machine.workers,
            seed=settings.seed,
            shuffle=split == "train",
            device=device,
        )

    train, val = open_stream("train", section.stream.max_examples), open_stream("val", section.stream.val_examples)
    identity = {"stream": train.identity, "params": section.model_dump(mode="json")}
    fit(
        task,
        train,
        val,
        settings,
        name=DOMAIN.name,
        out=Path(),
        identity=identity,
        device=str(device),
        micro_batch=machine.micro_batch,
        threads=machine.workers,
    )


if __name__ == "__main__":
    with one_line_errors():
        main()
