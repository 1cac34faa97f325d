"""What training is predicted to hold, against what torch, its optimizers, a loader and a process hold."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import torch

from outofcore.domains.registry import get_domain
from outofcore.domains.sections import TrainSection
from outofcore.domains.text.network import Network, NetworkShape, cross_entropy
from outofcore.loading.loader import loader
from outofcore.loading.memory import measure, sample_bytes
from outofcore.order.balanced import Balanced
from outofcore.order.plain import Shuffle
from outofcore.pipeline import convert
from outofcore.raw.files import find_files
from outofcore.settings.machine import Machine
from outofcore.store.reader import open_store
from outofcore.training import prediction
from outofcore.training.memory_forecast import PROCESS_BYTES, Forecast, fit_of, loader_needs, parts_table, sizes_table
from outofcore.training.optimizers import make_optimizer, state_bytes
from outofcore.training.prediction import model_memory
from tests.cases import long_cases
from tests.domains.neural.test_sample import NAMES
from tests.processes import run_program
from tests.samples import write_sample
from tests.training.small import WeightedRegression

MEASURED = """
import psutil
import torch
from outofcore.domains.chess import DOMAIN
from outofcore.system.peak_memory import MemoryWatch
from outofcore.training.optimizers import make_optimizer, train_step
from outofcore.training.memory_forecast import made_up_sample

torch.set_num_threads(1)
section = DOMAIN.section.model_validate({"raw": "raw", "train": {"preset": "small", "batch_size": 256}})
schemas = DOMAIN.schemas(section, ())
task = DOMAIN.planned_task()(section, schemas)
sample, _ = made_up_sample(schemas[""], DOMAIN.reading({}, section))
batch = {name: tensor.repeat(256, *(1,) * (tensor.ndim - 1)) for name, tensor in sample.items()}
batch["target"].zero_()
optimizer = make_optimizer(task, "adamw", learning_rate=1e-3, weight_decay=0)
train_step(task, optimizer, [{name: tensor[:2] for name, tensor in batch.items()}], 1)  # its libraries
before = psutil.Process().memory_info().rss
with MemoryWatch(interval=0.002) as memory:
    for _ in range(2):
        train_step(task, optimizer, [batch], 1)
print(memory.peak_rss_bytes - before)
"""


class Linear(WeightedRegression):
    """Layers wide enough for states of 8 bits, and biases that are not."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(300, 500), torch.nn.Linear(500, 7))

    def loss(self, batch):
        return self.layers(batch["x"]).square().sum(), torch.tensor(1)


@pytest.mark.parametrize("name", ["adamw", "adamw8bit"])
def test_states_are_those_of_the_optimizer(name: str):
    if name == "adamw8bit":
        pytest.importorskip("bitsandbytes")
    task = Linear()
    optimizer = make_optimizer(task, name, learning_rate=1e-3, weight_decay=0)
    task.loss({"x": torch.ones(2, 300)})[0].backward()
    optimizer.step()
    states = [value for state in optimizer.state.values() for value in state.values() if torch.is_tensor(value)]
    # Of each tensor, not its count of steps, and not the table of levels that all tensors share.
    held = sum(value.nbytes for value in states if value.numel() not in (1, 256))
    trained = [parameter.numel() for parameter in task.parameters() if parameter in optimizer.state]
    assert state_bytes(trained, name) == held


def test_a_step_of_linear_layers_is_counted_by_hand():
    memory = model_memory(Linear, {"x": torch.zeros(1, 300)}, TrainSection(batch_size=64), 16)
    weights = 4 * sum(parameter.numel() for parameter in Linear().parameters())
    assert (memory.model, memory.gradients, memory.optimizer) == (weights, weights, 2 * weights)
    assert memory.parameters == weights // 4
    kept = 4 * (16 * 500 + 16 * 7 + 500 * 7)  # both layers' outputs, and the transposed weights of the second
    assert kept - 4 * 500 * 7 <= memory.activations <= kept + 2 * 4 * 16 * 500
    whole = model_memory(Linear, {"x": torch.zeros(1, 300)}, TrainSection(batch_size=64), 0)
    assert 4 * 48 * 507 <= whole.activations - memory.activations <= 3 * 4 * 48 * 507


class Reads(Linear):
    """Needs the values of a tensor."""

    def loss(self, batch):
        total, count = super().loss(batch)
        return total * batch["x"].sum().item(), count


