"""All benches, one after another: on made-up input, or on yours.

    python bench/run.py
    python bench/run.py --chess players.pgn.zst --go players.tar.zst --text novels.tar.zst --full
    python bench/run.py --only loader --peers peers/bin/python

Writes ``bench/results/<name>.json`` and ``bench/results/table.md``. What the documents show are the files in
``bench/figures``: copy a result there and run ``python bench/table.py``.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from functools import cached_property
from pathlib import Path

import yaml

from converting import convert_files
from inputs import learn_tokenizer, make_chess, make_go, make_text, sample
from outofcore.domains.registry import get_domain
from outofcore.raw.files import find_files
from table import all_of, read_results

HERE = Path(__file__).parent
RESULTS = HERE / "results"
QUICK = {
    "convert_chess": "{chess} --games 500",
    "convert_go": "{go} --games 100 --rounds 2",
    "cluster": "{chess} --megabytes 2 --rounds 1",
    "convert_text": "{text} --tokenizer {tokenizer} --megabytes 100",
    "loader": "{store} --rounds 3 --seconds 1",
    "loader_text": "text --rows 50000 --rounds 3 --seconds 1",
    "loader_frames": "frames --rows 50000 --rounds 3 --seconds 1",
    "loader_flat": "--rows 1e6 4e6 16e6 --rounds 3 --seconds 1",
    "loader_several": "{store} --rounds 3 --seconds 1",
    "loader_limits": "{store} --rounds 2 --batches 500",
    "loader_mixing": "--rows 500000 --seeds 1",
    "load_go": "{go} --rounds 2 --batches 50 --style-rounds 1",
    "load_text": "{text} --tokenizer {tokenizer} --megabytes 100 --turns 3 --seconds 1",
    "load_neural": "--gigabytes 0.2 --turns 3 --seconds 1",
    "load_remote": "{chess} --rounds 1",
    "train_text": "{text} --tokenizer {tokenizer} --megabytes 100",
    "scale": "--chess {chess} --text {text} --tokenizer {tokenizer} --neural {neural}",
}
FULL = {
    "convert_chess": "{chess}",
    "convert_go": "{go}",
    "cluster": "{chess}",
    "convert_text": "{text} --tokenizer {tokenizer} --megabytes 4200",
    "loader": "{store}",
    "loader_text": "text",
    "loader_frames": "frames",
    "loader_flat": "",
    "loader_several": "{store} --rounds 15",
    "loader_limits": "{store}",
    "loader_mixing": "",
    "load_go": "{go}",
    "load_text": "{text} --tokenizer {tokenizer} --megabytes 1000",
    "load_neural": "--gigabytes 12",
    "load_remote": "{chess}",
    "train_text": "{text} --tokenizer {tokenizer} --megabytes 1000",
    "scale": "--chess {chess} --text {text} --tokenizer {tokenizer} --neural {neural}",
}
SCRIPTS = {"loader_text": "loader_wide", "loader_frames": "loader_wide"}
BESIDE_PEERS = ("loader", *SCRIPTS)


class Inputs:
    """What benches read, made when it is first asked for where it is not given."""

    def __init__(self, given: argparse.Namespace, folder: Path) -> None:
        self._given = given
        self._folder = folder

    def __getitem__(self, name: str) -> Path:
        return Path(getattr(self, name)).resolve()

    @cached_property
    def chess(self) -> Path:
        """A PGN file."""
        return self._given.chess or make_chess(self._folder, 4, 20)

    @cached_property
    def go(self) -> Path:
        """SGF, a file a player."""
        return self._given.go or make_go(self._folder, 3, 10)

    @cached_property
    def text(self) -> Path:
        """Documents."""
        return self._given.text or make_text(self._folder, 20)

    @cached_property
    def tokenizer(self) -> Path:
        """Learnt from them."""
        return learn_tokenizer(self.text, self._folder)

    @cached_property
    def neural(self) -> Path:
        """The sessions of the sample."""
        return sample("neural", self._folder / "sessions", 0)

    @cached_property
    def store(self) -> Path:
        """All games as a store, as ``params.yaml`` has it; its filters let every game of the made-up input through."""
        domain = get_domain("chess")
        section = domain.section.model_validate(yaml.safe_load(Path("params.yaml").read_text())["chess"])
        files = find_files(self.chess, "**/*", domain.suffixes, section="chess")
        store = self._folder / "chess.zarr"
        convert_files(domain, section, files, store)
        return store


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("chess", "go", "text"):
        parser.add_argument(f"--{name}", type=Path, help=f"raw {name}; made up where it is not given")
    parser.add_argument("--full", action="store_true", help="take the time that the figures of the documents took")
    parser.add_argument("--only", nargs="+", choices=QUICK, default=list(QUICK))
    parser.add_argument("--peers", type=Path, help="a Python that has bench/peers.txt installed, for the loader")
    given = parser.parse_args()
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        inputs = Inputs(given, Path(folder))
        for name in given.only:
            words = (FULL if given.full else QUICK)[name].split()
            arguments = [str(inputs[word[1:-1]]) if word.startswith("{") else word for word in words]
            if name in BESIDE_PEERS and given.peers:
                arguments += ["--peers", str(given.peers)]
            tell(f"{name} {' '.join(words)}")
            command = [sys.executable, str(HERE / f"{SCRIPTS.get(name, name)}.py"), *arguments, "--out", str(RESULTS)]
            if subprocess.run(command, check=False).returncode:
                failed.append(name)
    results = read_results(RESULTS)
    (RESULTS / "table.md").write_text(
        "\n".join(f"## {result['title']}\n\n{all_of(result)}\n" for result in results.values()), encoding="utf-8"
    )
    tell(f"bench/results/table.md{''.join(f'; {name} failed' for name in failed)}")
    sys.exit(bool(failed))


def tell(what: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
