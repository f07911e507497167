//! Matrices whose factors are known, and NIST's least squares.

use nalgebra::{DMatrix, DVector};

use super::{Gram, Regression, Svd, Triangle};

/// Numbers between -1 and 1 that are the same each time.
fn numbers(seed: u64) -> impl FnMut() -> f64 {
    let mut state = seed;
    move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let bits = u32::try_from(state >> 33).unwrap_or_default();
        f64::from(bits) / f64::from(1_u32 << 30) - 1.0
    }
}

fn random(rows: usize, columns: usize, seed: u64) -> DMatrix<f64> {
    let mut next = numbers(seed);
    DMatrix::from_fn(rows, columns, |_, _| next())
}

/// A matrix with these singular values, and its right singular vectors as columns.
fn with_values(rows: usize, values: &[f64], seed: u64) -> (DMatrix<f64>, DMatrix<f64>) {
    let left = random(rows, values.len(), seed).qr().q();
    let right = random(values.len(), values.len(), seed + 1).qr().q();
    let middle = DMatrix::from_diagonal(&DVector::from_row_slice(values));
    (left * middle * right.transpose(), right)
}

/// The triangle of a matrix's rows, which come in pieces of so many.
fn triangle(matrix: &DMatrix<f64>, piece: usize) -> Triangle {
    let mut all = Triangle::new(matrix.ncols());
    for first in (0..matrix.nrows()).step_by(piece.max(1)) {
        let mut part = Triangle::new(matrix.ncols());
        for row in matrix.row_iter().skip(first).take(piece) {
            part.push(row.iter().copied());
        }
        all.merge(&part.packed());
    }
    all
}

fn upper(packed: &[f64], columns: usize) -> DMatrix<f64> {
    let mut values = packed.iter();
    let mut matrix = DMatrix::zeros(columns, columns);
    for i in 0..columns {
        for (j, value) in (i..columns).zip(values.by_ref()) {
            matrix[(i, j)] = *value;
        }
    }
    matrix
}

fn assert_near(found: f64, expect: f64, within: f64, what: &str) {
    assert!(
        (found - expect).abs() <= within,
        "{what}: {found:e} and not {expect:e}"
    );
}

/// Compares a decomposition with the singular values of the matrix, and the matrix's own products.
fn check_svd(matrix: &DMatrix<f64>, values: &[f64], what: &str) {
    let largest = values.first().copied().unwrap_or_default();
    for piece in [1, 7, 64, 10_000] {
        let Svd {
            values: found,
            vectors,
        } = triangle(matrix, piece).svd();
        assert_eq!(found.len(), values.len(), "{what}");
        for (found, expect) in found.iter().zip(values) {
            assert_near(*found, *expect, 1e-13 * largest, what);
        }
        let vectors = DMatrix::from_fn(values.len(), values.len(), |i, j| vectors[j][i]);
        let left = &vectors.transpose() * &vectors - DMatrix::identity(values.len(), values.len());
        assert!(
            left.amax() < 1e-13,
            "{what}: the vectors are {:e} from orthonormal",
            left.amax()
        );
        // X v is as long as the value, also where values are alike and vectors not defined.
        let images = matrix * vectors;
        for (image, expect) in images.column_iter().zip(values) {
            assert_near(image.norm(), *expect, 1e-13 * largest, what);
        }
    }
}

#[test]
fn a_triangle_has_the_products_of_its_rows() {
    for columns in [1, 2, 5, 9] {
        for rows in [0, 1, 2, 31, 32, 33, 63, 64, 65, 200, 1023, 1024, 1025, 2100] {
            let matrix = random(rows, columns, 3);
            for piece in [1, 5, 32, 5000] {
                let r = upper(&triangle(&matrix, piece).packed(), columns);
                let left = r.transpose() * &r - matrix.transpose() * &matrix;
                let allowed = 1e-14 * (rows.max(1) as f64);
                assert!(
                    left.amax() <= allowed,
                    "{rows} × {columns} in {piece}: {:e}",
                    left.amax()
                );
            }
        }
    }
}

