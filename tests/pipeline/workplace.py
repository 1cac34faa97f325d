"""A folder in which the stages of one domain run by themselves, without DVC: several raw files, small shards."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from outofcore.store.verify import verify
from tests.samples import write_sample

ROOT = Path(__file__).parents[2]
# Rows of a chunk and of a shard: a dozen shards of every field from a few small files.
LAYOUTS = {"chess": (256, 2048), "go": (256, 2048), "text": (512, 8192), "neural": (64, 4096)}


@dataclass(frozen=True)
class Workplace:
    """The folder, and the domain that is worked on."""

    folder: Path
    domain: str

    @property
    def store(self) -> Path:
        """Where the store will be."""
        return self.folder / "data" / "stores" / f"{self.domain}.zarr"

    @property
    def work(self) -> Path:
        """Where it grows."""
        return self.store.with_name(f"{self.store.name}.work")

    def environment(self, **more: str) -> dict[str, str]:
        """Variables for a stage."""
        return {
            **os.environ,
            "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
            "OUTOFCORE_WORKERS": "2",
            "OUTOFCORE_DEVICE": "cpu",
            "OUTOFCORE_DISK_RESERVE": "1 MB",
            **more,
        }

    def command(self, stage: str, seconds: float | None = None) -> list[str]:
        """The command of a stage, ``python stages/<stage>.py``; with checkpoints every so many seconds."""
        if seconds is None:
            return [sys.executable, str(ROOT / "stages" / f"{stage}.py"), self.domain]
        return [sys.executable, "-m", "tests.pipeline.often", str(seconds), stage, self.domain]

    def run(self, stage: str, code: int = 0, seconds: float | None = None, **environment: str) -> str:
        """Run a stage to its end; what it printed, after its exit code was checked."""
        ended = subprocess.run(
            self.command(stage, seconds),
            cwd=self.folder,
            env=self.environment(**environment),
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        assert ended.returncode == code, f"{stage} ended with {ended.returncode}:\n{ended.stdout}{ended.stderr}"
        return ended.stdout + ended.stderr

    def start(self, stage: str, seconds: float | None = None, **environment: str) -> subprocess.Popen[str]:
        """Start a stage in a process group of its own."""
        return subprocess.Popen(
            self.command(stage, seconds),
            cwd=self.folder,
            env=self.environment(**environment),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def set(self, key: str, value: Any) -> None:
        """Change a key of params.yaml, named from the domain's section on."""
        path = self.folder / "params.yaml"
        params = yaml.safe_load(path.read_text())
        place = params[self.domain]
        *steps, last = key.split(".")
        for step in steps:
            place = place[step]
        place[last] = value
        path.write_text(yaml.safe_dump(params))

    def left(self) -> dict[str, str]:
        """All that a conversion leaves and a machine does not decide: digests by name."""
        files = [path for path in self.store.rglob("*") if path.is_file()]
        files += [self.folder / "data/rejects" / f"{self.domain}.csv"]
        files += [self.folder / "metrics" / self.domain / "convert.json"]
        return {
            path.relative_to(self.folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(files)
        }

    def run_figures(self, stage: str) -> dict[str, Any]:
        """What a stage says of its own run."""
        found: dict[str, Any] = json.loads((self.folder / "metrics" / self.domain / f"{stage}_run.json").read_text())
        return found

    def standing(self) -> str:
        """Digest of the store that is there, after every byte of it was checked; "" where none does."""
        if not self.store.exists():
            return ""
        verdict = verify(self.store)
        assert verdict.problems == (), verdict.problems
        return verdict.digest

    def clear(self) -> None:
        """Remove what conversions have left."""
        for path in (self.store, self.work, self.folder / "metrics", self.folder / "data/rejects"):
            shutil.rmtree(path, ignore_errors=True)


def make_workplace(folder: Path, domain: str, files: int = 6) -> Workplace:
    """A folder with params.yaml and so many raw samples, no two alike."""
    place = Workplace(folder, domain)
    folder.mkdir(parents=True)
    shutil.copy(ROOT / "params.yaml", folder)
    for number in range(files):
        raw = folder / "raw" / str(number)
        raw.mkdir(parents=True)
        write_sample(domain, raw, number)
    place.set("raw", "raw")
    chunk, shard = LAYOUTS[domain]
    place.set("store.chunk_rows", chunk)
    place.set("store.shard_rows", shard)
    place.set("audit.records", 20)
    if domain == "text":
        place.run("tokenizer")
    return place
