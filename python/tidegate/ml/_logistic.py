"""Logistic regression of two classes or more.

Newton's method with halved steps where one goes too far: an iteration is one statement, which sums the loss, its
gradient and, by the aggregate ``gram``, its second derivatives (Hastie, Tibshirani, Friedman, *The Elements of
Statistical Learning*, 4.4.1).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tidegate._expr import Expr, IntoExpr, col, fn, lit, when
from tidegate._frame import DataFrame
from tidegate.ml._model import ConvergenceWarning, Model, Rows, Vector, chosen, greatest_of

if TYPE_CHECKING:
    from tidegate._connection import Connection

_CLASSES_MAX = 100


class LogisticRegression(Model):
    """Logistic regression with the penalty ``‖coef_‖² / (2 * C)``, which does not count the intercept.

    After ``fit``: ``classes_``, ``coef_`` and ``intercept_`` with a row for each class, or one of the second class if
    there are two, and ``n_iter_``.

    Args:
        C: the inverse of the penalty's strength; infinity for none.
        tol: the greatest entry of the gradient for a row, of features scaled to -1 to 1, that ends the fit.
        max_iter: iterations at the most, each of which reads the rows once.
    """

    classes_: np.ndarray[Any, np.dtype[Any]]
    coef_: Vector
    intercept_: Vector
    n_iter_: int

    def __init__(
        self, *, C: float = 1.0, fit_intercept: bool = True, tol: float = 1e-8, max_iter: int = 100
    ) -> None:
        if not C > 0:
            raise ValueError(f"C={C!r}: it is positive")
        if max_iter < 1:
            raise ValueError("max_iter is 1 at least")
        self.C = C
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter

    def fit(
        self, X: Any, y: Any, *, features: Sequence[IntoExpr] | None = None, con: Connection | None = None
    ) -> LogisticRegression:
        """Fit to the rows that have no NULL.

        Args:
            X: a frame, or a matrix of NumPy or :mod:`tidegate.array`, or anything that exports Arrow batches.
            y: the classes: a column's name or an expression of the frame; an array beside an array.
            features: names of columns and expressions; all columns but the target without it.
            con: the connection of what is no frame.

        Raises:
            ValueError: if values are NaN or infinite, or there are fewer than 2 or more than 100 classes.
        """
        if y is None:
            raise TypeError("LogisticRegression.fit() needs y, the classes")
        rows = self._rows(X, y, features, con, is_number=False)
        summary = rows.summary(with_target=False)
        classes = _classes(rows)
        shift, scale = summary.shift_and_scale(self.fit_intercept)
        problem = _Problem(rows, classes, shift, scale, self.fit_intercept, 1.0 / self.C)
        weights = self._iterate(problem, summary.rows)
        self.classes_ = np.array(classes)
        inner = weights[:, 1:] if self.fit_intercept else weights
        self.coef_ = inner / scale
        start = weights[:, 0] if self.fit_intercept else np.zeros(len(weights))
        self.intercept_ = start - self.coef_ @ shift
        return self

    def _iterate(self, problem: _Problem, rows: int) -> Vector:
        weights = np.zeros(problem.shape)
        told = problem.at(weights)
        for self.n_iter_ in range(1, self.max_iter + 1):
            step = np.linalg.lstsq(told.second, told.gradient.ravel())[0].reshape(problem.shape)
            gain = float((told.gradient * step).sum())
            if np.abs(told.gradient).max() <= self.tol * rows or gain <= 1e-15 * told.loss:
                self.n_iter_ -= 1
                return weights
            share = 1.0
            while True:
                further = problem.at(weights - share * step)
                if further.loss <= told.loss - 1e-4 * share * gain + 1e-14 * told.loss or share < 1e-6:
                    break
                share /= 2
            weights, told = weights - share * step, further
        if np.abs(told.gradient).max() > self.tol * rows:
            warnings.warn(
                f"the fit has not converged after max_iter={self.max_iter} iterations: classes that features separate "
                "need a penalty (a smaller C)",
                ConvergenceWarning,
                stacklevel=3,
            )
        return weights

    def _logits(self) -> list[Expr]:
        """The logarithm of each class's probability, but for what is the same for all."""
        features = [feature.cast("float64") for feature in self._fitted()]
        return _logits(features, np.column_stack([self.intercept_, self.coef_]), len(self.classes_))

    def expression(self) -> Expr:
        """Return the likeliest class as an expression of the features; NULL where one is NULL or NaN."""
        logits = self._logits()
        return chosen(logits, greatest_of(logits), self.classes_.tolist()).alias("prediction")

    def expressions(self) -> list[Expr]:
        """Return each class's probability as an expression of the features, called ``probability_`` and the class."""
        logits = self._logits()
        found = []
        for own, label in zip(logits, self.classes_.tolist()):
            total: Expr = lit(1.0)
            for other in logits:
                if other is not own:
                    total = total + (other - own).exp()
            found.append((lit(1.0) / total).alias(f"probability_{label}"))
        return found

    def predict(self, X: Any) -> Any:
        """Add the column ``prediction`` to a frame; of an array return the array of classes."""
        return self._added(X, {"prediction": self.expression()})

    def predict_proba(self, X: Any) -> Any:
        """Add a column for each class's probability to a frame; of a NumPy matrix return the matrix of them."""
        return self._added(X, {expr.output_name: expr for expr in self.expressions()})

    def score(self, X: Any, y: Any) -> float:
        """Return the share of rows whose class is predicted."""
        rows = self._same(X, y, is_number=False)
        logits = _logits(rows.columns, np.column_stack([self.intercept_, self.coef_]), len(self.classes_))
        predicted = chosen(logits, greatest_of(logits), self.classes_.tolist())
        right = when(predicted == col("y")).then(1.0).otherwise(0.0)
        told = rows.one(right=right.mean())["right"]
        if told is None:
            raise ValueError("there are no rows without NULL")
        return float(told)


