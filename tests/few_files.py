"""Functions run in a process of their own that may open few files: what other tests hold open changes nothing."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

FILES = 20


def with_few_files(function: Callable[..., object], *arguments: object, files: int = FILES) -> None:
    """Call the function in a process that may open so many files more than it has open; its errors are raised here."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        process.submit(_limited, function, *arguments, files=files).result()


def _limited(function: Callable[..., object], *arguments: object, files: int) -> None:
    free = [os.open(os.devnull, os.O_RDONLY) for _ in range(files)]
    for each in free:
        os.close(each)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(free) + 1, max(free) + 1))
    function(*arguments)
