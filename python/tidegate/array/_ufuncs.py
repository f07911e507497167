"""NumPy's functions over lazy arrays: which there are, and what each is in the engine."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tidegate._expr import Expr, fn, lit, when
from tidegate.array._array import Array
from tidegate.array._join import together

#: Functions of one value, by their names in NumPy and in the engine; integers become floats.
_FLOAT = {
    "cbrt": "cbrt",
    "exp": "exp",
    "log": "ln",
    "log2": "log2",
    "log10": "log10",
    "sin": "sin",
    "cos": "cos",
    "tan": "tan",
    "arcsin": "asin",
    "arccos": "acos",
    "arctan": "atan",
    "sinh": "sinh",
    "cosh": "cosh",
    "tanh": "tanh",
    "arcsinh": "asinh",
    "arccosh": "acosh",
    "arctanh": "atanh",
    "degrees": "degrees",
    "rad2deg": "degrees",
    "radians": "radians",
    "deg2rad": "radians",
}
_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "equal": operator.eq,
    "not_equal": operator.ne,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
}
_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
}
_LOGIC: dict[str, Callable[[Any, Any], Any]] = {
    "logical_and": operator.and_,
    "logical_or": operator.or_,
    "logical_xor": operator.xor,
}
_SHIFTS = {"left_shift": "<<", "right_shift": ">>"}
_BITS: dict[str, Callable[[Any, Any], Any]] = {
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor,
}
#: Reductions by ``numpy.add.reduce`` and the like.
_REDUCTIONS = {"add": "sum", "multiply": "prod", "minimum": "min", "maximum": "max", "logical_and": "all", "logical_or": "any"}
_METHODS = {
    "sum": "sum",
    "mean": "mean",
    "min": "min",
    "amin": "min",
    "max": "max",
    "amax": "max",
    "var": "var",
    "std": "std",
    "any": "any",
    "all": "all",
    "prod": "prod",
    "cumsum": "cumsum",
    "argmin": "argmin",
    "argmax": "argmax",
    "argsort": "argsort",
    "squeeze": "squeeze",
    "swapaxes": "swapaxes",
    "copy": "copy",
    "clip": "clip",
    "round": "round",
    "around": "round",
    "reshape": "reshape",
    "ravel": "ravel",
}
_BOOL = np.dtype(bool)


def call(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Call a function of NumPy, element by element."""
    name = ufunc.__name__
    if method == "reduce" and name in _REDUCTIONS:
        given = {key: value for key, value in kwargs.items() if value is not None or key == "axis"}
        given.pop("out", None)
        return getattr(inputs[0], _REDUCTIONS[name])(**{"axis": 0, **given})
    if method != "__call__":
        raise TypeError(f"numpy.{name}.{method} of a lazy array is not there")
    if kwargs:
        raise TypeError(f"numpy.{name} of a lazy array takes no {', '.join(kwargs)}=")
    if name == "matmul":
        return matmul(*inputs)
    if name == "divmod":
        return np.floor_divide(*inputs), np.remainder(*inputs)
    if len(inputs) == 1:
        return _unary(name, inputs[0])
    if len(inputs) == 2:
        return _binary(name, *_operands(inputs))
    raise TypeError(f"numpy.{name} of a lazy array is not there")


