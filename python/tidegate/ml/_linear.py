"""Linear regression by least squares, plain and with a penalty.

The aggregate ``svd`` keeps a triangle of the columns (1, X, y), centred and scaled by a first pass; what it gives has
the products of the columns without having squared their condition. The rest has the size of the features: Golub, Van
Loan, *Matrix Computations*, 5.3 and 6.1.4.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from tidegate._expr import Expr, IntoExpr, col, fn, lit
from tidegate.ml._model import Model, Rows, Vector

if TYPE_CHECKING:
    from tidegate._connection import Connection

#: A column is dependent if those before it leave no more than this of its length, as in ``linear_regression`` of SQL.
_DEPENDENT = 1e-12
_Self = TypeVar("_Self", bound="_Linear")


class _Linear(Model):
    """What linear models of one target have in common."""

    fit_intercept: bool
    coef_: Vector
    intercept_: float

    def _solve(self, triangle: Vector, scale: Vector, names: list[str], rows: int) -> Vector:
        raise NotImplementedError

    def fit(
        self: _Self,
        X: Any,
        y: Any,
        *,
        features: Sequence[IntoExpr] | None = None,
        con: Connection | None = None,
    ) -> _Self:
        """Fit to the rows that have no NULL, in two passes.

        Args:
            X: a frame, or a matrix of NumPy or :mod:`tidegate.array`, or anything that exports Arrow batches.
            y: the target: a column's name or an expression of the frame; an array beside an array.
            features: names of columns and expressions; all columns but the target without it.
            con: the connection of what is no frame.

        Raises:
            ValueError: if values are NaN or infinite, there are too few rows, or a feature depends on others.
        """
        if y is None:
            raise TypeError(f"{type(self).__name__}.fit() needs y, the target")
        rows = self._rows(X, y, features, con)
        summary = rows.summary(with_target=True)
        shift, scale = summary.shift_and_scale(self.fit_intercept)
        triangle = _triangle(rows, shift, scale, self.fit_intercept)
        ones, inner = (triangle[0], triangle[1:, 1:]) if self.fit_intercept else (None, triangle)
        found = self._solve(inner, scale[:-1], rows.names, summary.rows)
        self.coef_ = scale[-1] * found / scale[:-1]
        self.intercept_ = 0.0
        if ones is not None:
            middle = (ones[-1] - ones[1:-1] @ found) / ones[0]
            self.intercept_ = float(shift[-1] + scale[-1] * middle - self.coef_ @ shift[:-1])
        return self

    def expression(self) -> Expr:
        """Return the prediction as an expression of the features; NULL where one is NULL."""
        features = self._fitted()
        total: Expr = lit(self.intercept_)
        for feature, weight in zip(features, self.coef_):
            total = total + feature.cast("float64") * float(weight)
        return total.alias("prediction")

    def predict(self, X: Any) -> Any:
        """Add the column ``prediction`` to a frame; of an array return the array of predictions."""
        return self._added(X, {"prediction": self.expression()})

    def score(self, X: Any, y: Any) -> float:
        """Return the coefficient of determination R² of the predictions; NaN of a target that is constant."""
        rows = self._same(X, y)
        predicted: Expr = lit(self.intercept_)
        for column, weight in zip(rows.columns, self.coef_):
            predicted = predicted + column * float(weight)
        off = col("y") - predicted
        told = rows.one(off=(off * off).mean(), spread=col("y").var(ddof=0))
        if told["off"] is None:
            raise ValueError("there are no rows without NULL")
        return 1.0 - float(told["off"]) / float(told["spread"]) if told["spread"] else float("nan")


class LinearRegression(_Linear):
    """Ordinary least squares.

    After ``fit``: ``coef_``, ``intercept_``.
    """

    def __init__(self, *, fit_intercept: bool = True) -> None:
        self.fit_intercept = fit_intercept

    def _solve(self, triangle: Vector, scale: Vector, names: list[str], rows: int) -> Vector:
        wanted = len(names) + self.fit_intercept
        if rows < wanted:
            raise ValueError(f"{rows} rows without NULL are too few for {wanted} coefficients: fit Ridge")
        k = len(names)
        for at, name in enumerate(names):
            if abs(triangle[at, at]) <= _DEPENDENT * np.linalg.norm(triangle[: at + 1, at]):
                raise ValueError(
                    f"the feature {name!r} is constant or a linear combination of those before it: leave it out, or "
                    "fit Ridge"
                )
        return np.asarray(np.linalg.solve(triangle[:k, :k], triangle[:k, k]), float)


class Ridge(_Linear):
    """Least squares with the penalty ``alpha * ‖coef_‖²``, which does not count the intercept.

    After ``fit``: ``coef_``, ``intercept_``.
    """

    def __init__(self, alpha: float = 1.0, *, fit_intercept: bool = True) -> None:
        if not alpha >= 0:
            raise ValueError(f"alpha={alpha!r}: it is not negative")
        self.alpha = alpha
        self.fit_intercept = fit_intercept

    def _solve(self, triangle: Vector, scale: Vector, names: list[str], rows: int) -> Vector:
        k = len(names)
        left = np.vstack([triangle[:k, :k], np.diag(np.sqrt(self.alpha) / scale)])
        return np.asarray(np.linalg.lstsq(left, np.append(triangle[:k, k], np.zeros(k)))[0], float)


def _triangle(rows: Rows, shift: Vector, scale: Vector, has_ones: bool) -> Vector:
    """Return R of (1, X, y) = QR."""
    columns = [*rows.columns, col("y")]
    if len(columns) + has_ones > 256:
        raise ValueError(f"{len(rows.names)} features: there are {255 - has_ones} at the most")
    scaled = [(column - float(a)) / float(b) for column, a, b in zip(columns, shift, scale)]
    told = rows.one(d=fn.svd(*([lit(1.0)] if has_ones else []), *scaled))["d"]
    product = np.array(told["s"])[:, None] * np.array(told["v"])
    return np.asarray(np.linalg.qr(product, mode="r"))
