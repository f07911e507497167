"""Linear algebra beside NumPy on the same matrices: well and badly conditioned, deficient, with NaN, of odd shapes."""

from __future__ import annotations

import numpy as np
import pytest

import tidegate as tg
import tidegate.array as ta
from tidegate.array import linalg

RNG = np.random.default_rng(7)


def matrix(rows, columns, condition=1.0, rank=None):
    """A matrix with singular values that fall evenly from 1 to 1 / condition, and then to 0."""
    shorter = min(rows, columns)
    values = np.geomspace(1.0, 1.0 / condition, shorter)
    values[shorter if rank is None else rank :] = 0.0
    left = np.linalg.qr(RNG.normal(size=(rows, shorter)))[0]
    right = np.linalg.qr(RNG.normal(size=(columns, shorter)))[0]
    return (left * values) @ right.T


MATRICES = {
    "square": matrix(12, 12),
    "tall": matrix(300, 7),
    "wide": matrix(6, 250),
    "row": matrix(1, 9),
    "column": matrix(40, 1),
    "one": np.array([[-3.0]]),
    "condition 1e4": matrix(200, 8, 1e4),
    "condition 1e8": matrix(200, 8, 1e8),
    "condition 1e12": matrix(200, 8, 1e12),
    "deficient": matrix(100, 6, 10.0, rank=4),
    "zeros": np.zeros((9, 3)),
    "large": matrix(60, 5, 1e3) * 1e150,
    "small": matrix(60, 5, 1e3) * 1e-150,
    "whole": RNG.integers(-9, 9, size=(30, 4)),
    "single": matrix(80, 5, 1e2).astype(np.float32),
}


@pytest.fixture(params=[10**9, 16], ids=["one block", "blocks"], autouse=True)
def blocks(request, monkeypatch):
    """Blocks of all rows, and blocks of as few as there may be."""
    monkeypatch.setattr(linalg, "_BLOCK_BYTES", request.param)


@pytest.fixture(params=list(MATRICES))
def values(request):
    return MATRICES[request.param]


def near(found, expect, within):
    found = found.compute() if isinstance(found, ta.Array) else found
    assert found.shape == expect.shape
    scale = max(np.abs(expect).max(initial=0.0), np.finfo(float).tiny)
    np.testing.assert_allclose(found / scale, expect / scale, rtol=0, atol=within)


def precision(values):
    return 1e-5 if values.dtype == np.float32 else 1e-13


def test_qr(con, values):
    x = ta.from_array(values, chunks=5, con=con)
    q, r = linalg.qr(x)
    within, shorter = precision(values), min(values.shape)
    assert q.shape == (values.shape[0], shorter) and r.shape == (shorter, values.shape[1])
    assert q.dtype == r.dtype == np.linalg.qr(values)[0].dtype
    near(q.compute() @ r.compute(), values.astype(float), within)
    near(q.compute().T @ q.compute(), np.eye(shorter), within)
    near(np.tril(r.compute(), -1), np.zeros(r.shape), 0)
    # R has the products of the columns, whatever its rows' signs.
    scale = np.abs(values).max() or 1.0
    alone, exact = linalg.qr(x, mode="r").compute() / scale, values.astype(float) / scale
    near(alone.T @ alone, exact.T @ exact, within)


def test_svd(con, values):
    x = ta.from_array(values, con=con)
    u, s, vh = linalg.svd(x)
    expect = np.linalg.svd(values, full_matrices=False)
    within, shorter = precision(values), min(values.shape)
    assert [part.shape for part in (u, s, vh)] == [part.shape for part in expect]
    assert [part.dtype for part in (u, s, vh)] == [part.dtype for part in expect]
    near(s, expect[1].astype(float), within)
    near(linalg.svd(x, compute_uv=False), expect[1].astype(float), within)
    near((u.compute() * s.compute()) @ vh.compute(), values.astype(float), within)
    near(u.compute().T @ u.compute(), np.eye(shorter), 10 * within)
    near(vh.compute() @ vh.compute().T, np.eye(shorter), 10 * within)


