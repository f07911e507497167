"""What models have in common: the rows that they are fitted to, and where their expressions go."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tidegate._expr import Expr, IntoExpr, col, count_rows, fn, when
from tidegate._frame import DataFrame

if TYPE_CHECKING:
    from tidegate._connection import Connection

Vector = np.ndarray[Any, np.dtype[np.float64]]
#: The types of which numbers are made.
_NUMBERS = ("Int", "UInt", "Float", "Decimal", "Boolean")
#: The column of the target, and the one that keeps the order of an array's rows.
_TARGET = "y"
_ROW = "__row__"


class ConvergenceWarning(UserWarning):
    """A fit reached ``max_iter`` before it reached ``tol``."""


class NotFittedError(ValueError, AttributeError):
    """A model was asked for what only ``fit`` finds."""


@dataclass
class Summary:
    """What one pass tells of the columns: mean, least and greatest value, variance, and the number of rows."""

    rows: int
    mean: Vector
    low: Vector
    high: Vector
    variance: Vector

    def shift_and_scale(self, is_centred: bool) -> tuple[Vector, Vector]:
        """Return what is subtracted from columns, and what they are divided by then, so that they lie in -1 to 1."""
        constant = self.low == self.high
        if is_centred:
            shift = np.where(constant, self.low, self.mean)
        else:
            shift = np.zeros_like(self.mean)
        scale = np.maximum(np.abs(self.high - shift), np.abs(self.low - shift))
        return shift, np.where(scale > 0, scale, 1.0)


@dataclass
class Rows:
    """The rows of a fit: float columns ``x0``, ``x1``, … without NULL, and ``y`` if there is a target."""

    frame: DataFrame
    names: list[str]

    @property
    def columns(self) -> list[Expr]:
        """The features."""
        return [col(f"x{at}") for at in range(len(self.names))]

    def one(self, **aggregates: Expr) -> dict[str, Any]:
        """Run aggregates over all rows."""
        found: dict[str, Any] = self.frame.select(**aggregates).to_pylist()[0]
        return found

    def summary(self, with_target: bool) -> Summary:
        """Look at every column once.

        Raises:
            ValueError: if there are no rows, or values that are NaN or infinite.
        """
        columns = [*self.columns, *([col(_TARGET)] if with_target else [])]
        named: dict[str, Expr] = {"rows": count_rows()}
        for at, column in enumerate(columns):
            named |= {
                f"mean{at}": column.mean(),
                f"low{at}": column.min(),
                f"high{at}": column.max(),
                f"variance{at}": column.var(ddof=0),
            }
        told = self.one(**named)
        if told["rows"] == 0:
            raise ValueError("there are no rows without NULL to fit to")
        parts = [
            np.array([told[f"{part}{at}"] for at in range(len(columns))], float)
            for part in ("mean", "low", "high", "variance")
        ]
        for at, name in enumerate([*self.names, "the target"][: len(columns)]):
            if not (np.isfinite(parts[1][at]) and np.isfinite(parts[2][at])):
                shown = name if at == len(self.names) else f"the feature {name!r}"
                raise ValueError(f"{shown} has values that are NaN or infinite: filter() them out, or fill_nan()")
        return Summary(int(told["rows"]), *parts)


class Model:
    """A model before and after ``fit``."""

    _features: list[Expr] | None = None
    _con: Connection | None = None

    def __repr__(self) -> str:
        given = [name for name in vars(self) if not name.startswith("_") and not name.endswith("_")]
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in given)})"

    def __getattr__(self, name: str) -> Any:
        if name.endswith("_") and not name.startswith("_") and self._features is None:
            raise NotFittedError(f"this {type(self).__name__} has no {name!r} before fit() is called")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def n_features_in_(self) -> int:
        """The number of features."""
        return len(self._fitted())

    @property
    def feature_names_in_(self) -> list[str]:
        """The features' names."""
        return [feature.output_name for feature in self._fitted()]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_con"}

    def _fitted(self) -> list[Expr]:
        if self._features is None:
            raise NotFittedError(f"this {type(self).__name__} is not fitted: call fit() first")
        return self._features

    def _rows(
        self,
        X: Any,
        y: Any,
        features: Sequence[IntoExpr] | None,
        con: Connection | None,
        is_number: bool = True,
    ) -> Rows:
        """Find the rows to fit to, and keep which features they have.

        Args:
            y: the target, or ``None`` for a model that has none.
            is_number: whether the target is a number, and not a label.
        """
        frame, target = _framed(X, y, con)
        if features is None:
            if isinstance(target, Expr):
                raise TypeError("y is an expression, and may be one of any column: name the features=[...]")
            features = [name for name in frame.columns if name not in (target, _ROW)]
        chosen = [_column(item) for item in features]
        if not chosen:
            raise ValueError("there are no features")
        rows = _selected(frame, chosen, target, is_number)
        self._features, self._con = chosen, frame._con
        return rows

    def _same(self, X: Any, y: Any, is_number: bool = True) -> Rows:
        """Find rows with the features that the model was fitted to."""
        frame, target = _framed(X, y, self._con, self._names_for(X))
        return _selected(frame, self._fitted(), target, is_number)

    def _names_for(self, X: Any) -> list[str] | None:
        """Say what the columns of an array are called, if they must have the names of a frame."""
        if isinstance(X, DataFrame) or hasattr(X, "__arrow_c_stream__"):
            return None
        if any(feature._node[0] != "col" for feature in self._fitted()):
            raise TypeError("the model's features are expressions: predict from a frame, and not from an array")
        return self.feature_names_in_

    def _added(self, X: Any, added: dict[str, Expr]) -> Any:
        """Add columns to a frame; of an array make another one."""
        names = self._names_for(X)
        if names is None:
            return (X if isinstance(X, DataFrame) else _default(self._con).from_arrow(X)).with_columns(**added)
        frame, _ = _framed(X, None, self._con, names)
        from tidegate.array._array import Array, Dimension

        if not isinstance(X, Array):
            found = frame.select(_ROW, **added).sort(_ROW).drop(_ROW).to_numpy()
            arrays = list(found.values())
            return arrays[0] if len(arrays) == 1 else np.column_stack(arrays)
        if len(added) > 1:
            raise TypeError("a lazy array has one value for each row here: pass X.to_frame(), or a frame of columns")
        values = frame.select(col(_ROW).alias("i"), next(iter(added.values())).alias("x"))
        of = values.schema["x"]
        dtype = {"Int64": "int64", "Boolean": "bool", "Float64": "float64"}.get(of)
        if dtype is None:
            raise TypeError(f"predictions are {of}, and arrays have numbers or truth values: pass a frame or a NumPy matrix")
        return Array(values, (Dimension.whole("i", X.shape[0]),), col("x"), np.dtype(dtype))


