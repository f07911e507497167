"""Operators of expressions, and their names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidegate import _expr

if TYPE_CHECKING:
    from tidegate._expr import Expr
    from tidegate._tidegate import _Node as Node


class Operators:
    """What expressions do with operators: a value on the other side is a literal."""

    __slots__ = ()

    _node: Node

    def _with(self, operator: str, other: Any) -> Expr:
        return _expr.Expr(("bin", operator, self._node, _expr._value(other)))

    def _after(self, operator: str, other: Any) -> Expr:
        return _expr.Expr(("bin", operator, _expr._value(other), self._node))

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
        return _expr.typed("pow", self._node, _expr._value(other))

    def __rpow__(self, other: Any) -> Expr:
        return _expr.typed("pow", _expr._value(other), self._node)

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
        return _expr.Expr(("neg", self._node))

    def __pos__(self) -> Expr:
        return _expr.Expr(self._node)

    def __invert__(self) -> Expr:
        return _expr.Expr(("not", self._node))

    def __abs__(self) -> Expr:
        return self.abs()

    def __hash__(self) -> int:
        return id(self)

    # --- by name ---

    def add(self, other: Any) -> Expr:
        """Return ``self + other``."""
        return self._with("+", other)

    def sub(self, other: Any) -> Expr:
        """Return ``self - other``."""
        return self._with("-", other)

    def mul(self, other: Any) -> Expr:
        """Return ``self * other``."""
        return self._with("*", other)

    def truediv(self, other: Any) -> Expr:
        """Return ``self / other``."""
        return self._with("/", other)

    def floordiv(self, other: Any) -> Expr:
        """Return ``self // other``."""
        return self._with("//", other)

    def mod(self, other: Any) -> Expr:
        """Return ``self % other``, which has the sign of ``other``."""
        return self._with("%", other)

    def pow(self, exponent: Any) -> Expr:
        """Raise to a power. Integers to the power of integers are integers, and wrap where they overflow; a negative
        exponent is then an error."""
        return self.__pow__(exponent)

    def neg(self) -> Expr:
        """Return ``-self``."""
        return -self

    def eq(self, other: Any) -> Expr:
        """Return ``self == other``."""
        return self._with("==", other)

    def ne(self, other: Any) -> Expr:
        """Return ``self != other``."""
        return self._with("!=", other)

    def lt(self, other: Any) -> Expr:
        """Return ``self < other``."""
        return self._with("<", other)

    def le(self, other: Any) -> Expr:
        """Return ``self <= other``."""
        return self._with("<=", other)

    def gt(self, other: Any) -> Expr:
        """Return ``self > other``."""
        return self._with(">", other)

    def ge(self, other: Any) -> Expr:
        """Return ``self >= other``."""
        return self._with(">=", other)

    def and_(self, *others: Any) -> Expr:
        """Return ``self & other & …``."""
        result: Any = self
        for other in others:
            result = result & other
        return _expr.Expr(result._node)

    def or_(self, *others: Any) -> Expr:
        """Return ``self | other | …``."""
        result: Any = self
        for other in others:
            result = result | other
        return _expr.Expr(result._node)

    def xor(self, other: Any) -> Expr:
        """Return ``self ^ other``."""
        return self._with("^", other)

    def not_(self) -> Expr:
        """Return ``~self``."""
        return ~self

    def eq_missing(self, other: Any) -> Expr:
        """Compare so that two NULLs are equal."""
        return self._with("eq_missing", other)

    def ne_missing(self, other: Any) -> Expr:
        """Compare so that two NULLs are not different."""
        return self._with("ne_missing", other)

    # --- functions of a number ---

    def _call(self, name: str, *args: Any) -> Expr:
        return _expr.Expr(("fn", name, (self._node, *map(_expr._value, args)), False, (), None))

    def abs(self) -> Expr:
        """Return the magnitude."""
        return self._call("abs")

    def ceil(self) -> Expr:
        """Round up. Integers stay as they are."""
        return _expr.typed("round", self._node, params=("ceil",))

    def floor(self) -> Expr:
        """Round down. Integers stay as they are."""
        return _expr.typed("round", self._node, params=("floor",))

    def round(self, decimals: int = 0) -> Expr:
        """Round to so many decimals, halves away from zero. Integers stay as they are unless ``decimals`` is negative."""
        return _expr.typed("round", self._node, params=("round", decimals))

    def sign(self) -> Expr:
        """Return -1, 0 or 1, of the value's own type."""
        return _expr.typed("sign", self._node)

    def sqrt(self) -> Expr:
        """Return the square root."""
        return self._call("sqrt")

    def cbrt(self) -> Expr:
        """Return the cube root."""
        return self._call("cbrt")

    def exp(self) -> Expr:
        """Return e to this power."""
        return self._call("exp")

    def log(self, base: float | None = None) -> Expr:
        """Return the logarithm, natural unless a base is given."""
        if base is None:
            return self._call("ln")
        return _expr.function("log", _expr.lit(base), _expr.Expr(self._node))

    def log10(self) -> Expr:
        """Return the logarithm to the base 10."""
        return self._call("log10")

    def log1p(self) -> Expr:
        """Return the natural logarithm of one more."""
        return self._with("+", 1).log()

    def sin(self) -> Expr:
        """Return the sine of an angle in radians."""
        return self._call("sin")

    def cos(self) -> Expr:
        """Return the cosine of an angle in radians."""
        return self._call("cos")

    def tan(self) -> Expr:
        """Return the tangent of an angle in radians."""
        return self._call("tan")

    def cot(self) -> Expr:
        """Return the cotangent of an angle in radians."""
        return self._call("cot")

    def arcsin(self) -> Expr:
        """Return the angle in radians whose sine this is."""
        return self._call("asin")

    def arccos(self) -> Expr:
        """Return the angle in radians whose cosine this is."""
        return self._call("acos")

    def arctan(self) -> Expr:
        """Return the angle in radians whose tangent this is."""
        return self._call("atan")

    def sinh(self) -> Expr:
        """Return the hyperbolic sine."""
        return self._call("sinh")

    def cosh(self) -> Expr:
        """Return the hyperbolic cosine."""
        return self._call("cosh")

    def tanh(self) -> Expr:
        """Return the hyperbolic tangent."""
        return self._call("tanh")

    def arcsinh(self) -> Expr:
        """Return the value whose hyperbolic sine this is."""
        return self._call("asinh")

    def arccosh(self) -> Expr:
        """Return the value whose hyperbolic cosine this is."""
        return self._call("acosh")

    def arctanh(self) -> Expr:
        """Return the value whose hyperbolic tangent this is."""
        return self._call("atanh")

    def degrees(self) -> Expr:
        """Turn radians into degrees."""
        return self._call("degrees")

    def radians(self) -> Expr:
        """Turn degrees into radians."""
        return self._call("radians")
