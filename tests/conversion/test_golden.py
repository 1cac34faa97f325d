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
from typing import Any

import numpy as np
import pytest
import yaml

import outofcore
from outofcore.domains.registry import get_domain
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
# By domain and the version of its bytes: add an entry, change none. Equal bytes have one version, except those listed.
STORES: dict[str, dict[int, dict[str, str]]] = {
    "chess": {
        1: {
            "zstd": "8f68d18aa5e555217e7b16f955ee10be463776ec63ff066aba4ab3f2c4745f11",
            "none": "544765a3569106eab08de35bc5a65fd68ae28ca32089604fe82edd874d756218",
        },
        2: {
            "zstd": "99fcb4d9baea69f2495ccce53c756033ac927db7280c1525771d318703a941f1",
            "none": "817b99bc41a7720d18442d58e18dbe0b77b05fa1df9519d296eaac91de7a465c",
        },
        3: {
            "zstd": "99fcb4d9baea69f2495ccce53c756033ac927db7280c1525771d318703a941f1",
            "none": "817b99bc41a7720d18442d58e18dbe0b77b05fa1df9519d296eaac91de7a465c",
        },
        4: {
            "zstd": "54a09693b4487dae1604c001ca58ab6be3483bf27f2138f52046a565104375d2",
            "none": "4161b331dedaa4c8081bf3ffdaf14874ab4f7feb0cede10d4867e8e2b2ce8667",
        },
        5: {
            "zstd": "85d4819d77dd1f1c956be6620c3f81339fa0485833932360e9b14c5f3f2c1dd3",
            "none": "c8e78c67604be1af4e206521c100c15bd56f7008665ddb9c3752b5dfe1150c73",
        },
        6: {
            "zstd": "85d4819d77dd1f1c956be6620c3f81339fa0485833932360e9b14c5f3f2c1dd3",
            "none": "c8e78c67604be1af4e206521c100c15bd56f7008665ddb9c3752b5dfe1150c73",
        },
    },
    "go": {
        1: {
            "zstd": "37e885051c8ca7c6cd22f873b0e4f5528a6738549c19d0339872e3ecf962282f",
            "none": "8d4d98a9ad5f8882de2de8666a68369b52c9a47f53bc85af4ae640ec97cb37ae",
        },
        2: {
            "zstd": "3bfa2eafa638dfab55ba28b919579b2c9511e00764e03e876b3eda6108003265",
            "none": "489c21ea1d783fb5ffa0b47bb68aee77ffb3cd071aaa02754a49df6882f2d143",
        },
        3: {
            "zstd": "3bfa2eafa638dfab55ba28b919579b2c9511e00764e03e876b3eda6108003265",
            "none": "489c21ea1d783fb5ffa0b47bb68aee77ffb3cd071aaa02754a49df6882f2d143",
        },
        4: {
            "zstd": "9490882a30f20fcc47f5c9c25d1eba6e7cf52dc3e7db57d5ccaf57e16389553e",
            "none": "44c264189509d64bd8a39558490faaaf304d42b52e23f4da81be314f2390d998",
        },
        5: {
            "zstd": "08f52fb830a3b99ae15221b03ec6123be53a056f9c8ca99f2b3d17b5de6b081f",
            "none": "39d6f997a40e01080b0c78976f9004c67768da9ca3351c7816e397c7f578f073",
        },
        6: {
            "zstd": "08f52fb830a3b99ae15221b03ec6123be53a056f9c8ca99f2b3d17b5de6b081f",
            "none": "39d6f997a40e01080b0c78976f9004c67768da9ca3351c7816e397c7f578f073",
        },
    },
    "text": {
        1: {
            "zstd": "a6f68c01f4927266bc3470b103b2017c112053c2e300d0f9e7d158e52e1ea5c2",
            "none": "6ffb8c3128c80c5bf135da9813e1372a6229cc2803db47c71e4e6764b654ae60",
        },
        2: {
            "zstd": "a6f68c01f4927266bc3470b103b2017c112053c2e300d0f9e7d158e52e1ea5c2",
            "none": "6ffb8c3128c80c5bf135da9813e1372a6229cc2803db47c71e4e6764b654ae60",
        },
        3: {
            "zstd": "e98cf6f2afd0cace92bf16f50279308f02e31e7ae5c170641458948252ed499a",
            "none": "cb20fe55d88b33a30367f886f9cab25481a39e14eb27601c810ac356cc72baf5",
        },
        4: {
            "zstd": "4c0d2c51176be656fbc579af3d8ee456b5be9768113719715dc17c14f91b0916",
            "none": "3d5a5d4cfc728e5b4dafd975e29196cba2a0e1fe1cc632d4b87ec5d25d4af393",
        },
        5: {
            "zstd": "3998a336a7e6556eeeaa2c8734ef9e0375b7908a6bb1f0504b9563e993b49065",
            "none": "36092999816850ef44ab52db8be88928827e0f4851b0e28a8c51db6e62e7d98c",
        },
        6: {
            "zstd": "3998a336a7e6556eeeaa2c8734ef9e0375b7908a6bb1f0504b9563e993b49065",
            "none": "36092999816850ef44ab52db8be88928827e0f4851b0e28a8c51db6e62e7d98c",
        },
    },
    "neural": {
        1: {
            "zstd": "5bfbafbb0693befb7db966c36d13abb31cd5cb70b1cf373e4be6be3e4a03e988",
            "none": "a3cdb3d2297eb48f9d362b543bab25cf75750e9d388832089e92671796c51494",
        },
        2: {
            "zstd": "5f4b800c3282218315bfdae5f2131b6341a870d6e6d6651287c34bc89209789b",
            "none": "ff41b76e72d0b8cfa02f6b1e8d8362bb3a204d86fde8bdf97981a2ce9aa867f1",
        },
        3: {
            "zstd": "4c8c5c5223ba9046fac71607989b8ef2a7d0ca2c2422caf2a0c47b5d2197ed1f",
            "none": "6987efb12c864630089067830334ec612ab70e758fb164cf728de67685aa7f43",
        },
        4: {
            "zstd": "2c6be6f538cf631c0c9fd22101d5304e5cef93236015c6b7835209d5402a8f9d",
            "none": "7149fee42d375089ecae1a0f2a0d896d1a809caa24cff6e6fdc7b2daf487c305",
        },
        5: {
            "zstd": "2c6be6f538cf631c0c9fd22101d5304e5cef93236015c6b7835209d5402a8f9d",
            "none": "7149fee42d375089ecae1a0f2a0d896d1a809caa24cff6e6fdc7b2daf487c305",
        },
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
    "zstd": "773510978ee25b4b7217757bddb3403afa3ca3ca596dd3117c8a74b35e960d29",
    "lz4": "370b384f8811ae0eb553e5946d0c04c6d293ac7c59c8a0f411da65b3b870fee8",
    "none": "9e3abe98fcd4d81694c0ad435f7fb82698034a20c7a1ae34f46ae8f56d3ba687",
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


@pytest.mark.parametrize(("name", "codec"), [(name, codec) for name in STORES for codec in ("zstd", "none")])
def test_a_store_of_raw_files_is_what_it_was(
    raw: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, codec: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert digest_of(raw(name)) == RAW[name], "the raw input is another"
    outofcore.convert(name, raw(name), "a.zarr", store={"codec": codec}, **SETTINGS[name])
    version, digest = get_domain(name).versions.bytes, digest_of(tmp_path / "a.zarr")
    print(f"{name}, {codec}: {digest}")  # which pytest shows where this fails
    assert version >= max(STORES[name]), f"bytes of {name} in domains/versions.py: expected {max(STORES[name])} or more"
    if version == max(STORES[name]):
        assert digest == STORES[name][version][codec], "other bytes: count them up in domains/versions.py"
    assert version in STORES[name], f"add this digest to STORES, as version {version} of the bytes of {name}"
    equal = [each for each, codecs in STORES[name].items() if codecs[codec] == digest]
    first = next(each for each in range(version, 0, -1) if (name, each) not in EQUAL_HERE)
    assert equal == [*range(first, version + 1)]


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_what_it_was(
    raw: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    stated = re.search(r"^torch==(\S+)$", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    if stated is None or metadata.version("torch").partition("+")[0] != stated[1]:
        pytest.skip("digests are of the torch in requirements.lock")
    monkeypatch.chdir(tmp_path)
    outofcore.convert(name, raw(name), "a.zarr", splits={"val": 0.3}, **SETTINGS[name])
    settings = ("max_steps=3", "batch_size=16", "val_examples=16", "arithmetic=portable", "preset=test")
    command = [sys.executable, "-m", "outofcore", "train", "a.zarr", "run", "--json"]
    command += [word for setting in settings for word in ("-S", f"train.{setting}")]
    ended = subprocess.run(command, env=os.environ | PORTABLE, capture_output=True, text=True, check=True)
    model = json.loads(ended.stdout)["model"]
    version = get_domain(name).versions.training
    print(f"{name}: {model}")
    assert version >= max(MODELS[name]), (
        f"training of {name} in domains/versions.py: expected {max(MODELS[name])} or more"
    )
    if version == max(MODELS[name]):
        assert model == MODELS[name][version], "another model: count its training up in domains/versions.py"
    assert version in MODELS[name], f"add this digest to MODELS, as version {version} of the training of {name}"


@pytest.mark.parametrize("codec", ARRAYS)
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
    assert digest_of(tmp_path / "a.zarr") == ARRAYS[codec]
