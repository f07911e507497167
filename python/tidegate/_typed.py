"""Expressions that depend on types: they are written anew when a frame, and with it the types of its columns, is known.

A ``typed`` node is a rule's name, its arguments and its parameters. Other nodes are left as they are, but for a
``CASE`` whose branches are numbers of several types, which gets the type that they have in common: the engine would
find it later, after what is built on it has been chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tidegate import _nodes
from tidegate._errors import SqlError

if TYPE_CHECKING:
    from tidegate._tidegate import _Node as Node

TypeOf = Callable[["Node"], str]
Rule = Callable[[TypeOf, Sequence[Any], tuple[Any, ...]], Any]

#: Microseconds of a day.
_DAY = 86_400_000_000
#: Aggregates that take truth values as 0 and 1.
_OF_TRUTH = frozenset(("avg", "median", "percentile_cont", "stddev_pop", "stddev_samp", "sum", "var_pop", "var_samp"))
#: Bits of an exponent: powers beyond of what is larger than 1 do not fit.
_EXPONENT_BITS = 6
#: Factors that a power is written out as.
_EXPONENT_MAX = 128


def is_whole(of: str) -> bool:
    """Tell whether a type is one of integers."""
    return of.startswith(("Int", "UInt")) and not of.startswith("Interval")


def is_float(of: str) -> bool:
    """Tell whether a type has NaN."""
    return of.startswith("Float")


def is_number(of: str) -> bool:
    """Tell whether a type is one of numbers."""
    return is_whole(of) or is_float(of) or of.startswith("Decimal")


def is_text(of: str) -> bool:
    """Tell whether a type is one of strings."""
    return of in ("Utf8", "LargeUtf8", "Utf8View")


def is_list(of: str) -> bool:
    """Tell whether a type is one of lists."""
    return of.startswith(("List(", "LargeList(", "FixedSizeList(", "ListView("))


def is_nested(of: str) -> bool:
    """Tell whether values of a type have parts."""
    return is_list(of) or of.startswith(("Struct(", "Map(", "Union("))


def family(of: str) -> str:
    """Return what types have in common whose values go into each other's columns."""
    if is_number(of):
        return "number"
    return "text" if is_text(of) else of.partition("(")[0]


def fields(of: str) -> list[str] | None:
    """List the names of a struct's fields; ``None`` if the type is none."""
    if not of.startswith("Struct("):
        return None
    names, depth, at = [], 0, len("Struct(")
    while at < len(of):
        if of[at] == '"':
            end = _end_of_name(of, at + 1)
            if depth == 0:
                names.append(of[at + 1 : end].replace('\\"', '"').replace("\\\\", "\\"))
            at = end
        depth += (of[at] == "(") - (of[at] == ")")
        at += 1
    return names


def _end_of_name(of: str, at: int) -> int:
    while of[at] != '"':
        at += 2 if of[at] == "\\" else 1
    return at


def common(type_of: TypeOf, types: Sequence[str]) -> str | None:
    """Find the type of numbers that numbers of these types are together; ``None`` if some are no numbers."""
    known = list(dict.fromkeys(of for of in types if of != "Null"))
    if not known or not all(map(is_number, known)):
        return known[0] if len(known) == 1 else None
    found = known[0]
    for other in known[1:]:
        nothing = ("lit", "null", None)
        found = type_of(("bin", "-", ("cast", nothing, found, True), ("cast", nothing, other, True)))
    return found


def lowered(node: Node, type_of: TypeOf, has_order: bool = False) -> Node:
    """Write what depends on types anew.

    Args:
        type_of: finds the type of a node over the columns of the frame.
        has_order: whether the rows have an order.

    Raises:
        SqlError: if an expression has no meaning for its types.
        TypeError: if a part of it needs something else around it, such as an order.
    """

    def change(item: Node) -> Any:
        kind = item[0]
        if kind == "typed":
            return RULES[item[1]](type_of, item[2], item[3])
        if kind == "renamed":
            return ("alias", item[1], _nodes.name_of(item))
        if kind == "case":
            return _case(type_of, item)
        if kind == "bin" and item[1] in ("+", "-"):
            return _sum(type_of, item)
        if kind == "fn" and item[1] in _OF_TRUTH and type_of(item[2][0]) == "Boolean":
            return (*item[:2], (_cast(item[2][0], "Int64"), *item[2][1:]), *item[3:])
        if kind == "cum" or kind == "over" and item[4] is not None and not item[3] and not has_order:
            raise TypeError(
                "a cumulative aggregate needs an order, which the rows of this frame do not have: .over(order_by=...), or "
                "sort() before"
            )
        if kind == "filtered":
            raise TypeError("an expression's filter() is for aggregates: col('x').filter(condition).sum()")
        return item

    return _node(_nodes.rewritten(node, change))


