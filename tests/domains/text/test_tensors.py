"""Windows as tensors, and under other names: the same tokens, targets and borders of documents."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

import outofcore
from outofcore.domains.text.network import Network, NetworkShape
from outofcore.domains.text.tensors import TextReading
from outofcore.errors import ParamsError

GENERATOR = np.random.default_rng(0)


def test_targets_are_the_inputs_one_token_on():
    tokens = np.array([[5, 6, 7, 65_535], [1, 2, 3, 4]], np.uint16)
    batch = TextReading()({"tokens": tokens}, GENERATOR)
    assert batch["inputs"].tolist() == [[5, 6, 7], [1, 2, 3]]
    assert batch["targets"].tolist() == [[6, 7, 65_535], [2, 3, 4]]
    assert {tensor.dtype for tensor in batch.values()} == {torch.int64}
    tokens[:] = 0  # the loader uses its room again
    assert batch["inputs"][0, 0] == 5


def test_targets_that_are_not_valid_are_ignored():
    tokens, valid = np.array([[5, 6, 0, 8, 8], [1, 2, 3, 4, 0]], np.uint16), np.ones((2, 5), bool)
    valid[0, 3:], valid[1, [0, 2]] = False, False
    batch = TextReading(end=0)({"tokens": tokens, "valid": valid}, GENERATOR)
    assert batch["inputs"].tolist() == [[5, 6, 0, 8], [1, 2, 3, 4]]
    assert batch["targets"].tolist() == [[6, 0, -100, -100], [2, -100, 4, 0]]


def test_a_rest_does_not_follow_the_end_of_another_document():
    rows = {"tokens": np.array([[5, 6, 0, 8, 9, 0, 0, 0]], np.uint16), "valid": np.ones((1, 8), bool)}
    rows["valid"][0, [3, 6, 7]] = False  # the rest 8, 9, 0 shares its 8 with a window before; then padding
    batch = TextReading(end=0)(rows, GENERATOR)
    assert batch["positions"].tolist() == [[0, 1, 2, 0, 1, 2, 0]]
    assert batch["segments"].tolist() == [[0, 0, 0, 1, 1, 1, 2]]


@given(rows=st.lists(st.lists(st.integers(0, 3), min_size=8, max_size=8), min_size=1, max_size=4))
def test_places_begin_again_after_each_end(rows):
    batch = TextReading(end=0)({"tokens": np.array(rows, np.uint16)}, GENERATOR)
    for row, positions, segments in zip(rows, batch["positions"].tolist(), batch["segments"].tolist(), strict=True):
        position, segment = -1, 0
        for token, found_position, found_segment in zip(row, positions, segments, strict=False):
            position, segment = (0, segment + 1) if token == 0 else (position + 1, segment)
            assert (found_position, found_segment) == (position, segment)


def test_the_first_token_of_a_document_is_not_predicted_from_the_document_before():
    torch.manual_seed(0)
    network = Network(NetworkShape(layers=2, width=16, heads=2, vocabulary=50, context=9)).eval()
    rows = np.array([[1, 2, 3, 4, 0, 7, 8, 0, 9, 5], [5, 6, 0, 6, 0, 7, 8, 0, 9, 5]], np.uint16)
    batch = TextReading(end=0)({"tokens": rows}, GENERATOR)
    hidden = network(batch["inputs"], batch["positions"], batch["segments"])
    assert batch["targets"][0, 4] == 7
    assert torch.allclose(hidden[0, 4:], hidden[1, 4:], atol=1e-6)
    alone = network(batch["inputs"][:1, 4:7])
    assert torch.allclose(hidden[:1, 4:7], alone, atol=1e-6)


END = 0
ROWS = np.array([[1, 2, 3, 4, 0, 7, 8, 0, 9], [5, 0, 6, 2, 2, 7, 8, 3, 0], [0, 0, 6, 2, 2, 7, 8, 3, 4]], np.uint16)


def batch_of(*, apart: bool) -> dict[str, torch.Tensor]:
    return TextReading(end=END if apart else None)({"tokens": ROWS}, np.zeros(3, np.uint64))


@pytest.mark.parametrize("apart", [False, True])
def test_a_window_has_as_many_tokens_as_targets(apart):
    batch = batch_of(apart=apart)
    named = outofcore.causal_lm(batch)
    assert set(named) == {"input_ids", "labels", "shift_labels", "position_ids" if apart else "attention_mask"}
    assert named["input_ids"].tolist() == named["labels"].tolist() == ROWS[:, :-1].tolist()
    assert named["shift_labels"].tolist() == ROWS[:, 1:].tolist()
    if apart:
        assert torch.equal(named["position_ids"], batch["positions"])
    else:
        assert torch.equal(named["attention_mask"], torch.ones(3, 8, dtype=torch.int64))


def test_a_label_that_no_loss_counts_is_ignored_in_every_form():
    valid = np.ones(ROWS.shape, bool)
    valid[0, 5], valid[2, 6:] = False, False
    batch = TextReading(end=END)({"tokens": ROWS, "valid": valid}, np.zeros(3, np.uint64))
    expected = np.where(valid, ROWS.astype(int), -100)
    for packed in (False, True):
        named = outofcore.causal_lm(batch, packed=packed)
        assert named["shift_labels"].view(3, 8).tolist() == expected[:, 1:].tolist()
        assert named["labels"].view(3, 8)[:, 1:].tolist() == expected[:, 1:-1].tolist()


@pytest.mark.parametrize("apart", [False, True])
def test_packed_sequences_are_the_documents_of_each_window(apart):
    documents = []
    for row in ROWS[:, :-1].tolist():
        documents.append([])
        for place, token in enumerate(row):
            if apart and token == END and place:
                documents.append([])
            documents[-1].append(token)
    packed = outofcore.causal_lm(batch_of(apart=apart), packed=True)
    bounds = packed["cu_seq_lens_q"]
    assert bounds.dtype == torch.int32
    assert torch.equal(bounds, packed["cu_seq_lens_k"])
    assert packed["max_length_q"] == packed["max_length_k"] == max(map(len, documents))
    assert {packed[name].shape for name in ("input_ids", "labels", "position_ids")} == {(1, 24)}
    sizes = bounds.diff().tolist()
    assert [each.tolist() for each in packed["input_ids"][0].split(sizes)] == documents
    assert [each.tolist() for each in packed["position_ids"][0].split(sizes)] == [
        list(range(len(each))) for each in documents
    ]
    # A model that shifts the labels over the whole row predicts no window's first token from the window before it.
    assert packed["labels"].view(3, 8)[:, 0].tolist() == [-100] * 3
    assert torch.equal(packed["labels"].view(3, 8)[:, 1:], packed["shift_labels"].view(3, 8)[:, :-1])


@pytest.mark.parametrize("packed", [False, True])
def test_a_list_of_samples_is_a_batch(packed):
    batch = batch_of(apart=True)
    samples = [{name: tensor[place] for name, tensor in batch.items()} for place in range(3)]
    named = outofcore.causal_lm(samples, packed=packed)
    for name, expected in outofcore.causal_lm(batch, packed=packed).items():
        assert torch.equal(torch.as_tensor(named[name]), torch.as_tensor(expected))


def test_a_batch_of_another_domain_is_refused():
    with pytest.raises(ParamsError, match=r"batch: expected the inputs and targets of a text, got \['planes'\]"):
        outofcore.causal_lm({"planes": torch.zeros(1)})
    with pytest.raises(ParamsError, match=r"got \[\]; a Trainer needs .*remove_unused_columns=False"):
        outofcore.causal_lm([{}, {}])  # what a Trainer leaves of samples whose names its model does not take


@pytest.mark.parametrize("apart", [False, True])
def test_a_model_of_that_context_counts_every_target(apart):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(vocab_size=50, n_positions=8, n_embd=16, n_layer=1, n_head=2)
    ).eval()
    batch = batch_of(apart=apart)
    with torch.no_grad():
        answer = model(**outofcore.causal_lm(batch), use_cache=False)
    expected = functional.cross_entropy(answer.logits.flatten(0, 1), batch["targets"].flatten())
    assert answer.loss.item() == pytest.approx(expected.item(), rel=1e-5)
