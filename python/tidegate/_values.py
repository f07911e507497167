"""Values and types: from Python's to what the native module takes."""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Mapping, Sequence
from typing import Any

_EPOCH = dt.date(1970, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)
_INT_MAX = 2**63

def is_value(value: Any) -> bool:
    """Tell whether something is a value that a literal can be made of."""
    try:
        literal(value)
    except TypeError:
        return False
    return True


def literal(value: Any) -> tuple[str, Any]:
    """Make the pair of a value's kind and what that kind is made of.

    Raises:
        TypeError: for a value that no type of the engine has.
    """
    # A subclass that comes first in its family's order: bool is an int, a datetime is a date.
    if value is None:
        return ("null", None)
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, int):
        return _whole(value)
    if isinstance(value, float):
        return ("float", float(value))
    if isinstance(value, str):
        return ("str", str(value))
    if isinstance(value, (bytes, bytearray, memoryview)):
        return ("bytes", bytes(value))
    if isinstance(value, decimal.Decimal):
        return _decimal(value)
    moment = _moment(value)
    if moment is not None:
        return moment
    if type(value).__module__ == "numpy" and hasattr(value, "item"):
        if getattr(value, "ndim", 0) == 0:
            return _numpy(value)
        return literal(value.tolist())
    if isinstance(value, (list, tuple)):
        return ("list", [literal(item) for item in value])
    raise TypeError(f"a value of the type {type(value).__name__!r} is no literal: {value!r}")


def _whole(value: int) -> tuple[str, Any]:
    if -_INT_MAX <= value < _INT_MAX:
        return ("int", value)
    if 0 <= value < 2 * _INT_MAX:
        return ("uint", value)
    digits = str(value)
    return ("decimal", (digits, len(digits.lstrip("-")), 0))


def _decimal(value: decimal.Decimal) -> tuple[str, Any]:
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        return ("float", float(value))
    whole = "".join(map(str, digits)) + "0" * max(exponent, 0)
    scale = max(-exponent, 0)
    precision = max(len(whole.lstrip("0")), scale, 1)
    return ("decimal", (("-" if sign else "") + whole, precision, scale))


def _moment(value: Any) -> tuple[str, Any] | None:
    if isinstance(value, dt.datetime):
        zone = None
        if value.tzinfo is not None:
            zone = getattr(value.tzinfo, "key", None) or "+00:00"
            value = value.astimezone(dt.timezone.utc).replace(tzinfo=None)
        micros = (value - dt.datetime(1970, 1, 1)) // _MICROSECOND
        return ("timestamp", (micros, zone))
    if isinstance(value, dt.date):
        return ("date", (value - _EPOCH).days)
    if isinstance(value, dt.time):
        since = dt.timedelta(
            hours=value.hour, minutes=value.minute, seconds=value.second, microseconds=value.microsecond
        )
        return ("time", since // _MICROSECOND)
    if isinstance(value, dt.timedelta):
        return ("duration", value // _MICROSECOND)
    return None


def _numpy(value: Any) -> tuple[str, Any]:
    if value.dtype.kind in "mM":
        name = "datetime64[us]" if value.dtype.kind == "M" else "timedelta64[us]"
        value = value.astype(name)
    item = value.item()
    if type(item).__module__ == "numpy":
        raise TypeError(f"a NumPy value of the type {value.dtype} is no literal")
    return literal(item)


def parameters(values: Sequence[Any] | Mapping[str, Any] | None) -> Any:
    """Make what the native module binds to a statement's parameters."""
    if values is None:
        return None
    if isinstance(values, Mapping):
        return {str(name).lstrip("$"): literal(value) for name, value in values.items()}
    if isinstance(values, (str, bytes)):
        raise TypeError("parameters are a list of values or a dict of names and values, not a string")
    return [literal(value) for value in values]


def quoted(name: str) -> str:
    """Write a name as SQL does."""
    return '"' + name.replace('"', '""') + '"'


def sql_literal(value: Any) -> str:
    """Write an option's value as SQL does: a string, a number, a truth value, or a list of them."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, Mapping):
        pairs = (f"{sql_literal(key)}: {sql_literal(item)}" for key, item in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(sql_literal(item) for item in value) + "]"
    return "'" + str(value).replace("'", "''") + "'"
