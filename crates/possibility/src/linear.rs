//! Small dense linear algebra on top of `faer`: checked symmetric matrices, Cholesky factors
//! `M = LLᵀ`, and the quadratic form of a semidefinite matrix that is a difference of two others.

use faer::linalg::solvers::{Llt, SelfAdjointEigen};
use faer::{Mat, MatRef, Side};

use crate::error::{Error, Result, check_entry, check_size};

/// Asymmetry up to this multiple of `√(mᵢᵢ mⱼⱼ)` is rounding, and averaged away.
const ASYMMETRY: f64 = 64.0 * f64::EPSILON;

/// The matrix, exactly symmetric, or the error that names the first entry in the way.
pub(crate) fn symmetric(
    name: &'static str,
    mut matrix: Mat<f64>,
    dimension: usize,
) -> Result<Mat<f64>> {
    check_size(name, matrix.nrows(), dimension)?;
    check_size(name, matrix.ncols(), dimension)?;
    for i in 0..dimension {
        for j in 0..dimension {
            let (index, value) = (i * dimension + j, matrix[(i, j)]);
            check_entry(name, index, value, "(-inf, inf)", value.is_finite())?;
        }
    }
    for i in 0..dimension {
        for j in 0..i {
            let (below, above) = (matrix[(i, j)], matrix[(j, i)]);
            if below == above {
                continue;
            }
            let scale = (matrix[(i, i)].abs().sqrt()) * (matrix[(j, j)].abs().sqrt());
            if (below - above).abs() > ASYMMETRY * scale {
                return Err(Error::NotSymmetric {
                    name,
                    row: i,
                    column: j,
                });
            }
            let middle = 0.5 * below + 0.5 * above;
            matrix[(i, j)] = middle;
            matrix[(j, i)] = middle;
        }
    }
    Ok(matrix)
}

/// `L` with `M = LLᵀ` and a positive diagonal, refused where a pivot is lost in rounding.
pub(crate) fn cholesky(name: &'static str, matrix: MatRef<'_, f64>) -> Result<Mat<f64>> {
    let n = matrix.nrows();
    let threshold = n as f64 * f64::EPSILON;
    match Llt::new(matrix, Side::Lower) {
        Ok(factor)
            if (0..n).all(|i| {
                let pivot = factor.L()[(i, i)];
                pivot > 0.0 && pivot * pivot > threshold * matrix[(i, i)]
            }) =>
        {
            Ok(factor.L().to_owned())
        }
        _ => Err(Error::NotPositiveDefinite {
            name,
            smallest: smallest_eigenvalue(matrix),
        }),
    }
}

/// Smallest eigenvalue of a symmetric matrix, NaN if the decomposition fails.
pub(crate) fn smallest_eigenvalue(matrix: MatRef<'_, f64>) -> f64 {
    eigen(matrix).map_or(f64::NAN, |(values, _)| values[0])
}

/// Eigenvalues in increasing order and the orthonormal eigenvectors as columns; none if the
/// decomposition fails. Crates that need it take this one, which is compiled once.
pub fn eigen(matrix: MatRef<'_, f64>) -> Option<(Vec<f64>, Mat<f64>)> {
    let decomposition = SelfAdjointEigen::new(matrix, Side::Lower).ok()?;
    let values = decomposition.S().column_vector().iter().copied().collect();
    Some((values, decomposition.U().to_owned()))
}

/// `x ← L⁻¹x`.
pub(crate) fn solve_lower(l: MatRef<'_, f64>, x: &mut [f64]) {
    for i in 0..x.len() {
        let mut sum = x[i];
        for j in 0..i {
            sum -= l[(i, j)] * x[j];
        }
        x[i] = sum / l[(i, i)];
    }
}

/// `x ← L⁻ᵀx`.
pub(crate) fn solve_upper(l: MatRef<'_, f64>, x: &mut [f64]) {
    for i in (0..x.len()).rev() {
        let mut sum = x[i];
        for j in i + 1..x.len() {
            sum -= l[(j, i)] * x[j];
        }
        x[i] = sum / l[(i, i)];
    }
}

/// `(LLᵀ)⁻¹x`.
pub(crate) fn solve(l: MatRef<'_, f64>, x: &[f64]) -> Vec<f64> {
    let mut x = x.to_vec();
    solve_lower(l, &mut x);
    solve_upper(l, &mut x);
    x
}

/// `L⁻¹M`.
pub(crate) fn solve_lower_matrix(l: MatRef<'_, f64>, matrix: MatRef<'_, f64>) -> Mat<f64> {
    let mut result = matrix.to_owned();
    l.solve_lower_triangular_in_place(result.as_mut());
    result
}

