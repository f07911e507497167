"""Expressions over columns, with the names and meanings of Polars and the NULLs of SQL.

An expression is a tree of tuples, which the native module turns into the engine's expressions when a frame
takes it: only then names of columns and functions are looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Union

from tidegate import _values

if TYPE_CHECKING:
    from tidegate._tidegate import _Node as Node

#: What stands for an expression: a column's name, or a value.
IntoExpr = Union["Expr", str, Any]
#: A number of rows relative to the current one; ``None`` for the partition's end.
Rows = tuple[int | None, int | None]


class Expr:
    """An expression over the columns of a frame. Made by :func:`col`, :func:`lit`, :func:`when` and ``fn``."""

    __slots__ = ("_node",)
    # NumPy's scalars and arrays leave operators with an expression to it.
    __array_ufunc__ = None

    def __init__(self, node: Node) -> None:
        self._node = node

    # --- names ---

    def alias(self, name: str) -> Expr:
        """Name the expression's column."""
        return Expr(("alias", self._node, name))

    @property
    def output_name(self) -> str:
        """The name of the expression's column: that of the leftmost column or literal, unless it has another."""
        return _name_of(self._node)

    # --- operators ---

    def _with(self, operator: str, other: Any) -> Expr:
        return Expr(("bin", operator, self._node, _value(other)))

    def _after(self, operator: str, other: Any) -> Expr:
        return Expr(("bin", operator, _value(other), self._node))

    def __add__(self, other: Any) -> Expr:
        return self._with("+", other)

    def __radd__(self, other: Any) -> Expr:
        return self._after("+", other)

    def __sub__(self, other: Any) -> Expr:
        return self._with("-", other)

    def __rsub__(self, other: Any) -> Expr:
        return self._after("-", other)

    def __mul__(self, other: Any) -> Expr:
        return self._with("*", other)

    def __rmul__(self, other: Any) -> Expr:
        return self._after("*", other)

    def __truediv__(self, other: Any) -> Expr:
        return self._with("/", other)

    def __rtruediv__(self, other: Any) -> Expr:
        return self._after("/", other)

    def __floordiv__(self, other: Any) -> Expr:
        return self._with("//", other)

    def __rfloordiv__(self, other: Any) -> Expr:
        return self._after("//", other)

    def __mod__(self, other: Any) -> Expr:
        return self._with("%", other)

    def __rmod__(self, other: Any) -> Expr:
        return self._after("%", other)

    def __pow__(self, other: Any) -> Expr:
        return function("power", self, Expr(_value(other)))

    def __rpow__(self, other: Any) -> Expr:
        return function("power", Expr(_value(other)), self)

    def __and__(self, other: Any) -> Expr:
        return self._with("&", other)

    def __rand__(self, other: Any) -> Expr:
        return self._after("&", other)

    def __or__(self, other: Any) -> Expr:
        return self._with("|", other)

    def __ror__(self, other: Any) -> Expr:
        return self._after("|", other)

    def __xor__(self, other: Any) -> Expr:
        return self._with("^", other)

    def __rxor__(self, other: Any) -> Expr:
        return self._after("^", other)

    def __eq__(self, other: object) -> Expr:  # type: ignore[override]
        return self._with("==", other)

    def __ne__(self, other: object) -> Expr:  # type: ignore[override]
        return self._with("!=", other)

    def __lt__(self, other: Any) -> Expr:
        return self._with("<", other)

    def __le__(self, other: Any) -> Expr:
        return self._with("<=", other)

    def __gt__(self, other: Any) -> Expr:
        return self._with(">", other)

    def __ge__(self, other: Any) -> Expr:
        return self._with(">=", other)

    def __neg__(self) -> Expr:
        return Expr(("neg", self._node))

    def __pos__(self) -> Expr:
        return self

    def __invert__(self) -> Expr:
        return Expr(("not", self._node))

    def __abs__(self) -> Expr:
        return self.abs()

    def __hash__(self) -> int:
        return id(self)

    def __bool__(self) -> bool:
        raise TypeError(
            "an expression has no truth value: use & | ~ instead of and, or, not, and is_between() for a < x < b"
        )

    def __iter__(self) -> Iterator[Any]:
        raise TypeError("an expression cannot be iterated over")

    def __repr__(self) -> str:
        return f"<tidegate.Expr {_text(self._node)}>"

    def eq_missing(self, other: Any) -> Expr:
        """Compare so that two NULLs are equal."""
        return self._with("eq_missing", other)

    def ne_missing(self, other: Any) -> Expr:
        """Compare so that two NULLs are not different."""
        return self._with("ne_missing", other)

    # --- conditions ---

    def is_null(self) -> Expr:
        """Tell whether the value is NULL. NaN is not."""
        return Expr(("is_null", self._node))

    def is_not_null(self) -> Expr:
        """Tell whether the value is not NULL."""
        return Expr(("is_not_null", self._node))

    def is_nan(self) -> Expr:
        """Tell whether the value is NaN; NULL for NULL."""
        return function("isnan", self)

    def is_not_nan(self) -> Expr:
        """Tell whether the value is not NaN; NULL for NULL."""
        return ~function("isnan", self)

    def is_between(self, lower: Any, upper: Any, closed: str = "both") -> Expr:
        """Tell whether the value lies between two others.

        Args:
            closed: which bounds belong to the range: ``both``, ``left``, ``right`` or ``none``.
        """
        if closed not in ("both", "left", "right", "none"):
            raise ValueError(f"closed={closed!r}: it is 'both', 'left', 'right' or 'none'")
        above = self._with(">=" if closed in ("both", "left") else ">", lower)
        below = self._with("<=" if closed in ("both", "right") else "<", upper)
        return above & below

    def is_in(self, values: Iterable[Any]) -> Expr:
        """Tell whether the value is one of these; NULL if it is not and one of them is NULL, as in SQL."""
        if isinstance(values, (str, bytes)):
            raise TypeError("is_in() takes a list of values, not a string")
        nodes = tuple(_value(value) for value in values)
        if not nodes:
            return lit(False)
        return Expr(("in", self._node, nodes, False))

    # --- values ---

    def cast(self, to: Any, strict: bool = True) -> Expr:
        """Change the type. A value that has no counterpart is an error, or NULL with ``strict=False``."""
        return Expr(("cast", self._node, _values.data_type(to), strict))

    def fill_null(self, value: Any) -> Expr:
        """Put a value in the place of NULL."""
        return function("coalesce", self, Expr(_value(value)))

    def fill_nan(self, value: Any) -> Expr:
        """Put a value in the place of NaN."""
        filled = when(self.is_nan()).then(Expr(_value(value))).otherwise(self)
        return filled.alias(self.output_name)

    def abs(self) -> Expr:
        """Return the magnitude."""
        return function("abs", self)

    def ceil(self) -> Expr:
        """Round up."""
        return function("ceil", self)

    def floor(self) -> Expr:
        """Round down."""
        return function("floor", self)

    def round(self, decimals: int = 0) -> Expr:
        """Round to so many decimals, halves away from zero."""
        return function("round", self, lit(decimals))

    def sqrt(self) -> Expr:
        """Return the square root."""
        return function("sqrt", self)

    def exp(self) -> Expr:
        """Return e to this power."""
        return function("exp", self)

    def log(self, base: float | None = None) -> Expr:
        """Return the logarithm, natural unless a base is given."""
        return function("ln", self) if base is None else function("log", lit(base), self)

    def sign(self) -> Expr:
        """Return -1, 0 or 1."""
        return function("signum", self)

    def pow(self, exponent: Any) -> Expr:
        """Raise to a power."""
        return self.__pow__(exponent)

    def clip(self, lower: Any = None, upper: Any = None) -> Expr:
        """Limit the value to a range. NULL stays NULL."""
        result = self
        if lower is not None:
            result = when(result < lower).then(Expr(_value(lower))).otherwise(result)
        if upper is not None:
            result = when(result > upper).then(Expr(_value(upper))).otherwise(result)
        return Expr(("alias", result._node, self.output_name))

    # --- aggregates ---

    def _aggregate(self, name: str, *more: Expr) -> Expr:
        return function(name, self, *more)

    def sum(self) -> Expr:
        """Return the sum; NULL of no values, where Polars has 0."""
        return self._aggregate("sum")

    def mean(self) -> Expr:
        """Return the mean; NULL of no values."""
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

    def count(self) -> Expr:
        """Count the values that are not NULL."""
        return self._aggregate("count")

    def len(self) -> Expr:
        """Count the rows, NULLs among them."""
        return Expr(("alias", count_rows()._node, self.output_name))

    def n_unique(self) -> Expr:
        """Count the different values; NULL is not one of them, where Polars counts it."""
        return Expr(("fn", "count", (self._node,), True, (), None))

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
        return self._aggregate("percentile_cont", lit(float(share)))

    def filter(self, condition: Expr) -> Expr:
        """Take only rows of a condition into the aggregate that this is, or that is called on it."""
        kind = self._node[0]
        if kind == "fn":
            return Expr((*self._node[:5], condition._node))
        raise TypeError("filter() follows an aggregate: col('x').sum().filter(condition)")

    # --- windows ---

    def over(
        self,
        *partition_by: IntoExpr,
        order_by: IntoExpr | Sequence[IntoExpr] | None = None,
        descending: bool = False,
        rows: Rows | None = None,
    ) -> Expr:
        """Compute the aggregate or window function over the rows of each partition.

        Args:
            partition_by: columns whose values lie together; none for all rows.
            order_by: the order in each partition, for functions that depend on one. As in Polars an aggregate
                is still over the whole partition.
            descending: whether that order descends.
            rows: the first and the last row of the aggregate relative to the current one: ``(-2, 0)`` are
                three rows, ``(None, 0)`` all up to here.
        """
        node = self._node
        if node[0] == "alias":
            return Expr(("alias", Expr(node[1]).over(*partition_by, order_by=order_by, descending=descending, rows=rows)._node, node[2]))
        if node[0] == "cum":
            if order_by is None:
                raise TypeError("a cumulative aggregate needs an order: .over(order_by=...)")
            node, rows = node[1], (None, 0)
        partitions = tuple(_column(item)._node for item in flat(partition_by))
        orders = [] if order_by is None else flat([order_by])
        sorts = tuple((_column(item)._node, descending, descending) for item in orders)
        return Expr(("over", node, partitions, sorts, rows))

    def _cumulative(self, name: str) -> Expr:
        return Expr(("cum", function(name, self)._node))

    def cum_sum(self) -> Expr:
        """Return the sum up to the current row; ``over(order_by=)`` says in which order."""
        return self._cumulative("sum")

    def cum_min(self) -> Expr:
        """Return the least value up to the current row; ``over(order_by=)`` says in which order."""
        return self._cumulative("min")

    def cum_max(self) -> Expr:
        """Return the greatest value up to the current row; ``over(order_by=)`` says in which order."""
        return self._cumulative("max")

    def cum_count(self) -> Expr:
        """Count the values up to the current row; ``over(order_by=)`` says in which order."""
        return self._cumulative("count")

    def shift(self, n: int = 1) -> Expr:
        """Return the value of so many rows before; ``over(order_by=)`` says in which order."""
        name, by = ("lag", n) if n >= 0 else ("lead", -n)
        return function(name, self, lit(by))

    # --- namespaces ---

    @property
    def str(self) -> Strings:
        """What strings can do."""
        return Strings(self)

    @property
    def dt(self) -> Moments:
        """What dates and times can do."""
        return Moments(self)

    @property
    def list(self) -> Lists:
        """What lists can do."""
        return Lists(self)

    @property
    def struct(self) -> Structs:
        """What structs can do."""
        return Structs(self)


