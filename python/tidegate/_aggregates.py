"""Aggregates and window functions of expressions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tidegate import _expr, _nodes

if TYPE_CHECKING:
    from tidegate._expr import Expr, IntoExpr, Rows
    from tidegate._tidegate import _Node as Node

#: Functions that number rows, and what they do with equal values.
_RANKS = {"average": "rank", "min": "rank", "max": "rank", "dense": "dense_rank", "ordinal": "row_number"}


class Aggregates:
    """What expressions make of many rows."""

    __slots__ = ()

    _node: Node

    def _aggregate(self, name: str, *more: Node, distinct: bool = False) -> Expr:
        node, condition = self._node, None
        if node[0] == "filtered":
            _, node, condition = node
        return _expr.Expr(("fn", name, (node, *more), distinct, (), condition))

    def sum(self) -> Expr:
        """Return the sum, of truth values the number of true ones; NULL of no values, where Polars has 0."""
        return self._aggregate("sum")

    def mean(self) -> Expr:
        """Return the mean, of truth values the share of true ones; NULL of no values."""
        return self._aggregate("avg")

    def min(self) -> Expr:
        """Return the least value; NaN counts as larger than any number."""
        return self._aggregate("min")

    def max(self) -> Expr:
        """Return the greatest value; NaN counts as larger than any number, where Polars leaves it out."""
        return self._aggregate("max")

    def median(self) -> Expr:
        """Return the median."""
        return self._aggregate("median")

    def std(self, ddof: int = 1) -> Expr:
        """Return the standard deviation, of a sample (``ddof=1``) or of all values (``ddof=0``)."""
        return self._aggregate({1: "stddev_samp", 0: "stddev_pop"}[_ddof(ddof)])

    def var(self, ddof: int = 1) -> Expr:
        """Return the variance, of a sample (``ddof=1``) or of all values (``ddof=0``)."""
        return self._aggregate({1: "var_samp", 0: "var_pop"}[_ddof(ddof)])

    def product(self) -> Expr:
        """Return the product, as a ``float64``; NULL of no values."""
        return self._aggregate("product")

    def count(self) -> Expr:
        """Count the values that are not NULL."""
        return self._aggregate("count")

    def len(self) -> Expr:
        """Count the rows, NULLs among them."""
        return self._counted(("lit", "bool", True))

    def null_count(self) -> Expr:
        """Count the NULLs."""
        return self._counted(self._unfiltered().is_null()._node)

    def _counted(self, condition: Node) -> Expr:
        node = self._node
        if node[0] == "filtered":
            _, node, given = node
            condition = ("bin", "&", given, condition)
        only = None if condition == ("lit", "bool", True) else condition
        return _expr.Expr(("renamed", ("fn", "count", (), False, (), only), node, "", ""))

    def n_unique(self) -> Expr:
        """Count the different values; NULL is not one of them, where Polars counts it."""
        return self._aggregate("count", distinct=True)

    def first(self) -> Expr:
        """Return the first value: which one that is, only ``over(order_by=)`` says."""
        return self._aggregate("first_value")

    def last(self) -> Expr:
        """Return the last value: which one that is, only ``over(order_by=)`` says."""
        return self._aggregate("last_value")

    def any(self) -> Expr:
        """Tell whether a value is true."""
        return self._aggregate("bool_or")

    def all(self) -> Expr:
        """Tell whether no value is false."""
        return self._aggregate("bool_and")

    def implode(self) -> Expr:
        """Collect the values into a list."""
        return self._aggregate("array_agg")

    def quantile(self, share: float) -> Expr:
        """Return the value below which this share lies, between two values by interpolation."""
        return self._aggregate("percentile_cont", _expr._value(float(share)))

    def filter(self, *conditions: Expr) -> Expr:
        """Take only rows for which every condition is true into the aggregate that this is, or that is called on it:
        ``col("x").filter(condition).sum()`` and ``col("x").sum().filter(condition)`` are the same."""
        if not conditions or not all(isinstance(item, _expr.Expr) for item in conditions):
            raise TypeError(f"filter() takes expressions such as col('x') > 1, and not {conditions!r}")
        condition = conditions[0].and_(*conditions[1:])._node
        node = self._node
        if node[0] == "fn":
            return _expr.Expr((*node[:5], condition if node[5] is None else ("bin", "&", node[5], condition)))
        if node[0] == "filtered":
            node, condition = node[1], ("bin", "&", node[2], condition)
        return _expr.Expr(("filtered", node, condition))

    def drop_nulls(self) -> Expr:
        """Leave NULLs out of the aggregate that is called on this."""
        return self.filter(self._unfiltered().is_not_null())

    def drop_nans(self) -> Expr:
        """Leave NaN out of the aggregate that is called on this."""
        return self.filter(self._unfiltered().is_not_nan().fill_null(True))

    def _unfiltered(self) -> Expr:
        node = self._node
        return _expr.Expr(node[1] if node[0] == "filtered" else node)

    # --- windows ---

    def over(
        self,
        *partition_by: IntoExpr,
        order_by: IntoExpr | Sequence[IntoExpr] | None = None,
        descending: bool = False,
        rows: Rows | None = None,
        **named: Any,
    ) -> Expr:
        """Compute the aggregates or window functions in the expression over the rows of each partition.

        Args:
            partition_by: columns whose values lie together; none for all rows. ``partition_by=`` takes them by name, too.
            order_by: the order in each partition, for functions that depend on one. As in Polars an aggregate
                is still over the whole partition.
            descending: whether that order descends.
            rows: the first and the last row of the aggregate relative to the current one: ``(-2, 0)`` are
                three rows, ``(None, 0)`` all up to here.
        """
        given = named.pop("partition_by", None)
        if named:
            raise TypeError(f"over() has no argument {next(iter(named))!r}")
        columns = _expr.flat([*partition_by, *([] if given is None else [given])])
        partitions = tuple(_expr._column(item)._node for item in columns)
        orders = [] if order_by is None else _expr.flat([order_by])
        sorts = tuple((_expr._column(item)._node, descending, descending) for item in orders)

        def change(item: Node) -> Any:
            kind = item[0]
            if kind == "over":
                # It has an order of its own, such as that of rank().
                return ("over", item[1], partitions + item[2], item[3] or sorts, item[4])
            if kind == "cum":
                return _nodes.running(item, partitions, sorts)
            if _nodes.is_aggregate(item) or kind == "fn" and item[1] in _nodes.WINDOWS:
                return ("over", item, partitions, sorts, rows)
            return item

        changed = _nodes.rewritten(self._node, change, lambda item: item[0] in ("over", "cum"))
        return _expr.Expr(changed if changed is not self._node else ("over", self._node, partitions, sorts, rows))

    def _cumulative(self, name: str, *, fills: bool = False) -> Expr:
        if name == "last_value":
            node = self.drop_nulls()._aggregate(name)._node
        else:
            node = self._aggregate(name)._node
        return _expr.Expr(("cum", node, None if fills else self._node))

    def cum_sum(self) -> Expr:
        """Return the sum up to the current row, NULL where the value is; ``over(order_by=)`` says in which order."""
        return self._cumulative("sum")

    def cum_min(self) -> Expr:
        """Return the least value up to the current row, NULL where the value is; ``over(order_by=)`` says in which
        order."""
        return self._cumulative("min")

    def cum_max(self) -> Expr:
        """Return the greatest value up to the current row, NULL where the value is; ``over(order_by=)`` says in which
        order."""
        return self._cumulative("max")

    def cum_count(self) -> Expr:
        """Count the values up to the current row; ``over(order_by=)`` says in which order."""
        return self._cumulative("count", fills=True)

    def forward_fill(self) -> Expr:
        """Put the last value before in the place of NULL; ``over(order_by=)`` says in which order."""
        return self._cumulative("last_value", fills=True)

    def shift(self, n: int = 1, *, fill_value: Any = None) -> Expr:
        """Return the value of so many rows before; ``over(order_by=)`` says in which order.

        Args:
            n: the number of rows; of rows after this one if it is negative.
            fill_value: what stands where there is no such row, instead of NULL.
        """
        name, by = ("lag", n) if n >= 0 else ("lead", -n)
        more = () if fill_value is None else (_expr._value(fill_value),)
        return _expr.Expr(("fn", name, (self._node, _expr._value(by), *more), False, (), None))

    def diff(self, n: int = 1) -> Expr:
        """Return the value less that of so many rows before; ``over(order_by=)`` says in which order."""
        return _expr.Expr(("bin", "-", self._node, self.shift(n)._node))

    def rank(self, method: str = "average", *, descending: bool = False) -> Expr:
        """Return the place of the value among all, from 1; ``over`` says among which. NULL for NULL.

        Args:
            method: the place of equal values: the ``average`` of theirs, the ``min`` or ``max`` of these, all of one place
                and the next after it (``dense``), or one place each, in any order (``ordinal``).
            descending: whether the greatest value has the first place.
        """
        if method not in _RANKS:
            raise ValueError(f"method={method!r}: it is one of {', '.join(map(repr, _RANKS))}")
        number: Node = ("fn", _RANKS[method], (), False, (), None)
        window: Node = ("over", number, (), ((self._node, descending, False),), None)
        place = _expr.Expr(("cast", window, "Int64", True))
        alike = _expr.Expr(("over", _COUNT, (self._node,), (), None))
        if method == "average":
            place = place + (alike - 1) / 2
        elif method == "max":
            place = place + alike - 1
        known = ("case", ((("is_not_null", self._node), place._node),), None)
        return _expr.Expr(("renamed", known, self._node, "", ""))

    def _alike(self) -> Expr:
        window = ("over", _COUNT, (self._node,), (), None)
        return _expr.Expr(("renamed", window, self._node, "", ""))

    def is_duplicated(self) -> Expr:
        """Tell whether another row has the same value; NULLs are the same."""
        return self._alike() > 1

    def is_unique(self) -> Expr:
        """Tell whether no other row has the same value; NULLs are the same."""
        return self._alike() == 1


_COUNT: Node = ("fn", "count", (), False, (), None)


def _ddof(ddof: int) -> int:
    if ddof not in (0, 1):
        raise ValueError(f"ddof={ddof!r}: it is 0 or 1")
    return ddof