@pytest.mark.parametrize("name", ["square", "tall", "wide", "condition 1e4", "deficient", "zeros", "whole", "single", "row"])
@pytest.mark.parametrize("right", ["vector", "matrix"])
def test_lstsq(con, name, right):
    values = MATRICES[name]
    b = RNG.normal(size=values.shape[:1] if right == "vector" else (values.shape[0], 3)).astype(
        np.float32 if values.dtype == np.float32 else float
    )
    expect = np.linalg.lstsq(values, b)
    within = 1e-4 if values.dtype == np.float32 else 1e-10
    for other in (b, ta.from_array(b, con=con)):
        found = linalg.lstsq(ta.from_array(values, con=con), other)
        assert found[2] == expect[2]
        near(found[0], expect[0], within)
        near(found[1], expect[1], within)
        near(found[3], expect[3], within)


def test_lstsq_takes_small_values_for_0(con):
    values = matrix(50, 4, 1e6)
    b = RNG.normal(size=50)
    found = linalg.lstsq(ta.from_array(values, con=con), b, rcond=1e-3)
    expect = np.linalg.lstsq(values, b, rcond=1e-3)
    assert found[2] == expect[2] < 4
    near(found[0], expect[0], 1e-10)
    assert found[1].shape == (0,)


def test_svd_compressed(con):
    values = matrix(200, 90, 1e6)
    x = ta.from_array(values, con=con)
    expect = np.linalg.svd(values, compute_uv=False)[:5]
    u, s, vh = linalg.svd_compressed(x, 5, n_power_iter=2, seed=1)
    near(s, expect, 1e-4)
    near(u.compute().T @ u.compute(), np.eye(5), 1e-12)
    near(vh.compute() @ vh.compute().T, np.eye(5), 1e-12)
    for one, other in zip((u, s, vh), linalg.svd_compressed(x, 5, n_power_iter=2, seed=1)):
        np.testing.assert_array_equal(one.compute(), other.compute())
    low = matrix(80, 300, 100.0, rank=4)
    u, s, vh = linalg.svd_compressed(ta.from_array(low, con=con), 4, seed=0)
    near((u.compute() * s.compute()) @ vh.compute(), low, 1e-12)
    with pytest.raises(ValueError, match="k=91"):
        linalg.svd_compressed(x, 91)


def test_nan_and_infinity_are_said(con):
    for value in (np.nan, np.inf):
        values = matrix(40, 3)
        values[7, 1] = value
        x = ta.from_array(values, con=con)
        assert np.isnan(linalg.qr(x, mode="r").compute()).any()
        for attempt in (
            lambda: linalg.svd(x),
            lambda: linalg.svd(x, compute_uv=False),
            lambda: linalg.svd_compressed(x, 2),
            lambda: linalg.lstsq(x, np.ones(40)),
        ):
            with pytest.raises(np.linalg.LinAlgError, match="NaN or infinite"):
                attempt()
        np.testing.assert_array_equal(linalg.norm(x).compute(), np.linalg.norm(values))


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("ord", [None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf])
def test_norms_of_matrices(con, ord, keepdims):
    values = matrix(30, 4, 1e3)
    found = linalg.norm(ta.from_array(values, con=con), ord, keepdims=keepdims)
    near(found, np.asarray(np.linalg.norm(values, ord, keepdims=keepdims)), 1e-12)


@pytest.mark.parametrize("ord", [None, 0, 0.5, 1, 2, 3, np.inf, -np.inf, -1])
def test_norms_of_vectors(con, ord):
    values = RNG.normal(size=(20, 3))
    x = ta.from_array(values, con=con)
    near(linalg.norm(x[:, 1], ord), np.asarray(np.linalg.norm(values[:, 1], ord)), 1e-12)
    near(linalg.norm(x, ord, axis=0), np.linalg.norm(values, ord, axis=0), 1e-12)
    near(linalg.norm(x, ord, axis=1, keepdims=True), np.linalg.norm(values, ord, axis=1, keepdims=True), 1e-12)