class _Namespace:
    __slots__ = ("_expr",)

    def __init__(self, expr: Expr) -> None:
        self._expr = expr

    def _call(self, name: str, *args: Any) -> Expr:
        return function(name, self._expr, *(Expr(_value(arg)) for arg in args))


class Strings(_Namespace):
    """What strings can do."""

    def to_lowercase(self) -> Expr:
        """Turn letters into lower case."""
        return self._call("lower")

    def to_uppercase(self) -> Expr:
        """Turn letters into upper case."""
        return self._call("upper")

    def len_chars(self) -> Expr:
        """Count the characters."""
        return self._call("character_length")

    def len_bytes(self) -> Expr:
        """Count the bytes."""
        return self._call("octet_length")

    def starts_with(self, prefix: Any) -> Expr:
        """Tell whether the string begins so."""
        return self._call("starts_with", prefix)

    def ends_with(self, suffix: Any) -> Expr:
        """Tell whether the string ends so."""
        return self._call("ends_with", suffix)

    def contains(self, pattern: Any, literal: bool = False) -> Expr:
        """Tell whether the string has a match of a regular expression, or this text itself."""
        if literal:
            return self._call("contains", pattern)
        return self._expr._with("~", pattern)

    def replace_all(self, text: Any, value: Any) -> Expr:
        """Put another text in the place of each occurrence of a text, which is no pattern."""
        return self._call("replace", text, value)

    def slice(self, offset: int, length: int | None = None) -> Expr:
        """Return the characters from an offset on, so many at the most."""
        if offset < 0:
            raise ValueError("slice() counts from the string's beginning: the offset is not negative")
        more = () if length is None else (length,)
        return self._call("substr", offset + 1, *more)

    def strip_chars(self) -> Expr:
        """Remove spaces at both ends."""
        return self._call("btrim")

    def strip_chars_start(self) -> Expr:
        """Remove spaces at the beginning."""
        return self._call("ltrim")

    def strip_chars_end(self) -> Expr:
        """Remove spaces at the end."""
        return self._call("rtrim")

    def split(self, by: str) -> Expr:
        """Cut the string into a list at each occurrence of a text."""
        return self._call("string_to_array", by)

    def like(self, pattern: str) -> Expr:
        """Match SQL's pattern: ``%`` for any text, ``_`` for one character."""
        return Expr(("like", self._expr._node, _value(pattern), False, False))


