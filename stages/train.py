"""Train a domain's model on its store, or straight from its raw files: ``python stages/train.py chess``."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from outofcore.display.console import one_line_errors, stopped_at_once

with stopped_at_once():
    from outofcore.domains.registry import get_domain
    from outofcore.params import load_params
    from outofcore.pipeline import check_evaluated, open_result
    from outofcore.settings.machine import load_machine
    from outofcore.space.dvc_cache import find_cache
    from outofcore.space.forecast import training_needs
    from outofcore.space.guard import KEPT_CHECKPOINT, Guard
    from outofcore.space.links import commit_of
    from outofcore.system.extras import load
    from outofcore.system.importing import large_imports
    from outofcore.training.arithmetic import with_arithmetic

MOST_LINES = 12


def main(name: str) -> None:
    section, machine, domain = load_params().section(name), load_machine(), get_domain(name)
    machine = with_arithmetic(machine, section.train.arithmetic)
    store = open_result(domain, section)
    if not domain.streamed(section):
        domain.check_trainable(section, store)
    check_evaluated(domain, section, store)  # a store that evaluate would refuse is refused before the training
    tell(f"{name}: training on {store.root}", *filter(None, [machine.share]))
    with large_imports():  # which take seconds
        import torch

        load("dvclive", "project", "training")
        from outofcore.report.words import told
        from outofcore.training.loaders import open_loaders, open_streams
        from outofcore.training.loop import fit
        from outofcore.training.ranks import choose_device, meet
        from outofcore.training.results import identity_of, saved_bytes, split_digest

    device = choose_device(machine.device)
    ranks = meet(device)  # before the task is made, whose notes come from the first rank
    tell(f"{name}: device {device}")
    if section.train.arithmetic == "portable":
        tell(f"{name}: {name}.train.arithmetic is portable: one thread on the CPU; native uses the whole machine")
        torch.set_num_threads(1)
    torch.manual_seed(section.train.seed)
    task = domain.task(store, section)
    model, cache = Path("models") / name, find_cache()
    guard = Guard(name, machine.disk_margin, machine.disk_reserve, KEPT_CHECKPOINT)
    commit = commit_of(model, cache) if cache else None
    guard.require(training_needs(model, Path("plots") / name, *saved_bytes(task, section.train.optimizer), commit))
    streamed = domain.streamed(section)
    if streamed:
        train, val = open_streams(domain, section, store, machine, device)
        task.tally = val.tally
    else:
        reading = domain.reading(store.attributes, section)
        train, val = open_loaders(
            store,
            task,
            reading,
            section.train,
            memory=machine.memory,
            residency=machine.residency,
            device=device,
            threads=machine.workers,
        )
        tell(*train.notes, *val.notes)
    if not ranks.rank:
        (Path("metrics") / name / "test.json").unlink(missing_ok=True)  # of another model
    with guard.writing(model):
        figures = fit(
            task,
            train,
            val,
            section.train,
            name=name,
            out=Path(),
            identity=identity_of(store, section),
            device=str(device),
            micro_batch=machine.micro_batch,
            threads=machine.workers,
            facts={"val_digest": split_digest(store, "val")},
        )
    if ranks.rank:
        return
    print(*told(figures), f"metrics/{name}/train.json has all figures; 'python stages/report.py' draws them", sep="\n")
    if streamed:
        read = json.dumps(train.tally.figures(), indent=2)
        (Path("metrics") / name / "stream_run.json").write_text(read + "\n")


def tell(*lines: str) -> None:
    """Print the first lines, of which recordings of many sessions have many, on the first rank."""
    if os.environ.get("RANK", "0") == "0":
        more = [f"and {len(lines) - MOST_LINES:,} lines more"] if len(lines) > MOST_LINES else []
        print(*lines[:MOST_LINES], *more, sep="\n", flush=True)


if __name__ == "__main__":
    with one_line_errors():
        main(sys.argv[1])
