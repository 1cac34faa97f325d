"""C functions of the libraries that decode, called by address from compiled code, without the GIL."""

from __future__ import annotations

import ctypes
from importlib import import_module
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
from llvmlite import ir  # type: ignore[import-untyped]  # has no types
from numba.extending import intrinsic


def addresses(*functions: tuple[str | None, str]) -> npt.NDArray[np.int64] | None:
    """Addresses of C functions, each of an extension module or, for None, of the process; None if one is missing."""
    try:
        found = [
            getattr(ctypes.CDLL(module and import_module(module).__file__), function) for module, function in functions
        ]
    except (ImportError, AttributeError, OSError, TypeError):  # as in pure Python; TypeError: Windows, for None
        return None
    return np.array([ctypes.cast(function, ctypes.c_void_p).value for function in found], np.int64)


def _call(signature_words: int) -> Any:
    """A compiled call of a C function by address; arguments and result are 64-bit words."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        del context, signature
        word = ir.IntType(64)
        function = ir.FunctionType(word, [word] * signature_words).as_pointer()
        return builder.call(builder.inttoptr(values[0], function), values[1:])

    return generate


@intrinsic
def _call_2(_: Any, function: Any, a: Any, b: Any) -> Any:
    return numba.types.int64(function, a, b), _call(2)


@intrinsic
def _call_3(_: Any, function: Any, a: Any, b: Any, c: Any) -> Any:
    return numba.types.int64(function, a, b, c), _call(3)


@intrinsic
def _call_4(_: Any, function: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    return numba.types.int64(function, a, b, c, d), _call(4)


@intrinsic
def _call_5(_: Any, function: Any, a: Any, b: Any, c: Any, d: Any, e: Any) -> Any:
    return numba.types.int64(function, a, b, c, d, e), _call(5)


call_2: Any = _call_2
call_3: Any = _call_3
call_4: Any = _call_4
call_5: Any = _call_5
