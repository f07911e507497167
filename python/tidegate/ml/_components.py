"""Principal components."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tidegate._expr import Expr, IntoExpr, fn, lit
from tidegate.ml._model import Model, Vector

if TYPE_CHECKING:
    from tidegate._connection import Connection


class PCA(Model):
    """Principal component analysis, by the singular values of the centred features.

    After ``fit``: ``components_`` (a row for each, of which the entry of greatest magnitude is positive),
    ``explained_variance_``, ``explained_variance_ratio_``, ``singular_values_``, ``mean_``.
    """

    components_: Vector
    explained_variance_: Vector
    explained_variance_ratio_: Vector
    singular_values_: Vector
    mean_: Vector
    n_components_: int

    def __init__(self, n_components: int | None = None) -> None:
        self.n_components = n_components

    def fit(
        self, X: Any, y: None = None, *, features: Sequence[IntoExpr] | None = None, con: Connection | None = None
    ) -> PCA:
        """Fit to the rows that have no NULL, in two passes.

        Args:
            X: a frame, or a matrix of NumPy or :mod:`tidegate.array`, or anything that exports Arrow batches.
            y: nothing.
            features: names of columns and expressions; all columns without it.
            con: the connection of what is no frame.

        Raises:
            ValueError: if values are NaN or infinite, or there is only one row.
        """
        rows = self._rows(X, None, features, con)
        summary = rows.summary(with_target=False)
        most = min(summary.rows, len(rows.names))
        kept = most if self.n_components is None else self.n_components
        if not 1 <= kept <= most:
            raise ValueError(f"n_components={kept}: {summary.rows} rows of {len(rows.names)} features have 1 to {most}")
        if summary.rows < 2:
            raise ValueError("one row has no variance")
        centred = [column - float(mean) for column, mean in zip(rows.columns, summary.mean)]
        told = rows.one(d=fn.svd(*centred))["d"]
        values, vectors = np.array(told["s"]), np.array(told["v"])
        largest = np.abs(vectors).argmax(axis=1)
        vectors = vectors * np.where(vectors[range(len(vectors)), largest] < 0, -1.0, 1.0)[:, None]
        variance = values**2 / (summary.rows - 1)
        self.components_ = vectors[:kept]
        self.singular_values_ = values[:kept]
        self.explained_variance_ = variance[:kept]
        self.explained_variance_ratio_ = variance[:kept] / (variance.sum() or 1.0)
        self.mean_ = summary.mean
        self.n_components_ = kept
        return self

    def expressions(self) -> list[Expr]:
        """Return the coordinates of a row, ``pca0``, ``pca1``, …, as expressions of the features."""
        features = self._fitted()
        found = []
        for at, vector in enumerate(self.components_):
            total: Expr = lit(0.0)
            for feature, mean, weight in zip(features, self.mean_, vector):
                total = total + (feature.cast("float64") - float(mean)) * float(weight)
            found.append(total.alias(f"pca{at}"))
        return found

    def transform(self, X: Any) -> Any:
        """Add the columns ``pca0``, ``pca1``, … to a frame; of a NumPy matrix return the matrix of them."""
        return self._added(X, {expr.output_name: expr for expr in self.expressions()})
