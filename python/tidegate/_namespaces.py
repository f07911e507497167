"""What expressions of strings, moments, lists and structs can do, and their names."""

from __future__ import annotations

import datetime
import re
from typing import TYPE_CHECKING, Any

from tidegate import _expr, _nodes

if TYPE_CHECKING:
    from tidegate._expr import Expr
    from tidegate._tidegate import _Node as Node

#: What Unicode and Polars call whitespace.
_WHITESPACE = "".join(map(chr, (*range(9, 14), 32, 133, 160, 5760, *range(8192, 8203), 8232, 8233, 8239, 8287, 12288)))
#: Letters of durations, and the words that truncate to them.
_CALENDAR = {
    "y": "year",
    "q": "quarter",
    "mo": "month",
    "w": "week",
    "d": "day",
    "h": "hour",
    "m": "minute",
    "s": "second",
}
#: Letters of durations that are always as long, in microseconds.
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 7 * 86_400}
_MICROSECONDS = {"us": 1, "ms": 1_000} | {unit: seconds * 10**6 for unit, seconds in _SECONDS.items()}
#: Units of time stamps, and how many there are in a second.
_UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
#: Where weeks begin that truncate() counts: a Monday.
_MONDAY = datetime.datetime(1970, 1, 5)


class _Namespace:
    __slots__ = ("_expr",)

    def __init__(self, expr: Expr) -> None:
        self._expr = expr

    def _call(self, name: str, *args: Any) -> Expr:
        return _call(name, self._expr, *args)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        way = f"tg.fn.{name}(…) calls a function of SQL, and con.sql(…) writes the query in SQL"
        raise _nodes.missing(self, f"expressions' .{_PLACES[type(self)]}", name, way)


def _call(name: str, *args: Any) -> Expr:
    return _expr.function(name, *(_expr.Expr(_expr._value(arg)) for arg in args))


class Names(_Namespace):
    """What names of columns can do."""

    __slots__ = ()

    def _renamed(self, before: str, after: str) -> Expr:
        node = self._expr._node
        return _expr.Expr(("renamed", node, node, before, after))

    def suffix(self, suffix: str) -> Expr:
        """Add a text after the name."""
        return self._renamed("", suffix)

    def prefix(self, prefix: str) -> Expr:
        """Add a text before the name."""
        return self._renamed(prefix, "")