#[test]
fn singular_values_are_right_at_any_condition() {
    for exponent in [0, 4, 8, 12] {
        let step = 10_f64.powi(-exponent).powf(1.0 / 7.0);
        let values: Vec<f64> = (0..8).map(|at| 3.0 * step.powi(at)).collect();
        let (matrix, _) = with_values(150, &values, 11);
        check_svd(&matrix, &values, &format!("condition 1e{exponent}"));
    }
}

#[test]
fn singular_values_are_right_at_any_scale() {
    let values = [5.0, 2.0, 1.0];
    for scale in [1e-250, 1e-150, 1e150, 1e250] {
        let (matrix, _) = with_values(40, &values, 5);
        let scaled: Vec<f64> = values.iter().map(|value| value * scale).collect();
        let matrix = matrix * scale;
        let found = triangle(&matrix, 9).svd();
        for (found, expect) in found.values.iter().zip(&scaled) {
            assert_near(*found / scale, *expect / scale, 1e-13 * values[0], "scaled");
        }
    }
}

#[test]
fn columns_of_different_sizes_keep_their_small_values() {
    // 1e-9 squared is lost beside 1, so that XᵀX has only one singular value.
    let small = 1e-9;
    let matrix = DMatrix::from_row_slice(3, 2, &[1.0, 1.0, small, 0.0, 0.0, small]);
    let found = triangle(&matrix, 3).svd().values;
    assert_near(found[0], 2_f64.sqrt(), 1e-15, "the larger one");
    assert_near(found[1] / small, 1.0, 1e-6, "the smaller one");
    let apart = DMatrix::from_row_slice(2, 2, &[1e12, 1e-12, 1e12, -1e-12]);
    let found = triangle(&apart, 2).svd().values[1];
    assert_near(found * 1e12, 2_f64.sqrt(), 1e-15, "of a small column");
}

#[test]
fn deficient_matrices_have_zeros() {
    let (matrix, _) = with_values(50, &[4.0, 2.0, 0.0, 0.0], 21);
    check_svd(&matrix, &[4.0, 2.0, 0.0, 0.0], "rank 2");
    let row = DMatrix::from_row_slice(1, 3, &[3.0, 0.0, 4.0]);
    check_svd(&row, &[5.0, 0.0, 0.0], "one row");
    check_svd(&DMatrix::zeros(10, 2), &[0.0, 0.0], "zeros");
    check_svd(&DMatrix::zeros(0, 2), &[0.0, 0.0], "no rows");
}

#[test]
fn signs_of_vectors_are_defined() {
    let matrix = DMatrix::from_row_slice(2, 2, &[1.0, -1.0, -1.0, 1.0]);
    let found = triangle(&matrix, 1).svd();
    let half = 0.5_f64.sqrt();
    for (found, expect) in found.vectors.concat().iter().zip([half, -half, half, half]) {
        assert_near(*found, expect, 1e-15, "a component");
    }
}

#[test]
fn what_is_not_finite_shows() {
    for value in [f64::NAN, f64::INFINITY] {
        let matrix = DMatrix::from_row_slice(3, 2, &[1.0, 2.0, 3.0, value, 5.0, 6.0]);
        let found = triangle(&matrix, 2).svd();
        assert!(
            found
                .values
                .iter()
                .chain(found.vectors.iter().flatten())
                .all(|value| value.is_nan())
        );
        let fit = fit(&[&[1.0, 2.0, value, 4.0]], &[1.0, 2.0, 3.0, 4.0], 2);
        assert!(fit.coefficients[0].is_some_and(f64::is_nan) && fit.intercept.is_nan());
        assert!(fit.r2.is_some_and(f64::is_nan));
    }
}