class Moments(_Namespace):
    """What dates and times can do."""

    def _part(self, name: str) -> Expr:
        part = function("date_part", lit(name), self._expr)
        return Expr(("alias", part.cast("int64")._node, self._expr.output_name))

    def year(self) -> Expr:
        """Return the year."""
        return self._part("year")

    def quarter(self) -> Expr:
        """Return the quarter, 1 to 4."""
        return self._part("quarter")

    def month(self) -> Expr:
        """Return the month, 1 to 12."""
        return self._part("month")

    def day(self) -> Expr:
        """Return the day of the month, 1 to 31."""
        return self._part("day")

    def hour(self) -> Expr:
        """Return the hour."""
        return self._part("hour")

    def minute(self) -> Expr:
        """Return the minute."""
        return self._part("minute")

    def second(self) -> Expr:
        """Return the second, without its fraction."""
        return self._part("second")

    def ordinal_day(self) -> Expr:
        """Return the day of the year, 1 to 366."""
        return self._part("doy")

    def date(self) -> Expr:
        """Return the day."""
        return self._expr.cast("date")

    def truncate(self, every: str) -> Expr:
        """Return the beginning of the ``year``, ``quarter``, ``month``, ``week``, ``day``, ``hour``, …"""
        result = function("date_trunc", lit(every), self._expr)
        return Expr(("alias", result._node, self._expr.output_name))