class Strings(_Namespace):
    """What strings can do."""

    __slots__ = ()

    def to_lowercase(self) -> Expr:
        """Turn letters into lower case."""
        return self._call("lower")

    def to_uppercase(self) -> Expr:
        """Turn letters into upper case."""
        return self._call("upper")

    def to_titlecase(self) -> Expr:
        """Turn the first letter of each word into upper case, and the others into lower case."""
        return self._call("initcap")

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

    def count_matches(self, pattern: str, *, literal: bool = False) -> Expr:
        """Count the matches of a regular expression, or of this text itself."""
        return self._call("regexp_count", _pattern(pattern, literal))

    def find(self, pattern: str, *, literal: bool = False) -> Expr:
        """Return the bytes before the first match of a regular expression, or of this text itself; NULL if there is
        none."""
        found = self._call("regexp_match", f"^((?s:.*?)){_group(pattern, literal)}")
        return self._named(_call("octet_length", _call("array_element", found, 1)).cast("int64"))

    def replace(self, pattern: str, value: Any, *, literal: bool = False, n: int = 1) -> Expr:
        """Put another text in the place of the first match.

        Args:
            pattern: a regular expression, or a text if ``literal``.
            value: the text; ``${1}`` in it is the match's first group, unless ``literal``.
            n: 1; of every match it is :meth:`replace_all`.
        """
        if n != 1:
            raise ValueError(f"replace(n={n!r}): it is 1; replace_all() replaces every match")
        return self._call("regexp_replace", _pattern(pattern, literal), _replacement(value, literal))

    def replace_all(self, pattern: Any, value: Any, *, literal: bool = False) -> Expr:
        """Put another text in the place of each match.

        Args:
            pattern: a regular expression, or a text if ``literal``.
            value: the text; ``${1}`` in it is the match's first group, unless ``literal``.
        """
        if literal:
            return self._call("replace", pattern, value)
        return self._call("regexp_replace", pattern, _replacement(value, literal), "g")

    def extract(self, pattern: str, group_index: int = 1) -> Expr:
        """Return a group of the first match of a regular expression, the match itself for 0; NULL if there is none."""
        if group_index == 0:
            pattern, group_index = f"({pattern})", 1
        return self._named(_call("array_element", self._call("regexp_match", pattern), group_index))

    def slice(self, offset: int, length: int | None = None) -> Expr:
        """Return the characters from an offset on, so many at the most; a negative offset counts from the end."""
        if offset < 0:
            ending = self._call("right", -offset)
            # A text that is shorter than the offset begins before itself.
            if length is None:
                return ending
            before = _call("greatest", 0, self.len_chars() + offset).cast("int64")
            until = _call("greatest", 0, self.len_chars() + (offset + length)).cast("int64")
            return self._named(self._call("substr", before + 1, until - before))
        more = () if length is None else (length,)
        return self._call("substr", offset + 1, *more)

    def head(self, n: int) -> Expr:
        """Return the first characters, so many; all but the last if ``n`` is negative."""
        return self._call("left", n)

    def tail(self, n: int) -> Expr:
        """Return the last characters, so many; all but the first if ``n`` is negative."""
        return self._call("right", n)

    def strip_chars(self, characters: str | None = None) -> Expr:
        """Remove characters at both ends: these, or whitespace."""
        return self._call("btrim", _WHITESPACE if characters is None else characters)

    def strip_chars_start(self, characters: str | None = None) -> Expr:
        """Remove characters at the beginning: these, or whitespace."""
        return self._call("ltrim", _WHITESPACE if characters is None else characters)

    def strip_chars_end(self, characters: str | None = None) -> Expr:
        """Remove characters at the end: these, or whitespace."""
        return self._call("rtrim", _WHITESPACE if characters is None else characters)

    def strip_prefix(self, prefix: str) -> Expr:
        """Remove a text at the beginning, once."""
        return self._call("regexp_replace", f"^{re.escape(prefix)}", "")

    def strip_suffix(self, suffix: str) -> Expr:
        """Remove a text at the end, once."""
        return self._call("regexp_replace", f"{re.escape(suffix)}$", "")

    def pad_start(self, length: int, fill_char: str = " ") -> Expr:
        """Add characters before a text that is shorter; a longer one stays as it is."""
        return self._padded("lpad", length, fill_char)

    def pad_end(self, length: int, fill_char: str = " ") -> Expr:
        """Add characters after a text that is shorter; a longer one stays as it is."""
        return self._padded("rpad", length, fill_char)

    def _padded(self, name: str, length: Any, fill_char: str) -> Expr:
        wide = _call("greatest", length, self.len_chars()).cast("int64")
        return self._call(name, wide, fill_char)

    def zfill(self, length: int) -> Expr:
        """Add zeros before a text that is shorter, after its sign if it has one."""
        digits = self._call("regexp_replace", "^[+-]", "")
        sign = self._call("left", self.len_chars() - digits.str.len_chars())
        padded = digits.str._padded("lpad", length - sign.str.len_chars(), "0")
        return self._named(sign + padded)

    def split(self, by: str) -> Expr:
        """Cut the string into a list at each occurrence of a text; into characters if the text is empty."""
        return self._call("string_to_array", None if by == "" else by)

    def reverse(self) -> Expr:
        """Turn the order of the characters around."""
        return self._call("reverse")

    def like(self, pattern: str) -> Expr:
        """Match SQL's pattern: ``%`` for any text, ``_`` for one character."""
        return _expr.Expr(("like", self._expr._node, _expr._value(pattern), False, False))

    def to_date(self, format: str | None = None, *, strict: bool = True) -> Expr:
        """Read a date.

        Args:
            format: as in ``strftime``; ``%Y-%m-%d`` if there is none.
            strict: whether what is no date is an error, and not NULL; without a format alone.
        """
        if format is None:
            return self._expr.cast("date", strict=strict)
        return self._read(format, strict, "to_date", "date")

    def to_datetime(self, format: str | None = None, *, strict: bool = True) -> Expr:
        """Read a moment without a time zone, in microseconds.

        Args:
            format: as in ``strftime``; that of ISO 8601 if there is none.
            strict: whether what is no moment is an error, and not NULL; without a format alone.
        """
        if format is None:
            return self._expr.cast("datetime", strict=strict)
        return self._read(format, strict, "to_timestamp_micros", "datetime")

    def _read(self, format: str, strict: bool, function: str, to: str) -> Expr:
        if not strict:
            raise ValueError(f"strict=False goes without a format: filter() what is no {to} before")
        return self._named(self._call(function, format).cast(to))

    def to_integer(self, *, strict: bool = True) -> Expr:
        """Read an integer."""
        return self._expr.cast("int64", strict=strict)

    def _named(self, made: Expr) -> Expr:
        return _expr.Expr(("renamed", made._node, self._expr._node, "", ""))


