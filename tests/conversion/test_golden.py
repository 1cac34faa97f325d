"""Bytes of stores as they have always been: a store made again must hit the cache that another machine has filled.

The bytes depend on the versions in ``requirements.lock``: those of zstd on that of numcodecs, the metadata on that of
zarr, the raw input on those of h5py and zstandard. A new version may change them, a change of this project may not.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module, metadata
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import yaml

import outofcore
from outofcore.domains.registry import get_domain
from outofcore.store.codecs import CodecName
from outofcore.training.arithmetic import PORTABLE

ROOT = Path(__file__).parents[2]
PARAMS = yaml.safe_load((ROOT / "params.yaml").read_text())
# Fewer records than the sample has; of the recordings one whose bytes do not depend on Python's zlib.
SLICES: dict[str, Callable[[Any], dict[str, Any]]] = {
    "chess": lambda _: {"GAMES": 40, "ARCHIVED": 10},
    "go": lambda _: {"GUEST_GAMES": 1},
    "text": lambda _: {"DOCUMENTS": 250},
    "neural": lambda module: {"FRAMES": 3400, "DESIGNS": module.DESIGNS[:1]},
}
SETTINGS: dict[str, dict[str, Any]] = {
    "chess": {},
    "go": {},
    "text": {"tokenizer": {"vocab_size": 300}},
    "neural": {"source": PARAMS["neural"]["source"]},
}
RAW = {
    "chess": "133d6379dbda7bd27d9c2203f434a59d8a29683e9470e64701829f30076ce060",
    "go": "0de435e857e8b3bff39a09decf5951bb85900d0c0465c46daa51991c9854eb54",
    "text": "3c076c5c4372fc45fc0567a9be8c0d219ccab0e8e73f0096ccdd694495af5928",
    "neural": "5604f49e16b95270aa7b52e72291c27aae1aab5e9ca9b7747d242bf54f10ca1e",
}
# By domain and the version of its bytes, compressed and not: add an entry, change none. Equal bytes have one version,
# except those listed below.
STORES: dict[str, dict[int, tuple[str, str]]] = {
    "chess": {
        1: ("8f68d18aa5e55521", "544765a3569106ea"),
        2: ("99fcb4d9baea69f2", "817b99bc41a7720d"),
        3: ("99fcb4d9baea69f2", "817b99bc41a7720d"),
        4: ("54a09693b4487dae", "4161b331dedaa4c8"),
        5: ("85d4819d77dd1f1c", "c8e78c67604be1af"),
        6: ("85d4819d77dd1f1c", "c8e78c67604be1af"),
    },
    "go": {
        1: ("37e885051c8ca7c6", "8d4d98a9ad5f8882"),
        2: ("3bfa2eafa638dfab", "489c21ea1d783fb5"),
        3: ("3bfa2eafa638dfab", "489c21ea1d783fb5"),
        4: ("9490882a30f20fcc", "44c264189509d64b"),
        5: ("08f52fb830a3b99a", "39d6f997a40e0108"),
        6: ("08f52fb830a3b99a", "39d6f997a40e0108"),
    },
    "text": {
        1: ("a6f68c01f4927266", "6ffb8c3128c80c5b"),
        2: ("a6f68c01f4927266", "6ffb8c3128c80c5b"),
        3: ("e98cf6f2afd0cace", "cb20fe55d88b33a3"),
        4: ("4c0d2c51176be656", "3d5a5d4cfc728e5b"),
        5: ("3998a336a7e6556e", "36092999816850ef"),
        6: ("3998a336a7e6556e", "36092999816850ef"),
    },
    "neural": {
        1: ("5bfbafbb0693befb", "a3cdb3d2297eb48f"),
        2: ("5f4b800c32822183", "ff41b76e72d0b8cf"),
        3: ("4c8c5c5223ba9046", "6987efb12c864630"),
        4: ("2c6be6f538cf631c", "7149fee42d375089"),
        5: ("2c6be6f538cf631c", "7149fee42d375089"),
    },
}
# Versions with the bytes of the one before, as they differ for other input than this: text 2 for UTF-16 and UTF-32,
# .json, Parquet without the column, added tokens, and ends of documents in a text, text 6 for characters that libraries
# normalize differently, texts that are divided, and copies in text split by place; chess 3 and go 3 for UTF-16 and
# damage; chess 6 for games that only python-chess reads.
EQUAL_HERE = {("text", 2), ("text", 6), ("chess", 3), ("chess", 6), ("go", 3), ("go", 6), ("neural", 5)}
# Weights after three steps on the store of the same name, by the version of the training.
MODELS = {
    "chess": {1: "c9a6bed366bf3104"},
    "go": {1: "1144f4fbf2a91658"},
    "text": {1: "7ac2ade72932b691"},
    "neural": {1: "8614c4af6c368f3e"},
}
ARRAYS = {
    "zstd": "83629e530500e7dc1e35784db42f62b2975d3f6f1a30d7eb790c6d924e143ae0",
    "lz4": "f5932988a3f03640837fff4b285c9edf300f3bd06f2d13966856c9e31497b453",
    "none": "77ad1de3403b15417b6d08a8ccfd5c383bf8e7a513f16927ea293750757646d2",
}


def digest_of(folder: Path) -> str:
    """SHA-256 of the sorted relative paths and the bytes of all files; of a store's with the seal of format 1.

    Format 2 adds the checksums of the chunks, which follow from the other files.
    """
    digest = hashlib.sha256()
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    for name in names:
        content = (folder / name).read_bytes()
        if name == "checksums":
            continue
        if name == "seal.json":
            seal = json.loads(content)
            del seal["files"]["checksums"]
            content = json.dumps({**seal, "format": 1}, separators=(",", ":")).encode() + b"\n"
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The raw input of a domain, made once."""
    top = tmp_path_factory.mktemp("raw")

    def make(name: str) -> Path:
        folder = top / name
        if not folder.exists():
            folder.mkdir()
            module = import_module(f"outofcore.domains.{name}.sample")
            with pytest.MonkeyPatch.context() as patch:
                for constant, value in SLICES[name](module).items():
                    patch.setattr(module, constant, value)
                get_domain(name).sample(folder, np.random.default_rng(1))
        return folder

    return make


