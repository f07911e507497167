"""Trees of expressions as tuples: a node is its kind and what that kind is made of.

Most kinds are those of the native module. These are written anew before it takes them: ``cols`` (several columns, by
``_expr.expand``), ``renamed``, ``typed``, ``filtered`` and ``cum`` (by ``_typed.lowered``).
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidegate._tidegate import _Node as Node

#: Functions whose value depends on many rows, by their names in the engine.
AGGREGATES = frozenset(
    "any_value approx_distinct approx_median approx_percentile_cont approx_percentile_cont_with_weight arg_greatest "
    "arg_least array_agg avg bit_and bit_or bit_xor bool_and bool_or corr count covar covar_pop covar_samp entropy "
    "exact_avg exact_corr exact_covar_pop exact_covar_samp exact_regr_avgx exact_regr_avgy exact_regr_intercept "
    "exact_regr_r2 exact_regr_slope exact_regr_sxx exact_regr_sxy exact_regr_syy exact_stddev exact_stddev_pop "
    "exact_sum exact_var exact_var_pop favg first_value fsum gram grouping histogram kahan_sum kurtosis kurtosis_pop "
    "last_value linear_regression mad max mean median min mode nth_value percentile_cont product quantile_cont "
    "regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy skewness stddev "
    "stddev_pop stddev_samp string_agg sum sumkahan svd var var_pop var_population var_samp var_sample".split()
)
#: Functions whose value depends on the rows of a window.
WINDOWS = frozenset("cume_dist dense_rank lag lead ntile percent_rank rank row_number".split())
#: Kinds whose parts are no nodes.
_LEAVES = ("lit", "col", "cols")


def walk(node: Any) -> Iterator[Node]:
    """Go through a node and those below it, however deep they are."""
    stack = [node]
    while stack:
        item = stack.pop()
        if isinstance(item, tuple) and item:
            yield item
            if item[0] not in _LEAVES:
                stack.extend(reversed(item))


def has(node: Any, *kinds: str) -> bool:
    """Tell whether a node or one below it is of one of these kinds."""
    return any(item[0] in kinds for item in walk(node) if isinstance(item[0], str))


def rewritten(node: Any, change: Callable[[Node], Any], closed: Callable[[Node], bool] = lambda _: False) -> Any:
    """Change nodes from below, however deep they are.

    Args:
        change: gets each node with the parts that were changed, and returns what is put in its place.
        closed: nodes whose parts are left as they are.
    """
    done: list[Any] = []
    stack: list[tuple[Any, bool]] = [(node, False)]
    while stack:
        item, is_ready = stack.pop()
        if not isinstance(item, tuple) or not item:
            done.append(item)
        elif is_ready:
            parts = tuple(done[-len(item) :])
            del done[-len(item) :]
            same = all(new is old for new, old in zip(parts, item))
            whole = item if same else parts
            done.append(change(whole) if isinstance(whole[0], str) else whole)
        elif item[0] in _LEAVES:
            done.append(change(item))
        elif isinstance(item[0], str) and closed(item):
            done.append(change(item))
        else:
            stack.append((item, True))
            stack.extend((part, False) for part in reversed(item))
    return done[0]


#: Functions whose value depends on the order of the rows.
_ORDERED = WINDOWS | {"first_value", "last_value", "nth_value"}


def in_rows(node: Node) -> Node:
    """Put functions of a window that stand without one over all rows, for rows that have an order."""

    def change(item: Node) -> Node:
        if item[0] == "cum":
            return running(item, (), ())
        return ("over", item, (), (), None) if item[0] == "fn" and item[1] in WINDOWS else item

    made: Node = rewritten(node, change, lambda item: item[0] in ("over", "cum"))
    return made


def running(node: Node, partitions: tuple[Node, ...], sorts: tuple[Any, ...]) -> Node:
    """Make a cumulative aggregate one over the rows up to the current one; NULL where a value must not be."""
    window = ("over", node[1], partitions, sorts, (None, 0))
    return window if node[2] is None else ("case", ((("is_not_null", node[2]), window),), None)


def in_order_of(node: Node, row: Node) -> Node:
    """Give windows that depend on an order and have none that of a column."""

    def change(item: Node) -> Node:
        if item[0] != "over" or item[3] or not (item[4] is not None or item[1][0] == "fn" and item[1][1] in _ORDERED):
            return item
        return (*item[:3], ((row, False, False),), item[4])

    made: Node = rewritten(node, change, lambda item: item[0] == "over")
    return made


def is_aggregate(node: Node) -> bool:
    """Tell whether a node itself is an aggregate."""
    return node[0] == "fn" and node[1] in AGGREGATES


def has_aggregate(node: Node) -> bool:
    """Tell whether an aggregate is in a node."""
    return any(is_aggregate(item) for item in walk(node))


def loose_columns(node: Node, groups: Iterable[Node] = ()) -> list[str]:
    """List the columns that stand outside aggregates, and outside parts that are values of the groups."""
    known, found = list(groups), []
    stack: list[Any] = [node]
    while stack:
        item = stack.pop()
        if not isinstance(item, tuple) or not item or item in known or is_aggregate(item):
            continue
        if item[0] == "col":
            found.append(str(item[1]))
        elif item[0] not in _LEAVES:
            stack.extend(reversed(item))
    return found


def name_of(node: Node) -> str:
    """Find what a node's column is called: a path down the left, which may be long."""
    before, after = "", ""
    while True:
        kind = node[0]
        if kind in ("col", "alias"):
            return before + str(node[1] if kind == "col" else node[2]) + after
        if kind == "lit":
            return before + "literal" + after
        if kind == "cols":
            return before + "*" + after
        if kind == "renamed":
            before, node, after = before + node[3], node[2], node[4] + after
        elif kind == "bin":
            node = node[2]
        elif kind == "case":
            node = node[1][0][1]
        elif kind in ("fn", "udf", "typed"):
            columns = [arg for arg in node[2] if arg[0] != "lit"]
            if not columns and kind == "typed":
                return before + "literal" + after
            if not columns:
                return before + (str(node[1]) if kind == "fn" else "function") + after
            node = columns[0]
        else:
            node = node[1]