def test_a_task_that_reads_values_is_counted_with_them():
    sample, section = {"x": torch.zeros(1, 300)}, TrainSection(batch_size=64)
    plain, reads = (model_memory(task, sample, section, 16) for task in (Linear, Reads))
    assert (reads.model, reads.optimizer) == (plain.model, plain.optimizer)
    assert reads.activations == pytest.approx(plain.activations, rel=0.01)


@pytest.mark.parametrize("name", ["chess", "go"])
def test_a_small_model_and_one_on_the_meta_device_hold_the_same(name: str, monkeypatch: pytest.MonkeyPatch):
    domain = get_domain(name)
    section = domain.section.model_validate({"raw": "raw", "train": {"preset": "medium"}})
    forecast = partial(Forecast, domain, section, domain.schemas(section, ()), 1000, Machine())
    small = forecast().model
    monkeypatch.setattr(prediction, "FEW_PARAMETERS", 0)
    assert forecast().model == small


class Whole(Linear):
    """Compares all samples of a balanced batch."""

    def micro_batches(self, batch, size):
        del size
        yield batch

    def loader_options(self):
        entry = ([0], [0], [1], [1])
        return {"shuffle": Balanced(*entry, groups=3, entries=5, rows=7)}


def test_a_balanced_batch_passes_whole():
    memory = model_memory(Whole, {"x": torch.zeros(1, 300)}, TrainSection(batch_size=64), 16)
    assert (memory.samples, memory.whole, memory.balanced) == (105, True, (3, 5, 7))
    plain = model_memory(Linear, {"x": torch.zeros(1, 300)}, TrainSection(batch_size=64), 16)
    assert (plain.samples, plain.whole, plain.balanced) == (16, False, None)


def style(**machine) -> Forecast:
    domain = get_domain("go")
    train = {"task": "style", "players_per_batch": 18, "games_per_player": 9, "positions_per_game": 10}
    go = domain.section.model_validate({"raw": "raw", "train": train})
    return Forecast(domain, go, domain.schemas(go, ()), 10**6, Machine(**machine))


def test_a_plan_of_balanced_batches_shows_their_size():
    found = style(micro_batch=16)
    table = parts_table(found, fit_of(found, 10**11))
    assert "1,620 samples at a time" in table.title


def test_a_smaller_micro_batch_is_no_advice_for_balanced_batches(monkeypatch):
    found = style()
    short = found.least - found.model.activations // 2
    monkeypatch.setattr("outofcore.training.memory_forecast.SMALL", int(short / 0.75))
    assert {row["8 GB"] for row in sizes_table(found).rows} == {"no"}


