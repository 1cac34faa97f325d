from __future__ import annotations

from types import SimpleNamespace

from outofcore.domains.text.gallery import plain_layout
from outofcore.domains.text.schema import attributes
from outofcore.domains.text.tokens.tokenizer import Tokenizer


def test_a_store_is_compared_with_ids_in_the_type_that_holds_them(tokenizer: Tokenizer):
    store = SimpleNamespace(attributes=attributes(tokenizer) | {"rows": {"train": 900, "val": 100}})
    layout = plain_layout(store)
    assert (layout.what, layout.bytes) == ("token ids as uint16", 2000)
