"""Types of columns: the names by which they are known, here, in SQL, in Arrow, NumPy, pandas and Polars."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any


#: Units of time, and how Arrow writes them.
_UNITS = {"s": "s", "ms": "ms", "us": "µs", "µs": "µs", "ns": "ns"}


class DataType(str):
    """A type's name, as Arrow writes it: ``tg.Int64`` is ``"Int64"``."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"tidegate.{self}"


class _Decimal(DataType):
    __slots__ = ()

    def __call__(self, precision: int = 38, scale: int = 0) -> DataType:
        """Return the type of so many digits, and so many of them after the point."""
        return DataType(f"Decimal{128 if precision <= 38 else 256}({precision}, {scale})")


class _Datetime(DataType):
    __slots__ = ()

    def __call__(self, time_unit: str = "us", time_zone: str | None = None) -> DataType:
        """Return the type of a unit, ``s``, ``ms``, ``us`` or ``ns``, and a time zone if one is given."""
        zone = "" if time_zone is None else f', "{time_zone}"'
        return DataType(f"Timestamp({_unit(time_unit)}{zone})")


class _Duration(DataType):
    __slots__ = ()

    def __call__(self, time_unit: str = "us") -> DataType:
        """Return the type of a unit: ``s``, ``ms``, ``us`` or ``ns``."""
        return DataType(f"Duration({_unit(time_unit)})")


class _List(DataType):
    __slots__ = ()

    def __call__(self, inner: Any) -> Any:
        """Return the type of lists of a type."""
        return _list(data_type(inner))


def _unit(name: str) -> str:
    if name not in _UNITS:
        raise ValueError(f"{name!r} is no unit of time: it is 's', 'ms', 'us' or 'ns'")
    return _UNITS[name]


Boolean = DataType("Boolean")
Int8, Int16, Int32, Int64 = (DataType(f"Int{bits}") for bits in (8, 16, 32, 64))
UInt8, UInt16, UInt32, UInt64 = (DataType(f"UInt{bits}") for bits in (8, 16, 32, 64))
Float32, Float64 = DataType("Float32"), DataType("Float64")
String, Binary, Date, Time, Null = (DataType(name) for name in ("Utf8", "Binary", "Date32", "Time64(µs)", "Null"))
Categorical = DataType("Dictionary(Int32, Utf8)")
Decimal = _Decimal("Decimal128(38, 0)")
Datetime = _Datetime("Timestamp(µs)")
Duration = _Duration("Duration(µs)")
List = _List("List")

