"""Functions of NumPy over arrays: edges of types and domains, what is put together, and what depends on an order."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from test_arrays import ARRAYS, CUBE, FLOATS, SINGLE, TRUTH, WHOLE, WILD, check, ours

import tidegate.array as ta

SMALL = np.array([3, -2, 0, 1, -1, 7], dtype="int64")


def test_a_slice_that_empties_a_dimension_that_was_put_in(con):
    x = np.arange(4)
    for part in (np.s_[:, 1:], np.s_[:, :0], np.s_[:, ::-1], np.s_[1:3, 5:]):
        check(ours(con, x)[:, None][part], x[:, None][part])
        check(ours(con, x)[:, None][part].sum(), x[:, None][part].sum())
        check(ours(con, x)[:, None][part].sum(axis=0), x[:, None][part].sum(axis=0))
        check(ours(con, x)[:, None][part].sum(axis=1), x[:, None][part].sum(axis=1))
    check(ta.ones((3, 4), con=con).sum(1, keepdims=True)[:, :0].sum(), np.float64(0.0))
    check(ta.arange(4, con=con)[None][1:].sum(axis=0), np.arange(4)[None][1:].sum(axis=0))
    check(ours(con, x)[:, None][:, 1:] + 1.5, x[:, None][:, 1:] + 1.5)
    check(ours(con, x)[:, None][:, 1:] + ours(con, x[::-1])[:, None], x[:, None][:, 1:] + x[::-1][:, None])
    for function in (np.min, np.max, np.argmin, np.argmax):
        with pytest.raises(ValueError, match="zero-size|empty"):
            function(ta.arange(4, con=con)[None][1:])


def test_sums_over_axes_without_values_keep_the_others(con):
    for values in (np.zeros((0, 3)), np.zeros((3, 0)), np.zeros((0, 3), "int64"), np.zeros((2, 0, 3)) > 0):
        x = ours(con, values)
        for axis in range(values.ndim):
            for name in ("sum", "any", "all"):
                check(getattr(x, name)(axis=axis), getattr(values, name)(axis=axis))
                check(getattr(x, name)(axis=axis, keepdims=True), getattr(values, name)(axis=axis, keepdims=True))
    check(ta.zeros((0, 3), con=con).sum(0) + 1, np.ones(3))
    assert np.isnan(ta.zeros((0, 3), con=con).mean(0).compute()).all()
    assert ours(con, np.zeros((0, 3))).max(axis=1).shape == (0,)
    with pytest.raises(ValueError, match="no identity"):
        ours(con, np.zeros((0, 3))).max(axis=0)
    x = ours(con, FLOATS)
    check(x[0, :0] @ x[0, :0], FLOATS[0, :0] @ FLOATS[0, :0])
    check(x[:, :0] @ x[:, :0].T, FLOATS[:, :0] @ FLOATS[:, :0].T)
    with pytest.raises(ValueError, match="no values has no identity"):
        ours(con, WHOLE)[ours(con, WHOLE) > 1000].max().compute()
    assert np.isnan(x[x > 1000].max().compute())


def test_powers_of_integers_keep_their_digits(con):
    n = ours(con, SMALL)
    for power in (0, 1, 2, 5, 22):
        check(n**power, SMALL**power)
    check(ours(con, np.array([3])) ** 39, np.array([3]) ** 39)
    check(ours(con, np.array([3, -3])) ** 40, np.array([3, -3]) ** 40)
    check(ours(con, np.array([-1, 0, 1, 2])) ** 101, np.array([-1, 0, 1, 0]))
    powers = np.array([0, 1, 2, 3, 17, 62])
    check(2 ** ours(con, powers), 2**powers)
    check(ours(con, np.full(6, -1)) ** ours(con, powers * 2 + 1), np.full(6, -1))
    check(n ** ours(con, np.abs(SMALL)), SMALL ** np.abs(SMALL))
    check((-1) ** ours(con, np.array([70, 71])), np.array([1, -1]))
    with pytest.raises(Exception, match="negative integer powers"):
        (2 ** ours(con, np.array([1, -1]))).compute()
    with pytest.raises(ValueError, match="negative integer powers"):
        n**-2
    check(np.float_power(n, 2), np.float_power(SMALL, 2))
    check(np.float_power(ours(con, SINGLE), 2), np.float_power(SINGLE, 2))
    check(ta.full(3, 2**60 + 1, con=con), np.full(3, 2**60 + 1))
    check(ta.full((), 5, con=con), np.full((), 5))


def test_shifts(con):
    values, by = np.array([5, -5, 1, -1]), np.array([0, 1, 63, 70])
    check(ours(con, values) << 3, values << 3)
    check(ours(con, values) >> ours(con, by), values >> by)
    check(ours(con, values) << ours(con, by), values << by)
    check(1 << ours(con, by), 1 << by)
    with pytest.raises(TypeError, match="integers"):
        ours(con, FLOATS) << 1


EDGES = np.array([2.0, -2.0, 0.0, 7.5, -7.5, np.inf, -np.inf, np.nan])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_divisions_by_zero_and_infinities(con):
    x = ours(con, EDGES)
    for other in (0.0, 2.0, -3.0, np.inf, -np.inf, np.nan):
        check(x // other, EDGES // other)
        check(other // x, other // EDGES)
    check(x // x[::-1], EDGES // EDGES[::-1])
    for found, expect in zip(divmod(ours(con, WHOLE), 7), divmod(WHOLE, 7)):
        check(found, expect)
    check(divmod(7.5, ours(con, FLOATS))[1], divmod(7.5, FLOATS)[1])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_values_outside_of_a_functions_domain_are_nan(con):
    for values in (EDGES, WILD, WHOLE, SINGLE):
        for function in (np.sqrt, np.log, np.log2, np.log10, np.arcsin, np.arccos, np.arccosh):
            check(function(ours(con, values)), function(values))
        for power in (-1.0, -2.0, -0.5, 0.5, 0.0, 2.5):
            check(ours(con, values) ** power, values**power)
    check(ours(con, np.array([0.0, 4.0])) ** -1, np.array([0.0, 4.0]) ** -1)
    check(ours(con, EDGES) ** ours(con, EDGES[::-1]), EDGES ** EDGES[::-1])
    check(1 / ours(con, np.array([0.0])), np.array([np.inf]))
    for ddof in (0, 1, 2, 3):
        check(ours(con, FLOATS[:2]).std(axis=0, ddof=ddof), FLOATS[:2].std(axis=0, ddof=ddof))
        check(ours(con, FLOATS[0, :2]).var(ddof=ddof), FLOATS[0, :2].var(ddof=ddof))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("function", [np.log1p, np.expm1, np.rint, np.fabs, np.exp2], ids=lambda f: f.__name__)
def test_functions_that_are_made_of_others(con, function):
    near = np.array([1e-12, -1e-9, 0.3, -0.4, 0.5, 0.6, -0.9, 1.5, 2.5, -2.5, 40.0, -1.0, -3.0])
    for values in (near, EDGES, FLOATS, WHOLE, SINGLE):
        check(function(ours(con, values)), function(values))
    if function in (np.log1p, np.expm1):
        np.testing.assert_allclose(function(ours(con, near)).compute(), function(near), rtol=1e-14)


def test_arguments_are_integers_of_numpy_too(con):
    x = ours(con, CUBE)
    check(x.sum(axis=np.int64(1)), CUBE.sum(axis=1))
    check(x.sum(axis=(np.int64(0), -1)), CUBE.sum(axis=(0, -1)))
    check(x.transpose(np.int64(1), 0, 2), CUBE.transpose(1, 0, 2))
    check(x.transpose(np.array([1, 0, 2])), CUBE.transpose(1, 0, 2))
    check(x[np.int64(1), :: np.int64(2)], CUBE[1, ::2])
    check(ta.ones(np.int64(3), con=con), np.ones(3))
    check(ta.zeros(np.array([2, 3]), chunks=np.int64(2), con=con), np.zeros((2, 3)))
    check(ta.arange(np.int64(2), np.int32(9), np.int64(3), con=con), np.arange(2, 9, 3))
    check(ta.random.default_rng(1, con=con).normal(size=np.int64(3)).sum().reshape(np.int64(1)).sum() * 0, np.float64(0))
    assert np.size(x, 1) == 4 and np.size(x, (0, -1)) == 15 and np.size(x) == 60
    for axis in ((0, 0), (0, -3)):
        with pytest.raises(ValueError, match="duplicate value in 'axis'"):
            x.sum(axis=axis)
    for axis in (True, 0.5, "a"):
        with pytest.raises(TypeError, match="no axis"):
            x.sum(axis=axis)
    for index in (True, False, np.True_, 0.5):
        with pytest.raises(TypeError, match="no index"):
            x[index]
    with pytest.raises(TypeError, match="filled"):
        ta.from_array(np.ma.array([1.0, 2.0], mask=[True, False]), con=con)
    check(ta.from_array(np.ma.array([1.0, 2.0]), con=con), np.array([1.0, 2.0]))


def test_types_of_results(con):
    check(ours(con, WHOLE).sum(dtype="float64"), WHOLE.sum(dtype="float64"))
    check(ours(con, FLOATS).sum(axis=0, dtype="int64"), FLOATS.sum(axis=0, dtype="int64"))
    check(np.mean(ours(con, WHOLE), dtype="float32"), np.mean(WHOLE, dtype="float32"))
    check(ours(con, TRUTH).sum(dtype=bool), TRUTH.sum(dtype=bool))
    check(ta.arange(5, dtype="float32", con=con), np.arange(5, dtype="float32"))
    check(ta.arange(5, 0, -2, con=con), np.arange(5, 0, -2))
    assert ours(con, WHOLE).sum().item() == WHOLE.sum() and type(ours(con, WHOLE).sum().item()) is int
    assert ours(con, WHOLE)[:2, :2].tolist() == WHOLE[:2, :2].tolist()
    with pytest.raises(ValueError, match="one element|size 1"):
        ours(con, WHOLE).item()
    with pytest.raises(TypeError, match="int32"):
        ours(con, WHOLE).sum(dtype="int32")


@pytest.mark.parametrize("arguments", [(0, 1), (2.5, -3.0, 7), (0, 1, 1), (0, 1, 0), (1, 2, 4, False)], ids=repr)
def test_linspace(con, arguments):
    np.testing.assert_array_equal(ta.linspace(*arguments, con=con).compute(), np.linspace(*arguments))


def test_eye_and_diagonals(con):
    for arguments in ((3,), (3, 4), (3, 4, 1), (4, 3, -2), (2, 2, 5)):
        check(ta.eye(*arguments, con=con), np.eye(*arguments))
    check(ta.eye(2, dtype="int64", con=con), np.eye(2, dtype="int64"))
    for k in (0, 1, -2, 20):
        check(np.diag(ours(con, WILD), k), np.diag(WILD, k))
        check(np.diag(ours(con, WILD[:, 0]), k), np.diag(WILD[:, 0], k))
        check(np.tril(ours(con, FLOATS)[::2], k), np.tril(FLOATS[::2], k))
        check(np.triu(ours(con, CUBE), k), np.triu(CUBE, k))
    check(np.diag(ours(con, FLOATS)[::-1, ::2]).sum(), np.diag(FLOATS[::-1, ::2]).sum())


def test_arrays_like_others_need_no_join(con):
    x = ours(con, FLOATS)
    check(np.zeros_like(x), np.zeros_like(FLOATS))
    check(np.ones_like(x, dtype="int64"), np.ones_like(FLOATS, dtype="int64"))
    check(np.full_like(ours(con, WHOLE), 2.75), np.full_like(WHOLE, 2.75))
    check(np.zeros_like(x, shape=(2,)), np.zeros(2))
    assert "Join" not in (x + np.ones_like(x)).explain()
    check(ta.empty((2, 3), con=con) * 0, np.zeros((2, 3)))


@pytest.mark.parametrize("axis", [0, 1, -1, None])
def test_concatenate(con, axis):
    parts = (FLOATS, WHOLE[::-1], TRUTH)
    check(np.concatenate([ours(con, part) for part in parts], axis=axis), np.concatenate(parts, axis=axis))
    one, other = FLOATS[::2, ::2].T, FLOATS[::2, 1::2].T
    check(ta.concatenate([ours(con, FLOATS)[::2, ::2].T, other], axis), np.concatenate([one, other], axis))
    found = np.concatenate([ours(con, FLOATS), ours(con, WHOLE)], axis=axis)
    check(found[..., ::3].sum(), np.concatenate([FLOATS, WHOLE], axis=axis)[..., ::3].sum())


def test_arrays_that_are_put_together(con):
    x, y = ours(con, CUBE), ours(con, CUBE[::-1])
    for axis in (0, 1, -1):
        check(np.stack([x, y], axis=axis), np.stack([CUBE, CUBE[::-1]], axis=axis))
    check(np.vstack([x[0, 0], y[0, 0]]), np.vstack([CUBE[0, 0], CUBE[2, 0]]))
    check(np.hstack([x[0], y[0]]), np.hstack([CUBE[0], CUBE[2]]))
    check(np.hstack([x[0, 0], [1, 2]]), np.hstack([CUBE[0, 0], [1, 2]]))
    check(np.stack([x.sum(), x.max()]), np.stack([CUBE.sum(), CUBE.max()]))
    check(np.concatenate([x[:0], x]), CUBE)
    with pytest.raises(ValueError, match="must match"):
        np.concatenate([x, x[:, 1:]])
    with pytest.raises(ValueError, match="one shape"):
        np.stack([x, x[1:]])
    with pytest.raises(ValueError, match="at least one"):
        ta.concatenate([])


def test_dimensions_that_move(con):
    x = ours(con, CUBE)
    check(np.swapaxes(x, 0, -1), np.swapaxes(CUBE, 0, -1))
    check(np.moveaxis(x, 0, -1), np.moveaxis(CUBE, 0, -1))
    check(np.moveaxis(x, [0, 2], [1, 0]), np.moveaxis(CUBE, [0, 2], [1, 0]))
    check(np.transpose(x, axes=(1, 0, 2)), CUBE.transpose(1, 0, 2))
    check(np.expand_dims(x, (0, -1)), np.expand_dims(CUBE, (0, -1)))
    check(np.squeeze(x[:, :1, None]), CUBE[:, :1, None].squeeze())
    check(x[:1, :, :1].squeeze(axis=0), CUBE[:1, :, :1].squeeze(axis=0))
    check(np.flip(x), np.flip(CUBE))
    check(np.flip(x, (0, 2)), np.flip(CUBE, (0, 2)))
    check(x.flatten(), CUBE.flatten())
    check(np.ravel(x), np.ravel(CUBE))
    with pytest.raises(ValueError, match="length 1"):
        x.squeeze(axis=0)
    with pytest.raises(ValueError, match="out of bounds"):
        np.moveaxis(x, 3, 0)


def test_differences_and_products_of_all_pairs(con):
    for axis in (0, -1):
        for n in (0, 1, 2):
            check(np.diff(ours(con, WHOLE), n=n, axis=axis), np.diff(WHOLE, n=n, axis=axis))
    check(np.diff(ours(con, TRUTH)), np.diff(TRUTH))
    check(np.outer(ours(con, WHOLE[0]), FLOATS[1]), np.outer(WHOLE[0], FLOATS[1]))


def test_comparisons_within_a_tolerance(con):
    x, other = ours(con, WILD), WILD.copy()
    other[5] += 1e-9
    other[6] += 1e-3
    for equal_nan in (False, True):
        check(np.isclose(x, other, equal_nan=equal_nan), np.isclose(WILD, other, equal_nan=equal_nan))
        check(np.allclose(x[:6], other[:6], equal_nan=equal_nan), np.allclose(WILD[:6], other[:6], equal_nan=equal_nan))
    check(np.isclose(x, 0.0, atol=2.0), np.isclose(WILD, 0.0, atol=2.0))
    assert np.array_equal(ours(con, WHOLE), WHOLE) and not np.array_equal(ours(con, WHOLE), WHOLE[1:])


def test_membership_and_numbers_in_the_place_of_nan(con):
    for values, wanted in ((WHOLE, [1, 2, 3]), (WHOLE, [1.0, 2.5]), (WILD, [np.nan, np.inf, 0]), (TRUTH, [True]), (WHOLE, [])):
        check(np.isin(ours(con, values), wanted), np.isin(values, wanted))
        check(np.isin(ours(con, values), wanted, invert=True), np.isin(values, wanted, invert=True))
    check(np.nan_to_num(ours(con, WILD)), np.nan_to_num(WILD))
    check(np.nan_to_num(ours(con, WILD), nan=1, posinf=2, neginf=3), np.nan_to_num(WILD, nan=1, posinf=2, neginf=3))
    check(np.nan_to_num(ours(con, WILD.astype("float32"))), np.nan_to_num(WILD.astype("float32")))
    with pytest.raises(TypeError, match="compute"):
        np.isin(ours(con, WHOLE), ours(con, WHOLE))


@pytest.mark.parametrize("name", list(ARRAYS))
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_places_and_orders(con, name, axis):
    values = ARRAYS[name]
    x = ours(con, values)
    check(np.argmin(x, axis=axis), np.argmin(values, axis=axis))
    check(np.argmax(x, axis=axis), np.argmax(values, axis=axis))
    check(x.argmax(axis=axis, keepdims=True), values.argmax(axis=axis, keepdims=True))
    check(np.sort(x, axis=axis), np.sort(values, axis=axis))
    check(np.argsort(x, axis=axis), np.argsort(values, axis=axis, kind="stable"))
    check(np.unique(x), np.unique(values))
    if name != "wild":
        check(np.cumsum(x, axis=axis), np.cumsum(values, axis=axis))
    check(np.cumsum(ours(con, WHOLE), axis=0, dtype="float64"), np.cumsum(WHOLE, axis=0, dtype="float64"))


@pytest.mark.parametrize("name", list(ARRAYS))
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 1)])
def test_medians_and_quantiles(con, name, axis):
    values = ARRAYS[name]
    if name == "truth":
        check(np.median(ours(con, values), axis=axis), np.median(values.astype(float), axis=axis))
        return
    values = np.where(np.isinf(values), 1.0, values) if name == "wild" else values
    x = ours(con, values)
    check(np.median(x, axis=axis), np.median(values, axis=axis))
    check(np.median(x, axis=axis, keepdims=True), np.median(values, axis=axis, keepdims=True))
    for share in (0.0, 0.3, 1.0):
        check(np.quantile(x, share, axis=axis), np.asarray(np.quantile(values, share, axis=axis)))
    # NumPy's of float32 differ from it in digits that float32 does not have.
    kept = "float32" if name == "single" else "float64"
    several, expect = (np.percentile(one, [25, 50, 90], axis=axis) for one in (x, values))
    assert several.dtype == expect.dtype
    check(several.astype(kept), expect.astype(kept))
    check(np.nanmedian(x, axis=axis), np.nanmedian(values, axis=axis))
    check(np.nanquantile(x, 0.25, axis=axis), np.asarray(np.nanquantile(values, 0.25, axis=axis)))


@pytest.mark.parametrize("name", ["nansum", "nanprod", "nanmean", "nanmin", "nanmax", "nanvar", "nanstd"])
def test_reductions_without_nan(con, name):
    values = np.where(np.isinf(WILD), 1.0, WILD)
    for axis in (None, 0, 1):
        check(getattr(np, name)(ours(con, values), axis=axis), getattr(np, name)(values, axis=axis))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        nothing = np.full((2, 3), np.nan)
        check(getattr(np, name)(ours(con, nothing), axis=0), getattr(np, name)(nothing, axis=0))
    if name != "nanprod":
        check(getattr(np, name)(ours(con, WHOLE)), getattr(np, name)(WHOLE))


def test_products(con):
    check(ours(con, FLOATS).prod(), FLOATS.prod())
    check(np.prod(ours(con, SINGLE), axis=0), SINGLE.prod(axis=0))
    check(np.multiply.reduce(ours(con, FLOATS), axis=1), FLOATS.prod(axis=1))
    check(ours(con, SMALL).prod(dtype="float64"), SMALL.prod(dtype="float64"))
    check(ours(con, FLOATS)[:0].prod(axis=0), FLOATS[:0].prod(axis=0))
    with pytest.raises(TypeError, match="rounded"):
        ours(con, SMALL).prod()


def test_masks_of_rows(con):
    x, mask = ours(con, FLOATS), FLOATS[:, 0] > 0
    rows = x[x[:, 0] > 0]
    check(rows, FLOATS[mask])
    check(x[mask], FLOATS[mask])
    check(rows * 2 + rows, FLOATS[mask] * 3)
    check(rows.sum(), FLOATS[mask].sum())
    check(rows.sum(axis=0), FLOATS[mask].sum(axis=0))
    check(rows.mean(axis=1), FLOATS[mask].mean(axis=1))
    check(rows.max(axis=(0, 1)), FLOATS[mask].max())
    check(rows.sum(axis=0, keepdims=True), FLOATS[mask].sum(axis=0, keepdims=True))
    check(rows[:, 2:5], FLOATS[mask][:, 2:5])
    check(rows[:, 3], FLOATS[mask][:, 3])
    check(rows.persist().sum(axis=1), FLOATS[mask].sum(axis=1))
    assert rows.ndim == 2
    planes = CUBE[:, :, 0] > 0
    check(ours(con, CUBE)[ours(con, planes)], CUBE[planes])
    check(ours(con, CUBE)[planes].sum(axis=0), CUBE[planes].sum(axis=0))
    check(np.median(ours(con, CUBE)[planes], axis=0), np.median(CUBE[planes], axis=0))
    none = x[x[:, 0] > 1000]
    check(none, FLOATS[:0])
    check(none.sum(axis=0), np.zeros(10))
    check(np.unique(ours(con, WHOLE)[WHOLE > 3]), np.unique(WHOLE[WHOLE > 3]))
    with pytest.raises(IndexError, match="the mask has the shape"):
        x[np.ones(3, bool)]
    with pytest.raises(TypeError, match="no indices"):
        rows[0]
    with pytest.raises(TypeError, match="only when it is computed"):
        rows.shape
    with pytest.raises(TypeError, match="mask"):
        rows.T
