"""Units to tokens, in a worker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from outofcore.domains.text.documents.reading import NOTHING
from outofcore.domains.text.documents.records import Documents, keys_of, read_documents
from outofcore.domains.text.params import BY_PLACE, UNKNOWN, TextSection
from outofcore.domains.text.tokens.engine import Ids, Lengths, ReferenceEngine, open_engine
from outofcore.domains.text.tokens.tokenizer import EncodingError, Tokenizer, load_tokenizer
from outofcore.raw.unit import AuditRate, Unit, UnitResult, difference


def make_converter(section: TextSection, rate: AuditRate) -> Converter:
    """The function from documents to tokens of the section's tokenizer."""
    return Converter(section, rate, load_tokenizer(section))


@dataclass(frozen=True)
class Converter:
    """A pure function from units to tokens."""

    section: TextSection
    rate: AuditRate
    tokenizer: Tokenizer

    def __call__(self, unit: Unit) -> UnitResult:
        """Tokenize the documents of a unit."""
        documents, engine = read_documents(unit, self.section), open_engine(self.tokenizer)
        try:
            ids, lengths = engine.encode(documents.texts)
        except EncodingError:
            ids, lengths = self._one_by_one(engine, documents)
        ids, lengths = self._without_ends(ids, lengths, documents)
        texts = documents.texts
        sizes = np.array([len(text) for text in texts], np.int64)
        characters = np.array([len(text.decode()) for text in texts], np.int64)
        tokens, framed = self._framed(ids, lengths)
        result = UnitResult(
            found=len(texts) + len(documents.rejects),
            rows={"tokens": tokens},
            sequences={
                "length": framed,
                "bytes": sizes,
                "characters": characters,
                "source": np.array([stretch.source for stretch in unit.stretches], np.int32)[documents.files],
                "member": np.array([stretch.member for stretch in unit.stretches], np.int32)[documents.files],
                "offset": np.array(documents.offsets, np.int64),
            },
            keys=keys_of(texts),
            file=np.array(documents.files, np.int64),
            rejects=tuple(documents.rejects),
            counts=self._counts(unit, documents),
            split=np.array(documents.splits) if documents.splits else None,
            stored_counts={"bytes": sizes, "characters": characters, "tokens": lengths, **self._unknown(ids, lengths)},
        )
        return self._audited(result, unit, documents, ids, lengths)

    def _audited(self, result: UnitResult, unit: Unit, documents: Documents, ids: Ids, lengths: Lengths) -> UnitResult:
        """The result with what the oracle finds in some documents: the key's second half chooses, the first splits."""
        chosen = self.rate.chosen(np.ascontiguousarray(result.keys).view(">u8")[:, 1], unit.raw_bytes)
        chosen[:1] |= unit.detail.get("first", False)
        differences = []
        for number in np.flatnonzero(chosen):
            stop = int(lengths[: number + 1].sum())
            ids_of_text = ids[stop - int(lengths[number]) : stop]
            if found := difference(open_engine(self.tokenizer).difference, documents.texts[number], ids_of_text):
                name = unit.places[documents.files[number]][1]
                differences.append(f"{name}, document at {documents.offsets[number]}: {found}")
        return replace(result, audited=int(chosen.sum()), differences=tuple(differences))

    def _one_by_one(self, engine: ReferenceEngine, documents: Documents) -> tuple[Ids, Lengths]:
        """Ids of documents, of which those at which the library fails are rejected."""
        why, encoded = dict[int, str](), [np.empty(0, np.uint32)]
        for number, text in enumerate(documents.texts):
            try:
                encoded.append(engine.encode([text])[0])
            except EncodingError as error:
                why[number] = str(error)
        documents.reject("not_tokenized", why)
        return np.concatenate(encoded), np.array([len(ids) for ids in encoded[1:]], np.int64)

    def _without_ends(self, ids: Ids, lengths: Lengths, documents: Documents) -> tuple[Ids, Lengths]:
        """Reject documents whose own text has the id that ends one, or begins one."""
        around = [number for number in (self.tokenizer.end_id, self.tokenizer.begin_id) if number is not None]
        places = np.flatnonzero(np.isin(ids, around)) if around else ()
        if not len(places):
            return ids, lengths
        names = " or ".join(map(repr, self.section.source.tokens))
        detail = f"the tokenizer gives its text the id of {names}, which is put around documents"
        numbers = np.unique(np.searchsorted(np.cumsum(lengths), places, "right"))
        kept = documents.reject("end_in_text", dict.fromkeys(numbers.tolist(), detail))
        return ids[np.repeat(kept, lengths)], lengths[kept]

    def _unknown(self, ids: Ids, lengths: Lengths) -> dict[str, npt.NDArray[np.bool_]]:
        """Which documents have more than one unknown token in a thousand, if there are any."""
        document = np.repeat(np.arange(len(lengths)), lengths)[ids == self.tokenizer.unknown_id]
        return {UNKNOWN: 1000 * np.bincount(document, minlength=len(lengths)) > lengths} if len(document) else {}

    def _framed(self, ids: Ids, lengths: Lengths) -> tuple[npt.NDArray[Any], Lengths]:
        """Ids in the store's dtype with the tokens before and after each document, and the new lengths."""
        tokens = ids.astype(self.tokenizer.dtype)
        if (end := self.tokenizer.end_id) is not None:
            tokens, lengths = np.insert(tokens, np.cumsum(lengths), end), lengths + 1
        if (begin := self.tokenizer.begin_id) is not None:
            tokens, lengths = np.insert(tokens, np.cumsum(lengths) - lengths, begin), lengths + 1
        return tokens, lengths

    def _counts(self, unit: Unit, documents: Documents) -> Mapping[str, int]:
        marks = sum((stretch.detail or NOTHING).marks for stretch in unit.stretches)
        placed = len(documents.splits) if self.section.splits.by == "content" else 0
        return +Counter(byte_order_marks=marks, divisions=documents.divisions, **{BY_PLACE: placed})
