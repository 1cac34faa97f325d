"""Units to tokens, in a worker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import compress
from typing import Any

import numpy as np
import numpy.typing as npt

from outofcore.domains.text.documents.long import PartOfDocument, key_of, pieces, survey
from outofcore.domains.text.documents.reading import NOTHING
from outofcore.domains.text.documents.records import Documents, read_documents
from outofcore.domains.text.params import TextSection
from outofcore.domains.text.source import part_of_document
from outofcore.domains.text.tokens.cuts import Cutter
from outofcore.domains.text.tokens.engine import Engine, Ids, Lengths, open_engine
from outofcore.domains.text.tokens.oracle import Oracle
from outofcore.domains.text.tokens.tokenizer import EncodingError, Tokenizer, load_tokenizer
from outofcore.raw.unit import KEY_BYTES, AuditRate, Reject, Unit, UnitResult
from outofcore.system.compilation import kernel


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
        """Tokenize the documents of a unit, or a piece of one."""
        part = part_of_document(unit)
        return self._result(unit, read_documents(unit, self.section)) if part is None else self._piece(unit, part)

    def _result(self, unit: Unit, documents: Documents) -> UnitResult:
        engine = open_engine(self.tokenizer)
        try:
            at_once = all(len(text) <= engine.longest for text in documents.texts)
            ids, lengths = engine.encode(documents.texts) if at_once else self._one_by_one(engine, documents)
        except EncodingError:
            ids, lengths = self._one_by_one(engine, documents)
        ids, lengths = self._without_ends(ids, lengths, documents)
        texts = documents.texts
        sizes = np.array([len(text) for text in texts], np.int64)
        counted = _characters(texts, sizes)
        keys = np.frombuffer(b"".join(map(key_of, texts)), np.uint8).reshape(-1, KEY_BYTES)
        chosen = self._chosen(keys)
        chosen[:1] |= unit.detail.get("first", False)
        audited, differences = 0, []
        for number in np.flatnonzero(chosen):
            if not self._oracle.reach(texts[number]):
                continue
            audited += 1
            stop = int(lengths[: number + 1].sum())
            found = self._oracle.difference(texts[number], ids[stop - int(lengths[number]) : stop])
            if found:
                name = unit.places[documents.files[number]][1]
                differences.append(f"{name}, document at {documents.offsets[number]}: {found}")
        stored = {**_document_counts(sizes, counted), "tokens": lengths}
        tokens, lengths = self._framed(ids, lengths)
        return UnitResult(
            found=len(texts) + len(documents.rejects),
            rows={"tokens": tokens},
            sequences=_columns(unit, lengths, sizes, counted, documents),
            keys=keys,
            file=np.array(documents.files, np.int64),
            rejects=tuple(documents.rejects),
            counts=_marks(unit),
            stored_counts=stored,
            audited=audited,
            differences=tuple(differences),
        )

    def _piece(self, unit: Unit, part: PartOfDocument) -> UnitResult:
        ids, lengths = open_engine(self.tokenizer).encode([unit.payload])
        # Pieces are chosen individually, as a whole long document would take too long.
        key = np.frombuffer(key_of(unit.payload[:4096]), np.uint8)[None]
        chosen = unit.detail.get("first", False) or bool(self._chosen(key)[0])
        audited = chosen and self._oracle.reach(unit.payload) > 0
        difference = self._oracle.difference(unit.payload, ids, part.before) if audited else None
        sizes, counted = np.array([part.survey.bytes]), np.array([part.survey.characters])
        stored: dict[str, npt.NDArray[Any]] = {"tokens": np.array([len(ids)])}
        if not part.continues:
            stored |= _document_counts(sizes, counted)
            stored["documents_in_pieces"] = np.array([1])
        tokens, lengths = self._framed(ids, lengths, begins=not part.continues, ends=not part.unfinished)
        return UnitResult(
            found=0 if part.continues else 1,
            rows={"tokens": tokens},
            sequences=_columns(unit, lengths, sizes, counted, Documents(offsets=[unit.offset], files=[0])),
            keys=np.frombuffer(part.survey.key, np.uint8).reshape(1, KEY_BYTES),
            continues=part.continues,
            unfinished=part.unfinished,
            counts=_marks(unit),
            stored_counts=stored,
            audited=int(audited),
            differences=(f"{unit.name}, document at {unit.offset}: {difference}",) if difference else (),
        )

    def _one_by_one(self, engine: Engine, documents: Documents) -> tuple[Ids, Lengths]:
        """Ids of documents, long ones in pieces; one without a safe cut, or at which the library fails, is rejected."""
        cutter = Cutter(engine.ids, safe=self.tokenizer.cuttable)
        kept = Documents(rejects=documents.rejects)
        ids: list[Ids] = []
        lengths: list[int] = []
        for text, offset, file in zip(documents.texts, documents.offsets, documents.files, strict=True):
            try:
                found = survey([text], self.section.filters, cutter, engine, offset)
                if not isinstance(found, Reject):
                    parts, _ = engine.encode(list(pieces([text], found.cuts)))
            except EncodingError as error:
                found = Reject(reason="not_tokenized", offset=offset, detail=str(error))
            if isinstance(found, Reject):
                kept.rejects.append(replace(found, file=file))
                continue
            ids.append(parts)
            lengths.append(len(parts))
            kept.texts.append(text)
            kept.offsets.append(offset)
            kept.files.append(file)
        documents.texts, documents.offsets, documents.files = kept.texts, kept.offsets, kept.files
        return np.concatenate(ids) if ids else np.empty(0, np.uint32), np.array(lengths, np.int64)

    def _without_ends(self, ids: Ids, lengths: Lengths, documents: Documents) -> tuple[Ids, Lengths]:
        """Reject documents whose own text has the id that ends one, or begins one."""
        around = [number for number in (self.tokenizer.end_id, self.tokenizer.begin_id) if number is not None]
        places = np.flatnonzero(np.isin(ids, around)) if around else ()
        if not len(places):
            return ids, lengths
        kept = np.ones(len(lengths), bool)
        kept[np.searchsorted(np.cumsum(lengths), places, "right")] = False
        names = " or ".join(map(repr, self.section.source.tokens))
        detail = f"the tokenizer gives its text the id of {names}, which is put around documents"
        for number in np.flatnonzero(~kept).tolist():
            offset, file = documents.offsets[number], documents.files[number]
            documents.rejects.append(Reject(reason="end_in_text", offset=offset, detail=detail, file=file))
        documents.texts = list(compress(documents.texts, kept))
        documents.offsets = list(compress(documents.offsets, kept))
        documents.files = list(compress(documents.files, kept))
        return ids[np.repeat(kept, lengths)], lengths[kept]

    def _framed(
        self, ids: Ids, lengths: Lengths, *, begins: bool = True, ends: bool = True
    ) -> tuple[npt.NDArray[Any], Lengths]:
        """Ids in the store's dtype with the tokens before and after each document, and the new lengths."""
        tokens = ids.astype(self.tokenizer.dtype)
        if ends and (end := self.tokenizer.end_id) is not None:
            tokens, lengths = np.insert(tokens, np.cumsum(lengths), end), lengths + 1
        if begins and (begin := self.tokenizer.begin_id) is not None:
            tokens, lengths = np.insert(tokens, np.cumsum(lengths) - lengths, begin), lengths + 1
        return tokens, lengths

    def _chosen(self, keys: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
        """Documents for the oracle, by the second half of the key; the first half decides the split."""
        return self.rate.chosen(np.ascontiguousarray(keys).view(">u8")[:, 1])

    @property
    def _oracle(self) -> Oracle:
        return _open_oracle(self.tokenizer)


@lru_cache(maxsize=2)
def _open_oracle(tokenizer: Tokenizer) -> Oracle:
    return Oracle(tokenizer, open_engine(tokenizer))


def _characters(texts: Sequence[bytes], sizes: Lengths) -> Lengths:
    """Code points of each text."""
    joined = b"".join(texts)
    if joined.isascii():
        return sizes
    counted = np.empty_like(sizes)
    _count_characters(np.frombuffer(joined, np.int8), sizes, counted)
    return counted


@kernel
def _count_characters(data: Any, sizes: Any, counted: Any) -> None:
    start = 0
    for number, size in enumerate(sizes):
        text = data[start : start + size]
        count = 0
        for place in range(size):
            # As signed numbers, UTF-8 continuation bytes (0x80 to 0xBF) are those below -64.
            count += text[place] >= -64
        counted[number] = count
        start += size


def _marks(unit: Unit) -> Mapping[str, int]:
    return +Counter(byte_order_marks=sum((each.detail or NOTHING).marks for each in unit.stretches))


def _columns(
    unit: Unit, lengths: Lengths, sizes: Lengths, counted: Lengths, documents: Documents
) -> dict[str, npt.NDArray[Any]]:
    return {
        "length": lengths,
        "bytes": sizes,
        "characters": counted,
        "source": np.array([each.source for each in unit.stretches], np.int32)[documents.files],
        "member": np.array([each.member for each in unit.stretches], np.int32)[documents.files],
        "offset": np.array(documents.offsets, np.int64),
    }


def _document_counts(sizes: Lengths, counted: Lengths) -> dict[str, npt.NDArray[Any]]:
    """Metrics of each document: its size, and the next power of two above its bytes."""
    counts: dict[str, npt.NDArray[Any]] = {"bytes": sizes, "characters": counted}
    powers = np.frexp(sizes.astype(np.float64))[1]
    for power in np.unique(powers).tolist():
        counts[f"documents_below_2^{power:02d}_bytes"] = powers == power
    return counts
