from __future__ import annotations

import pytest
import torch

from outofcore.domains.text.network import PRESETS, Network, NetworkShape, choose_size
from outofcore.errors import ParamsError


@pytest.mark.parametrize("vocabulary", [400, 4096, 50_257])
@pytest.mark.parametrize("aim", [1_000_000, 10_000_000])
def test_a_network_has_about_the_size_aimed_at(aim: int, vocabulary: int):
    size = choose_size(aim, vocabulary, 128)
    with torch.device("meta"):
        network = Network(size)
    count = sum(parameter.numel() for parameter in network.parameters())
    assert count == size.parameters
    assert 0.75 * aim <= count <= aim
    assert size.width % size.heads == 0


def test_presets_grow():
    sizes = [choose_size(aim, 1000, 64) for aim in PRESETS.values()]
    assert [size.layers for size in sizes] == sorted(size.layers for size in sizes)
    assert [size.width for size in sizes] == sorted(size.width for size in sizes)


def test_too_few_parameters_for_the_vocabulary_are_refused():
    with pytest.raises(ParamsError, match=r"100,000 parameters are too few for 50,257 ids .* the least is 404,"):
        choose_size(100_000, 50_257, 256)


@pytest.fixture
def network() -> Network:
    torch.manual_seed(0)
    return Network(NetworkShape(layers=2, width=16, heads=2, vocabulary=50, context=12)).eval()


def test_no_token_sees_what_comes_after_it(network: Network):
    inputs = torch.randint(0, 50, (3, 12))
    changed = inputs.clone()
    changed[:, 7] += 1
    changed %= 50
    before, after = network(inputs), network(changed)
    assert torch.equal(before[:, :7], after[:, :7])
    assert not torch.allclose(before[:, 7:], after[:, 7:])


def test_documents_told_apart_are_read_as_if_alone(network: Network):
    first, second = torch.randint(0, 50, (1, 5)), torch.randint(0, 50, (1, 7))
    positions = torch.tensor([[*range(5), *range(7)]])
    segments = torch.tensor([[0] * 5 + [1] * 7])
    together = network(torch.cat([first, second], 1), positions, segments)
    alone = torch.cat([network(first), network(second)], 1)
    assert torch.allclose(together, alone, atol=1e-5)


def test_a_network_begins_with_no_opinion(network: Network):
    scores = network.logits(network(torch.randint(0, 50, (4, 12))))
    assert scores.shape == (4, 12, 50)
    loss = torch.nn.functional.cross_entropy(scores.flatten(0, 1), torch.randint(0, 50, (48,)))
    assert abs(loss.detach() - torch.tensor(50.0).log()) < 0.1
