"""The ranks of ``ranks_run`` as torchrun starts them, forked after all was imported: ``STORE OUT RANKS:KILLED_IN``.

Several runs, one after the other, need the imports once.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch._dynamo  # which DistributedDataParallel imports, in seconds
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from tests.training.ranks_run import train_ranks

__all__ = ["torch"]


def main(store: Path, out: Path, ranks: int, killed_in: int) -> None:
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=ranks,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        max_restarts=0,
        start_method="fork",
    )
    end = "ended"
    try:
        elastic_launch(config, train_ranks)(store, out, killed_in)
    except ChildFailedError as error:
        end = "failed"
        sys.stderr.write(f"{error}\n")
    print(f"{ranks} ranks {end} {'with' if (out / 'metrics').exists() else 'without'} figures", flush=True)


if __name__ == "__main__":
    for number in sys.argv[3:]:
        main(Path(sys.argv[1]), Path(sys.argv[2]), *map(int, number.split(":")))
