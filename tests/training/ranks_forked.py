"""The ranks of ``ranks_run`` as torchrun starts them, forked after all was imported: ``RANKS STORE OUT KILLED_IN``."""

from __future__ import annotations

import sys
from pathlib import Path

import torch._dynamo  # which every optimizer imports, in seconds
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from tests.training.ranks_run import train_ranks

__all__ = ["torch"]


def main(ranks: int, store: Path, out: Path, killed_in: int) -> None:
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=ranks,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        max_restarts=0,
        start_method="fork",
    )
    elastic_launch(config, train_ranks)(store, out, killed_in)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