def _pattern(pattern: str, literal: bool) -> str:
    return re.escape(pattern) if literal else pattern


def _group(pattern: str, literal: bool) -> str:
    return f"(?:{_pattern(pattern, literal)})"


def _replacement(value: Any, literal: bool) -> Any:
    """Write a replacement as the engine does: ``\\1`` where Polars has ``$1``."""
    if not isinstance(value, str):
        return value
    if literal:
        return value.replace("\\", "\\\\")

    def group(match: re.Match[str]) -> str:
        text, name = match.group(), match.group(1) or match.group(2)
        if text in ("\\", "$$"):
            return "\\\\" if text == "\\" else "$"
        if len(name) == 1 and name.isdigit():
            return f"\\{name}"
        raise ValueError(f"replacement {value!r}: groups are $0 to $9, and not {text}")

    return re.sub(r"\\|\$\$|\$(?:\{(\w+)\}|(\w+))", group, value)


class Moments(_Namespace):
    """What dates and times can do."""

    __slots__ = ()

    def _part(self, name: str) -> Expr:
        return _call("date_part", _expr.lit(name), self._expr).cast("int64")

    def year(self) -> Expr:
        """Return the year."""
        return self._part("year")

    def iso_year(self) -> Expr:
        """Return the year to which the week belongs."""
        return self._part("isoyear")

    def quarter(self) -> Expr:
        """Return the quarter, 1 to 4."""
        return self._part("quarter")

    def month(self) -> Expr:
        """Return the month, 1 to 12."""
        return self._part("month")

    def week(self) -> Expr:
        """Return the week of ISO 8601, 1 to 53."""
        return self._part("week")

    def weekday(self) -> Expr:
        """Return the day of the week, from Monday, which is 1, to Sunday, 7."""
        return self._part("isodow")

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

    def epoch(self, time_unit: str = "us") -> Expr:
        """Return the time since 1970.

        Args:
            time_unit: ``ns``, ``us``, ``ms``, ``s`` or ``d`` for days.
        """
        if time_unit == "d":
            return self._expr.cast("date").cast("int32")
        if time_unit not in _UNITS:
            raise ValueError(f"time_unit={time_unit!r}: it is 'ns', 'us', 'ms', 's' or 'd'")
        micros = self._expr.cast("datetime").cast("int64")
        by = _UNITS[time_unit]
        return micros * (by // 10**6) if by >= 10**6 else micros // (10**6 // by)

    def timestamp(self, time_unit: str = "us") -> Expr:
        """Return the time since 1970, as :meth:`epoch` does."""
        return self.epoch(time_unit)

    def strftime(self, format: str) -> Expr:
        """Write the moment as a format says: ``%Y-%m-%d``."""
        return self._call("to_char", format)

    def to_string(self, format: str) -> Expr:
        """Write the moment as a format says: ``%Y-%m-%d``."""
        return self.strftime(format)

    def truncate(self, every: str) -> Expr:
        """Return the beginning of the time span in which the moment lies; of its own type.

        Args:
            every: a number and a unit, as in Polars: ``15m``, ``1h``, ``1d``, ``1w``, ``1mo``, ``1q``, ``1y`` (of months,
                quarters and years one); or a word of SQL, such as ``month``.
        """
        found = re.fullmatch(r"(\d+)(ns|us|ms|mo|[smhdwqy])", every)
        if found is None:
            return self._moment("date_trunc", (every,))
        count, unit = int(found[1]), found[2]
        if count == 1 and unit in _CALENDAR:
            return self._moment("date_trunc", (_CALENDAR[unit],))
        if unit not in _MICROSECONDS or count == 0:
            raise ValueError(f"truncate({every!r}): of months, quarters and years it takes one, and of no nanoseconds")
        step = datetime.timedelta(microseconds=count * _MICROSECONDS[unit])
        origin = _MONDAY if unit == "w" else datetime.datetime(1970, 1, 1)
        return self._moment("date_bin", (step,), (origin,))

    def month_start(self) -> Expr:
        """Return the first day of the month, at the same time of the day."""
        return _expr.typed("month_edge", self._expr._node, params=(0,))

    def month_end(self) -> Expr:
        """Return the last day of the month, at the same time of the day."""
        return _expr.typed("month_edge", self._expr._node, params=(1,))

    def _moment(self, name: str, before: tuple[Any, ...], after: tuple[Any, ...] = ()) -> Expr:
        params = (name, tuple(map(_expr._value, before)), tuple(map(_expr._value, after)))
        return _expr.typed("moment", self._expr._node, params=params)


class Lists(_Namespace):
    """What lists can do."""

    __slots__ = ()

    def len(self) -> Expr:
        """Count the elements."""
        return self._call("array_length")

    def get(self, index: int) -> Expr:
        """Return an element by its place, from 0; from the end if negative. NULL if there is none."""
        return self._call("array_element", index + 1 if index >= 0 else index)

    def first(self) -> Expr:
        """Return the first element; NULL if there is none."""
        return self.get(0)

    def last(self) -> Expr:
        """Return the last element; NULL if there is none."""
        return self.get(-1)

    def contains(self, item: Any) -> Expr:
        """Tell whether the list has a value; NULL is one, too."""
        if item is None:
            found = self._call("array_position", None).is_not_null()
            known = ("case", (((self._expr.is_not_null())._node, found._node),), None)
            return _expr.Expr(("renamed", known, self._expr._node, "", ""))
        return self._call("array_has", item)

    def join(self, separator: str) -> Expr:
        """Join the elements to one string; NULLs are left out."""
        return self._call("array_to_string", separator)

    def sort(self) -> Expr:
        """Sort the elements; NULLs are first."""
        return self._call("array_sort", "ASC", "NULLS FIRST")

    def reverse(self) -> Expr:
        """Turn the order of the elements around."""
        return self._call("array_reverse")

    def unique(self) -> Expr:
        """Keep one of the elements that are equal; NULL is one."""
        return self._call("array_union", self._expr)

    def n_unique(self) -> Expr:
        """Count the different elements; NULL is one."""
        return self.unique().list.len()

    def sum(self) -> Expr:
        """Return the sum of the elements; 0 of none."""
        empty = ("case", ((self._expr.is_not_null()._node, self._call("array_sum").fill_null(0)._node),), None)
        return _expr.Expr(("renamed", empty, self._expr._node, "", ""))

    def mean(self) -> Expr:
        """Return the mean of the elements; NULL of none."""
        return self._call("array_avg")

    def min(self) -> Expr:
        """Return the least element; NULL of none."""
        return self._call("array_min")

    def max(self) -> Expr:
        """Return the greatest element; NULL of none."""
        return self._call("array_max")

    def head(self, n: int = 5) -> Expr:
        """Return the first elements, so many."""
        return self.slice(0, n)

    def tail(self, n: int = 5) -> Expr:
        """Return the last elements, so many."""
        return self.slice(-n)

    def slice(self, offset: int, length: int | None = None) -> Expr:
        """Return the elements from an offset on, so many at the most; a negative offset counts from the end."""
        size = self.len().fill_null(0).cast("int64")
        start = _call("greatest", 0, size + offset).cast("int64") if offset < 0 else _expr.lit(offset)
        if length is None:
            end = size
        elif offset < 0:
            end = _call("least", size, size + (offset + length)).cast("int64")
        else:
            end = _expr.lit(offset + length)
        return self._call("array_slice", start + 1, end)


class Structs(_Namespace):
    """What structs can do."""

    __slots__ = ()

    def field(self, name: str) -> Expr:
        """Return a field."""
        return _expr.Expr(("alias", self._call("get_field", name)._node, name))

    def __getitem__(self, name: str) -> Expr:
        return self.field(name)


#: How expressions call their namespaces.
_PLACES: dict[type, str] = {Names: "name", Strings: "str", Moments: "dt", Lists: "list", Structs: "struct"}
