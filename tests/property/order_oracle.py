"""The order of samples as docs/order.md defines it: the code of that page, run."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

_PAGE = Path(__file__).parents[2] / "docs/order.md"
_BLOCKS = re.findall(r"^```python\n(.*?)^```", _PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
_names: dict[str, Any] = {}
exec(compile("\n".join(_BLOCKS), _PAGE, "exec"), _names)
page: Any = SimpleNamespace(**_names)
key, mix = page.key, page.mix


def epoch(
    begin: list[int],
    chunk_rows: int,
    block_chunks: int,
    pool_blocks: int,
    lanes: int,
    shuffle_by: str | bool,
    seed: int,
    number: int,
) -> list[int]:
    """All samples of an epoch in their order."""
    if shuffle_by == "full":
        return [page.fully_shuffled(position, len(begin), seed, number) for position in range(len(begin))]
    if shuffle_by is False:
        return list(range(len(begin)))
    pools = page.shuffled_pools(begin, chunk_rows, block_chunks, pool_blocks, lanes, seed, number)
    return [sample for pool in pools for sample in pool]