CODECS = ("zstd", "none")


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("name", STORES)
def test_a_store_of_raw_files_is_what_it_was(
    raw: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, codec: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert digest_of(raw(name)) == RAW[name], "the raw input is another"
    outofcore.convert(name, raw(name), "a.zarr", store={"codec": codec}, **SETTINGS[name])
    version, digest = get_domain(name).versions.bytes, digest_of(tmp_path / "a.zarr")[:16]
    stored = {number: digests[CODECS.index(codec)] for number, digests in STORES[name].items()}
    print(f"{name}, {codec}: {digest}")  # which pytest shows where this fails
    assert version >= max(STORES[name]), f"bytes of {name} in domains/versions.py: expected {max(STORES[name])} or more"
    if version == max(STORES[name]):
        assert digest == stored[version], "other bytes: count them up in domains/versions.py"
    assert version in STORES[name], f"add this digest to STORES, as version {version} of the bytes of {name}"
    equal = [number for number, earlier in stored.items() if earlier == digest]
    first = next(each for each in range(version, 0, -1) if (name, each) not in EQUAL_HERE)
    assert equal == [*range(first, version + 1)]


TRAIN = """
import sys, outofcore
settings = {"max_steps": 3, "batch_size": 16, "val_examples": 16, "arithmetic": "portable", "preset": "test"}
for name in sys.argv[1:]:
    print(name, outofcore.train(f"{name}.zarr", name, train=settings)["model"])
"""


def test_models_are_what_they_were(raw: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stated = re.search(r"^torch==(\S+)$", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    if stated is None or metadata.version("torch").partition("+")[0] != stated[1]:
        pytest.skip("digests are of the torch in requirements.lock")
    monkeypatch.chdir(tmp_path)
    for name in MODELS:
        outofcore.convert(name, raw(name), f"{name}.zarr", splits={"val": 0.3}, **SETTINGS[name])
    command = [sys.executable, "-c", TRAIN, *MODELS]
    ended = subprocess.run(command, env=os.environ | PORTABLE, stdout=subprocess.PIPE, text=True, check=True)
    print(ended.stdout)  # which pytest shows where this fails
    for name, model in map(str.split, ended.stdout.splitlines()):
        version = get_domain(name).versions.training
        assert version >= max(MODELS[name]), f"training of {name}: expected {max(MODELS[name])} or more"
        if version == max(MODELS[name]):
            assert model == MODELS[name][version], f"another model: count training of {name} up in domains/versions.py"
        assert version in MODELS[name], f"add this digest to MODELS, as version {version} of the training of {name}"


@pytest.mark.parametrize("codec", get_args(CodecName))
def test_a_store_of_arrays_is_what_it_was(tmp_path: Path, codec: str) -> None:
    number = np.arange(1000)
    data = {
        "number": number,
        "half": (number[:, None] * [0.5, -0.25]).astype(np.float16),
        "flag": number % 3 == 0,
        "zero": np.where(number % 2, -0.0, 0.0),
    }
    groups = np.array([f"group {each // 40} ☗" for each in number], object)
    settings: dict[str, Any] = {"splits": {"val": 0.2, "test": 0.1}, "chunk_rows": 64, "shard_rows": 256}
    outofcore.write_store(tmp_path / "a.zarr", data, groups=groups, codec=codec, **settings)
    digest = digest_of(tmp_path / "a.zarr")
    assert digest == ARRAYS.get(codec), f"of a new codec, add this digest to ARRAYS: {digest}"
