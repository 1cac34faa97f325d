"""C functions of the libraries that encode and decode, called by address from compiled code, without the GIL.

zstd and Blosc in numcodecs, and CRC-32C in google-crc32c, are exported by their extension modules.
"""

from __future__ import annotations

import ctypes
from importlib import import_module
from typing import Any

import google_crc32c
import numba
import numpy as np
import numpy.typing as npt
from llvmlite import ir  # type: ignore[import-untyped]  # has no types
from numba.extending import intrinsic

Words = npt.NDArray[np.int64]
Named = tuple[str | None, str]

CRC_32C: Named = (google_crc32c.value.__module__, "crc32c_value")  # of the extension; the pure Python variant has none


def addresses(*named: Named) -> Words | None:
    """Addresses of C functions, each of an extension module or, for None, of the process; None if one is missing."""
    try:
        functions = [
            getattr(ctypes.CDLL(module and import_module(module).__file__), function) for module, function in named
        ]
    except (ImportError, AttributeError, OSError, TypeError):  # TypeError: Windows, for None
        return None
    return np.array([ctypes.cast(function, ctypes.c_void_p).value for function in functions], np.int64)


def _emit_call(typingctx: Any, function: Any, words: Any) -> Any:
    """Call a C function by address, with 64-bit words as arguments and result."""
    del typingctx

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        del context, signature
        word = ir.IntType(64)
        arguments = [builder.extract_value(values[1], number) for number in range(len(words))]
        kind = ir.FunctionType(word, [word] * len(arguments)).as_pointer()
        return builder.call(builder.inttoptr(values[0], kind), arguments)

    return numba.types.int64(function, words), generate


call: Any = intrinsic(_emit_call)