def _node(node: Any) -> Node:
    made: Node = node
    return made


def _cast(node: Node, to: str) -> Node:
    return ("cast", node, to, True)


def _call(name: str, *args: Node) -> Node:
    return ("fn", name, args, False, (), None)


def _number(value: int) -> Node:
    return ("lit", "int", value)


def _case(type_of: TypeOf, item: Node) -> Node:
    values = [then for _, then in item[1]] + ([] if item[2] is None else [item[2]])
    if len({_literal_kind(value) for value in values}) == 1 and values[0][0] == "lit":
        return item
    types = [type_of(value) for value in values]
    to = common(type_of, types)
    if to is None or all(of == to for of in types):
        return item
    made = [value if of == to else _cast(value, to) for value, of in zip(values, types)]
    branches = tuple((when, value) for (when, _), value in zip(item[1], made))
    # The branch that names the column is first: a cast keeps its name.
    return ("case", branches, None if item[2] is None else made[-1])


def _literal_kind(node: Node) -> str:
    return str(node[1]) if node[0] == "lit" else ""


def _sum(type_of: TypeOf, item: Node) -> Node:
    """Refuse text beside a number; count the hours of a duration that a day gets."""
    _, operator, left, right = item
    for one, other in ((left, right), (right, left)):
        if one[0] == "lit" and one[1] == "str":
            of = type_of(other)
            if is_number(of) or of == "Boolean":
                raise SqlError(
                    f"{_nodes.text(item)} is text and {of}: cast('str') the number, or concat_str() makes text of both"
                )
    sides = (left, right) if operator == "-" or right[0] == "lit" else (right, left)
    if sides[1][:2] == ("lit", "duration") and sides[1][2] % _DAY and type_of(sides[0]) == "Date32":
        return _cast(("bin", operator, _cast(sides[0], "Timestamp(µs)"), sides[1]), "Date32")
    if operator == "+" and left[0] == right[0] == "col":
        types = [type_of(left), type_of(right)]
        if any(map(is_text, types)) and any(is_number(of) or of == "Boolean" for of in types):
            raise SqlError(
                f"{_nodes.text(item)} is {types[0]} and {types[1]}: cast('str') the number, or concat_str() makes text "
                "of both"
            )
    return item


# --- rules ---


def _clip(type_of: TypeOf, args: Sequence[Any], params: tuple[Any, ...]) -> Node:
    value, *bounds = args
    of = type_of(value)
    result = _node(value)
    for name, bound in zip(params, bounds):
        limit = bound if type_of(bound) == of else _cast(bound, of)
        beyond: Node = ("bin", "<" if name == "lower" else ">", value, limit)
        if name == "upper" and is_float(of):
            # NaN counts as larger than any number, and stays.
            beyond = ("bin", "&", beyond, ("not", _call("isnan", value)))
        result = ("case", ((beyond, limit),), result)
    return result


def _fill_nan(type_of: TypeOf, args: Sequence[Any], params: tuple[Any, ...]) -> Node:
    value, filler = args
    if not is_float(type_of(value)):
        return _node(value)
    return _case(type_of, ("case", ((_call("isnan", value), filler),), value))


def _rounded(type_of: TypeOf, args: Sequence[Any], params: tuple[Any, ...]) -> Node:
    name, *more = params
    if is_whole(type_of(args[0])) and not (more and more[0] < 0):
        return _node(args[0])
    return _call(name, args[0], *map(_number, more))


def _sign(type_of: TypeOf, args: Sequence[Any], params: tuple[Any, ...]) -> Node:
    value = args[0]
    of = type_of(value)
    if not is_whole(of):
        return _call("signum", value)
    zero = _number(0)
    branches = [(("bin", ">", value, zero), _cast(_number(1), of)), (("bin", "==", value, zero), _cast(zero, of))]
    if of.startswith("Int"):
        branches.append((("bin", "<", value, zero), _cast(_number(-1), of)))
    return ("case", tuple(branches), None)


