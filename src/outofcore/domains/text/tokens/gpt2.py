"""GPT-2's tokenizer from its vocabulary and merges, and the byte-level form that its kind has."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import tokenizers
from tokenizers import decoders, models, pre_tokenizers

from outofcore.errors import ParamsError
from outofcore.settings.yaml_text import parse_json

GPT2_FILES = (("encoder.json", "vocab.bpe"), ("vocab.json", "merges.txt"))
"""GPT-2's vocabulary and merges, as named by OpenAI and by the hub."""


def gpt2_files(folder: Path) -> tuple[Path, Path] | None:
    """The vocabulary and the merges in a folder, if it has both."""
    pairs = [(folder / vocabulary, folder / merges) for vocabulary, merges in GPT2_FILES]
    return next((pair for pair in pairs if all(path.is_file() for path in pair)), None)


def gpt2_content(folder: Path, special: Sequence[str], setting: str) -> str:
    """The ``tokenizer.json`` of GPT-2's files; of the ``special`` tokens, those that it has are special.

    Raises ParamsError, which names the ``setting``, if the folder lacks them, or has those of a tokenizer that splits
    text in another way (Qwen's).
    """
    files = gpt2_files(folder)
    if files is None:
        wanted = ", or ".join(" and ".join(names) for names in GPT2_FILES)
        raise ParamsError(f"{setting}: expected a folder with {wanted}, found no such pair in {folder}")
    try:
        tokenizer = byte_level(models.BPE.from_file(*map(str, files)))
        config = folder / "tokenizer_config.json"
        own = parse_json(config.read_text(encoding="utf-8")) if config.is_file() else {}
        kind = str(own.get("tokenizer_class") or "GPT2Tokenizer")
    except Exception as error:
        raise ParamsError(
            f"{setting}: expected GPT-2's {files[0].name} and {files[1].name} in {folder}, {error}"
        ) from error
    if not kind.startswith("GPT2"):
        raise ParamsError(
            f"{setting}: expected GPT-2's files in {folder}, its tokenizer_config.json says {kind}; save its "
            "tokenizer.json there"
        )
    tokenizer.add_special_tokens([token for token in special if tokenizer.token_to_id(token) is not None])
    content: str = tokenizer.to_str()
    return content


def byte_level(model: models.Model) -> tokenizers.Tokenizer:
    """A tokenizer that spells any text, by bytes."""
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer
