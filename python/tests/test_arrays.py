"""Arrays beside NumPy on the same values, NaN and infinities among them."""

from __future__ import annotations

import numpy as np
import pytest

import tidegate as tg
import tidegate.array as ta

RNG = np.random.default_rng(3)
FLOATS = RNG.normal(0, 3, size=(7, 10))
WILD = FLOATS.copy()
WILD[0, 0], WILD[1, 1], WILD[2, 2], WILD[3, 3] = np.nan, np.inf, -np.inf, 0.0
WHOLE = RNG.integers(-20, 20, size=(7, 10))
TRUTH = WHOLE > 3
CUBE = RNG.normal(size=(3, 4, 5))
SINGLE = FLOATS.astype(np.float32)
ARRAYS = {"floats": FLOATS, "wild": WILD, "whole": WHOLE, "truth": TRUTH, "cube": CUBE, "single": SINGLE}


def ours(con, values):
    return ta.from_array(values, con=con)


def check(found, expect):
    """Compare shape, type and values; sums may differ in the last digits."""
    if isinstance(found, ta.Array):
        found = found.compute()
    found, expect = np.asarray(found), np.asarray(expect)
    assert found.shape == expect.shape
    assert found.dtype == expect.dtype
    if expect.dtype.kind == "f":
        rtol = 1e-5 if expect.dtype.itemsize == 4 else 1e-12
        np.testing.assert_allclose(found, expect, rtol=rtol, atol=rtol, equal_nan=True)
    else:
        np.testing.assert_array_equal(found, expect)


SLICES = [
    np.s_[:],
    np.s_[2],
    np.s_[-1],
    np.s_[2, 3],
    np.s_[::2],
    np.s_[::2, ::3],
    np.s_[1:5, 2:9:2],
    np.s_[::-1],
    np.s_[5:1:-2, ::-3],
    np.s_[..., 3],
    np.s_[None, 2:4],
    np.s_[:, None, ::4],
    np.s_[3:3],
    np.s_[-3:, -2:],
    np.s_[100:],
]


@pytest.mark.parametrize("part", SLICES, ids=repr)
def test_slices(con, part):
    check(ours(con, FLOATS)[part], FLOATS[part])
    check(ours(con, FLOATS)[1:, ::2][part if not isinstance(part, int) else part], FLOATS[1:, ::2][part])
    check(ours(con, FLOATS)[part].sum(), FLOATS[part].sum())
    check((ours(con, WHOLE) + 1)[part], (WHOLE + 1)[part])


@pytest.mark.parametrize("name", list(ARRAYS))
@pytest.mark.parametrize("axis", [None, 0, 1, -1, (0, 1)])
@pytest.mark.parametrize("method", ["sum", "mean", "min", "max", "var", "std", "any", "all"])
def test_reductions(con, name, axis, method):
    values = ARRAYS[name]
    with np.errstate(all="ignore"):
        expect = getattr(values, method)(axis=axis)
    if name == "wild" and method in ("var", "std", "mean", "sum"):
        # Of infinities NumPy makes NaN by the order of its sums: only finite values are compared.
        values = np.where(np.isinf(values), 1.0, values)
        expect = getattr(values, method)(axis=axis)
    check(getattr(ours(con, values), method)(axis=axis), expect)


def test_reductions_by_numpys_functions(con):
    x = ours(con, FLOATS)
    check(np.mean(x, axis=0), np.mean(FLOATS, axis=0))
    check(np.sum(x), np.sum(FLOATS))
    check(np.sum(x, axis=1, keepdims=True), np.sum(FLOATS, axis=1, keepdims=True))
    check(np.std(x, ddof=1), np.std(FLOATS, ddof=1))
    check(x.var(ddof=3), FLOATS.var(ddof=3))
    check(np.max(x), np.max(FLOATS))
    check(np.count_nonzero(ours(con, WHOLE)), np.asarray(np.count_nonzero(WHOLE)))
    check(np.add.reduce(x, axis=1), np.add.reduce(FLOATS, axis=1))
    assert np.shape(x) == (7, 10) and np.ndim(x) == 2 and np.size(x) == 70
    cube = ours(con, CUBE)
    check(cube.sum(axis=(0, 2)), CUBE.sum(axis=(0, 2)))
    check(cube.mean(axis=1).max(), CUBE.mean(axis=1).max())
    empty = ours(con, FLOATS)[3:3]
    check(empty.sum(), np.float64(0.0))
    assert np.isnan(empty.mean().compute())


BINARY = [
    np.add,
    np.subtract,
    np.multiply,
    np.true_divide,
    np.floor_divide,
    np.remainder,
    np.equal,
    np.not_equal,
    np.less,
    np.less_equal,
    np.greater,
    np.greater_equal,
    np.minimum,
    np.maximum,
    np.logical_and,
    np.logical_or,
    np.logical_xor,
]


@pytest.mark.parametrize("function", BINARY, ids=lambda function: function.__name__)
def test_functions_of_two(con, function):
    # Division by zero of integers is an error of the engine, where NumPy warns.
    divides = function in (np.floor_divide, np.remainder)
    with np.errstate(all="ignore"):
        for one in (FLOATS, WILD, WHOLE, SINGLE):
            for other in (2, -3, 2.5, np.float32(1.5)):
                if divides and one is WILD:
                    continue
                check(function(ours(con, one), other), function(one, other))
            if not divides:
                check(function(3, ours(con, one)), function(3, one))
        other = FLOATS[::-1] + 0.5
        check(function(ours(con, WHOLE), ours(con, other)), function(WHOLE, other))
        if not divides:
            check(function(ours(con, WILD), ours(con, WILD[::-1])), function(WILD, WILD[::-1]))
        row = FLOATS[0] + 0.25
        check(function(ours(con, WHOLE), ours(con, row)), function(WHOLE, row))
        column = FLOATS[:, :1] + 0.25
        check(function(ours(con, column), ours(con, row)), function(column, row))


def test_arithmetic_over_one_source_needs_no_join(con):
    x = ours(con, FLOATS)
    both = (x - x.min(axis=0, keepdims=True)) * 2
    check(both, (FLOATS - FLOATS.min(axis=0, keepdims=True)) * 2)
    same = (x * x + 3 * x)[::2]
    check(same, (FLOATS * FLOATS + 3 * FLOATS)[::2])
    assert "Join" not in same.explain()
    check(x + x.T[:7, :7].sum(), FLOATS + FLOATS.T[:7, :7].sum())
    square = CUBE[0, :4, :4]
    check(ours(con, square) + ours(con, square).T, square + square.T)
    y = ours(con, square)
    check(y + y.T, square + square.T)
    check(y @ np.eye(4) if False else y * np.eye(4), square * np.eye(4))


UNARY = [
    np.negative,
    np.absolute,
    np.sqrt,
    np.cbrt,
    np.exp,
    np.log,
    np.log2,
    np.log10,
    np.sin,
    np.cos,
    np.tan,
    np.arctan,
    np.sinh,
    np.cosh,
    np.tanh,
    np.arcsinh,
    np.square,
    np.sign,
    np.floor,
    np.ceil,
    np.trunc,
    np.isnan,
    np.isinf,
    np.isfinite,
    np.degrees,
    np.radians,
]


@pytest.mark.parametrize("function", UNARY, ids=lambda function: function.__name__)
def test_functions_of_one(con, function):
    positive = function in (np.sqrt, np.log, np.log2, np.log10)
    for values in (FLOATS, WHOLE, SINGLE, WILD):
        if values is WILD and function in (np.sin, np.cos, np.tan, np.sign):
            continue
        values = np.abs(values) + 1 if positive else values
        with np.errstate(all="ignore"):
            check(function(ours(con, values)), function(values))
    if function is np.isnan:
        check(np.logical_not(ours(con, TRUTH)), ~TRUTH)
        check(~ours(con, WHOLE), ~WHOLE)


def test_powers_types_and_choices(con):
    x, n, b = ours(con, FLOATS), ours(con, WHOLE), ours(con, TRUTH)
    check(x**2, FLOATS**2)
    check(n**3, WHOLE**3)
    check(np.abs(x) ** 0.5, np.abs(FLOATS) ** 0.5)
    check(2.0**n, 2.0**WHOLE)
    with pytest.raises(ValueError, match="negative integer powers"):
        n**-1
    for dtype in ("float64", "float32", "int64", "bool"):
        check(x.astype(dtype), FLOATS.astype(dtype))
        check(b.astype(dtype), TRUTH.astype(dtype))
    check(np.where(x > 0, x, 0), np.where(FLOATS > 0, FLOATS, 0))
    check(ta.where(b, n, -n), np.where(TRUTH, WHOLE, -WHOLE))
    check(x.clip(-1, 1), FLOATS.clip(-1, 1))
    check(np.clip(n, -5, 5), np.clip(WHOLE, -5, 5))
    check(x.round(2), FLOATS.round(2))
    check(n & 6, WHOLE & 6)
    check(b | (n > 5), TRUTH | (WHOLE > 5))
    check(b.sum(), TRUTH.sum())
    check(b.mean(axis=0), TRUTH.mean(axis=0))
    assert float(x.sum()) == pytest.approx(FLOATS.sum()) and bool((x > -100).all())


def test_masks(con):
    x, n = ours(con, FLOATS), ours(con, WHOLE)
    check(x[x > 0.5].sum(), FLOATS[FLOATS > 0.5].sum())
    check(x[x > 0.5], FLOATS[FLOATS > 0.5])
    check((x[x > 0.5] * 2).max(), (FLOATS[FLOATS > 0.5] * 2).max())
    check(x[n > 3], FLOATS[WHOLE > 3])
    check(x[::2][x[::2] < 0].mean(), FLOATS[::2][FLOATS[::2] < 0].mean())
    with pytest.raises(TypeError, match="only when it is computed"):
        x[x > 0].shape
    with pytest.raises(IndexError, match="shape"):
        x[n[::2] > 0]
    with pytest.raises(TypeError, match="truth values"):
        x[n]


def test_transposes(con):
    check(ours(con, FLOATS).T, FLOATS.T)
    check(ours(con, CUBE).transpose(1, 0, 2), CUBE.transpose(1, 0, 2))
    check(np.transpose(ours(con, CUBE), (2, 0, 1))[1:, ::2], np.transpose(CUBE, (2, 0, 1))[1:, ::2])
    check(ours(con, FLOATS).T.sum(axis=0), FLOATS.T.sum(axis=0))


def test_rules_instead_of_values(con):
    check(ta.arange(10, con=con), np.arange(10))
    check(ta.arange(2, 20, 3, con=con), np.arange(2, 20, 3))
    check(ta.arange(0.0, 1.0, 0.25, con=con), np.arange(0.0, 1.0, 0.25))
    check(ta.ones((2, 3), con=con), np.ones((2, 3)))
    check(ta.zeros((2, 3), dtype="int64", con=con), np.zeros((2, 3), dtype="int64"))
    check(ta.full((2,), 7.5, con=con), np.full((2,), 7.5))
    check(ta.ones(5, dtype="float32", con=con) * 2, np.ones(5, dtype="float32") * 2)


def test_random_arrays_are_functions_of_seed_and_position(con):
    rng = ta.random.default_rng(42, con=con)
    x = rng.normal(10, 1, size=(100, 80), chunks=(30, 40))
    values = x.compute()
    sql = con.sql("SELECT x FROM random_normal([100, 80], 10, 1, seed => 42) ORDER BY i, j").to_numpy()["x"]
    np.testing.assert_array_equal(values.ravel(), sql)
    np.testing.assert_array_equal(ta.random.default_rng(42, con=con).normal(10, 1, size=(100, 80)).compute(), values)
    assert abs(values.mean() - 10) < 0.1 and abs(values.std() - 1) < 0.05
    assert x.chunks == (30, 40) and x.T.chunks == (40, 30)
    check((x + 1)[::2, ::2].sum(), (values + 1)[::2, ::2].sum())
    check(np.mean(x, axis=0), values.mean(axis=0))
    check((x > 9).sum(), (values > 9).sum())
    second = rng.normal(10, 1, size=(100, 80)).compute()
    assert not np.array_equal(second, values)
    uniform = rng.uniform(-1, 1, size=1000).compute()
    assert uniform.min() >= -1 and uniform.max() < 1 and len(set(uniform)) > 990
    whole = rng.integers(5, size=1000).compute()
    assert set(whole) == {0, 1, 2, 3, 4} and whole.dtype == np.int64
    assert rng.random(3, dtype="float32").compute().dtype == np.float32


def test_a_large_array_is_never_made(con):
    x = ta.random.default_rng(1, con=con).normal(size=(500_000, 500_000), chunks=(10_000, 10_000))
    part = (x + 1)[:1000:2, :1000:2]
    values = part.compute()
    assert values.shape == (500, 500) and abs(values.mean() - 1) < 0.02
    check(part.sum(), values.sum())
    with pytest.raises(tg.ResourcesExhaustedError, match="result_limit"):
        x.compute()
    assert "by 2" in part.explain()


def test_persisted_arrays_are_kept_and_given_up(con):
    x = ta.random.default_rng(1, con=con).normal(size=(50, 40))
    before = con.tables()
    kept = (x * 2)[::2].persist()
    np.testing.assert_array_equal(kept.compute(), (x * 2)[::2].compute())
    assert len(con.tables()) == len(before) + 1
    del kept
    assert con.tables() == before


@pytest.mark.parametrize(
    "shape", [(70,), -1, (10, 7), (7, -1), (2, 5, 7), (7, 1, 10), (1, 70, 1), (7, 2, 5), (-1, 35)], ids=repr
)
def test_reshape(con, shape):
    for values in (FLOATS, WHOLE, TRUTH):
        check(ours(con, values).reshape(shape), values.reshape(shape))
        check(np.reshape(ours(con, values), shape), values.reshape(shape))
    check(ours(con, FLOATS).T.reshape(shape), FLOATS.T.reshape(shape))
    check(ours(con, FLOATS)[::-1].reshape(shape)[:2], FLOATS[::-1].reshape(shape)[:2])
    check(ours(con, FLOATS).reshape(shape).sum(axis=0), FLOATS.reshape(shape).sum(axis=0))


def test_reshape_of_parts(con):
    check(ours(con, CUBE).reshape(4, 15), CUBE.reshape(4, 15))
    check(ours(con, CUBE)[:, 1:2].reshape(3, 5), CUBE[:, 1:2].reshape(3, 5))
    check(ours(con, CUBE)[1:2, :, 2:3].reshape(4) * 2, CUBE[1:2, :, 2:3].reshape(4) * 2)
    check(ours(con, CUBE)[2].reshape(2, 10), CUBE[2].reshape(2, 10))
    check(ours(con, CUBE).ravel(), CUBE.ravel())
    check(ours(con, CUBE).sum().reshape(1, 1), CUBE.sum().reshape(1, 1))
    check(ours(con, CUBE[0, 0, :1]).reshape(()), CUBE[0, 0, :1].reshape(()))
    x = ta.random.default_rng(1, con=con).normal(size=(60, 50), chunks=(10, 50))
    check(x.reshape(3, 1000)[1, ::7], x.compute().reshape(3, 1000)[1, ::7])
    for shape in ((4, 4), (-1, 7), (-1, -1), (-2, 30), (0, -1)):
        with pytest.raises(ValueError, match="cannot reshape"):
            ours(con, CUBE).reshape(shape)


def test_arrays_run_on_devices_as_statements_do():
    con = tg.connect(devices="", simulate_device="256MiB")
    con.set("tidegate.placement", "device")
    x = ta.random.default_rng(5, con=con).normal(size=(400, 300), chunks=(100, 100))
    values = ta.random.default_rng(5).normal(size=(400, 300)).compute()
    check((x + 1)[::2, ::2].sum(), (values + 1)[::2, ::2].sum())
    assert "simulated" in repr(con.last_report())
    kept = x.persist(on="device")
    check(kept.max(axis=0), values.max(axis=0))
    check((kept > 0).sum(axis=1), (values > 0).sum(axis=1))
    del kept
    assert con.tables() == []


def test_what_is_not_there_is_named(con):
    x = ours(con, FLOATS)
    for attempt, name in [
        (lambda: np.linalg.svd(x), "svd"),
        (lambda: np.partition(x, 3), "partition"),
        (lambda: np.heaviside(x, 1), "heaviside"),
        (lambda: x.cumprod(), "cumprod"),
        (lambda: np.asarray(x), "compute"),
        (lambda: iter(x), "compute"),
        (lambda: x[[1, 2]], "slices"),
        (lambda: x["a"], "no index"),
        (lambda: np.add.accumulate(x), "accumulate"),
        (lambda: np.add(x, 1, where=FLOATS > 0), "where"),
        (lambda: np.sum(x, where=FLOATS > 0), "where"),
        (lambda: np.sum(x, out=FLOATS), "out="),
        (lambda: ta.from_array(np.array(["a"]), con=con), "numbers"),
        (lambda: x.astype("complex128"), "complex128"),
        (lambda: x + "a", "str"),
    ]:
        with pytest.raises(TypeError, match=name):
            attempt()
    with pytest.raises(IndexError, match="out of bounds"):
        x[7]
    with pytest.raises(IndexError, match="3 indices"):
        x[1, 2, 3]
    with pytest.raises(ValueError, match="broadcast"):
        x + ours(con, CUBE)
    assert not hasattr(x, "no_such_thing")