def text(node: Any) -> str:
    """Write a node so that somebody can read it."""
    kind = node[0]
    if kind == "col":
        return str(node[1])
    if kind == "cols":
        return "*" if node[1] is None else ", ".join(node[1])
    if kind == "lit":
        return repr(node[2])
    if kind == "bin":
        return f"({text(node[2])} {node[1]} {text(node[3])})"
    if kind == "alias":
        return f"{text(node[1])} AS {node[2]}"
    if kind in ("fn", "typed"):
        return f"{node[1]}({', '.join(map(text, node[2]))})"
    if kind == "udf":
        return f"function({', '.join(map(text, node[2]))})"
    if kind == "case":
        branches = " ".join(f"WHEN {text(when)} THEN {text(then)}" for when, then in node[1])
        otherwise = "" if node[2] is None else f" ELSE {text(node[2])}"
        return f"CASE {branches}{otherwise} END"
    if kind == "cast":
        return f"cast({text(node[1])} AS {node[2]})"
    if kind == "renamed":
        return text(node[1])
    return f"{kind}({text(node[1])})"


def suggestion(name: str, known: Iterable[str]) -> str:
    """Say which names are like this one."""
    near = difflib.get_close_matches(name, list(known), n=3)
    return f": did you mean {', '.join(near)}?" if near else ""


def missing(owner: object, what: str, name: str, way: str) -> AttributeError:
    """Make the error for a member that something does not have.

    Args:
        owner: what was asked for it.
        what: how the owner is called.
        way: what does the same.
    """
    members = [member for member in dir(type(owner)) if not member.startswith("_")]
    near = suggestion(name, members) or "; "
    joint = near if near == "; " else f"{near} Else "
    return AttributeError(f"{what} has no member {name!r}{joint}{way}", name=name, obj=owner)
