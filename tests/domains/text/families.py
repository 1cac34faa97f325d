"""Tokenizers of the kinds that people have, built by the library ``tokenizers`` alone."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from tests.domains.text.conftest import PROSE

_CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
EXPRESSIONS = {
    "gpt2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "cl100k": rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_SPACES}",
    "qwen": rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_SPACES}",
    "o200k": (
        rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_CONTRACTIONS}?"
        rf"|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_CONTRACTIONS}?"
        rf"|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_SPACES}"
    ),
}
"""The regular expressions of published tokenizers."""

# One or two of each class of characters that the expressions tell apart, and of each that libraries disagree about.
CLASSES = "aAſ中\u0301s1² \n\r\t\u00a0\u3000\u0085\x1c\u200b'’./\u3002😀\x00\ufeff"
HOSTILE = st.text(
    st.one_of(
        st.sampled_from("    \n\n\r\t'’.,!/-_()“”。，sStTmMdDlLvVrReE019aZ"),
        st.sampled_from(CLASSES + "\u180e\u2028ⅧǅʰéÅ한ไท\U0001f468\u200d\u20e3"),
        st.characters(exclude_categories=["Cs"]),
    ),
    max_size=60,
)
"""Texts at which pre-tokenizers differ."""

END = "</s>"
TEXT = [PROSE, "the cat sat on the mat and the dog concatenates logs. " * 20]
PIECES = [(END, 0.0), ("<unk>", 0.0), *((letter, -3.0) for letter in "\u2581abcdefghijklmnopqrstuvwxyz</>.,0123456789")]
BYTES = {f"<0x{byte:02X}>": 2 + byte for byte in range(256)}


def byte_level(
    name: str = "", *, ignore_merges: bool = False, normalizer: normalizers.Normalizer | None = None
) -> Tokenizer:
    """GPT-2's kind, or with the expression of Llama 3 or Qwen."""
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=not name)
    split = [pre_tokenizers.Split(Regex(EXPRESSIONS[name]), "isolated")] if name else []
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*split, level]) if name else level
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(TEXT, trainer)
    return tokenizer


def llama() -> Tokenizer:
    """SentencePiece's BPE with bytes for what it does not know, and a space before the text."""
    letters = "\u2581abcdefghijklmnopqrstuvwxyz"
    vocabulary = {"<unk>": 0, END: 1, **BYTES, **{letter: 258 + place for place, letter in enumerate(letters)}}
    merges = [("\u2581", "t"), ("h", "e"), ("\u2581t", "he"), ("a", "t"), ("c", "at")]
    for left, right in merges:
        vocabulary[left + right] = len(vocabulary)
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    steps = [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    tokenizer.decoder = decoders.Sequence(steps)
    tokenizer.post_processor = processors.TemplateProcessing(f"$A {END}", special_tokens=[(END, 1)])
    return tokenizer


def unigram(scheme: str = "always") -> Tokenizer:
    """T5's kind."""
    tokenizer = Tokenizer(models.Unigram([*PIECES, ("\u2581the", -1.0), ("cat", -1.0)], unk_id=1))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme)
    tokenizer.decoder = decoders.Metaspace(prepend_scheme=scheme)
    return tokenizer


def word_piece() -> Tokenizer:
    """BERT's kind: lower case, white space lost."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="<unk>"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.train_from_iterator(
        TEXT, trainers.WordPieceTrainer(vocab_size=150, special_tokens=["<unk>", END], show_progress=False)
    )
    return tokenizer


def words() -> Tokenizer:
    """Words between spaces, the end of a document among them."""
    vocabulary = {word: number for number, word in enumerate(["<unk>", END, "the", "cat", "sat"])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return tokenizer


FAMILIES: dict[str, Callable[[], Tokenizer]] = {
    "gpt2": byte_level,
    "llama3": lambda: byte_level("cl100k", ignore_merges=True),
    "qwen": lambda: byte_level("qwen", normalizer=normalizers.NFC()),
    "llama": llama,
    "unigram": unigram,
    "unigram, first": lambda: unigram("first"),
    "word piece": word_piece,
    "words": words,
}
