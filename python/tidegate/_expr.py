"""Expressions over columns, with the names and meanings of Polars and the NULLs of SQL.

An expression is a tree of tuples, which the native module turns into the engine's expressions when a frame
takes it: only then names of columns and functions are looked up. Operators, aggregates and what strings, moments, lists
and structs can do are in modules of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Union

from tidegate import _nodes, _types, _values
from tidegate._aggregates import Aggregates
from tidegate._namespaces import Lists, Moments, Names, Strings, Structs
from tidegate._operators import Operators

if TYPE_CHECKING:
    from tidegate._tidegate import _Node as Node

#: What stands for an expression: a column's name, or a value.
IntoExpr = Union["Expr", str, Any]
#: A number of rows relative to the current one; ``None`` for the partition's end.
Rows = tuple[int | None, int | None]

#: What NULL is filled with by a name.
_FILLERS: dict[str, Callable[[Expr], Any]] = {
    "zero": lambda expr: 0,
    "one": lambda expr: 1,
    "min": lambda expr: expr.min(),
    "max": lambda expr: expr.max(),
    "mean": lambda expr: expr.mean(),
}


class Expr(Operators, Aggregates):
    """An expression over the columns of a frame. Made by :func:`col`, :func:`lit`, :func:`when` and ``fn``."""

    __slots__ = ("_node",)
    # NumPy's scalars and arrays leave operators with an expression to it.
    __array_ufunc__ = None
    # It compares by an operator, and is found by what it is.
    __hash__ = Operators.__hash__

    def __init__(self, node: Node) -> None:
        self._node = node

    def __bool__(self) -> bool:
        raise TypeError(
            "an expression has no truth value: use & | ~ instead of and, or, not, and is_between() for a < x < b"
        )

    def __iter__(self) -> Iterator[Any]:
        raise TypeError("an expression cannot be iterated over")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        way = f"tg.fn.{name}(…) calls a function of SQL, and con.sql(…) writes the query in SQL"
        raise _nodes.missing(self, "an expression", name, way)

    def __repr__(self) -> str:
        return f"<tidegate.Expr {_nodes.text(self._node)}>"

    # --- names ---

    def alias(self, name: str) -> Expr:
        """Name the expression's column."""
        return Expr(("alias", self._node, name))

    @property
    def output_name(self) -> str:
        """The name of the expression's column: that of the leftmost column or literal, unless it has another."""
        return _nodes.name_of(self._node)

    def exclude(self, *names: str | Sequence[str]) -> Expr:
        """Leave columns out of several: ``tg.all().exclude("id")``."""
        without = tuple(flat(names))

        def change(item: Node) -> Node:
            return ("cols", item[1], item[2] + without) if item[0] == "cols" else item

        return Expr(_nodes.rewritten(self._node, change))

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

    def is_finite(self) -> Expr:
        """Tell whether the value is neither infinite nor NaN; NULL for NULL."""
        return self.abs() < float("inf")

    def is_infinite(self) -> Expr:
        """Tell whether the value is infinite; NULL for NULL."""
        return self.abs().eq(float("inf"))

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

    def is_in(self, values: Iterable[Any] | Expr) -> Expr:
        """Tell whether the value is one of these; NULL if it is not and one of them is NULL, as in SQL.

        Args:
            values: a list of values, or an expression of lists.
        """
        if isinstance(values, Expr):
            return typed("is_in", self._node, values._node)
        if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
            raise TypeError(f"is_in() takes a list of values, not a {type(values).__name__}")
        nodes = tuple(_value(value) for value in values)
        if not nodes:
            return lit(False)
        return Expr(("in", self._node, nodes, False))

    # --- values ---

    def cast(self, to: Any, strict: bool = True) -> Expr:
        """Change the type. A value that has no counterpart is an error, or NULL with ``strict=False``."""
        return Expr(("cast", self._node, _types.data_type(to), strict))

    def fill_null(self, value: Any = None, strategy: str | None = None) -> Expr:
        """Put a value in the place of NULL.

        Args:
            value: the value, or an expression.
            strategy: instead of a value ``zero``, ``one``, ``min``, ``max``, ``mean`` (of the column), or ``forward``, the
                last value before, of which ``over(order_by=)`` says the order.
        """
        if (value is None) == (strategy is None):
            raise ValueError("fill_null() takes a value or strategy=, and one of them")
        if strategy == "forward":
            return self.forward_fill()
        if strategy is not None:
            if strategy not in _FILLERS:
                known = ", ".join(map(repr, ["forward", *_FILLERS]))
                raise ValueError(f"strategy={strategy!r}: it is one of {known}")
            value = _FILLERS[strategy](self)
        return function("coalesce", self, Expr(_value(value)))

    def fill_nan(self, value: Any) -> Expr:
        """Put a value in the place of NaN."""
        return typed("fill_nan", self._node, _value(value))

    def replace(self, old: Any, new: Any = None) -> Expr:
        """Put other values in the place of some; the others stay.

        Args:
            old: a value, a list of values, or a dict of old and new values.
            new: the value, or a list of as many, if ``old`` is no dict.
        """
        if isinstance(old, Mapping):
            pairs = list(old.items())
        else:
            olds = list(old) if isinstance(old, (list, tuple)) else [old]
            news = list(new) if isinstance(new, (list, tuple)) else [new] * len(olds)
            if len(olds) != len(news):
                raise ValueError(f"replace() has {len(olds)} old values and {len(news)} new ones")
            pairs = list(zip(olds, news))
        if not pairs:
            return Expr(self._node)
        branches = tuple((self.eq_missing(before)._node, _value(after)) for before, after in pairs)
        return Expr(("renamed", ("case", branches, self._node), self._node, "", ""))

    def clip(self, lower: Any = None, upper: Any = None) -> Expr:
        """Limit the value to a range, whose bounds are cast to the value's type. NULL and NaN stay."""
        bounds = {name: bound for name, bound in (("lower", lower), ("upper", upper)) if bound is not None}
        return typed("clip", self._node, *map(_value, bounds.values()), params=tuple(bounds))

    # --- namespaces ---

    @property
    def name(self) -> Names:
        """What names of columns can do."""
        return Names(self)

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

    def when(self, *conditions: IntoExpr, **equal: Any) -> When:
        """Add conditions for rows for which those before are not true."""
        return When(_condition(conditions, equal), self._branches)

    def otherwise(self, value: IntoExpr) -> Expr:
        """Say what the value is where no condition is true; a string is a column's name."""
        return Expr(("case", self._branches, _column(value)._node))