def test_norms_of_stacks(con):
    values = RNG.normal(size=(3, 4, 5))
    x = ta.from_array(values, con=con)
    near(linalg.norm(x), np.asarray(np.linalg.norm(values)), 1e-12)
    for ord in (None, 1, np.inf):
        near(linalg.norm(x, ord, axis=(1, 2)), np.linalg.norm(values, ord, axis=(1, 2)), 1e-12)
    with pytest.raises(TypeError, match="stack"):
        linalg.norm(x, 2, axis=(0, 1))


@pytest.mark.parametrize(
    "shapes",
    [((7, 5), (5, 6)), ((7, 5), (5,)), ((5,), (5, 6)), ((5,), (5,)), ((1, 5), (5, 1)), ((1, 1), (1, 1)), ((6, 1), (1, 3))],
    ids=repr,
)
@pytest.mark.parametrize("kind", ["float64", "float32", "int64", "bool"])
def test_products(con, shapes, kind):
    one, other = ((RNG.normal(size=shape) * 5).astype(kind) for shape in shapes)
    x, y = ta.from_array(one, con=con), ta.from_array(other, con=con)
    expect = one @ other
    for found in (x @ y, x @ other, one @ y, np.matmul(x, y), np.dot(x, y) if kind != "bool" else x @ y):
        assert found.shape == expect.shape and found.dtype == expect.dtype
        np.testing.assert_allclose(found.compute(), expect, rtol=1e-5 if kind == "float32" else 1e-12, atol=1e-5 if kind == "float32" else 1e-12)


def test_products_of_one_array_and_of_generated_ones(con):
    x = ta.random.default_rng(4, con=con).normal(size=(400, 6), chunks=(100, 6))
    values = x.compute()
    near(x.T @ x, values.T @ values, 1e-12)
    near((x - 1.0)[::2] @ np.arange(12.0).reshape(6, 2), (values - 1.0)[::2] @ np.arange(12.0).reshape(6, 2), 1e-12)
    near(x[:, 1:4].T @ x[:, 0], values[:, 1:4].T @ values[:, 0], 1e-12)
    with_nan = values.copy()
    with_nan[3, 2] = np.nan
    np.testing.assert_allclose((ta.from_array(with_nan, con=con) @ np.ones(6)).compute(), with_nan @ np.ones(6), rtol=1e-12)


def test_what_does_not_fit_is_said(con, monkeypatch):
    x = ta.random.default_rng(4, con=con).normal(size=(400, 6))
    with pytest.raises(ValueError, match="do not go together"):
        x @ x
    with pytest.raises(TypeError, match="3 and 2 dimensions"):
        x[None] @ x.T
    with pytest.raises(np.linalg.LinAlgError, match="two-dimensional"):
        linalg.svd(x[0])
    with pytest.raises(np.linalg.LinAlgError, match="no values"):
        linalg.qr(x[:0])
    with pytest.raises(TypeError, match="lazy array"):
        linalg.qr(np.eye(2))
    with pytest.raises(TypeError, match=r"tidegate\.array\.linalg"):
        np.linalg.svd(x)
    monkeypatch.setattr(tg.options, "result_limit", 4000)
    with pytest.raises(tg.ResourcesExhaustedError, match="any number of rows"):
        linalg.svd(x)
    monkeypatch.setattr(tg.options, "result_limit", 200)
    with pytest.raises(tg.ResourcesExhaustedError, match="svd_compressed"):
        linalg.svd(x)


def test_the_rows_of_a_tall_matrix_are_never_all_in_memory(con, monkeypatch):
    x = ta.random.default_rng(4, con=con).normal(size=(20_000, 4), chunks=(1000, 4))
    expect = np.linalg.svd(x.compute(), compute_uv=False)
    monkeypatch.setattr(linalg, "_BLOCK_BYTES", 64_000)
    monkeypatch.setattr(tg.options, "result_limit", 64_000)
    near(linalg.svd(x, compute_uv=False), expect, 1e-13)
    assert np.abs(linalg.qr(x, mode="r").compute()).shape == (4, 4)
