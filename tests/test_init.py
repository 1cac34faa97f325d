"""The names that a user's program imports."""

from __future__ import annotations

import importlib.metadata
import inspect
import pydoc

import pytest

import outofcore
from outofcore.domains.domain import Domain
from outofcore.domains.reading import Reading, Streaming
from outofcore.domains.task import Task
from outofcore.domains.text.stream import TextStream
from outofcore.loading.iteration import Loader
from outofcore.models import Model, Predictions
from outofcore.store.reader import Store

PUBLIC = [getattr(outofcore, name) for name in outofcore.__all__]
RETURNED = (Loader, Model, Predictions, Store, TextStream)
SEAM = (Domain, Reading, Streaming, Task)


def test_help_lists_every_public_name() -> None:
    text = pydoc.plain(pydoc.render_doc(outofcore))
    for name in outofcore.__all__:
        assert name in dir(outofcore)
        assert callable(getattr(outofcore, name))
        assert name in text


def test_the_version_is_that_of_the_installed_package() -> None:
    assert outofcore.__version__ == importlib.metadata.version("outofcore")


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'loade'"):
        outofcore.loade  # noqa: B018


@pytest.mark.parametrize("name", [*PUBLIC, *RETURNED, *SEAM], ids=lambda each: each.__name__)
def test_what_users_and_domains_rely_on_is_documented(name: type) -> None:
    """Public names, what they return and the interface of domains, with all their methods and properties."""
    assert name.__doc__
    members = vars(name).items() if isinstance(name, type) else ()
    callables = [key for key, each in members if callable(each) or isinstance(each, property | classmethod)]
    assert not [key for key in callables if key[0] != "_" and not inspect.getdoc(getattr(name, key))]


def test_a_shell_completes_public_names_only() -> None:
    assert dir(outofcore) == sorted([*outofcore.__all__, "__version__"])