def col(*names: str | Sequence[str]) -> Expr:
    """Name a column of the frame that takes the expression, exactly as it is written there.

    Several names, or a list of them, make an expression for each, ``"*"`` one for each column.
    """
    given = flat(names)
    if not given or not all(isinstance(name, str) for name in given):
        raise TypeError("col() takes names of columns")
    if given == ["*"]:
        return all_columns()
    is_one = len(names) == 1 and isinstance(names[0], str)
    return Expr(("col", given[0])) if is_one else Expr(("cols", tuple(given), ()))


def all_columns() -> Expr:
    """Name every column of the frame that takes the expression."""
    return Expr(("cols", None, ()))


def lit(value: Any, dtype: Any = None) -> Expr:
    """Make an expression of a value, of this type if one is given."""
    expr = Expr(_value(value))
    return expr if dtype is None else expr.cast(dtype)


def when(*conditions: IntoExpr, **equal: Any) -> When:
    """Begin an expression whose value depends on conditions, which must all be true.

    Args:
        conditions: expressions, or names of columns of truth values.
        equal: columns and the values that they must have.
    """
    return When(_condition(conditions, equal))


def count_rows() -> Expr:
    """Count the rows, in ``agg`` those of each group."""
    return Expr(("alias", ("fn", "count", (), False, (), None), "len"))


def function(name: str, *args: Expr) -> Expr:
    """Call a function of the engine by its name."""
    return Expr(("fn", name, tuple(arg._node for arg in args), False, (), None))


def typed(rule: str, *args: Node, params: tuple[Any, ...] = ()) -> Expr:
    """Make an expression that depends on the types of its arguments, by one of the rules of ``_typed``."""
    return Expr(("typed", rule, args, params))


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
        many = {node for node in _nodes.walk(expr._node) if node[0] == "cols"}
        if not many:
            yield expr.output_name, expr._node
            continue
        if len(many) > 1:
            raise TypeError(f"{expr!r} has several columns twice, of different names: write an expression for each")
        _, names, without = many.pop()
        for name in columns if names is None else names:
            if name in without:
                continue
            node = _one_column(expr._node, name)
            yield _nodes.name_of(node), node


def _one_column(node: Node, name: str) -> Node:
    """Put one column in the place of several."""

    def change(item: Node) -> Node:
        return ("col", name) if item[0] == "cols" else item

    made: Node = _nodes.rewritten(node, change)
    return made


def flat(items: Iterable[Any]) -> list[Any]:
    """Undo the nesting of lists and tuples of expressions."""
    result: list[Any] = []
    for item in items:
        if isinstance(item, (list, tuple)):
            result.extend(flat(item))
        else:
            result.append(item)
    return result


def _condition(conditions: Sequence[IntoExpr], equal: Mapping[str, Any]) -> Expr:
    every = [*map(_column, flat(conditions)), *(col(name).eq(value) for name, value in equal.items())]
    if not every:
        raise TypeError("when() takes a condition, such as col('x') > 1")
    return every[0].and_(*every[1:])


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
