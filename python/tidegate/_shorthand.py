"""Functions of the module that make expressions of columns: ``tg.sum("x")`` is ``col("x").sum()``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from tidegate import _expr
from tidegate._expr import Expr, IntoExpr


def _of(names: tuple[str | Sequence[str], ...]) -> Expr:
    return _expr.col(*names)


def sum(*names: str | Sequence[str]) -> Expr:
    """Return ``col(…).sum()``."""
    return _of(names).sum()


def mean(*names: str | Sequence[str]) -> Expr:
    """Return ``col(…).mean()``."""
    return _of(names).mean()


def median(*names: str | Sequence[str]) -> Expr:
    """Return ``col(…).median()``."""
    return _of(names).median()


def min(*names: str | Sequence[str]) -> Expr:
    """Return ``col(…).min()``."""
    return _of(names).min()


def max(*names: str | Sequence[str]) -> Expr:
    """Return ``col(…).max()``."""
    return _of(names).max()


def std(column: str, ddof: int = 1) -> Expr:
    """Return ``col(…).std()``."""
    return _expr.col(column).std(ddof)


def var(column: str, ddof: int = 1) -> Expr:
    """Return ``col(…).var()``."""
    return _expr.col(column).var(ddof)


def count(*names: str | Sequence[str]) -> Expr:
    """Return ``col(…).count()``."""
    return _of(names).count()


def n_unique(*names: str | Sequence[str]) -> Expr:
    """Return ``col(…).n_unique()``."""
    return _of(names).n_unique()


def first(*names: str | Sequence[str]) -> Expr:
    """Return ``col(…).first()``."""
    return _of(names).first()


def last(*names: str | Sequence[str]) -> Expr:
    """Return ``col(…).last()``."""
    return _of(names).last()


def implode(*names: str | Sequence[str]) -> Expr:
    """Return ``col(…).implode()``."""
    return _of(names).implode()


def exclude(*names: str | Sequence[str]) -> Expr:
    """Name every column but these."""
    return _expr.all_columns().exclude(*names)


# --- several columns of a row ---


def _columns(exprs: tuple[IntoExpr, ...], what: str) -> list[Expr]:
    columns = [_expr._column(item) for item in _expr.flat(exprs)]
    if not columns:
        raise TypeError(f"{what}() takes columns")
    return columns


def coalesce(*exprs: IntoExpr) -> Expr:
    """Return the first value of the row that is not NULL."""
    return _expr.function("coalesce", *_columns(exprs, "coalesce"))


def max_horizontal(*exprs: IntoExpr) -> Expr:
    """Return the greatest value of the row; NULLs are left out, and NaN counts as larger than any number."""
    return _expr.function("greatest", *_columns(exprs, "max_horizontal"))


def min_horizontal(*exprs: IntoExpr) -> Expr:
    """Return the least value of the row; NULLs are left out, and NaN counts as larger than any number."""
    return _expr.function("least", *_columns(exprs, "min_horizontal"))


def sum_horizontal(*exprs: IntoExpr) -> Expr:
    """Return the sum of the row's values; NULLs are left out, and truth values count as 0 and 1."""
    return _expr.typed("sum_horizontal", *(expr._node for expr in _columns(exprs, "sum_horizontal")))


def mean_horizontal(*exprs: IntoExpr) -> Expr:
    """Return the mean of the row's values; NULLs are left out, and NULL is the mean of nothing else."""
    columns = _columns(exprs, "mean_horizontal")
    known = sum_horizontal(*(expr.is_not_null() for expr in columns))
    return _expr.when(known > 0).then(sum_horizontal(*columns) / known).alias(columns[0].output_name)


def any_horizontal(*exprs: IntoExpr) -> Expr:
    """Tell whether a value of the row is true; NULL if none is and one is NULL."""
    return reduce(lambda left, right: left | right, _columns(exprs, "any_horizontal"))


def all_horizontal(*exprs: IntoExpr) -> Expr:
    """Tell whether all values of the row are true; NULL if none is false and one is NULL."""
    return reduce(lambda left, right: left & right, _columns(exprs, "all_horizontal"))


def concat_str(*exprs: IntoExpr, separator: str = "", ignore_nulls: bool = False) -> Expr:
    """Join the row's values to one string; what is no text is cast to it.

    Args:
        separator: what is between two of them.
        ignore_nulls: whether NULLs are left out; else the string is NULL if one of them is.
    """
    columns = _columns(exprs, "concat_str")
    texts = [_expr.typed("text", expr._node) for expr in columns]
    joined = _expr.function("concat_ws", _expr.lit(separator), *texts)
    if not ignore_nulls:
        known = all_horizontal(*(expr.is_not_null() for expr in columns))
        joined = _expr.when(known).then(joined)
    return Expr(("renamed", joined._node, columns[0]._node, "", ""))


def struct(*exprs: IntoExpr, **named: IntoExpr) -> Expr:
    """Make a struct of the row's values, each a field of its own name."""
    pairs = [(expr.output_name, expr) for expr in map(_expr._column, _expr.flat(exprs))]
    pairs += [(name, _expr._column(item)) for name, item in named.items()]
    if not pairs:
        raise TypeError("struct() takes columns")
    fields: list[Any] = [part for name, expr in pairs for part in (_expr.lit(name), expr)]
    return Expr(("renamed", _expr.function("named_struct", *fields)._node, pairs[0][1]._node, "", ""))
