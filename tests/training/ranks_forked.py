"""The ranks of ``ranks_run`` as torchrun starts them, forked after all was imported: ``STORE OUT RANKS:KILLED_IN``.

Several runs, one after the other, need the imports once; ``apart`` is two ranks that do not see each other's files.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch._dynamo  # which DistributedDataParallel imports, in seconds
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from outofcore.errors import StateError
from outofcore.training.checkpoint import Checkpoint, Progress, Saver
from outofcore.training.optimizers import make_optimizer
from outofcore.training.ranks import meet
from tests.training.ranks_run import train_ranks
from tests.training.small import WeightedRegression

__all__ = ["torch"]


def apart(out: Path) -> None:
    """Two ranks with a folder each, of which the first has a checkpoint; notes what each is answered."""
    rank = meet(torch.device("cpu")).rank
    task = WeightedRegression()
    optimizer = make_optimizer(task, "adamw", learning_rate=1e-3, weight_decay=0)
    path = out / str(rank) / "toy.partial/checkpoint.pt"
    if rank == 0:
        Checkpoint("toy", {}, task.state_dict(), optimizer.state_dict(), Progress(step=7)).save(path)
    torch.distributed.barrier()
    try:
        answer = str(Saver(path, "toy", {}, 0).resume(task, optimizer).step)
    except StateError as error:
        answer = str(error)
    (out / f"apart.{rank}").write_text(answer)


def launch(ranks: int, program: Callable[..., Any], *arguments: object) -> str:
    """How they ended."""
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=ranks,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        max_restarts=0,
        start_method="fork",
    )
    try:
        elastic_launch(config, program)(*arguments)
    except ChildFailedError as error:
        sys.stderr.write(f"{error}\n")
        return "failed"
    return "ended"


def main(store: Path, out: Path, *runs: str) -> None:
    for run in runs:
        if run == "apart":
            print(f"2 ranks apart {launch(2, apart, out)}", flush=True)
            continue
        ranks, killed_in = map(int, run.split(":"))
        end = launch(ranks, train_ranks, store, out, killed_in)
        print(f"{ranks} ranks {end} {'with' if (out / 'metrics').exists() else 'without'} figures", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:])