class Lists(_Namespace):
    """What lists can do."""

    def len(self) -> Expr:
        """Count the elements."""
        return self._call("array_length")

    def get(self, index: int) -> Expr:
        """Return an element by its place, from 0; from the end if negative. NULL if there is none."""
        return self._call("array_element", index + 1 if index >= 0 else index)

    def contains(self, value: Any) -> Expr:
        """Tell whether the list has a value."""
        return self._call("array_has", value)

    def join(self, separator: str) -> Expr:
        """Join the elements to one string."""
        return self._call("array_to_string", separator)

    def sort(self) -> Expr:
        """Sort the elements."""
        return self._call("array_sort")


class Structs(_Namespace):
    """What structs can do."""

    def field(self, name: str) -> Expr:
        """Return a field."""
        return Expr(("alias", self._call("get_field", name)._node, name))


class When:
    """The beginning of a ``when().then()`` expression."""

    __slots__ = ("_branches", "_condition")

    def __init__(self, condition: Expr, branches: tuple[tuple[Node, Node], ...] = ()) -> None:
        self._condition = condition
        self._branches = branches

    def then(self, value: IntoExpr) -> Then:
        """Say what the value is where the condition is true; a string is a column's name."""
        return Then((*self._branches, (self._condition._node, _column(value)._node)))


