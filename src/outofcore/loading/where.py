"""Select sequences by an expression over their columns: a few nodes of Python's syntax, evaluated with NumPy."""

from __future__ import annotations

import ast
import operator
from collections.abc import Collection, Mapping
from contextlib import suppress
from functools import reduce
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from outofcore.checks import shown, word
from outofcore.errors import ParamsError
from outofcore.loading.sequences import Sequences

_ALLOWED = "comparisons of columns, numbers and texts; in and not in with a list of these; and, or, not, parentheses"
_NODES = (ast.BoolOp, ast.UnaryOp, ast.Compare, ast.Name, ast.Constant, ast.Tuple, ast.List)
_COMPARISONS: dict[type[ast.cmpop], Any] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


class Where:
    """An expression such as ``"white_elo >= 2000 and eco in ('B20', 'B21')"``; ``text`` is its canonical form."""

    def __init__(self, text: object) -> None:
        self._source = " ".join(word("where", text).strip().splitlines())
        try:
            self._tree = ast.parse(self._source, mode="eval").body
            self.text = ast.unparse(self._tree)
        except SyntaxError as error:
            self._refuse(error.offset or len(self._source) + 1, error.msg)
        except (ValueError, RecursionError, MemoryError):
            self._refuse(1, "no expression, or too deeply nested")

    def mask(self, sequences: Sequences, of_rows: Collection[str] = ()) -> npt.NDArray[np.bool_]:
        """Which sequences are selected, (sequences,); raises ParamsError if the columns do not suit.

        ``of_rows`` are the names of the fields of rows, by which none can be selected.
        """
        arrays = {}
        for node in ast.walk(self._tree):
            if isinstance(node, ast.expr) and not isinstance(node, _NODES):
                self._wrong(node, f"{shown(ast.unparse(node), 40)} cannot be used here")
            if isinstance(node, ast.Name):
                if node.id not in sequences.columns:
                    known = ", ".join(sequences.columns)
                    if node.id in of_rows:
                        self._wrong(node, f"{node.id} is of each row; where= chooses whole sequences, by {known}")
                    self._wrong(node, f"no column {node.id!r} in {sequences.path}, which has {known}")
                arrays[node.id] = sequences[node.id]
                if len(arrays[node.id].shape) > 1:
                    self._wrong(node, f"several values for each sequence in {node.id!r}")
        with np.errstate(all="ignore"):
            self._truth(self._tree, {name: np.empty(0, array.dtype) for name, array in arrays.items()})
            mask = np.empty(len(sequences), np.bool_)
            for places, values in sequences.slabs(tuple(arrays)):
                mask[places] = self._truth(self._tree, values)
        return mask

    def _truth(self, node: ast.expr, columns: Mapping[str, npt.NDArray[Any]]) -> Any:
        value = self._value(node, columns)
        if np.asarray(value).dtype != np.bool_:
            self._wrong(node, "a value where a comparison is expected")
        return value

    def _value(self, node: ast.expr, columns: Mapping[str, npt.NDArray[Any]]) -> Any:
        match node:
            case ast.Name():
                return columns[node.id]
            case ast.BoolOp():
                join = operator.and_ if isinstance(node.op, ast.And) else operator.or_
                return reduce(join, [self._truth(value, columns) for value in node.values])
            case ast.UnaryOp(op=ast.Not()):
                return np.logical_not(self._truth(node.operand, columns))
            case ast.Compare():
                operands = [node.left, *node.comparators]
                pairs = zip(operands, node.ops, operands[1:], strict=False)
                return reduce(operator.and_, [self._compare(*pair, columns) for pair in pairs])
        return self._literal(node)

    def _compare(self, left: ast.expr, comparison: ast.cmpop, right: ast.expr, columns: Mapping[str, Any]) -> Any:
        if isinstance(comparison, ast.In | ast.NotIn):
            if not isinstance(right, ast.Tuple | ast.List) or not right.elts:
                self._wrong(right, "no list of numbers or texts after 'in'")
            for value in right.elts:
                self._literal(value)
            among = reduce(operator.or_, [self._compare(left, ast.Eq(), value, columns) for value in right.elts])
            return among if isinstance(comparison, ast.In) else np.logical_not(among)
        compare = _COMPARISONS.get(type(comparison))
        if compare is None:
            self._wrong(right, "a comparison by 'is' before this value")
        values = self._value(left, columns), self._value(right, columns)
        first, second = (np.asarray(value).dtype.kind in "OU" and not isinstance(value, int) for value in values)
        if first != second:
            self._wrong(right, "text compared with a number")
        try:
            return compare(*values)
        except OverflowError:
            self._wrong(right, "a number too large to compare")

    def _literal(self, node: ast.expr) -> int | float | str:
        value: Any = None
        with suppress(ValueError, TypeError):  # TypeError: of {[]}
            value = ast.literal_eval(node)
        if type(value) not in (int, float, str):
            self._wrong(node, f"{shown(ast.unparse(node), 40)} cannot be used here")
        return value  # type: ignore[no-any-return]  # one of these types

    def _wrong(self, node: ast.expr, what: str) -> NoReturn:
        self._refuse(len(self._source.encode()[: node.col_offset].decode()) + 1, what)

    def _refuse(self, place: int, what: str) -> NoReturn:
        raise ParamsError(
            f"where: {what}, at character {place} of {shown(self._source)}; expected {_ALLOWED}"
        ) from None
