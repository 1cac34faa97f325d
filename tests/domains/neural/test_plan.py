"""``outofcore plan neural`` on recordings: the ways that fit, and the memory that they need."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
import torch

from outofcore.conversion.estimate import Estimate
from outofcore.conversion.executors import open_executor
from outofcore.conversion.run import Conversion
from outofcore.domains.neural import DOMAIN
from outofcore.domains.neural.params import NeuralSection
from outofcore.domains.neural.plan import holding, measure, sample_frames, ways_table
from outofcore.domains.planning import Outlook
from outofcore.raw.files import find_files
from outofcore.settings.machine import Machine
from outofcore.settings.sizes import parse_bytes
from outofcore.store.codecs import ChunkCodec, CodecName
from outofcore.store.reader import open_store
from outofcore.training.loaders import open_loaders
from outofcore.training.memory_forecast import Forecast
from tests.domains.neural.test_sample import NAMES

MB = 10**6
BINS = 4905


def outlook_of(section, files, *, memory=64 * MB, free=100 * MB, copies=1):
    machine = Machine(workers=2, memory=memory)
    forecast = Forecast(DOMAIN, section, DOMAIN.schemas(section, files), BINS, machine)
    return Outlook(
        files=files,
        machine=machine,
        memory=memory,
        free_bytes=free,
        store_copies=copies,
        loaders=forecast.loaders_of,
        takes=forecast.takes,
    )


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    folder = tmp_path_factory.mktemp("raw")
    DOMAIN.sample(folder, np.random.default_rng(1))
    return NeuralSection.model_validate(
        {
            "raw": str(folder),
            "source": {"names": NAMES, "bin_width": 1 / 60, "response_dtype": "uint8"},
            "store": {"chunk_rows": 64, "shard_rows": 4096},
            "tensors": {"lags": 5},
            "train": {"pool_blocks": 4},
        }
    )


def test_the_table_tells_what_fits(sample):
    files = find_files(sample.raw, sample.match, DOMAIN.suffixes, section="neural")
    table = ways_table(sample, outlook_of(sample, files))
    assert set(table.rows[0]) == {*table.header, "settings"}
    assert {row["way"] for row in table.rows} == {"ram", "streamed", "transforms at read", "mapped", "hybrid"}
    assert all(row["verdict"] == "fits" for row in table.rows)
    poor = ways_table(sample, outlook_of(sample, files, free=MB, copies=2))
    refused = next(row for row in poor.rows if row["pixels"] == "float32" and row["way"] == "mapped")
    assert refused["verdict"] == "needs 26.4 MB of disk, 1.00 MB free"
    assert refused["disk needed"] == pytest.approx(2 * 1.2 * refused["store"])


def test_memory_that_is_advised_is_enough_for_the_loaders(sample, tmp_path):
    files = find_files(sample.raw, sample.match, DOMAIN.suffixes, section="neural")
    table = ways_table(sample, outlook_of(sample, files))
    for codec in ("none", "zstd"):
        section = sample.model_copy(update={"store": sample.store.model_copy(update={"codec": codec})})
        path = tmp_path / f"{codec}.zarr"
        executor = open_executor("threads", 1)
        conversion = Conversion(DOMAIN, section, files, path, tmp_path / "rejects.csv")
        conversion.run(Estimate(0, 0, 0, 0), executor=executor, workers=1, watch=lambda *_: None)
        store = open_store(path)
        task = DOMAIN.task(store, section)
        reading = DOMAIN.reading(store.attributes, section)
        tried = 0
        for row in table.rows:
            if row["pixels"] != "uint8" or row["codec"] != codec:
                continue
            words = row["settings"].split(", ")
            residency = words[0].removeprefix("residency ")
            memory = parse_bytes(words[1].removeprefix("memory ").split(" (")[0])
            loaders = open_loaders(
                store, task, reading, section.train, Machine(memory=memory, residency=residency), torch.device("cpu")
            )
            assert {reader.plan.kind for reader in loaders[0].readers} <= {residency, "ram"}
            tried += 1
        assert tried


def test_codecs_are_measured_on_frames_of_all_sessions(sample):
    files = find_files(sample.raw, sample.match, DOMAIN.suffixes, section="neural")
    frames = sample_frames(files, sample)
    assert {each.shape[1:] for each in frames} == {(6, 8), (8, 6), (7, 7)}
    assert holding(frames, "uint8") == ("uint8", "bfloat16", "float32")
    measured = measure(frames, "uint8", sample)
    assert {"none", *measured} == {*get_args(CodecName)}
    chunks = [each[start : start + 64] for each in frames for start in range(0, len(each), 64)]
    zstd = sum(len(ChunkCodec("zstd", 1, "uint8").encode(chunk)) for chunk in chunks)
    assert measured["zstd"] == pytest.approx(zstd / sum(chunk.nbytes for chunk in chunks))


def test_wide_frames_are_offered_as_bytes_where_bytes_can_hold_them(sample):
    whole = [np.arange(24, dtype=np.float32).reshape(2, 3, 4)]
    assert holding(whole, "float32")[0] == "uint8"
    assert holding([whole[0] / 2], "float32")[0] == "bfloat16"
    assert measure([], "uint8", sample) == {}