/// `Lᵀx`.
pub(crate) fn multiply_upper(l: MatRef<'_, f64>, x: &[f64]) -> Vec<f64> {
    (0..x.len())
        .map(|i| (i..x.len()).map(|j| l[(j, i)] * x[j]).sum())
        .collect()
}

/// `(LLᵀ)⁻¹`, exactly symmetric.
pub(crate) fn inverse(l: MatRef<'_, f64>) -> Mat<f64> {
    let n = l.nrows();
    let root = solve_lower_matrix(l, Mat::<f64>::identity(n, n).as_ref());
    gram(root.as_ref())
}

/// `MᵀM`, exactly symmetric.
pub(crate) fn gram(matrix: MatRef<'_, f64>) -> Mat<f64> {
    mirrored(matrix.transpose() * matrix)
}

/// The matrix with its lower triangle copied to the upper one.
pub(crate) fn mirrored(mut matrix: Mat<f64>) -> Mat<f64> {
    for j in 0..matrix.ncols() {
        for i in 0..j {
            matrix[(i, j)] = matrix[(j, i)];
        }
    }
    matrix
}

/// `Mx`.
pub(crate) fn multiply(matrix: MatRef<'_, f64>, x: &[f64]) -> Vec<f64> {
    let mut result = vec![0.0; matrix.nrows()];
    for (j, &value) in x.iter().enumerate() {
        for (i, entry) in result.iter_mut().enumerate() {
            *entry += matrix[(i, j)] * value;
        }
    }
    result
}

/// `x - y`.
pub(crate) fn difference(x: &[f64], y: &[f64]) -> Vec<f64> {
    x.iter().zip(y).map(|(a, b)| a - b).collect()
}

/// `xᵀy`.
pub(crate) fn dot(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(a, b)| a * b).sum()
}

/// The rows and columns of `matrix` with the given indices.
pub(crate) fn block(matrix: MatRef<'_, f64>, rows: &[usize], columns: &[usize]) -> Mat<f64> {
    Mat::from_fn(rows.len(), columns.len(), |i, j| {
        matrix[(rows[i], columns[j])]
    })
}

/// `sup_x wᵀx - ½xᵀDx = ½wᵀD⁺w` for a symmetric `D`, `+∞` unless `D` is positive semidefinite and
/// `w` lies in its range.
///
/// `noise` bounds the rounding error of each entry of `D`, `noise_of_w` that of each entry of `w`;
/// with zero bounds (exact entries) a diagonal `D` is decided exactly. `D` is first scaled to unit
/// diagonal, so that coordinates of very different units do not drown each other. An eigenvalue of
/// the scaled matrix that is within rounding of zero counts as zero.
pub(crate) fn semidefinite_conjugate(
    d: MatRef<'_, f64>,
    w: &[f64],
    noise: impl Fn(usize, usize) -> f64,
    noise_of_w: &[f64],
) -> f64 {
    let n = w.len();
    let mut kept = Vec::with_capacity(n);
    for i in 0..n {
        let pivot = d[(i, i)];
        if pivot < -noise(i, i) {
            return f64::INFINITY;
        }
        if pivot <= noise(i, i) {
            // a zero on the diagonal of a semidefinite matrix has a zero row, and w must vanish
            // there
            let row_is_zero = (0..n).all(|j| j == i || d[(i, j)].abs() <= noise(i, j));
            if !row_is_zero || w[i].abs() > noise_of_w[i] {
                return f64::INFINITY;
            }
        } else {
            kept.push(i);
        }
    }
    if kept.is_empty() {
        return 0.0;
    }
    let scale: Vec<f64> = kept.iter().map(|&i| d[(i, i)].sqrt()).collect();
    let m = kept.len();
    let scaled = Mat::from_fn(m, m, |a, b| {
        if a == b {
            1.0
        } else {
            d[(kept[a], kept[b])] / scale[a] / scale[b]
        }
    });
    let z: Vec<f64> = (0..m).map(|a| w[kept[a]] / scale[a]).collect();
    if m == 1 {
        return 0.5 * z[0] * z[0];
    }
    let mut rounding = 8.0 * m as f64 * f64::EPSILON;
    for a in 0..m {
        for b in 0..m {
            rounding += noise(kept[a], kept[b]) / scale[a] / scale[b];
        }
    }
    let Some((values, vectors)) = eigen(scaled.as_ref()) else {
        return f64::INFINITY;
    };
    if values[0] < -rounding {
        return f64::INFINITY;
    }
    if values[0] > rounding
        && let Ok(l) = cholesky("scaled difference", scaled.as_ref())
    {
        let mut x = z;
        solve_lower(l.as_ref(), &mut x);
        return 0.5 * dot(&x, &x);
    }
    let size: f64 = z.iter().map(|v| v.abs()).sum();
    let slack: f64 = (0..m).map(|a| noise_of_w[kept[a]] / scale[a]).sum();
    let allowed = rounding * size + slack;
    let mut total = 0.0;
    for (k, &value) in values.iter().enumerate() {
        let component: f64 = (0..m).map(|a| vectors[(a, k)] * z[a]).sum();
        if value > rounding {
            total += component * component / value;
        } else if component.abs() > allowed {
            return f64::INFINITY;
        }
    }
    0.5 * total
}

