"""Read the test split once with a domain's trained model: ``python stages/evaluate.py chess``."""

from __future__ import annotations

import sys
from pathlib import Path

from outofcore.display.console import one_line_errors, stopped_at_once

with stopped_at_once():
    from outofcore.domains.registry import get_domain
    from outofcore.params import load_params
    from outofcore.pipeline import open_evaluated, open_result
    from outofcore.settings.machine import load_machine
    from outofcore.system.importing import large_imports
    from outofcore.training.arithmetic import with_arithmetic

SPLIT = "test"


def main(name: str) -> None:
    section, machine, domain = load_params().section(name), load_machine(), get_domain(name)
    machine = with_arithmetic(machine, section.train.arithmetic)
    store = open_result(domain)
    fixed = open_evaluated(domain, section, store)
    print(f"{name}: evaluating models/{name} on the {SPLIT} split of {fixed.root}", flush=True)
    with large_imports():  # which take seconds
        import torch

        from outofcore.report.words import figure_lines
        from outofcore.training.evaluation import evaluate
        from outofcore.training.loaders import open_split, open_streams
        from outofcore.training.ranks import choose_device
        from outofcore.training.results import load_weights, model_digest, split_digest, write_metrics

    device = choose_device(machine.device)
    torch.set_num_threads(machine.workers)
    counts = [len(fixed.sequences(SPLIT, part)) for part in fixed.parts]
    figures = {}
    if sum(counts) or domain.streamed(section):
        task = domain.task(store, section, fixed, SPLIT)
        load_weights(task, Path("models") / name)
        if domain.streamed(section):
            (batches,) = open_streams(domain, section, store, machine, device, (SPLIT,))
            task.tally = batches.tally
            counts = [len(batches)]
        else:
            batches = open_split(
                fixed,
                task,
                domain.reading(store.attributes, section),
                section.train,
                SPLIT,
                shuffle=False,
                memory=machine.memory,
                residency=machine.residency,
                device=device,
                threads=machine.workers,
                columns=("sequence",),
            )
        mixed = section.train.precision == "bf16-mixed"
        figures = evaluate(task.to(device), batches, counts, micro_batch=machine.micro_batch, mixed=mixed)
    if not figures:
        print(f"the {SPLIT} split of {fixed.root} gives no sample: convert it with a larger {name}.splits.{SPLIT}")
    sequences = {} if domain.streamed(section) else {"sequences": sum(counts)}
    facts = {"test_digest": split_digest(fixed, SPLIT), "model": model_digest(task.state_dict())} if figures else {}
    write_metrics(Path("metrics") / name, test=figures | sequences | facts)
    print(
        *figure_lines(figures, compared=True),
        f"metrics/{name}/test.json has all figures of the {SPLIT} split",
        sep="\n",
    )


if __name__ == "__main__":
    with one_line_errors(resumes=False):
        main(sys.argv[1])
