"""The operators of an array: each is NumPy's function of that name."""

from __future__ import annotations

from typing import Any

import numpy

_np: Any = numpy


class Operators:
    """What arithmetic, comparisons and logic are, written as operators."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    def __add__(self, other: Any) -> Any:
        return _np.add(self, other)

    def __radd__(self, other: Any) -> Any:
        return _np.add(other, self)

    def __sub__(self, other: Any) -> Any:
        return _np.subtract(self, other)

    def __rsub__(self, other: Any) -> Any:
        return _np.subtract(other, self)

    def __mul__(self, other: Any) -> Any:
        return _np.multiply(self, other)

    def __rmul__(self, other: Any) -> Any:
        return _np.multiply(other, self)

    def __truediv__(self, other: Any) -> Any:
        return _np.true_divide(self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _np.true_divide(other, self)

    def __floordiv__(self, other: Any) -> Any:
        return _np.floor_divide(self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return _np.floor_divide(other, self)

    def __mod__(self, other: Any) -> Any:
        return _np.remainder(self, other)

    def __rmod__(self, other: Any) -> Any:
        return _np.remainder(other, self)

    def __pow__(self, other: Any) -> Any:
        return _np.power(self, other)

    def __rpow__(self, other: Any) -> Any:
        return _np.power(other, self)

    def __divmod__(self, other: Any) -> Any:
        return _np.divmod(self, other)

    def __rdivmod__(self, other: Any) -> Any:
        return _np.divmod(other, self)

    def __lshift__(self, other: Any) -> Any:
        return _np.left_shift(self, other)

    def __rlshift__(self, other: Any) -> Any:
        return _np.left_shift(other, self)

    def __rshift__(self, other: Any) -> Any:
        return _np.right_shift(self, other)

    def __rrshift__(self, other: Any) -> Any:
        return _np.right_shift(other, self)

    def __and__(self, other: Any) -> Any:
        return _np.bitwise_and(self, other)

    __rand__ = __and__

    def __or__(self, other: Any) -> Any:
        return _np.bitwise_or(self, other)

    __ror__ = __or__

    def __xor__(self, other: Any) -> Any:
        return _np.bitwise_xor(self, other)

    __rxor__ = __xor__

    def __invert__(self) -> Any:
        return _np.invert(self)

    def __neg__(self) -> Any:
        return _np.negative(self)

    def __pos__(self) -> Any:
        return _np.positive(self)

    def __abs__(self) -> Any:
        return _np.absolute(self)

    def __eq__(self, other: object) -> Any:
        return _np.equal(self, other)

    def __ne__(self, other: object) -> Any:
        return _np.not_equal(self, other)

    def __lt__(self, other: Any) -> Any:
        return _np.less(self, other)

    def __le__(self, other: Any) -> Any:
        return _np.less_equal(self, other)

    def __gt__(self, other: Any) -> Any:
        return _np.greater(self, other)

    def __ge__(self, other: Any) -> Any:
        return _np.greater_equal(self, other)

    def __matmul__(self, other: Any) -> Any:
        return _np.matmul(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return _np.matmul(other, self)
