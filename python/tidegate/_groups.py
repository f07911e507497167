"""Groups of rows, and what is made of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tidegate import _expr, _nodes
from tidegate._errors import SqlError

if TYPE_CHECKING:
    from tidegate._expr import IntoExpr
    from tidegate._frame import DataFrame
    from tidegate._tidegate import _Node as Node


class GroupBy:
    """Groups of rows; ``agg`` makes a row of each."""

    __slots__ = ("_frame", "_groups")

    def __init__(self, frame: DataFrame, groups: Sequence[Node]) -> None:
        self._frame = frame
        self._groups = list(groups)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise _nodes.missing(self, "a group_by()", name, "agg(…) takes any aggregates, those of tg.fn too")

    def agg(self, *exprs: IntoExpr, **named: IntoExpr) -> DataFrame:
        """Make a row of each group: its values, then these aggregates. The rows have no order.

        What is no aggregate is collected into a list, as in Polars; its elements have no order, either.

        Raises:
            SqlError: if a column stands beside an aggregate in one expression: its values are many.
        """
        taken = {group[2] for group in self._groups}
        rest = [name for name in self._frame.columns if name not in taken]
        pairs = self._frame._pairs(exprs, named, rest)
        known = [group[1] for group in self._groups]
        nodes = [("alias", _gathered(node, known), name) for name, node in pairs]
        return self._frame._of(lambda: self._frame._frame.aggregate(self._groups, nodes))

    def len(self, name: str = "len") -> DataFrame:
        """Count the rows of each group, in a column of this name."""
        return self.agg(_expr.count_rows().alias(name))

    def _every(self, name: str, *args: Any) -> DataFrame:
        return self.agg(getattr(_expr.all_columns(), name)(*args))

    def sum(self) -> DataFrame:
        """Sum every other column."""
        return self._every("sum")

    def mean(self) -> DataFrame:
        """Return the mean of every other column."""
        return self._every("mean")

    def median(self) -> DataFrame:
        """Return the median of every other column."""
        return self._every("median")

    def quantile(self, share: float) -> DataFrame:
        """Return the value of every other column below which this share lies, by interpolation."""
        return self._every("quantile", share)

    def min(self) -> DataFrame:
        """Return the least value of every other column."""
        return self._every("min")

    def max(self) -> DataFrame:
        """Return the greatest value of every other column."""
        return self._every("max")

    def first(self) -> DataFrame:
        """Return a value of every other column: which one is not said, for groups have no order."""
        return self._every("first")

    def last(self) -> DataFrame:
        """Return a value of every other column: which one is not said, for groups have no order."""
        return self._every("last")

    def count(self) -> DataFrame:
        """Count the values of every other column that are not NULL."""
        return self._every("count")

    def n_unique(self) -> DataFrame:
        """Count the different values of every other column; NULL is not one of them, where Polars counts it."""
        return self._every("n_unique")

    def all(self) -> DataFrame:
        """Collect the values of every other column into lists."""
        return self.agg(_expr.all_columns())


def _gathered(node: Node, groups: Sequence[Node]) -> Node:
    """Make a list of what is no aggregate."""
    loose = _nodes.loose_columns(node, groups)
    if not loose:
        return node
    if _nodes.has_aggregate(node):
        raise SqlError(
            f"{_nodes.text(node)}: column '{loose[0]}' has many values in a group: make one of them, such as "
            f"col({loose[0]!r}).first(), or use over() in with_columns()"
        )
    return ("fn", "array_agg", (node,), False, (), None)