def _power(type_of: TypeOf, args: Sequence[Any], params: tuple[Any, ...]) -> Node:
    base, exponent = args
    of = type_of(base)
    if not (is_whole(of) and is_whole(type_of(exponent))):
        return _call("power", base, exponent)
    if exponent[0] == "lit" and exponent[2] < 0:
        raise SqlError(f"an integer to the power of {exponent[2]} is no integer: cast('float64') the base")
    if exponent[0] == "lit" and exponent[2] <= _EXPONENT_MAX:
        return _times(base, exponent[2], of)
    # The product of the powers of two that the exponent has.
    one, result = _cast(_number(1), of), None
    for bit in range(_EXPONENT_BITS):
        mask = _number(1 << bit)
        is_set: Node = ("bin", "!=", ("bin", "&", _cast(exponent, "Int64"), mask), _number(0))
        factor: Node = ("case", ((is_set, _times(base, 1 << bit, of)),), one)
        result = factor if result is None else ("bin", "*", result, factor)
    assert result is not None
    above: Node = ("bin", ">=", exponent, _number(1 << _EXPONENT_BITS))
    below: Node = ("bin", "<", exponent, _number(0))
    # The casts of the engine refuse what is too large, and a text that is no integer.
    power = _call("power", base, exponent)
    return ("case", ((above, _cast(power, of)), (below, _cast(_cast(power, "Utf8"), of))), result)


def _times(base: Node, number: int, of: str) -> Node:
    """Multiply a value with itself so many times, by squares."""
    if number == 0:
        return ("case", ((("is_not_null", base), _cast(_number(1), of)),), None)
    result, square = None, base
    while number:
        if number & 1:
            result = square if result is None else ("bin", "*", result, square)
        number >>= 1
        square = ("bin", "*", square, square)
    assert result is not None
    return result


def _is_in(type_of: TypeOf, args: Sequence[Any], params: tuple[Any, ...]) -> Node:
    value, values = args
    of = type_of(values)
    if not is_list(of):
        raise SqlError(
            f"is_in({_nodes.text(values)}) is of the type {of}: it takes a list of values or a column of lists; == compares "
            "with the same row, and join(how='semi') with all rows"
        )
    return _call("array_has", values, value)


def _sum_horizontal(type_of: TypeOf, args: Sequence[Any], params: tuple[Any, ...]) -> Node:
    result = None
    for arg in args:
        term = _cast(arg, "Int64") if type_of(arg) == "Boolean" else arg
        term = _call("coalesce", term, _number(0))
        result = term if result is None else ("bin", "+", result, term)
    assert result is not None
    return result


def _to_text(type_of: TypeOf, args: Sequence[Any], params: tuple[Any, ...]) -> Node:
    return _node(args[0]) if is_text(type_of(args[0])) else _cast(args[0], "Utf8")


def _moment(type_of: TypeOf, args: Sequence[Any], params: tuple[Any, ...]) -> Node:
    """Call a function whose value is a moment, and keep the type that the argument has."""
    name, before, after = params
    of = type_of(args[0])
    call = _call(name, *before, args[0], *after)
    return call if type_of(call) == of else _cast(call, of)


def _month_edge(type_of: TypeOf, args: Sequence[Any], params: tuple[Any, ...]) -> Node:
    """Go to the first or last day of a month, at the same time of the day."""
    value, of = args[0], type_of(args[0])
    month, day = ("lit", "str", "month"), ("lit", "str", "day")
    edge = _call("date_trunc", month, value)
    if params[0]:
        # The first day of the next month lies within 32 days; the day before it is the last one.
        later = _call("date_trunc", month, ("bin", "+", edge, ("lit", "duration", 32 * _DAY)))
        edge = ("bin", "-", later, ("lit", "duration", _DAY))
    if of != "Date32":
        edge = ("bin", "+", edge, ("bin", "-", value, _call("date_trunc", day, value)))
    return edge if type_of(edge) == of else _cast(edge, of)


RULES: dict[str, Rule] = {
    "clip": _clip,
    "fill_nan": _fill_nan,
    "is_in": _is_in,
    "moment": _moment,
    "month_edge": _month_edge,
    "pow": _power,
    "round": _rounded,
    "sign": _sign,
    "sum_horizontal": _sum_horizontal,
    "text": _to_text,
}