#[cfg(test)]
mod tests {
    use super::*;
    use faer::mat;

    #[test]
    fn symmetric_refuses_what_is_not_and_averages_rounding() {
        let error = symmetric("m", mat![[1.0, 0.5], [0.25, 1.0]], 2).unwrap_err();
        assert_eq!(
            error,
            Error::NotSymmetric {
                name: "m",
                row: 1,
                column: 0
            }
        );
        let nearly = symmetric("m", mat![[1.0, 0.5], [0.5 + f64::EPSILON, 1.0]], 2).unwrap();
        assert_eq!(nearly[(0, 1)], nearly[(1, 0)]);
        assert!(symmetric("m", mat![[1.0, f64::NAN], [f64::NAN, 1.0]], 2).is_err());
        assert!(symmetric("m", mat![[1.0, 0.5]], 2).is_err());
        assert!(symmetric("m", mat![[1.0, 0.5]], 1).is_err());
    }

    #[test]
    fn cholesky_names_the_smallest_eigenvalue_of_an_indefinite_matrix() {
        match cholesky("m", mat![[1.0, 2.0], [2.0, 1.0]].as_ref()) {
            Err(Error::NotPositiveDefinite { name, smallest }) => {
                assert_eq!(name, "m");
                assert!((smallest + 1.0).abs() < 1e-14);
            }
            other => panic!("{other:?}"),
        }
        assert!(cholesky("m", mat![[1.0, 1.0], [1.0, 1.0]].as_ref()).is_err());
        assert!(cholesky("m", mat![[1.0, 0.0], [0.0, 1e-200]].as_ref()).is_ok());
    }

    #[test]
    fn solves_agree_with_the_hand_inverse() {
        // [[4, 2], [2, 3]] has inverse [[3, -2], [-2, 4]] / 8
        let l = cholesky("m", mat![[4.0, 2.0], [2.0, 3.0]].as_ref()).unwrap();
        let inverse = inverse(l.as_ref());
        for (i, j, want) in [(0, 0, 0.375), (0, 1, -0.25), (1, 0, -0.25), (1, 1, 0.5)] {
            assert!((inverse[(i, j)] - want).abs() < 1e-15);
        }
        let x = solve(l.as_ref(), &[1.0, 2.0]);
        assert!((x[0] + 0.125).abs() < 1e-15 && (x[1] - 0.75).abs() < 1e-15);
        let upper = multiply_upper(l.as_ref(), &[1.0, 2.0]);
        // |Lᵀx|² = xᵀMx = 4 + 8 + 12
        assert!((dot(&upper, &upper) - 24.0).abs() < 1e-13);
    }

    #[test]
    fn semidefinite_conjugate_knows_range_and_null_space() {
        let exact = |_: usize, _: usize| 0.0;
        let zeros = [0.0; 2];
        let ones = mat![[1.0, 1.0], [1.0, 1.0]];
        // D⁺ of the matrix of ones is D/4: ½ (2, 2) D⁺ (2, 2)ᵀ = ½ · 16/4
        let inside = semidefinite_conjugate(ones.as_ref(), &[2.0, 2.0], exact, &zeros);
        assert!((inside - 2.0).abs() < 1e-14);
        let outside = semidefinite_conjugate(ones.as_ref(), &[1.0, -1.0], exact, &zeros);
        assert_eq!(outside, f64::INFINITY);
        let indefinite = mat![[1.0, 2.0], [2.0, 1.0]];
        let value = semidefinite_conjugate(indefinite.as_ref(), &[0.0, 0.0], exact, &zeros);
        assert_eq!(value, f64::INFINITY);
        let flat = mat![[0.0, 0.0], [0.0, 2.0]];
        let along = semidefinite_conjugate(flat.as_ref(), &[0.0, 3.0], exact, &zeros);
        assert!((along - 2.25).abs() < 1e-15);
        let across = semidefinite_conjugate(flat.as_ref(), &[1e-200, 3.0], exact, &zeros);
        assert_eq!(across, f64::INFINITY);
    }
}
