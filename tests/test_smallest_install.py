"""What works without the packages of any domain: stores of arrays, any Zarr, and what ``info`` says of them."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import numpy as np

from outofcore.domains.registry import DOMAINS, get_domain
from tests.processes import run_program

PROGRAM = """
import sys

sys.modules |= dict.fromkeys(sys.argv[1:])  # no such packages
import numpy as np, zarr
import outofcore
from outofcore.cli import app

values = np.arange(6000).reshape(1000, 6)
zarr.create_array("other.zarr", data=values, chunks=(100, 6))
outofcore.write_store("mine.zarr", {"x": values}, splits={})
for store in "other.zarr", "mine.zarr":
    rows = np.concatenate([next(iter(batch.values())) for batch in outofcore.loader(store, "train", 64)])
    assert (np.sort(rows.ravel()) == np.arange(6000)).all()
    app(["info", store], standalone_mode=False)
try:
    app(["info", "monday.npz"], standalone_mode=False)
except SystemExit as ended:
    sys.exit(f"code {ended.code}")
"""


def test_arrays_and_any_zarr_need_no_package_of_a_domain(tmp_path: Path) -> None:
    packages = {*chain.from_iterable(get_domain(name).packages for name in DOMAINS)}
    np.savez(tmp_path / "monday.npz", robs=np.zeros((40, 3)))
    run = run_program(PROGRAM, *packages, folder=tmp_path)
    assert "outofcore.write_store('monday.zarr'" in run.stderr
    assert run.stderr.endswith("code 2\n")