def least_of(values: Sequence[Expr]) -> Expr:
    """Return the least of several values."""
    return values[0] if len(values) == 1 else fn.least(*values)


def greatest_of(values: Sequence[Expr]) -> Expr:
    """Return the greatest of several values."""
    return values[0] if len(values) == 1 else fn.greatest(*values)


def chosen(values: Sequence[Expr], best: Expr, results: Iterable[Any]) -> Expr:
    """Return the result whose value is the best one: the first of several, NULL where that is NULL or NaN."""
    from tidegate._expr import lit

    found: Any = when(best.is_nan()).then(None)
    for value, result in zip(values, results):
        found = found.when(value == best).then(lit(result))
    return Expr(found._node)


def _column(item: IntoExpr) -> Expr:
    return col(item) if isinstance(item, str) else item if isinstance(item, Expr) else _no_column(item)


def _no_column(item: Any) -> Expr:
    raise TypeError(f"features are names of columns and expressions, and not {item!r}")


def _default(con: Connection | None) -> Connection:
    import tidegate

    return con or tidegate.default_connection()


def _framed(X: Any, y: Any, con: Connection | None, names: list[str] | None = None) -> tuple[DataFrame, Any]:
    """Make a frame of what a model is given, and say what its target is: a name, an expression or ``None``."""
    from tidegate.array._array import Array

    if isinstance(y, DataFrame) or isinstance(X, DataFrame) and not isinstance(y, (str, Expr, type(None))):
        raise TypeError("rows of a frame have no order that would match another one's: name y's column in X, or join")
    if isinstance(y, Expr) and y._node[0] == "col":
        y = y.output_name
    if isinstance(X, DataFrame):
        return X, y
    if isinstance(X, Array):
        return _of_array(X, y, names)
    import pyarrow

    own = _default(con)
    if hasattr(X, "__arrow_c_stream__"):
        if isinstance(y, (str, Expr, type(None))):
            return own.from_arrow(X), y
        table = pyarrow.table(X)
    else:
        values = np.asarray(X)
        if values.ndim != 2:
            raise ValueError(f"X has the shape {values.shape}: it has rows and columns")
        called = names or [f"x{at}" for at in range(values.shape[1])]
        if len(called) != values.shape[1]:
            raise ValueError(f"X has {values.shape[1]} features, and the model {len(called)}")
        table = pyarrow.table({name: np.ascontiguousarray(values[:, at]) for at, name in enumerate(called)})
        table = table.append_column(_ROW, pyarrow.array(np.arange(len(values))))
    if y is None:
        return own.from_arrow(table), None
    target = y if hasattr(y, "__arrow_c_stream__") else np.asarray(y)
    if len(target) != table.num_rows or getattr(target, "ndim", 1) != 1:
        raise ValueError(f"y has the shape {np.shape(target)}, and X has {table.num_rows} rows")
    free = _TARGET
    while free in table.column_names:
        free += "_"
    is_series = hasattr(target, "__arrow_c_stream__")
    values = pyarrow.chunked_array(target) if is_series else pyarrow.array(target)
    return own.from_arrow(table.append_column(free, values)), free


