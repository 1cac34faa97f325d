"""The names that a user's program imports."""

from __future__ import annotations

import importlib.metadata
import pydoc
import subprocess
import sys

import pytest

import outofcore


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


def test_the_command_line_imports_neither_torch_nor_the_compiler() -> None:
    program = "import sys, outofcore.cli, outofcore; sys.exit(bool({'numba', 'torch'} & {*sys.modules}))"
    subprocess.run([sys.executable, "-c", program], check=True)