@dataclass
class _Told:
    """The penalised loss, its gradient and its second derivatives."""

    loss: float
    gradient: Vector
    second: Vector


class _Problem:
    """The loss as a function of the weights of scaled features: a row for each class, or one of two."""

    def __init__(
        self,
        rows: Rows,
        classes: list[Any],
        shift: Vector,
        scale: Vector,
        has_ones: bool,
        penalty: float,
    ) -> None:
        self._classes = classes
        self._first = 1 if len(classes) == 2 else 0
        scaled = [
            ((column - float(a)) / float(b)).alias(f"z{at}")
            for at, (column, a, b) in enumerate(zip(rows.columns, shift, scale))
        ]
        marks = [
            when(col("y") == lit(label)).then(1.0).otherwise(0.0).alias(f"is{at}") for at, label in enumerate(classes)
        ]
        self._frame: DataFrame = rows.frame.select(*scaled, *marks)
        self._columns: list[Expr] = [*([lit(1.0)] if has_ones else []), *(col(f"z{at}") for at in range(len(scale)))]
        if len(self._columns) > 256:
            raise ValueError(f"{len(rows.names)} features: there are {256 - has_ones} at the most")
        self._has_ones = has_ones
        weights = penalty / np.square(scale)
        self._penalty = np.concatenate([[0.0], weights]) if has_ones else weights
        self.shape = (len(classes) - self._first, len(self._columns))

    def at(self, weights: Vector) -> _Told:
        """Read the rows once."""
        count, free = len(self._classes), range(self._first, len(self._classes))
        padded = weights if self._has_ones else np.column_stack([np.zeros(len(weights)), weights])
        features = self._columns[1:] if self._has_ones else self._columns
        logits = _logits(features, padded, count)
        frame = self._frame.with_columns(**{f"l{at}": logit for at, logit in enumerate(logits)})
        frame = frame.with_columns(top=greatest_of([col(f"l{at}") for at in range(count)]))
        frame = frame.with_columns(**{f"e{at}": (col(f"l{at}") - col("top")).exp() for at in range(count)})
        frame = frame.with_columns(all=_sum([col(f"e{at}") for at in range(count)]))
        frame = frame.with_columns(**{f"p{at}": col(f"e{at}") / col("all") for at in range(count)})
        pairs = [(one, other) for one in free for other in free if one <= other]
        roots = {}
        for one, other in pairs:
            rest = (lit(1.0) - col(f"p{one}")) if one == other else col(f"p{other}")
            roots[f"h{one}_{other}"] = (col(f"p{one}") * rest).sqrt()
        frame = frame.with_columns(**roots)
        own = _sum([col(f"is{at}") * col(f"l{at}") for at in range(count)])
        named: dict[str, Expr] = {"loss": (col("all").log() + col("top") - own).sum()}
        for at in free:
            off = col(f"p{at}") - col(f"is{at}")
            named |= {f"g{at}_{c}": (off * column).sum() for c, column in enumerate(self._columns)}
        for name in roots:
            named[name] = fn.gram(*[col(name) * column for column in self._columns])
        return self._told(frame.select(**named).to_pylist()[0], weights, pairs)

    def _told(self, told: dict[str, Any], weights: Vector, pairs: list[tuple[int, int]]) -> _Told:
        classes, width = self.shape
        gradient = np.array(
            [[told[f"g{at + self._first}_{c}"] for c in range(width)] for at in range(classes)], float
        )
        second = np.zeros((classes, width, classes, width))
        for one, other in pairs:
            block = np.array(told[f"h{one}_{other}"], float) * (1.0 if one == other else -1.0)
            second[one - self._first, :, other - self._first] = block
            second[other - self._first, :, one - self._first] = block.T
        flat = second.reshape(classes * width, classes * width) + np.diag(np.tile(self._penalty, classes))
        loss = float(told["loss"]) + 0.5 * float((self._penalty * weights**2).sum())
        return _Told(loss, gradient + self._penalty * weights, flat)


def _logits(features: Sequence[Expr], weights: Vector, count: int) -> list[Expr]:
    """Make an expression of each row of weights, an intercept first; of two classes the first has 0."""
    found: list[Expr] = []
    for row in weights:
        total: Expr = lit(float(row[0]))
        for feature, weight in zip(features, row[1:]):
            total = total + feature * float(weight)
        found.append(total)
    if count > len(found):
        # NULL and NaN of a feature must be found there, too.
        return [found[0] * 0.0, found[0]]
    return found


def _sum(values: Sequence[Expr]) -> Expr:
    total = values[0]
    for value in values[1:]:
        total = total + value
    return total


def _classes(rows: Rows) -> list[Any]:
    found = rows.frame.select("y").distinct().sort("y").limit(_CLASSES_MAX + 1).to_pylist()
    classes = [row["y"] for row in found]
    if any(label != label for label in classes):
        raise ValueError("the target has values that are NaN: filter() them out, or fill_nan()")
    if len(classes) > _CLASSES_MAX:
        raise ValueError(f"the target has more than {_CLASSES_MAX} different values: LinearRegression fits numbers")
    if len(classes) < 2:
        raise ValueError(f"the target has only the class {classes[0]!r}: there must be two at least")
    return classes
