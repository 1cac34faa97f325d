from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from pydantic import ValidationError
from torch.nn import functional

from outofcore.domains.text import DOMAIN
from outofcore.domains.text import network as network_module
from outofcore.domains.text.model import make_task
from outofcore.domains.text.network import (
    IGNORED,
    Network,
    NetworkShape,
    choose_size,
    cross_entropy,
    logits,
    model_size,
    size_doubt,
    token_losses,
)
from outofcore.domains.text.schema import attributes
from outofcore.domains.text.tokens.tokenizer import Tokenizer
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


def test_too_few_parameters_for_the_vocabulary_are_refused():
    with pytest.raises(ParamsError, match=r"100,000 parameters are too few for 50,257 ids .* the least is 404,"):
        choose_size(100_000, 50_257, 256)


def test_the_shape_of_gpt2_has_its_number_of_parameters(section_of):
    gpt2 = {"layers": 12, "width": 768, "heads": 12}
    size = model_size(section_of(Path("raw"), tensors={"seq_len": 1024}, train=gpt2), 50_257)
    with torch.device("meta"):
        network = Network(size)
    assert sum(parameter.numel() for parameter in network.parameters()) == size.parameters == 124_439_808
    names = {"tokens": (50_257, 768), "places": (1024, 768), "blocks.11.queries_keys_values": (2304, 768)}
    weights = network.state_dict()
    assert {name: tuple(weights[f"{name}.weight"].shape) for name in names} == names
    assert size_doubt(size) is None


@pytest.mark.parametrize(
    ("train", "why"),
    [
        ({"layers": 2}, "layers and width together"),
        ({"heads": 2}, "layers and width together"),
        ({"layers": 2, "width": 64, "parameters": 10_000}, "either parameters or layers and width"),
        ({"layers": 2, "width": 64, "heads": 3}, "a multiple of heads"),
    ],
)
def test_a_shape_that_is_none_is_refused(section_of, train: dict[str, int], why: str):
    with pytest.raises(ValidationError, match=why):
        section_of(Path("raw"), train=train)


def test_a_size_that_is_all_vocabulary_is_said_by_plan_and_run(section_of, tokenizer: Tokenizer, monkeypatch, capfd):
    said = (
        "note: text.train: 99% of 811,520 parameters embed 50,257 ids at a width of 16, which leaves little for layers"
    )
    monkeypatch.setattr(Tokenizer, "size", 50_257)  # of GPT-2
    section = section_of(Path("raw"), train={"parameters": 1_000_000})
    DOMAIN.plan(section, SimpleNamespace(sizes=False))
    store = SimpleNamespace(
        attributes=attributes(tokenizer), sequences=lambda _: SimpleNamespace(blocks=lambda *_: iter(()))
    )
    make_task(store, section, store, "val")
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 2
    assert all(line.startswith(said) for line in lines)


def test_dropout_is_of_training_alone():
    inputs = torch.randint(0, 50, (3, 12))
    networks = []
    for dropout in (0.0, 0.5):
        torch.manual_seed(0)
        networks.append(Network(NetworkShape(layers=2, width=16, heads=2, vocabulary=50, context=12), dropout))
    plain, dropped = networks
    assert torch.equal(plain(inputs), plain(inputs))
    assert not torch.allclose(dropped(inputs), dropped(inputs))
    assert torch.equal(plain(inputs), dropped.eval()(inputs))


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


def test_scores_are_those_of_gpt2_written_plainly(network: Network):
    weights = {name: weight + 0.3 * torch.randn_like(weight) for name, weight in network.state_dict().items()}
    network.load_state_dict(weights)

    def linear(x: torch.Tensor, name: str) -> torch.Tensor:
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def norm(x: torch.Tensor, name: str) -> torch.Tensor:
        centred = x - x.mean(-1, keepdim=True)
        scaled = centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()
        return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    inputs = torch.randint(0, 50, (3, 12))
    x = weights["tokens.weight"][inputs] + weights["places.weight"][:12]
    for block in ("blocks.0", "blocks.1"):
        queries, keys, values = linear(norm(x, f"{block}.norm_attention"), f"{block}.queries_keys_values").split(16, 2)
        heads = []
        for head in (slice(0, 8), slice(8, 16)):
            scores = queries[..., head] @ keys[..., head].mT / 8**0.5
            later = torch.ones(12, 12).triu(1).bool()
            heads.append(scores.masked_fill(later, -torch.inf).softmax(-1) @ values[..., head])
        x = x + linear(torch.cat(heads, -1), f"{block}.projection")
        wide = linear(norm(x, f"{block}.norm_mlp"), f"{block}.widen")
        wide = wide * (1 + ((2 / math.pi) ** 0.5 * (wide + 0.044715 * wide**3)).tanh()) / 2  # GPT-2's GELU
        x = x + linear(wide, f"{block}.narrow")
    plain = norm(x, "norm") @ weights["tokens.weight"].T
    torch.testing.assert_close(logits(network, network(inputs)), plain, rtol=1e-4, atol=1e-4)


def test_a_network_begins_with_no_opinion(network: Network):
    scores = logits(network, network(torch.randint(0, 50, (4, 12))))
    assert scores.shape == (4, 12, 50)
    loss = torch.nn.functional.cross_entropy(scores.flatten(0, 1), torch.randint(0, 50, (48,)))
    assert abs(loss.detach() - torch.tensor(50.0).log()) < 0.1


@pytest.fixture
def case(monkeypatch: pytest.MonkeyPatch) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    monkeypatch.setattr(network_module, "CHUNK_SCORES", 200)  # 6 tokens at a time
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(40, 8, generator=generator, requires_grad=True)
    weight = torch.randn(30, 8, generator=generator, requires_grad=True)
    return hidden, weight, torch.randint(0, 30, (40,), generator=generator)


def gradients(loss: torch.Tensor, *tensors: torch.Tensor) -> list[torch.Tensor]:
    return list(torch.autograd.grad(loss, tensors))


@pytest.mark.parametrize("ignored", [0, 14])
def test_loss_and_gradients_are_those_of_torch(case, ignored: int):
    hidden, weight, targets = case
    targets[:ignored] = IGNORED
    expected = functional.cross_entropy(hidden @ weight.T, targets, reduction="sum")
    found = cross_entropy(hidden, weight, targets)
    assert torch.allclose(found, expected)
    for ours, theirs in zip(gradients(found * 3, hidden, weight), gradients(expected * 3, hidden, weight), strict=True):
        assert torch.allclose(ours, theirs, atol=1e-5)
    assert torch.allclose(token_losses(hidden, weight, targets).sum(), expected)


def test_bfloat16_gives_gradients_in_the_types_of_what_they_belong_to(case):
    hidden, weight, targets = case
    narrow = hidden.detach().bfloat16().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        found = cross_entropy(narrow, weight, targets)
        expected = functional.cross_entropy(functional.linear(narrow, weight), targets, reduction="sum")
    assert torch.allclose(found, expected, rtol=1e-3)
    ours, theirs = gradients(found, narrow, weight), gradients(expected, narrow, weight)
    assert [tensor.dtype for tensor in ours] == [torch.bfloat16, torch.float32]
    for mine, reference in zip(ours, theirs, strict=True):
        assert torch.allclose(mine.float(), reference.float(), atol=0.05, rtol=0.05)


def test_losses_of_each_token(case):
    hidden, weight, targets = case
    expected = functional.cross_entropy(hidden @ weight.T, targets, reduction="none")
    found = token_losses(hidden, weight, targets)
    assert torch.allclose(found, expected, atol=1e-6)
    assert not found.requires_grad