class Then(Expr):
    """A ``when().then()`` expression; NULL where no condition is true, unless ``otherwise`` follows."""

    __slots__ = ("_branches",)

    def __init__(self, branches: tuple[tuple[Node, Node], ...]) -> None:
        super().__init__(("case", branches, None))
        self._branches = branches

    def when(self, condition: Expr) -> When:
        """Add a condition for rows for which those before are not true."""
        return When(condition, self._branches)

    def otherwise(self, value: IntoExpr) -> Expr:
        """Say what the value is where no condition is true; a string is a column's name."""
        return Expr(("case", self._branches, _column(value)._node))


def col(*names: str) -> Expr:
    """Name a column of the frame that takes the expression, exactly as it is written there.

    Several names make an expression for each, ``"*"`` one for each column.
    """
    if not names or not all(isinstance(name, str) for name in names):
        raise TypeError("col() takes names of columns")
    if names == ("*",):
        return all_columns()
    return Expr(("col", names[0])) if len(names) == 1 else Expr(("cols", names))


def all_columns() -> Expr:
    """Name every column of the frame that takes the expression."""
    return Expr(("cols", None))


def lit(value: Any, dtype: Any = None) -> Expr:
    """Make an expression of a value, of this type if one is given."""
    expr = Expr(_value(value))
    return expr if dtype is None else expr.cast(dtype)


def when(condition: Expr) -> When:
    """Begin an expression whose value depends on a condition."""
    return When(condition)


def count_rows() -> Expr:
    """Count the rows, in ``agg`` those of each group."""
    return Expr(("alias", ("fn", "count", (), False, (), None), "len"))


def function(name: str, *args: Expr) -> Expr:
    """Call a function of the engine by its name."""
    return Expr(("fn", name, tuple(arg._node for arg in args), False, (), None))


class Functions:
    """Functions of the engine by their names in SQL: ``fn.date_trunc(lit("month"), "day")``.

    A string among the arguments is a column's name; :func:`lit` makes a value of it.
    """

    def __getattr__(self, name: str) -> Callable[..., Expr]:
        if name.startswith("__"):
            raise AttributeError(name)

        def call(*args: IntoExpr, distinct: bool = False) -> Expr:
            nodes = tuple(_column(arg)._node for arg in args)
            return Expr(("fn", name.lower(), nodes, distinct, (), None))

        call.__name__ = name
        call.__doc__ = f"Call the engine's function {name}."
        return call


fn = Functions()


# --- what frames do with expressions ---