/// Fits a column by others, rows coming in pieces.
fn fit(columns: &[&[f64]], fitted: &[f64], piece: usize) -> Regression {
    let matrix = DMatrix::from_fn(
        fitted.len(),
        columns.len() + 2,
        |row, column| match column {
            0 => 1.0,
            last if last == columns.len() + 1 => fitted[row],
            column => columns[column - 1][row],
        },
    );
    triangle(&matrix, piece).regression()
}

fn check_fit(found: &Regression, intercept: f64, coefficients: &[Option<f64>], within: f64) {
    assert_near(
        found.intercept,
        intercept,
        within * intercept.abs().max(1.0),
        "the intercept",
    );
    assert_eq!(found.coefficients.len(), coefficients.len());
    for (found, expect) in found.coefficients.iter().zip(coefficients) {
        assert_eq!(
            found.is_some(),
            expect.is_some(),
            "{found:?} and not {expect:?}"
        );
        if let (Some(found), Some(expect)) = (found, expect) {
            assert_near(*found, *expect, within * expect.abs(), "a coefficient");
        }
    }
}

#[test]
fn least_squares_have_the_certified_values_of_longley() {
    // https://www.itl.nist.gov/div898/strd/lls/data/Longley.shtml
    let y = [
        60323.0, 61122.0, 60171.0, 61187.0, 63221.0, 63639.0, 64989.0, 63761.0, 66019.0, 67857.0,
        68169.0, 66513.0, 68655.0, 69564.0, 69331.0, 70551.0,
    ];
    let deflator = [
        83.0, 88.5, 88.2, 89.5, 96.2, 98.1, 99.0, 100.0, 101.2, 104.6, 108.4, 110.8, 112.6, 114.2,
        115.7, 116.9,
    ];
    let product = [
        234289.0, 259426.0, 258054.0, 284599.0, 328975.0, 346999.0, 365385.0, 363112.0, 397469.0,
        419180.0, 442769.0, 444546.0, 482704.0, 502601.0, 518173.0, 554894.0,
    ];
    let unemployed = [
        2356.0, 2325.0, 3682.0, 3351.0, 2099.0, 1932.0, 1870.0, 3578.0, 2904.0, 2822.0, 2936.0,
        4681.0, 3813.0, 3931.0, 4806.0, 4007.0,
    ];
    let forces = [
        1590.0, 1456.0, 1616.0, 1650.0, 3099.0, 3594.0, 3547.0, 3350.0, 3048.0, 2857.0, 2798.0,
        2637.0, 2552.0, 2514.0, 2572.0, 2827.0,
    ];
    let population = [
        107608.0, 108632.0, 109773.0, 110929.0, 112075.0, 113270.0, 115094.0, 116219.0, 117388.0,
        118734.0, 120445.0, 121950.0, 123366.0, 125368.0, 127852.0, 130081.0,
    ];
    let year: Vec<f64> = (1947..1963).map(f64::from).collect();
    for piece in [1, 5, 16] {
        let columns: [&[f64]; 6] = [
            &deflator,
            &product,
            &unemployed,
            &forces,
            &population,
            &year,
        ];
        let found = fit(&columns, &y, piece);
        let certified = [
            15.0618722713733,
            -0.358191792925910E-01,
            -2.02022980381683,
            -1.03322686717359,
            -0.511041056535807E-01,
            1829.15146461355,
        ];
        check_fit(&found, -3482258.63459582, &certified.map(Some), 1e-10);
        assert_near(found.r2.unwrap_or_default(), 0.995479004577296, 1e-13, "r2");
    }
}

