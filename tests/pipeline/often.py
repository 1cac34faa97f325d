"""A stage that saves its state more often than it would: ``python -m tests.pipeline.often SECONDS STAGE DOMAIN``."""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

from outofcore.training.arithmetic import PORTABLE

os.environ.update(PORTABLE)  # which a stage sets before it imports torch, and the loop imports it here

from outofcore.conversion.run import Conversion
from outofcore.training.loop import fit

STAGES = Path(__file__).parents[2] / "stages"

if __name__ == "__main__":
    seconds, stage = float(sys.argv[1]), sys.argv[2]
    for function in (Conversion.run, fit):
        assert function.__kwdefaults__["checkpoint_seconds"] > 0
        function.__kwdefaults__["checkpoint_seconds"] = seconds
    sys.argv = [stage, *sys.argv[3:]]
    runpy.run_path(str(STAGES / f"{stage}.py"), run_name="__main__")
