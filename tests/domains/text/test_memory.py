from __future__ import annotations

import pytest
import torch

from outofcore.domains.text.cross_entropy import cross_entropy
from outofcore.domains.text.memory import kept_bytes, training_memory
from outofcore.domains.text.network import Network, Size
from outofcore.domains.text.params import TensorSection, TextSection, TextTrainSection


def section(**keys) -> TextSection:
    return TextSection.model_validate({"raw": "raw", **keys})


def kept_by_torch(size: Size, windows: int, *, mixed: bool, told_apart: bool) -> int:
    """Bytes of everything that autograd holds on to after a forward pass, but for the parameters."""
    network = Network(size)
    own = {parameter.untyped_storage().data_ptr() for parameter in network.parameters()}
    kept: dict[int, torch.Tensor] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage().data_ptr()
        if storage not in own:
            kept[storage] = tensor
        return tensor

    inputs = torch.randint(0, size.vocabulary, (windows, size.context))
    places = torch.arange(size.context).expand(windows, -1) if told_apart else None
    segments = torch.zeros_like(inputs) if told_apart else None
    with (
        torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
        torch.autocast("cpu", torch.bfloat16, enabled=mixed),
    ):
        hidden = network(inputs, places, segments)
        cross_entropy(hidden.flatten(0, 1), network.tokens.weight, inputs.flatten())
    return sum(tensor.untyped_storage().nbytes() for tensor in kept.values())


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("told_apart", [False, True])
def test_activations_are_those_that_torch_keeps(mixed: bool, told_apart: bool):
    size = Size(layers=3, width=64, heads=2, vocabulary=300, context=96)
    train = TextTrainSection(precision="bf16-mixed" if mixed else "32-true")
    tensors = TensorSection(seq_len=96, reset_at_documents=told_apart)
    found = kept_by_torch(size, 4, mixed=mixed, told_apart=told_apart)
    assert kept_bytes(size, train, tensors, 4) == pytest.approx(found, rel=0.03)


def test_the_parts_of_a_model_of_a_million_parameters():
    keys = {"train": {"parameters": 1_000_000, "batch_size": 64}}
    billion = {"tokens": 10**9, "micro_batch": 8}
    loaded = training_memory(section(**keys), 4096, residency="loaded", **billion)
    streamed = training_memory(section(**keys), 4096, residency="streamed", **billion)
    raw = training_memory(section(**keys), 4096, residency="raw", **billion)
    assert loaded.data > 2 * 10**9
    assert streamed.data < 140 * 10**6
    assert raw.data < 300 * 10**6
    assert 3.5e6 < loaded.model == loaded.gradients <= 4e6
    assert loaded.optimizer == 2 * loaded.model
    assert loaded.total == sum((loaded.data, loaded.model, loaded.gradients, loaded.optimizer, loaded.activations))
    assert loaded.total - streamed.total == loaded.data - streamed.data


def test_what_each_saving_saves():
    def memory(**train):
        keys = {"train": {"parameters": 1_000_000, "batch_size": 64} | train}
        return training_memory(section(**keys), 4096, residency="streamed", tokens=10**9, micro_batch=16)

    plain = memory()
    assert memory(optimizer="adamw8bit").optimizer < 0.3 * plain.optimizer
    mixed = memory(precision="bf16-mixed")
    assert mixed.model == plain.model
    assert mixed.activations < 0.85 * plain.activations
    small = training_memory(section(train={"batch_size": 64}), 4096, residency="streamed", tokens=10**9, micro_batch=4)
    whole = training_memory(section(train={"batch_size": 64}), 4096, residency="streamed", tokens=10**9, micro_batch=0)
    assert small.activations < whole.activations


def test_the_8_bit_states_are_those_of_the_library():
    bitsandbytes = pytest.importorskip("bitsandbytes")
    network = Network(Size(layers=2, width=64, heads=2, vocabulary=300, context=64))
    optimizer = bitsandbytes.optim.AdamW8bit(network.parameters())
    network(torch.randint(0, 300, (2, 64))).sum().backward()
    optimizer.step()
    states = [value for state in optimizer.state.values() for value in state.values() if torch.is_tensor(value)]
    distinct = {tensor.untyped_storage().data_ptr(): tensor.nbytes for tensor in states if tensor.numel() != 256}
    keys = {"train": {"parameters": network.size.parameters, "optimizer": "adamw8bit"}, "tensors": {"seq_len": 64}}
    found = training_memory(section(**keys), 300, residency="streamed", tokens=1, micro_batch=0)
    assert found.optimizer == pytest.approx(sum(distinct.values()), rel=0.2)