def test_the_loader_of_balanced_batches_holds_one_of_them():
    found = style()
    train, val = found.needs(found.section, found.schemas, found._splits)
    sample_bytes = [each.batches.batch // found.section.train.batch_size for each in val]
    assert [each.batches.batch // 1620 for each in train] == sample_bytes


class TextStep(WeightedRegression):
    """The loss of the text domain."""

    def __init__(self, size: NetworkShape, *, told_apart: bool):
        super().__init__()
        self.told_apart = told_apart
        self.network = Network(size)

    def loss(self, batch):
        inputs = batch["inputs"]
        places = torch.arange(inputs.shape[1]).expand(len(inputs), -1) if self.told_apart else None
        hidden = self.network(inputs, places, torch.zeros_like(inputs) if self.told_apart else None)
        return cross_entropy(hidden.flatten(0, 1), self.network.tokens.weight, inputs.flatten()), torch.tensor(1)


def kept_by_torch(task: TextStep, inputs: torch.Tensor, *, mixed: bool) -> int:
    """Bytes of everything that autograd holds on to after a forward pass, but for the parameters."""
    own = {parameter.untyped_storage().data_ptr() for parameter in task.parameters()}
    kept: dict[int, torch.Tensor] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage().data_ptr()
        if storage not in own:
            kept[storage] = tensor
        return tensor

    with (
        torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
        torch.autocast("cpu", torch.bfloat16, enabled=mixed, cache_enabled=False),
    ):
        task.loss({"inputs": inputs})
    return sum(tensor.untyped_storage().nbytes() for tensor in kept.values())


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("told_apart", [False, True])
def test_activations_are_those_that_torch_keeps(mixed: bool, told_apart: bool):
    size = NetworkShape(layers=3, width=64, heads=2, vocabulary=300, context=96)
    windows = torch.randint(0, size.vocabulary, (4, size.context))
    found = kept_by_torch(TextStep(size, told_apart=told_apart), windows, mixed=mixed)
    train = TrainSection(batch_size=4, precision="bf16-mixed" if mixed else "32-true")
    sample = {"inputs": torch.zeros(1, size.context, dtype=torch.int64)}
    predicted = model_memory(lambda: TextStep(size, told_apart=told_apart), sample, train, 0).activations
    assert found < predicted < 1.5 * found


BARE = """
import psutil
import torch
from pathlib import Path
from outofcore.training.loop import fit
from tests.training.small import WeightedRegression, loaders, section

fit(WeightedRegression(), *loaders(), section(), name="toy", out=Path(), identity={}, device="cpu")
print(psutil.Process().memory_info().rss)
"""


@pytest.mark.long
def test_the_bytes_of_a_process_are_those_of_one_that_trains_next_to_nothing(tmp_path):
    paths = os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": paths}
    run = partial(subprocess.run, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    held = int(run([sys.executable, "-c", BARE]).stdout.splitlines()[-1])
    assert 0.75 * PROCESS_BYTES < held < PROCESS_BYTES


def test_a_step_holds_what_is_predicted(tmp_path):
    domain = get_domain("chess")
    chess = domain.section.model_validate({"raw": "raw", "train": {"preset": "small", "batch_size": 256}})
    schemas = domain.schemas(chess, ())
    predicted = Forecast(domain, chess, schemas, 10**6, Machine()).model.total
    done = run_program(MEASURED, folder=tmp_path)
    # Convolutions allocate workspaces of their own, and the allocator keeps what it has had.
    ratio = int(done.stdout) / predicted
    assert 0.8 < ratio < 2


@pytest.mark.parametrize("name", [*long_cases("chess", "go"), "neural"])
def test_a_loader_needs_what_is_predicted(name: str, tmp_path):
    domain = get_domain(name)
    raw = tmp_path / "raw"
    raw.mkdir()
    write_sample(name, raw, 0)
    sections = {
        "chess": {"tensors": {"elo": True}, "store": {"chunk_rows": 256, "shard_rows": 1024}},
        "go": {"tensors": {"features": "alphagozero18"}, "store": {"chunk_rows": 256, "shard_rows": 1024}},
        "neural": {
            "source": {"names": NAMES, "bin_width": 1 / 60},
            "store": {"chunk_rows": 64, "shard_rows": 4096},
            "tensors": {"lags": 5},
        },
    }
    convert(name, raw, tmp_path / "a.zarr", **sections[name])
    store = open_store(tmp_path / "a.zarr")
    settings = domain.section.model_validate(
        {"raw": str(raw), **sections[name], "train": {"pool_blocks": 4, "batch_size": 32}}
    )
    reading = domain.reading(store.attributes, settings)
    columns = {"chess": ("white_elo",)}.get(name, ())  # the reading takes both
    batches = loader(store, "train", 32, tensors=reading, columns=columns, shuffle=Shuffle(pool_blocks=4), threads=2)
    schemas = domain.schemas(settings, find_files(raw, settings.match, domain.suffixes, section=name))
    for reader in batches.readers:
        real = measure(reader.split, reader.sampler.limits(1), sample_bytes(reader.split), 32, 1, 2, 1)
        part = reader.split.part
        rows, sequences = len(store.rows("train", part)), len(store.sequences("train", part))
        found = loader_needs(schemas[part], rows, sequences, reading, settings, threads=2, taken=columns)
        assert (found.chunk, found.chunks, found.batches.batch) == (real.chunk, real.chunks, real.batches.batch)
        for size in ("whole", "streamed", "fixed"):
            assert getattr(found, size) == pytest.approx(getattr(real, size), rel=0.15)


def test_validation_of_chess_holds_the_elo_of_each_game():
    domain, rows, games = get_domain("chess"), 10**6, 12_000
    chess = domain.section.model_validate({"raw": "raw"})
    found = Forecast(domain, chess, domain.schemas(chess, ()), rows, Machine(), games)
    without = Forecast(domain, chess, domain.schemas(chess, ()), rows, Machine())
    tables = [
        [sum(each.tables for each in split) for split in forecast.needs(chess, forecast.schemas, forecast._splits)]
        for forecast in (found, without)
    ]
    assert tables[0][0] == tables[1][0]
    assert tables[0][1] - tables[1][1] == 12 * round(games * chess.splits.val)