def _of_array(X: Any, y: Any, names: list[str] | None) -> tuple[DataFrame, Any]:
    """Make a frame of a matrix: a column for each of the matrix, ``row``, and ``y``."""
    from tidegate.array._array import Array
    from tidegate.array._create import from_array

    if X.ndim != 2:
        raise ValueError(f"X has the shape {X.shape}: it has rows and columns")
    called = names or [f"x{at}" for at in range(X.shape[1])]
    if len(called) != X.shape[1]:
        raise ValueError(f"X has {X.shape[1]} features, and the model {len(called)}")
    one = {name: col("x").max().filter(col("j") == at) for at, name in enumerate(called)}
    wide = X.to_frame().group_by(**{_ROW: col("i")}).agg(**one)
    if y is None:
        return wide, None
    target = y if isinstance(y, Array) else from_array(y, con=X._con)
    if target.shape != X.shape[:1]:
        raise ValueError(f"y has the shape {target.shape}, and X has {X.shape[0]} rows")
    right = target.to_frame().select(col("i").alias(_ROW), col("x").alias(_TARGET))
    return wide.join(right, on=_ROW), _TARGET


def _selected(frame: DataFrame, features: Sequence[Expr], target: Any, is_number: bool) -> Rows:
    """Select features and target, as floats and without rows that have NULL."""
    named = {f"x{at}": feature for at, feature in enumerate(features)}
    names = [feature.output_name for feature in features]
    if target is not None:
        named[_TARGET] = _column(target)
    raw = frame.select(**named)
    for name, of in raw.schema.items():
        is_label = name == _TARGET and not is_number
        if not is_label and not of.startswith(_NUMBERS):
            shown = "the target" if name == _TARGET else f"the feature {names[int(name[1:])]!r}"
            raise TypeError(f"{shown} is {of}, and no number")
    floats = [col(name).cast("float64") for name in raw.columns if name != _TARGET or is_number]
    whole = raw.with_columns(*floats).drop_nulls()
    return Rows(whole, names)