#[test]
fn least_squares_have_the_certified_values_of_wampler() {
    // https://www.itl.nist.gov/div898/strd/lls/data/Wampler1.shtml
    let x: Vec<f64> = (0..21).map(f64::from).collect();
    let powers: Vec<Vec<f64>> = (1..6)
        .map(|power| x.iter().map(|x| x.powi(power)).collect())
        .collect();
    let columns: Vec<&[f64]> = powers.iter().map(Vec::as_slice).collect();
    let y: Vec<f64> = (0..21)
        .map(|row| 1.0 + columns.iter().map(|column| column[row]).sum::<f64>())
        .collect();
    let found = fit(&columns, &y, 4);
    check_fit(&found, 1.0, &[Some(1.0); 5], 1e-8);
    assert_near(found.r2.unwrap_or_default(), 1.0, 1e-14, "r2");
}

#[test]
fn dependent_columns_have_no_coefficient() {
    let mut next = numbers(9);
    let x: Vec<f64> = (0..500).map(|_| 1e6 + next()).collect();
    let z: Vec<f64> = (0..500).map(|_| next()).collect();
    let combined: Vec<f64> = x
        .iter()
        .zip(&z)
        .map(|(x, z)| 3.0 * x - 0.7 * z + 2.0)
        .collect();
    let constant = vec![0.1; 500];
    let y: Vec<f64> = x
        .iter()
        .zip(&z)
        .map(|(x, z)| 2.0 * (x - 1e6) - z + 1.0)
        .collect();
    let columns: [&[f64]; 5] = [&constant, &x, &x, &z, &combined];
    let found = fit(&columns, &y, 37);
    check_fit(
        &found,
        1.0 - 2e6,
        &[None, Some(2.0), None, Some(-1.0), None],
        1e-9,
    );
    let columns: [&[f64]; 1] = [&[0.0, 0.0, 0.0]];
    let found = fit(&columns, &[1.0, 2.0, 6.0], 3);
    check_fit(&found, 3.0, &[None], 1e-15);
    assert_near(found.r2.unwrap_or(1.0), 0.0, 1e-15, "r2");
}

#[test]
fn a_constant_is_fitted_without_r2() {
    let columns: [&[f64]; 1] = [&[1.0, 2.0, 4.0]];
    let found = fit(&columns, &[7.0; 3], 1);
    assert_near(found.intercept, 7.0, 1e-14, "the intercept");
    assert_eq!(found.r2, None);
}

#[test]
fn many_rows_round_little() {
    let rows = 200_000;
    let mut next = numbers(31);
    let mut all = Triangle::new(3);
    for row in 0..rows {
        let (at, x) = (f64::from(row), next());
        all.push([1.0, x, 3.0 * x + at]);
    }
    // One column alone is fitted by sums over the centred columns, too.
    let fit = all.regression();
    let coefficient = fit.coefficients[0].unwrap_or_default();
    let mut next = numbers(31);
    let (mut sums, mut products) = (0.0, 0.0);
    let xs: Vec<f64> = (0..rows).map(|_| next()).collect();
    let mean = xs.iter().sum::<f64>() / f64::from(rows);
    for (x, row) in xs.iter().zip(0..rows) {
        sums += (x - mean) * (x - mean);
        products += (x - mean) * (f64::from(row) - f64::from(rows - 1) / 2.0);
    }
    assert_near(coefficient, 3.0 + products / sums, 1e-9, "a coefficient");
    assert!(all.size() < 1000, "{} bytes", all.size());
}

#[test]
fn sums_of_products_are_those_of_pieces() {
    let matrix = DMatrix::from_fn(40, 3, |i, j| ((i * 7 + j * 3) % 11) as f64);
    let column = |j: usize| matrix.column(j).iter().copied().collect::<Vec<f64>>();
    let (one, two, three) = (column(0), column(1), column(2));
    let (mut all, mut part) = (Gram::new(3), Gram::new(3));
    all.add(&[&one[..17], &two[..17], &three[..17]]);
    part.add(&[&one[17..], &two[17..], &three[17..]]);
    all.merge(part.packed());
    let expect = matrix.transpose() * &matrix;
    for (i, row) in all.rows().iter().enumerate() {
        assert_eq!(*row, expect.row(i).iter().copied().collect::<Vec<f64>>());
    }
}