def expand(items: Iterable[IntoExpr], columns: Sequence[str]) -> Iterator[tuple[str, Node]]:
    """Make each expression's name and node, with one for each of several columns."""
    for item in flat(items):
        expr = _column(item)
        many = _many(expr._node)
        if many is None:
            _refuse_cumulative(expr._node)
            yield expr.output_name, expr._node
            continue
        for name in columns if many[1] is None else many[1]:
            one = Expr(_replaced(expr._node, many, ("col", name)))
            _refuse_cumulative(one._node)
            yield one.output_name, one._node


def flat(items: Iterable[Any]) -> list[Any]:
    """Undo the nesting of lists and tuples of expressions."""
    result: list[Any] = []
    for item in items:
        if isinstance(item, (list, tuple)):
            result.extend(flat(item))
        else:
            result.append(item)
    return result


def suggestion(name: str, known: Sequence[str]) -> str:
    """Say which functions have a name like this."""
    import difflib

    near = difflib.get_close_matches(name, known, n=3)
    return f": did you mean {', '.join(near)}?" if near else ""


def _walk(node: Any) -> Iterator[Node]:
    """Go through a node and those below it, however deep they are."""
    stack = [node]
    while stack:
        item = stack.pop()
        if isinstance(item, tuple) and item:
            yield item
            if item[0] != "lit":
                stack.extend(reversed(item))


def _refuse_cumulative(node: Node) -> None:
    if any(item[0] == "cum" for item in _walk(node)):
        raise TypeError("a cumulative aggregate needs an order: .over(order_by=...)")


def _many(node: Node) -> Node | None:
    """Find the several columns in a node."""
    return next((item for item in _walk(node) if item[0] == "cols"), None)


def _replaced(node: Any, old: Node, new: Node) -> Any:
    if node is old or node == old:
        return new
    if isinstance(node, tuple) and node and node[0] != "lit":
        return tuple(_replaced(item, old, new) for item in node)
    return node


def _value(value: Any) -> Node:
    """Make a node of an expression or of a value."""
    if isinstance(value, Expr):
        return value._node
    return ("lit", *_values.literal(value))


def _column(value: IntoExpr) -> Expr:
    """Make an expression, of a string the column of that name."""
    if isinstance(value, Expr):
        return value
    return col(value) if isinstance(value, str) else Expr(_value(value))


def _ddof(ddof: int) -> int:
    if ddof not in (0, 1):
        raise ValueError(f"ddof={ddof!r}: it is 0 or 1")
    return ddof


def _name_of(node: Node) -> str:
    """Find what a node's column is called: a path down the left, which may be long."""
    while True:
        kind = node[0]
        if kind in ("col", "alias"):
            return str(node[1] if kind == "col" else node[2])
        if kind == "lit":
            return "literal"
        if kind == "cols":
            return "*"
        if kind == "bin":
            node = node[2]
        elif kind == "case":
            node = node[1][0][1]
        elif kind in ("fn", "udf"):
            columns = [arg for arg in node[2] if arg[0] != "lit"]
            if not columns:
                return str(node[1]) if kind == "fn" else "function"
            node = columns[0]
        else:
            node = node[1]


def _text(node: Any) -> str:
    kind = node[0]
    if kind == "col":
        return str(node[1])
    if kind == "cols":
        return "*" if node[1] is None else ", ".join(node[1])
    if kind == "lit":
        return repr(node[2])
    if kind == "bin":
        return f"({_text(node[2])} {node[1]} {_text(node[3])})"
    if kind == "alias":
        return f"{_text(node[1])} AS {node[2]}"
    if kind == "fn":
        return f"{node[1]}({', '.join(map(_text, node[2]))})"
    if kind == "udf":
        return f"function({', '.join(map(_text, node[2]))})"
    if kind == "case":
        branches = " ".join(f"WHEN {_text(when)} THEN {_text(then)}" for when, then in node[1])
        otherwise = "" if node[2] is None else f" ELSE {_text(node[2])}"
        return f"CASE {branches}{otherwise} END"
    if kind == "cast":
        return f"cast({_text(node[1])} AS {node[2]})"
    return f"{kind}({_text(node[1])})"
