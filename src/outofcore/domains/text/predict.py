"""A trained text model, tried on a prompt: the text with which it continues."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from pydantic import Field
from torch import Tensor

from outofcore.checks import MOST
from outofcore.domains.domain import Row, Section
from outofcore.domains.task import Batch
from outofcore.domains.text.documents.reading import BOM
from outofcore.domains.text.model import TextTask
from outofcore.domains.text.network import logits
from outofcore.domains.text.params import TextSection
from outofcore.errors import RawInputError

LEAST_TEMPERATURE = 1e-3
"""Below it, scores divided by the temperature may exceed float32."""


class Options(Section):
    """How the text is continued."""

    tokens: int = Field(200, ge=1, le=MOST, description="most tokens to write")
    temperature: float = Field(0.8, ge=0, le=100, description="0, or below 0.001: always the most probable token")
    seed: int = Field(0, ge=0, le=MOST, description="another seed, another text")


def predict(task: TextTask, batch: Batch) -> dict[str, Tensor]:
    """Probabilities of the token after each input (batch, seq_len, vocabulary) as ``targets``."""
    hidden = task.network(batch["inputs"], batch.get("positions"), batch.get("segments"))
    return {"targets": logits(task.network, hidden).softmax(-1)}


def answer(task: TextTask, raw: Path, section: TextSection, options: Options) -> list[Row]:
    """A row with the prompt and its continuation; the line break at the end of the file is not part of the prompt."""
    del section
    if raw.is_dir() or not raw.exists():
        raise RawInputError(
            f"{raw}: expected a text file with a prompt, found {'a folder' if raw.is_dir() else 'nothing'}"
        )
    try:
        prompt = raw.read_bytes().removeprefix(BOM).decode()
    except UnicodeDecodeError as error:
        raise RawInputError(f"{raw}: expected UTF-8, got something else from byte {error.start} on") from error
    prompt = prompt.removesuffix("\n").removesuffix("\r")
    temperature = options.temperature if options.temperature >= LEAST_TEMPERATURE else 0.0
    written = task.write(prompt, options.tokens, temperature=temperature, seed=options.seed)
    # A tokenizer may lower case, or change spaces: the prompt is shown as it was given.
    shown = task.tokenizer.decode(np.array(task.tokenizer.encode(prompt)))
    return [{"text": prompt + written.removeprefix(shown) if written.startswith(shown) else written}]
