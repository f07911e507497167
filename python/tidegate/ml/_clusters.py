"""k-means.

An iteration is one ``GROUP BY`` of the nearest centre. The first centres are those of k-means++ (Arthur, Vassilvitskii,
2007), each the best of several draws. A draw in proportion to weights needs no order of the rows: each row has a random
number u, a function of its values and the seed, and the row with the least ``-ln(u) / weight`` is drawn (Efraimidis,
Spirakis, "Weighted random sampling with a reservoir", 2006).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tidegate._expr import Expr, IntoExpr, col, count_rows, fn
from tidegate._frame import DataFrame
from tidegate.ml._model import ConvergenceWarning, Model, Rows, Summary, Vector, chosen, least_of

if TYPE_CHECKING:
    from tidegate._connection import Connection


class KMeans(Model):
    """k-means clustering by Lloyd's iteration.

    After ``fit``: ``cluster_centers_``, ``inertia_`` (the sum of squared distances to the nearest centre), ``n_iter_``.

    Args:
        n_clusters: the number of clusters.
        init: ``"k-means++"``, or a matrix of first centres.
        max_iter: iterations at the most, each of which reads the rows once.
        tol: the centres' movement that ends the fit, as a part of the features' mean variance.
        random_state: a seed, which makes the fit the same each time.
    """

    cluster_centers_: Vector
    inertia_: float
    n_iter_: int

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        init: Any = "k-means++",
        max_iter: int = 300,
        tol: float = 1e-4,
        random_state: int | None = None,
    ) -> None:
        if n_clusters < 1 or max_iter < 1:
            raise ValueError("n_clusters and max_iter are 1 at least")
        if isinstance(init, str) and init != "k-means++":
            raise ValueError(f"init={init!r}: it is 'k-means++' or a matrix of centres")
        self.n_clusters = n_clusters
        self.init = init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def fit(
        self, X: Any, y: None = None, *, features: Sequence[IntoExpr] | None = None, con: Connection | None = None
    ) -> KMeans:
        """Fit to the rows that have no NULL. They are read once for each iteration, and twice for each first centre.

        Args:
            X: a frame, or a matrix of NumPy or :mod:`tidegate.array`, or anything that exports Arrow batches.
            y: nothing.
            features: names of columns and expressions; all columns without it.
            con: the connection of what is no frame.

        Raises:
            ValueError: if values are NaN or infinite, or fewer rows than clusters are different.
        """
        rows = self._rows(X, None, features, con)
        summary = rows.summary(with_target=False)
        centers = self._first(rows, summary)
        limit = self.tol * summary.variance.mean() + (4e-16**2) * (np.square(summary.mean) + summary.variance).sum()
        for self.n_iter_ in range(1, self.max_iter + 1):
            moved = _moved(rows, centers)
            shift = np.square(moved - centers).sum()
            centers = moved
            if shift <= limit:
                break
        else:
            warnings.warn(
                f"k-means still moved its centres after max_iter={self.max_iter} iterations", ConvergenceWarning, stacklevel=2
            )
        self.cluster_centers_ = centers
        self.inertia_ = float(_nearest(rows.frame, rows.columns, centers).select(col("d").sum()).item())
        return self

    def _first(self, rows: Rows, summary: Summary) -> Vector:
        if not isinstance(self.init, str):
            centers = np.array(self.init, float)
            if centers.shape != (self.n_clusters, len(rows.names)):
                raise ValueError(f"init has the shape {centers.shape}, and not {(self.n_clusters, len(rows.names))}")
            return centers
        generator = np.random.default_rng(self.random_state)
        draws = 2 + int(np.log(self.n_clusters))
        centers = _drawn(rows, summary, generator, np.empty((0, len(rows.names))), 1)
        while len(centers) < self.n_clusters:
            found = _drawn(rows, summary, generator, centers, draws)
            if not len(found):
                raise ValueError(f"n_clusters={self.n_clusters}, and only {len(centers)} rows are different")
            near = _nearest(rows.frame, rows.columns, centers)
            sums = {
                f"s{at}": least_of([col("d"), _distance(rows.columns, row)]).sum() for at, row in enumerate(found)
            }
            told = near.select(**sums).to_pylist()[0]
            best = min(range(len(found)), key=lambda at: (told[f"s{at}"], at))
            centers = np.vstack([centers, found[best]])
        return centers

    def expression(self) -> Expr:
        """Return the number of the nearest centre as an expression of the features; NULL where one is NULL or NaN."""
        features = [feature.cast("float64") for feature in self._fitted()]
        distances = [_distance(features, center) for center in self.cluster_centers_]
        return chosen(distances, least_of(distances), range(len(distances))).alias("prediction")

    def predict(self, X: Any) -> Any:
        """Add the column ``prediction`` to a frame; of an array return the array of clusters."""
        return self._added(X, {"prediction": self.expression()})

    def score(self, X: Any, y: None = None) -> float:
        """Return the sum of squared distances to the nearest centre, negative."""
        rows = self._same(X, None)
        return -float(_nearest(rows.frame, rows.columns, self.cluster_centers_).select(col("d").sum()).item() or 0.0)


def _distance(columns: Sequence[Expr], center: Vector) -> Expr:
    """The square of the distance to a centre."""
    parts = [(column - float(at)) * (column - float(at)) for column, at in zip(columns, center)]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def _nearest(frame: DataFrame, columns: Sequence[Expr], centers: Vector) -> DataFrame:
    """Add ``d0``, ``d1``, …, the squared distances to the centres, and ``d``, the least of them."""
    distances = {f"d{at}": _distance(columns, center) for at, center in enumerate(centers)}
    return frame.with_columns(**distances).with_columns(d=least_of([col(name) for name in distances]))


def _moved(rows: Rows, centers: Vector) -> Vector:
    """Return the means of the rows that are nearest to each centre; for those without rows the rows farthest away."""
    near = _nearest(rows.frame, rows.columns, centers)
    distances = [col(f"d{at}") for at in range(len(centers))]
    labelled = near.with_columns(label=chosen(distances, col("d"), range(len(centers))))
    means = [column.mean() for column in rows.columns]
    moved = np.full_like(centers, np.nan)
    for row in labelled.group_by("label").agg(*means).to_pylist():
        moved[row["label"]] = [row[f"x{at}"] for at in range(len(means))]
    empty = np.isnan(moved[:, 0]).nonzero()[0]
    if len(empty):
        far = near.sort("d", *rows.columns, descending=True).limit(len(empty))
        for at, row in zip(empty, _values(far, rows)):
            moved[at] = row
        # Fewer rows than centres: what is left stays.
        moved = np.where(np.isnan(moved), centers, moved)
    return moved


def _drawn(rows: Rows, summary: Summary, generator: np.random.Generator, centers: Vector, number: int) -> Vector:
    """Draw rows in proportion to the squared distance to the nearest centre; evenly if there is none."""
    shift, scale = summary.shift_and_scale(is_centred=True)
    factors = generator.normal(size=len(shift)) * 1e4 / scale
    mixed = (rows.columns[0] - float(shift[0])) * float(factors[0]) + float(generator.uniform(0, 7))
    for column, off, factor in zip(rows.columns[1:], shift[1:], factors[1:]):
        mixed = mixed + (column - float(off)) * float(factor)
    spread = fn.sin(mixed) * 43758.5453123
    frame = rows.frame.with_columns(spread=spread)
    # From 0, whose logarithm is infinite, to below 1: a key of 0 would always win.
    evenly = fn.greatest(col("spread") - col("spread").floor(), 1e-300)
    key = -evenly.log()
    if len(centers):
        frame = _nearest(frame, rows.columns, centers).filter(col("d") > 0)
        key = key / col("d")
    return _values(frame.with_columns(key=key).sort("key", *rows.columns).limit(number), rows)


def _values(frame: DataFrame, rows: Rows) -> Vector:
    found = frame.select(*rows.columns).to_pylist()
    return np.array([list(row.values()) for row in found], float).reshape(len(found), len(rows.names))