def call_function(function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Call a function of NumPy that is not one element by element."""
    from tidegate.array._functions import FUNCTIONS

    name = function.__name__
    if function.__module__ != "numpy":
        see = ": see tidegate.array.linalg" if function.__module__ == "numpy.linalg" else ""
        raise TypeError(f"{function.__module__}.{name} of a lazy array is not there{see}")
    if "out" in kwargs and kwargs["out"] is not None:
        raise TypeError(f"numpy.{name} of a lazy array takes no out=")
    given = {key: value for key, value in kwargs.items() if key != "out"}
    if name in FUNCTIONS:
        return FUNCTIONS[name](*args, **given)
    if name in _METHODS and isinstance(args[0], Array):
        return getattr(args[0], _METHODS[name])(*args[1:], **given)
    raise TypeError(f"numpy.{name} of a lazy array is not there: compute() it first")


def where(condition: Any, one: Any, other: Any) -> Array:
    """Choose between two arrays' values."""
    mask, left, right = _operands((condition, one, other))
    dtype = _result(left, right)
    chosen: Array = mask.astype(bool)
    value = when(chosen._value).then(_as(left, dtype)).otherwise(_as(right, dtype))
    return chosen._with(value, dtype)


def matmul(one: Any, other: Any) -> Array:
    """Multiply vectors and matrices: a join by the inner index, and a sum."""
    from tidegate.array._create import from_array

    con = next(item._con for item in (one, other) if isinstance(item, Array))
    left, right = (item if isinstance(item, Array) else from_array(item, con=con) for item in (one, other))
    if left.ndim > 2 or right.ndim > 2:
        raise TypeError(f"x @ y of {left.ndim} and {right.ndim} dimensions is not there: of 1 or 2 it is")
    inner = left.shape[-1]
    if inner != right.shape[0]:
        raise ValueError(f"matmul: the shapes {left.shape} and {right.shape} do not go together")
    axis = left.ndim - 1
    if right.ndim == 2:
        left, right = left[..., None], right if axis == 0 else right[None]
    products = _binary("multiply", *_operands((left, right)))
    return products.any(axis) if products.dtype.kind == "b" else products.sum(axis)


class _Literal:
    """A scalar among arrays: its type follows theirs, as in NumPy."""

    def __init__(self, value: Any) -> None:
        self.value = value


def _operands(inputs: tuple[Any, ...]) -> list[Any]:
    """Put arrays over one frame, and leave scalars as literals."""
    from tidegate.array._create import from_array

    known: list[Any] = []
    con = next(item._con for item in inputs if isinstance(item, Array))
    for item in inputs:
        if isinstance(item, Array):
            known.append(item)
        elif isinstance(item, (bool, int, float, np.generic)):
            known.append(_Literal(item))
        elif isinstance(item, np.ndarray) and item.ndim == 0:
            known.append(_Literal(item[()]))
        elif isinstance(item, (np.ndarray, list, tuple)):
            known.append(from_array(np.asarray(item), con=con))
        else:
            raise TypeError(f"an array and an object of the type {type(item).__name__!r} do not go together")
    arrays = iter(together(*[item for item in known if isinstance(item, Array)]))
    return [next(arrays) if isinstance(item, Array) else item for item in known]


def _result(*operands: Any) -> np.dtype[Any]:
    """The type of a result, by NumPy's rules; integers are of 64 bits."""
    given = [item._dtype if isinstance(item, Array) else item.value for item in operands]
    found = np.result_type(*given)
    return np.dtype("int64") if found.kind in "iu" else found


def _as(operand: Any, dtype: np.dtype[Any]) -> Expr:
    """An operand's value, of this type."""
    if isinstance(operand, Array):
        return operand.astype(dtype)._value
    value = operand.value
    if dtype.kind == "b":
        return lit(bool(value))
    if dtype.kind == "i":
        return lit(int(value))
    known = lit(float(value))
    return known.cast("float32") if dtype.itemsize == 4 else known


def _array(*operands: Any) -> Array:
    return next(item for item in operands if isinstance(item, Array))


def _unary(name: str, array: Array) -> Array:
    value, dtype = array._value, array._dtype
    double = dtype if dtype.kind == "f" else np.dtype("float64")
    if name in _FLOAT:
        return array._with(getattr(fn, _FLOAT[name])(_as(array, double)).cast(double.name), double)
    if name in _DERIVED:
        return array._with(_DERIVED[name](_as(array, double)).cast(double.name), double)
    if name in ("isnan", "isinf", "isfinite"):
        return _tested(name, array)
    if name == "logical_not":
        return array._with(~array.astype(bool)._value, _BOOL)
    if name == "invert":
        if dtype.kind == "f":
            raise TypeError("numpy.invert is for integers and truth values")
        return array._with(~value, dtype)
    if dtype.kind == "b" and name in ("negative", "positive", "sign"):
        raise TypeError(f"numpy.{name} is not for truth values")
    if name == "absolute":
        return array if dtype.kind == "b" else array._with(value.abs(), dtype)
    if name == "negative":
        return array._with(-value, dtype)
    if name == "positive":
        return array
    if name == "square":
        return array._with(value * value, dtype)
    if name == "sign":
        return array._with(value.sign().cast(dtype.name), dtype)
    if name in ("floor", "ceil", "trunc"):
        return array if dtype.kind != "f" else array._with(getattr(fn, name)(value).cast(dtype.name), dtype)
    raise TypeError(f"numpy.{name} of a lazy array is not there: compute() it first")


def _root(value: Expr) -> Expr:
    """The square root, NaN of negative values, which are an error to the engine."""
    return when(value < 0).then(float("nan")).otherwise(value).sqrt()


def _log1p(value: Expr) -> Expr:
    """``ln(1 + x)``, which near 0 is ``2 artanh(x / (2 + x))`` with all its digits."""
    near = fn.atanh(value / (value + 2.0)) * 2.0
    return when(value.abs() < 0.5).then(near).otherwise(fn.ln(value + 1.0))


def _expm1(value: Expr) -> Expr:
    """``exp(x) - 1``, which near 0 is ``2 sinh(x / 2) exp(x / 2)`` with all its digits."""
    half = value / 2.0
    return when(value.abs() < 1.0).then(fn.sinh(half) * fn.exp(half) * 2.0).otherwise(fn.exp(value) - 1.0)


def _rint(value: Expr) -> Expr:
    """The nearest whole number, the even one of two."""
    is_between = (value - fn.trunc(value)).abs() == 0.5
    return when(is_between).then((value / 2.0).round() * 2.0).otherwise(value.round())


#: Functions of one value, as ``_FLOAT``, that the engine does not have as such.
_DERIVED: dict[str, Callable[[Expr], Expr]] = {
    "sqrt": _root,
    "log1p": _log1p,
    "expm1": _expm1,
    "rint": _rint,
    "fabs": Expr.abs,
    "exp2": lambda value: fn.power(lit(2.0), value),
}


def _tested(name: str, array: Array) -> Array:
    value = array._value
    if array._dtype.kind != "f":
        return array._with(lit(name == "isfinite"), _BOOL)
    is_nan = value.is_nan()
    is_infinite = value.abs() == float("inf")
    test = {"isnan": is_nan, "isinf": is_infinite, "isfinite": ~(is_nan | is_infinite)}[name]
    return array._with(test, _BOOL)


def _binary(name: str, one: Any, other: Any) -> Array:
    array, dtype = _array(one, other), _result(one, other)
    if name in _COMPARISONS:
        return array._with(_compared(name, one, other, dtype), _BOOL)
    if name in _LOGIC:
        return array._with(_LOGIC[name](_as(one, _BOOL), _as(other, _BOOL)), _BOOL)
    if name in _BITS:
        if dtype.kind == "f":
            raise TypeError(f"numpy.{name} is for integers and truth values")
        return array._with(_BITS[name](_as(one, dtype), _as(other, dtype)), dtype)
    if name in _SHIFTS:
        if dtype.kind != "i":
            raise TypeError(f"numpy.{name} is for integers")
        return array._with(_shifted(name, _as(one, dtype), _as(other, dtype)), dtype)
    if name in ("minimum", "maximum"):
        return array._with(_extreme(name, _as(one, dtype), _as(other, dtype), dtype), dtype)
    if name == "arctan2":
        double = dtype if dtype.kind == "f" else np.dtype("float64")
        return array._with(fn.atan2(_as(one, double), _as(other, double)).cast(double.name), double)
    if name in ("divide", "true_divide"):
        double = dtype if dtype.kind == "f" else np.dtype("float64")
        return array._with(_as(one, double) / _as(other, double), double)
    if name == "float_power":
        return _power(array, one, other, np.dtype("float64"))
    if dtype.kind == "b":
        if name == "add":
            return array._with(_as(one, _BOOL) | _as(other, _BOOL), _BOOL)
        if name == "multiply":
            return array._with(_as(one, _BOOL) & _as(other, _BOOL), _BOOL)
        raise TypeError(f"numpy.{name} is not for truth values")
    left, right = _as(one, dtype), _as(other, dtype)
    if name in _ARITHMETIC:
        return array._with(_ARITHMETIC[name](left, right), dtype)
    if name == "remainder":
        return array._with(left % right, dtype)
    if name == "floor_divide":
        if dtype.kind == "i":
            return array._with(left // right, dtype)
        return array._with(_floor_quotient(left, right).cast(dtype.name), dtype)
    if name == "power":
        return _power(array, one, other, dtype)
    raise TypeError(f"numpy.{name} of a lazy array is not there: compute() it first")


def _compared(name: str, one: Any, other: Any, dtype: np.dtype[Any]) -> Expr:
    """Compare as NumPy does, to which NaN is not equal to itself, less or greater; to the engine it is one value,
    the greatest."""
    left, right = _as(one, dtype), _as(other, dtype)
    test: Expr = _COMPARISONS[name](left, right)
    if dtype.kind != "f":
        return test
    nan_left, nan_right = _may_be_nan(one), _may_be_nan(other)
    if name in ("greater", "greater_equal"):
        return test & ~left.is_nan() if nan_left else test
    if name in ("less", "less_equal"):
        return test & ~right.is_nan() if nan_right else test
    if not (nan_left and nan_right):
        return test
    return test & ~left.is_nan() if name == "equal" else test | left.is_nan()


def _may_be_nan(operand: Any) -> bool:
    if isinstance(operand, Array):
        return operand._dtype.kind == "f"
    return bool(np.isnan(operand.value))


def _extreme(name: str, left: Expr, right: Expr, dtype: np.dtype[Any]) -> Expr:
    is_left = left <= right if name == "minimum" else left >= right
    chosen = when(is_left).then(left).otherwise(right)
    if dtype.kind != "f":
        return chosen
    return when(left.is_nan()).then(left).when(right.is_nan()).then(right).otherwise(chosen)


def _floor_quotient(left: Expr, right: Expr) -> Expr:
    """The quotient of floats, rounded down; infinite or NaN of a division by 0."""
    # What remains is taken away first, so that the quotient is a whole number but for rounding.
    remains = Expr(("bin", "rem", left._node, right._node))
    cut = ((left - remains) / right).round()
    is_above = ((remains < 0) & (right > 0)) | ((remains > 0) & (right < 0))
    return when(right == 0).then(left / right).when(is_above).then(cut - 1.0).otherwise(cut)


def _shifted(name: str, left: Expr, right: Expr) -> Expr:
    """Shift bits: out of the integer by 64 and more, where the engine takes the number modulo 64."""
    shifted = Expr(("bin", _SHIFTS[name], left._node, right._node))
    all_out = lit(0) if name == "left_shift" else Expr(("bin", ">>", left._node, lit(63)._node))
    return when(right.is_between(0, 63)).then(shifted).otherwise(all_out)


def _power(array: Array, one: Any, other: Any, dtype: np.dtype[Any]) -> Array:
    left = _as(one, dtype)
    exponent = other.value if isinstance(other, _Literal) else None
    if dtype.kind == "i":
        value = _whole_power(left, _as(other, dtype)) if exponent is None else _whole_power_of(left, int(exponent))
        return array._with(value, dtype)
    if exponent is not None and exponent in (1, 2, 3):
        return array._with(_product(left, int(exponent)), dtype)
    if exponent is not None and exponent == 0.5:
        return array._with(_root(left), dtype)
    if exponent is not None and exponent == -1:
        return array._with(lit(1.0).cast(dtype.name) / left, dtype)
    right = _as(other, dtype)
    if exponent is not None and exponent >= 0:
        return array._with(fn.power(left, right).cast(dtype.name), dtype)
    # To the engine it is an error.
    is_pole = (left == 0) & (right < 0)
    result = fn.power(when(is_pole).then(1.0).otherwise(left), right)
    return array._with(when(is_pole).then(float("inf")).otherwise(result).cast(dtype.name), dtype)


#: What an integer to a power of more than this is, if it is not -1, 0 or 1, no integer of 64 bits holds.
_POWER_MAX = 63


def _product(base: Expr, times: int) -> Expr:
    """Multiply so many factors that are alike, by squares."""
    found, square = None, base
    while times:
        if times & 1:
            found = square if found is None else found * square
        square, times = square * square, times >> 1
    return lit(1) if found is None else found


def _whole_power_of(base: Expr, exponent: int) -> Expr:
    """Raise integers to one power; 0 where it is one of more than 63 that overflows."""
    if exponent < 0:
        raise ValueError("integers to negative integer powers are not allowed")
    if exponent <= _POWER_MAX:
        return _product(base, exponent)
    return when(base.is_between(-1, 1)).then(_product(base, 2 - exponent % 2)).otherwise(0)


def _whole_power(base: Expr, exponent: Expr) -> Expr:
    """Raise integers to powers that are integers, too: a factor for each bit of the exponent."""
    found = lit(1)
    for bit in range(_POWER_MAX.bit_length()):
        factor = when((exponent & (1 << bit)) != 0).then(_product(base, 1 << bit)).otherwise(1)
        found = factor if bit == 0 else found * factor
    is_odd = (exponent & 1) != 0
    of_ones = when(is_odd).then(base).otherwise(base * base)
    large = when(base.is_between(-1, 1)).then(of_ones).otherwise(0)
    # No such text is an integer: the error has it. It names the exponent, so that only rows that need it make it.
    refused = fn.concat(lit("integers to negative integer powers are not allowed: "), exponent).cast("int64")
    return when(exponent < 0).then(refused).when(exponent > _POWER_MAX).then(large).otherwise(found)
