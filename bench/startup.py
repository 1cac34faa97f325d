"""How long do commands take to start, compared with importing torch?

    python bench/startup.py players.pgn.zst

Whole commands of chess, from process to process: ``outofcore info`` and two steps of training on the store of the
sample, and ``outofcore plan`` for the given file and for the sample.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import yaml

from harness.results import Row, arguments, save
from outofcore.project.create import create

TORCH = "import torch"
STEPS = 2
# Modules are compiled when they are first imported: measured are the starts after that.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def run(command: list[str], project: Path) -> tuple[float, float]:
    """Seconds of a command, and of all cores for it and the processes that it starts."""
    since, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=project, env=ENVIRONMENT, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter() - since, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def write_project(folder: Path, raw: Path) -> None:
    """A project with the store of the sample, and a second file of params for the raw input."""
    create(folder, ("chess",))
    file = folder / "params.yaml"
    params = yaml.safe_load(file.read_text(encoding="utf-8"))
    params["chess"]["train"]["max_steps"] = STEPS
    file.write_text(yaml.safe_dump(params), encoding="utf-8")
    params["chess"]["raw"] = str(raw)
    (folder / "given.yaml").write_text(yaml.safe_dump(params), encoding="utf-8")
    for stage in ("sample", "convert"):
        run([sys.executable, f"stages/{stage}.py", "chess"], folder)


def main() -> None:
    parser = arguments(__doc__, rounds=7)
    parser.add_argument("chess", type=Path, help="raw chess")
    options = parser.parse_args()
    program = [sys.executable, "-c", "from outofcore.cli import main; main()"]
    commands = {
        TORCH: [sys.executable, "-c", TORCH],
        "outofcore info": [*program, "info", "data/stores/chess.zarr"],
        "outofcore plan, the sample": [*program, "plan", "chess"],
        "outofcore plan": [*program, "plan", "chess", "--params", "given.yaml"],
        f"training, {STEPS} steps": [sys.executable, "stages/train.py", "chess"],
    }
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        project = Path(folder)
        write_project(project, options.chess.resolve())
        for command in commands.values():
            run(command, project)
        rounds = [{name: run(each, project) for name, each in commands.items()} for _ in range(options.rounds)]
    rows = []
    for name in commands:
        seconds, cores = (median(each[name][number] for each in rounds) for number in (0, 1))
        ratio = None if name == TORCH else median(each[name][0] / each[TORCH][0] for each in rounds)
        of = {"label": name, "table": "startup"}
        rows += [Row(value=seconds, unit="s", ratio=ratio, against=TORCH, **of), Row(value=cores, unit="core s", **of)]
    facts = [f"medians of {options.rounds} rounds"]
    save(options.out, "startup", "the start of commands", rows, facts=facts, details={"seconds": rounds})


if __name__ == "__main__":
    main()