#: Types by the names that have no parameters, in small letters.
_TYPES: dict[str, str] = {
    **{name: Boolean for name in ("bool", "boolean", "bool_")},
    **{name: Int8 for name in ("tinyint",)},
    **{name: Int16 for name in ("smallint", "int2")},
    **{name: Int32 for name in ("integer", "int4")},
    **{name: Int64 for name in ("int", "bigint")},
    **{f"int{bits}": f"Int{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"UInt{bits}" for bits in (8, 16, 32, 64)},
    **{f"float{bits}": f"Float{bits}" for bits in (16, 32, 64)},
    **{name: Float32 for name in ("real", "float4")},
    **{name: Float64 for name in ("float", "double", "float8", "double precision")},
    **{name: String for name in ("str", "string", "utf8", "text", "varchar", "str_")},
    **{name: Binary for name in ("bytes", "binary", "bytea", "blob", "varbinary")},
    **{name: Date for name in ("date", "date32", "date32[day]")},
    **{name: Datetime for name in ("datetime", "timestamp")},
    **{name: Datetime("us", "UTC") for name in ("timestamptz", "timestamp with time zone")},
    **{name: Time for name in ("time",)},
    **{name: Duration for name in ("duration", "timedelta")},
    **{name: Categorical for name in ("categorical", "category", "enum")},
    **{name: Decimal for name in ("decimal", "numeric")},
    "large_string": "LargeUtf8",
    "string_view": "Utf8View",
    "null": Null,
}
_WITH_PARAMETERS = re.compile(r"(\w+)\s*([\[(<])(.*)[\])>]", re.DOTALL)


def data_type(wanted: Any) -> Any:
    """Turn what names a type into Arrow's name for it, or into what exports it.

    Args:
        wanted: an Arrow type's name (``"Int64"``, ``"Timestamp(µs)"``), the name of NumPy, pyarrow or SQL (``"int64"``,
            ``"timestamp[us]"``, ``"decimal(10, 2)"``), a Python type (``int``), a type of this module (``tg.Int64``),
            or a type of pyarrow, NumPy, pandas or Polars.

    Raises:
        TypeError: if it is none of these.
    """
    if isinstance(wanted, str):
        return _by_name(wanted)
    if hasattr(wanted, "__arrow_c_schema__"):
        return wanted
    if isinstance(wanted, type) and wanted.__name__.rstrip("_").lower() in _TYPES:
        return _TYPES[wanted.__name__.rstrip("_").lower()]
    if _is_polars(wanted):
        return _of_polars(wanted)
    called = getattr(wanted, "name", None)
    if isinstance(called, str) and called.lower() in _TYPES:
        return _TYPES[called.lower()]
    raise TypeError(f"{wanted!r} is no type: use an Arrow type's name, such as 'Int64', or a pyarrow type")


def schema(wanted: Any) -> Any:
    """Turn a mapping or pairs of names and types into what the native module takes as a schema."""
    if hasattr(wanted, "__arrow_c_schema__"):
        return wanted
    pairs = wanted.items() if isinstance(wanted, Mapping) else wanted
    return [(name, data_type(of)) for name, of in pairs]


def _by_name(name: str) -> Any:
    if name.lower().strip() in _TYPES:
        return _TYPES[name.lower().strip()]
    if name.endswith("[]"):
        return _list(_by_name(name[:-2]))
    found = _WITH_PARAMETERS.fullmatch(name.strip())
    if found is None:
        return name
    kind, bracket, inside = found[1].lower(), found[2], found[3].strip()
    if kind in ("decimal", "numeric", "decimal128", "decimal256") and re.fullmatch(r"\d+(\s*,\s*-?\d+)?", inside):
        precision, _, scale = inside.partition(",")
        return Decimal(int(precision), int(scale or 0))
    unit, _, zone = (part.strip() for part in inside.partition(","))
    if unit in _UNITS and kind in ("timestamp", "datetime", "datetime64"):
        return Datetime(unit, zone.removeprefix("tz=").strip("\"'") or None)
    if unit in _UNITS and kind in ("duration", "timedelta64"):
        return Duration(unit)
    if kind == "list" and (bracket == "<" or inside.lower() in _TYPES or inside[:1].islower()):
        # pyarrow names the elements: list<item: int64>.
        return _list(_by_name(inside.removeprefix("item: ").removeprefix("element: ")))
    if kind in ("varchar", "char"):
        return String
    return name


def _list(inner: Any) -> Any:
    if isinstance(inner, str):
        return DataType(f"List({inner})")
    import pyarrow

    return pyarrow.list_(pyarrow.field(inner).type if not isinstance(inner, pyarrow.DataType) else inner)


def _is_polars(wanted: Any) -> bool:
    of = wanted if isinstance(wanted, type) else type(wanted)
    return of.__module__.split(".")[0] == "polars"


def _of_polars(wanted: Any) -> Any:
    """Turn a type of Polars into what exports it: Polars itself knows what it is in Arrow."""
    import polars

    if wanted in (polars.Categorical, polars.Enum) or isinstance(wanted, polars.Enum):
        return Categorical
    try:
        return polars.Series([], dtype=wanted).to_arrow().type
    except ModuleNotFoundError:
        raise
    except Exception:
        raise TypeError(f"{wanted!r} is no type of columns: use an Arrow type's name, such as 'Int64'") from None
