"""Models in scikit-learn's shape, fitted by aggregates over frames and arrays.

``fit`` runs one statement or several over the rows, wherever these are, and only sums, or a row at a time, come back;
``predict`` adds an expression to a frame. Nothing of scikit-learn is needed.

    >>> from tidegate.ml import LinearRegression
    >>> model = LinearRegression().fit(houses, "price", features=["size", "rooms"])
    >>> model.predict(houses)
"""

from __future__ import annotations

from tidegate.ml._clusters import KMeans
from tidegate.ml._components import PCA
from tidegate.ml._linear import LinearRegression, Ridge
from tidegate.ml._logistic import LogisticRegression
from tidegate.ml._model import ConvergenceWarning, NotFittedError

__all__ = [
    "PCA",
    "ConvergenceWarning",
    "KMeans",
    "LinearRegression",
    "LogisticRegression",
    "NotFittedError",
    "Ridge",
]
