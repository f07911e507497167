"""Models beside closed forms in NumPy, and beside what scikit-learn 1.9.1 found for the same rows."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tidegate as tg
import tidegate.array as ta
from tidegate import col
from tidegate.ml import PCA, ConvergenceWarning, KMeans, LinearRegression, LogisticRegression, NotFittedError, Ridge

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 3)) * [1, 10, 0.1] + [5, 0, 100]
Y = X @ [1.0, 2.0, -3.0] + 4 + RNG.normal(size=200)
ONES = np.column_stack([np.ones(len(X)), X])


def near(found, expect, within=1e-9):
    np.testing.assert_allclose(np.asarray(found, float), np.asarray(expect, float), rtol=within, atol=within)


def iris_like():
    """Whole numbers made without a generator, so that the constants of scikit-learn below stay true."""
    at = np.arange(90)
    first = (at * 37 % 19) / 4.0 + at // 30
    second = (at * 53 % 23) / 3.0 - (at // 30) * 1.5
    return np.column_stack([first, second]), (at * 7 % 30 < 12).astype(int) * (at // 30 > 0) + (at // 30)


@pytest.fixture
def frame(con):
    return con.from_dict({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "y": Y})


# --- what models take ---


FEATURES = {"a": X[:, 0], "b": X[:, 1], "c": X[:, 2]}
WHOLE = FEATURES | {"y": Y}
INPUTS = {
    "frame": lambda con: (con.from_dict(WHOLE), "y"),
    "frame and expression": lambda con: (con.from_dict(WHOLE), col("y") * 1.0),
    "pyarrow": lambda con: (pa.table(WHOLE), "y"),
    "polars": lambda con: (pl.DataFrame(WHOLE), "y"),
    "pandas": lambda con: (pd.DataFrame(WHOLE), "y"),
    "polars and a series": lambda con: (pl.DataFrame(FEATURES), pl.Series(Y)),
    "pandas and a series": lambda con: (pd.DataFrame(FEATURES), pd.Series(Y)),
    "pandas and an array": lambda con: (pd.DataFrame(FEATURES), Y),
    "numpy": lambda con: (X, Y),
    "lists": lambda con: (X.tolist(), Y.tolist()),
    "arrays": lambda con: (ta.from_array(X, con=con), ta.from_array(Y, con=con)),
    "array and numpy": lambda con: (ta.from_array(X, con=con), Y),
}


@pytest.mark.parametrize("kind", list(INPUTS))
def test_every_input_gives_the_same_model(con, kind):
    given, target = INPUTS[kind](con)
    features = ["a", "b", "c"] if kind == "frame and expression" else None
    model = LinearRegression().fit(given, target, features=features, con=con)
    expect = np.linalg.lstsq(ONES, Y)[0]
    near([model.intercept_, *model.coef_], expect)
    assert model.n_features_in_ == 3 and len(model.feature_names_in_) == 3
    predicted = model.predict(given)
    if isinstance(predicted, tg.DataFrame):
        assert predicted.columns[-1] == "prediction"
        values = np.sort(predicted.to_numpy()["prediction"])
        near(values, np.sort(ONES @ expect))
    else:
        values = predicted.compute() if isinstance(predicted, ta.Array) else predicted
        near(values, ONES @ expect)
    near(model.score(given, target), 1 - ((Y - ONES @ expect) ** 2).sum() / ((Y - Y.mean()) ** 2).sum())


def test_features_are_expressions(con, frame):
    model = LinearRegression().fit(frame, "y", features=["a", (col("b") * col("c")).alias("bc"), col("a") > 5])
    near([model.intercept_, *model.coef_], np.linalg.lstsq(np.column_stack([np.ones(200), X[:, 0], X[:, 1] * X[:, 2], X[:, 0] > 5]), Y)[0], 1e-7)
    assert model.feature_names_in_ == ["a", "bc", "a"]
    assert model.predict(frame).columns == ["a", "b", "c", "y", "prediction"]
    # A prediction is an expression like any other.
    off = frame.select(((col("y") - model.expression()) ** 2).mean()).item()
    near(1 - off / Y.var(), model.score(frame, "y"))
    with pytest.raises(TypeError, match="predict from a frame"):
        model.predict(X)
    with pytest.raises(TypeError, match="name the features"):
        LinearRegression().fit(frame, col("y").log())
    assert LinearRegression().fit(frame, col("y")).feature_names_in_ == ["a", "b", "c"]


def test_fitted_models_are_pickled(con, frame):
    for model in (LinearRegression().fit(frame, "y"), KMeans(2, random_state=0).fit(frame), PCA(1).fit(frame)):
        other = pickle.loads(pickle.dumps(model))
        assert repr(other) == repr(model)
        call = "transform" if isinstance(model, PCA) else "predict"
        assert getattr(other, call)(frame).to_pylist() == getattr(model, call)(frame).to_pylist()


def test_predictions_of_arrays(con):
    marks = X[:, 0] > 5
    model = LogisticRegression().fit(X, marks, con=con)
    lazy = model.predict(ta.from_array(X, con=con))
    assert lazy.dtype == bool
    np.testing.assert_array_equal(lazy.compute(), model.predict(X))
    named = LogisticRegression().fit(X, np.where(marks, "far", "near"), con=con)
    np.testing.assert_array_equal(named.predict(X) == "far", model.predict(X))
    with pytest.raises(TypeError, match="NumPy matrix"):
        named.predict(ta.from_array(X, con=con))
    with pytest.raises(ValueError, match="2 features, and the model 3"):
        model.predict(X[:, :2])
    with pytest.raises(ValueError, match="rows and columns"):
        model.predict(X[0])


def test_rows_with_null_are_left_out(con):
    frame = con.from_dict({"x": [1.0, 2.0, None, 4.0, 5.0], "y": [3, 5, 7, 9, None]})
    model = LinearRegression().fit(frame, "y")
    near([model.intercept_, *model.coef_], [1, 2])
    assert model.predict(frame).select(col("prediction").round(6)).to_arrow().column(0).to_pylist() == [3, 5, None, 9, 11]


def test_integers_decimals_and_truth_are_numbers(con):
    frame = con.sql("SELECT CAST(i AS INT) AS i, CAST(i * i AS DECIMAL(9, 2)) AS d, i % 2 = 0 AS b, i + 2 * i * i AS y FROM generate_series(1, 9) AS t(i)")
    near(LinearRegression().fit(frame, "y").coef_, [1, 2, 0], 1e-8)
    with pytest.raises(TypeError, match="feature 's' is Utf8"):
        LinearRegression().fit(con.sql("SELECT 'a' AS s, 1 AS y"), "y")
    with pytest.raises(TypeError, match="target is Utf8"):
        LinearRegression().fit(con.sql("SELECT 'a' AS y, 1 AS x"), "y")


# --- linear models ---


@pytest.mark.parametrize("has_intercept", [True, False])
@pytest.mark.parametrize("alpha", [None, 0.0, 2.5, 1e6])
def test_linear_models(con, frame, has_intercept, alpha):
    model = LinearRegression(fit_intercept=has_intercept) if alpha is None else Ridge(alpha, fit_intercept=has_intercept)
    model.fit(frame, "y")
    left, right = (X - X.mean(axis=0), Y - Y.mean()) if has_intercept else (X, Y)
    expect = np.linalg.solve(left.T @ left + (alpha or 0.0) * np.eye(3), left.T @ right)
    near(model.coef_, expect, 1e-8)
    near(model.intercept_, Y.mean() - X.mean(axis=0) @ expect if has_intercept else 0.0, 1e-8)


def test_constants_of_scikit_learn_for_linear_models(con):
    points, classes = iris_like()
    model = LinearRegression().fit(points, classes, con=con)
    near([*model.coef_, model.intercept_], SKLEARN["linear"], 1e-9)
    model = Ridge(3.0).fit(points, classes, con=con)
    near([*model.coef_, model.intercept_], SKLEARN["ridge"], 1e-9)


def test_longley(con):
    # NIST's Longley data, https://www.itl.nist.gov/div898/strd/lls/data/Longley.shtml: condition about 5e9.
    rows = np.array(LONGLEY)
    model = LinearRegression().fit(rows[:, 1:], rows[:, 0], con=con)
    near([model.intercept_, *model.coef_], LONGLEY_CERTIFIED, 1e-9)


@pytest.mark.parametrize("size", [1e-100, 1e100])
def test_units_do_not_matter(con, size):
    model = LinearRegression().fit(X * [size, 1, 1], Y, con=con)
    near(model.coef_ * [size, 1, 1], LinearRegression().fit(X, Y, con=con).coef_)


def test_a_large_mean_does_not_cost_digits(con):
    shifted = X + [1e7, 0, 0]
    near(LinearRegression().fit(shifted, Y, con=con).coef_, LinearRegression().fit(shifted - [1e7, 0, 0], Y, con=con).coef_, 1e-8)


def test_dependent_features_are_named(con):
    for extra in (X[:, 0] * 2 - X[:, 1], np.full(200, 7.0)):
        frame = con.from_dict({"a": X[:, 0], "b": X[:, 1], "extra": extra, "y": Y})
        with pytest.raises(ValueError, match="feature 'extra' is constant or a linear combination"):
            LinearRegression().fit(frame, "y")
        left = np.column_stack([X[:, :2], extra])
        left = left - left.mean(axis=0)
        expect = np.linalg.solve(left.T @ left + np.eye(3), left.T @ (Y - Y.mean()))
        near(Ridge(1.0).fit(frame, "y").coef_, expect, 1e-8)
    with pytest.raises(ValueError, match="2 rows without NULL are too few for 4 coefficients"):
        LinearRegression().fit(X[:2], Y[:2], con=con)


@pytest.mark.parametrize("model", [LinearRegression(), Ridge(), LogisticRegression(), KMeans(2), PCA()], ids=repr)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_named(con, model, value):
    given = X.copy()
    given[5, 1] = value
    frame = con.from_dict({"a": given[:, 0], "b": given[:, 1], "k": np.arange(200) % 2})
    target = [] if isinstance(model, (KMeans, PCA)) else ["k"]
    with pytest.raises(ValueError, match="feature 'b' has values that are NaN or infinite"):
        model.fit(frame, *target)


@pytest.mark.parametrize("model", [LinearRegression(), Ridge(), LogisticRegression(), KMeans(2), PCA()], ids=repr)
def test_no_rows_and_no_fit(con, model):
    frame = con.from_dict({"a": pa.array([], "float64"), "y": pa.array([], "float64")})
    target = [] if isinstance(model, (KMeans, PCA)) else ["y"]
    with pytest.raises(ValueError, match="no rows without NULL"):
        model.fit(frame, *target)
    model = type(model)()
    with pytest.raises(NotFittedError, match="fit"):
        (model.transform if isinstance(model, PCA) else model.predict)(frame)
    with pytest.raises(AttributeError, match="before fit"):
        model.mean_ if isinstance(model, PCA) else model.coef_


def test_a_target_outside_the_frame_is_refused(con, frame):
    for target in (Y, frame, frame.select("y")):
        with pytest.raises(TypeError, match="no order"):
            LinearRegression().fit(frame, target)
    with pytest.raises(TypeError, match="needs y"):
        LinearRegression().fit(frame, None)
    with pytest.raises(ValueError, match="199"):
        LinearRegression().fit(X, Y[:199], con=con)
    with pytest.raises(tg.SqlError, match="nothing"):
        LinearRegression().fit(frame, "y", features=["nothing"])


# --- logistic regression ---


def newton(points, marks, penalty):
    """Binary logistic regression by plain Newton steps."""
    left = np.column_stack([np.ones(len(points)), points])
    ridge = np.diag([0.0, *[penalty] * points.shape[1]])
    weights = np.zeros(left.shape[1])
    for _ in range(50):
        chance = 1 / (1 + np.exp(-left @ weights))
        second = left.T @ (left * (chance * (1 - chance))[:, None]) + ridge
        weights -= np.linalg.solve(second, left.T @ (chance - marks) + ridge @ weights)
    return weights


@pytest.mark.parametrize("C", [0.01, 1.0, 1e3, float("inf")])
def test_two_classes(con, C):
    marks = (X[:, 0] + RNG.normal(size=200) > 5).astype(int)
    model = LogisticRegression(C=C).fit(X[:, :2], marks, con=con)
    expect = newton(X[:, :2], marks, 1 / C)
    near(np.append(model.intercept_, model.coef_[0]), expect, 1e-6)
    assert model.coef_.shape == (1, 2) and model.intercept_.shape == (1,) and 2 <= model.n_iter_ <= 15
    chance = 1 / (1 + np.exp(-(expect[0] + X[:, :2] @ expect[1:])))
    found = model.predict_proba(X[:, :2])
    near(found, np.column_stack([1 - chance, chance]), 1e-6)
    np.testing.assert_array_equal(model.predict(X[:, :2]), (chance > 0.5).astype(int))
    near(model.score(X[:, :2], marks), ((chance > 0.5) == marks).mean())


def test_constants_of_scikit_learn_for_classes(con):
    points, classes = iris_like()
    model = LogisticRegression(C=0.5).fit(points, classes, con=con)
    near(model.classes_, [0, 1, 2, 3])
    near(np.column_stack([model.coef_, model.intercept_]), SKLEARN["multinomial"], 1e-6)
    near(model.score(points, classes), SKLEARN["multinomial score"])
    near(model.predict_proba(points).sum(axis=1), np.ones(90))
    model = LogisticRegression(C=0.5, fit_intercept=False).fit(points, classes > 1, con=con)
    near([*model.coef_[0], *model.intercept_], SKLEARN["no intercept"], 1e-6)


@pytest.mark.parametrize("labels", [["no", "yes"], [True, False], [-1, 1], [0.5, 1.5], ["a", "b", "c"]], ids=repr)
def test_labels_are_of_any_type(con, labels):
    at = np.arange(60)
    frame = con.from_dict({"x": (at * 7 % 11) + at % len(labels) * 8.0, "k": [labels[n % len(labels)] for n in at]})
    model = LogisticRegression().fit(frame, "k")
    assert list(model.classes_) == sorted(labels)
    predicted = model.predict(frame)
    rows = predicted.to_pylist()
    assert {row["prediction"] for row in rows} <= set(labels)
    assert model.score(frame, "k") == sum(row["prediction"] == row["k"] for row in rows) / 60 > 0.6
    assert model.predict_proba(frame).columns[2:] == [f"probability_{label}" for label in sorted(labels)]


def test_unknown_features_have_no_class(con):
    frame = con.from_dict({"x": [0.0, 1.0, 2.0, 3.0], "k": ["a", "b", "a", "b"]})
    given = con.from_dict({"x": [0.0, None, float("nan"), 9.0]})
    for classes in (2, 3):
        known = frame if classes == 2 else frame.union(con.from_dict({"x": [9.0], "k": ["c"]}))
        found = LogisticRegression().fit(known, "k").predict(given).to_arrow().column("prediction").to_pylist()
        assert found[1:3] == [None, None] and None not in (found[0], found[3])


def test_separated_classes_warn_without_a_penalty(con):
    frame = con.from_dict({"x": [0.0, 1.0, 2.0, 3.0], "k": [0, 0, 1, 1]})
    with pytest.warns(ConvergenceWarning, match="smaller C"):
        LogisticRegression(C=float("inf"), max_iter=5).fit(frame, "k")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = LogisticRegression().fit(frame, "k")
    assert model.score(frame, "k") == 1.0
    with pytest.raises(ValueError, match="only the class 0"):
        LogisticRegression().fit(con.from_dict({"x": [1.0, 2.0], "k": [0, 0]}), "k")
    with pytest.raises(ValueError, match="more than 100"):
        LogisticRegression().fit(con.from_dict({"x": np.arange(200.0), "k": np.arange(200.0)}), "k")


# --- clusters ---


def blobs(number=4, rows=60):
    places = np.array([[0, 0], [20, 3], [-15, 14], [9, -21], [40, 40], [-30, -30]])[:number]
    return np.concatenate([RNG.normal(size=(rows, 2)) + place for place in places])


def lloyd(points, centers):
    for _ in range(300):
        label = ((points[:, None] - centers) ** 2).sum(axis=2).argmin(axis=1)
        moved = np.array([points[label == at].mean(axis=0) for at in range(len(centers))])
        if np.array_equal(moved, centers):
            break
        centers = moved
    return centers, ((points - centers[label]) ** 2).sum()


@pytest.mark.parametrize("seed", range(5))
def test_clusters_that_lie_apart_are_found(con, seed):
    points = blobs()
    model = KMeans(4, random_state=seed).fit(points, con=con)
    expect = points.reshape(4, 60, 2).mean(axis=1)
    order = np.lexsort(model.cluster_centers_.T)
    near(model.cluster_centers_[order], expect[np.lexsort(expect.T)])
    near(model.inertia_, ((points.reshape(4, 60, 2) - expect[:, None]) ** 2).sum())
    found = model.predict(points).reshape(4, 60)
    assert (found == found[:, :1]).all() and set(found[:, 0]) == {0, 1, 2, 3}
    near(model.score(points), -model.inertia_)


def test_iterations_are_those_of_lloyd(con):
    points = RNG.normal(size=(300, 3))
    first = points[:5]
    model = KMeans(5, init=first, tol=0.0).fit(points, con=con)
    centers, inertia = lloyd(points, first)
    near(model.cluster_centers_, centers)
    near(model.inertia_, inertia)
    with pytest.warns(ConvergenceWarning, match="max_iter=2"):
        KMeans(5, init=first, tol=0.0, max_iter=2).fit(points, con=con)
    with pytest.raises(ValueError, match="shape"):
        KMeans(4, init=first).fit(points, con=con)


def test_a_seed_gives_the_same_clusters_in_any_order_of_rows(con):
    points = RNG.normal(size=(200, 2))
    one = KMeans(6, random_state=11).fit(points, con=con)
    other = KMeans(6, random_state=11).fit(points[RNG.permutation(200)], con=con)
    near(one.cluster_centers_, other.cluster_centers_)
    assert any(not np.allclose(one.cluster_centers_, KMeans(6, random_state=seed).fit(points, con=con).cluster_centers_) for seed in range(3))


def test_draws_follow_the_weights(con):
    # 900 rows lie at one place and 100 at another: the first centre is evenly drawn, whichever values rows have.
    points = np.concatenate([RNG.normal(size=(900, 1)), RNG.normal(size=(100, 1)) + 1000])
    first = [KMeans(1, random_state=seed, max_iter=1) for seed in range(60)]
    from tidegate.ml import _clusters

    rows = first[0]._rows(points, None, None, con)
    summary = rows.summary(with_target=False)
    drawn = [
        _clusters._drawn(rows, summary, np.random.default_rng(seed), np.empty((0, 1)), 1)[0, 0] for seed in range(60)
    ]
    assert 1 <= sum(value > 500 for value in drawn) <= 15
    assert len(set(drawn)) > 50


def test_a_centre_without_rows_is_moved_to_the_farthest_row(con):
    points = np.array([[0.0], [1.0], [2.0], [10.0]])
    model = KMeans(2, init=np.array([[1.0], [500.0]])).fit(points, con=con)
    near(np.sort(model.cluster_centers_.ravel()), [1, 10])
    near(model.inertia_, 2)


def test_too_few_different_rows(con):
    points = np.array([[1.0, 2.0]] * 5 + [[3.0, 4.0]] * 5)
    model = KMeans(2, random_state=0).fit(points, con=con)
    assert model.inertia_ == 0 and {tuple(row) for row in model.cluster_centers_} == {(1, 2), (3, 4)}
    with pytest.raises(ValueError, match="only 2 rows are different"):
        KMeans(3, random_state=0).fit(points, con=con)


def test_unknown_features_have_no_cluster(con):
    model = KMeans(2, random_state=0).fit(con.from_dict({"x": [0.0, 1.0, 9.0, 10.0]}))
    given = con.from_dict({"x": [0.0, None, float("nan"), 9.0]})
    found = model.predict(given).to_arrow().column("prediction").to_pylist()
    assert found[1:3] == [None, None] and {found[0], found[3]} == {0, 1}


# --- components ---


def test_components(con):
    points = X @ RNG.normal(size=(3, 3))
    model = PCA().fit(points, con=con)
    centred = points - points.mean(axis=0)
    _, s, v = np.linalg.svd(centred, full_matrices=False)
    v *= np.sign(v[range(3), np.abs(v).argmax(axis=1)])[:, None]
    near(model.components_, v)
    near(model.singular_values_, s)
    near(model.explained_variance_, s**2 / 199)
    near(model.explained_variance_ratio_, s**2 / (s**2).sum())
    near(model.mean_, points.mean(axis=0))
    near(model.transform(points), centred @ v.T, 1e-8)
    two = PCA(2).fit(points, con=con)
    assert two.n_components_ == 2
    near(two.transform(points), centred @ v[:2].T, 1e-8)
    near(two.explained_variance_ratio_, s[:2] ** 2 / (s**2).sum())
    with pytest.raises(ValueError, match="1 to 3"):
        PCA(4).fit(points, con=con)


def test_components_of_frames(con, frame):
    model = PCA(2).fit(frame, features=["a", "b", "c"])
    assert model.transform(frame).columns == ["a", "b", "c", "y", "pca0", "pca1"]
    spread = model.transform(frame).select(col("pca0").var(), col("pca1").var(), r=tg.fn.corr("pca0", "pca1")).to_pylist()[0]
    near(list(spread.values()), [*model.explained_variance_, 0.0])
    with pytest.raises(TypeError, match="to_frame"):
        model.transform(ta.from_array(X, con=con))


# --- constants ---

#: What scikit-learn 1.9.1 finds for the rows of iris_like(): LinearRegression, Ridge(3.0), and LogisticRegression(C=0.5)
#: with solver="newton-cholesky" and tol=1e-12, once for the four classes and once without an intercept.
SKLEARN = {
    "linear": [0.24627577730932582, -0.1744701637889325, 0.821827539802835],
    "ridge": [0.24310652972505387, -0.1739869438632256, 0.8313500910216622],
    "multinomial": [
        [-0.43695114176310956, 0.3384784823309301, 1.026515150306065],
        [-0.22924197527438472, 0.12823573782911046, 0.5912183334817505],
        [0.18350244350315983, -0.16097356322293652, 0.2132860126870384],
        [0.48269067353433626, -0.3057406569371013, -1.8310194964748534],
    ],
    "multinomial score": 0.4777777777777778,
    "no intercept": [0.320750793498949, -0.5002941316942564, 0.0],
}

LONGLEY = [
    [60323, 83.0, 234289, 2356, 1590, 107608, 1947],
    [61122, 88.5, 259426, 2325, 1456, 108632, 1948],
    [60171, 88.2, 258054, 3682, 1616, 109773, 1949],
    [61187, 89.5, 284599, 3351, 1650, 110929, 1950],
    [63221, 96.2, 328975, 2099, 3099, 112075, 1951],
    [63639, 98.1, 346999, 1932, 3594, 113270, 1952],
    [64989, 99.0, 365385, 1870, 3547, 115094, 1953],
    [63761, 100.0, 363112, 3578, 3350, 116219, 1954],
    [66019, 101.2, 397469, 2904, 3048, 117388, 1955],
    [67857, 104.6, 419180, 2822, 2857, 118734, 1956],
    [68169, 108.4, 442769, 2936, 2798, 120445, 1957],
    [66513, 110.8, 444546, 4681, 2637, 121950, 1958],
    [68655, 112.6, 482704, 3813, 2552, 123366, 1959],
    [69564, 114.2, 502601, 3931, 2514, 125368, 1960],
    [69331, 115.7, 518173, 4806, 2572, 127852, 1961],
    [70551, 116.9, 554894, 4007, 2827, 130081, 1962],
]
LONGLEY_CERTIFIED = [
    -3482258.63459582,
    15.0618722713733,
    -0.0358191792925910,
    -2.02022980381683,
    -1.03322686717359,
    -0.0511041056535807,
    1829.15146461355,
]
