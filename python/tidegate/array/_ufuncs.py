"""NumPy's functions over lazy arrays: which there are, and what each is in the engine."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tidegate._expr import Expr, fn, lit, when
from tidegate.array._array import Array, together

#: Functions of one value, by their names in NumPy and in the engine; integers become floats.
_FLOAT = {
    "sqrt": "sqrt",
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
_BITS: dict[str, Callable[[Any, Any], Any]] = {
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor,
}
#: Reductions by ``numpy.add.reduce`` and the like.
_REDUCTIONS = {"add": "sum", "minimum": "min", "maximum": "max", "logical_and": "all", "logical_or": "any"}
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
    "transpose": "transpose",
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
    if len(inputs) == 1:
        return _unary(name, inputs[0])
    if len(inputs) == 2:
        return _binary(name, *_operands(inputs))
    raise TypeError(f"numpy.{name} of a lazy array is not there")


def call_function(function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Call a function of NumPy that is not one element by element."""
    name = function.__name__
    if name in ("shape", "ndim", "size"):
        return getattr(args[0], name)
    if name == "where" and len(args) == 3:
        return where(*args)
    if name == "count_nonzero":
        return args[0].astype(bool).sum(*args[1:], **kwargs)
    if name == "dot":
        return matmul(*args)
    if name in _METHODS and isinstance(args[0], Array):
        return getattr(args[0], _METHODS[name])(*args[1:], **kwargs)
    if function.__module__ == "numpy.linalg":
        raise TypeError(f"numpy.linalg.{name} of a lazy array is not there: see tidegate.array.linalg")
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
    from tidegate.array._create import from_array, zeros

    con = next(item._con for item in (one, other) if isinstance(item, Array))
    left, right = (item if isinstance(item, Array) else from_array(item, con=con) for item in (one, other))
    if left.ndim > 2 or right.ndim > 2:
        raise TypeError(f"x @ y of {left.ndim} and {right.ndim} dimensions is not there: of 1 or 2 it is")
    inner = left.shape[-1]
    if inner != right.shape[0]:
        raise ValueError(f"matmul: the shapes {left.shape} and {right.shape} do not go together")
    if inner == 0:
        return zeros((*left.shape[:-1], *right.shape[1:]), _result(left, right), con=con)
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
    if name in ("absolute", "fabs"):
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
    if name in ("minimum", "maximum"):
        return array._with(_extreme(name, _as(one, dtype), _as(other, dtype), dtype), dtype)
    if name == "arctan2":
        double = dtype if dtype.kind == "f" else np.dtype("float64")
        return array._with(fn.atan2(_as(one, double), _as(other, double)).cast(double.name), double)
    if name in ("divide", "true_divide"):
        double = dtype if dtype.kind == "f" else np.dtype("float64")
        return array._with(_as(one, double) / _as(other, double), double)
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
        # What remains is taken away first, so that the quotient is a whole number but for rounding.
        return array._with(((left - left % right) / right).round().cast(dtype.name), dtype)
    if name in ("power", "float_power"):
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


def _power(array: Array, one: Any, other: Any, dtype: np.dtype[Any]) -> Array:
    exponent = other.value if isinstance(other, _Literal) else None
    if dtype.kind == "i" and isinstance(exponent, (int, np.integer)) and exponent < 0:
        raise ValueError("integers to negative integer powers are not allowed")
    left = _as(one, dtype)
    if exponent is not None and exponent in (1, 2, 3):
        product = left
        for _ in range(int(exponent) - 1):
            product = product * left
        return array._with(product, dtype)
    result = fn.power(left, _as(other, dtype))
    return array._with(result.cast(dtype.name), dtype)
