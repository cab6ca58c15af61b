//! Normal possibility function `N̄(θ; μ, Σ) = exp(-½(θ-μ)ᵀΣ⁻¹(θ-μ))` on ℝᵈ: mode `μ`, covariance
//! `Σ ≻ 0`, precision `Σ⁻¹`, supremum 1. Paper: Section 2, appendices "More on Possibility Theory"
//! and "Discussion on Max-Relative Entropy".
//!
//! | operation | result |
//! |---|---|
//! | sup over the other coordinates | `N̄(μ_a, Σ_aa)`: [`Normal::marginal`] |
//! | conditional on `θ_b = x` | `N̄(μ_a + Σ_abΣ_bb⁻¹(x-μ_b), Σ_aa - Σ_abΣ_bb⁻¹Σ_ba)`: [`Normal::conditional`] |
//! | product over its supremum | `N̄(·, (Σ₁⁻¹+Σ₂⁻¹)⁻¹)`, log sup `-½dᵀ(Σ₁+Σ₂)⁻¹d`: [`Normal::fuse`] |
//! | image under `θ ↦ Aθ+b` | `N̄(Aμ+b, AΣAᵀ)`: [`Normal::affine_image`] |
//! | `{θ : f(θ) ≥ α}` | an [`Ellipsoid`]: [`Normal::alpha_cut`] |
//! | `D_max(g‖f)` | `½dᵀ(Σ_f-Σ_g)⁻¹d` or `+∞`: [`Normal::max_relative_entropy`] |
//!
//! A normal keeps the matrix it was given, covariance or precision, together with its Cholesky
//! factor; the other matrix is computed once, when it is first asked for.

use std::sync::OnceLock;

use faer::{Mat, MatRef};

use crate::error::{
    Error, Result, check, check_alpha, check_entries, check_entry, check_finite, check_numbers,
    check_positive, check_real, check_size,
};
use crate::function::{Mode, Possibility};
use crate::linear;
use crate::set::Interval;

/// Which matrix a normal was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Covariance,
    Precision,
}

impl Form {
    fn name(self) -> &'static str {
        match self {
            Self::Covariance => "covariance",
            Self::Precision => "precision",
        }
    }
}

/// The normal possibility function in any dimension.
///
/// ```
/// use faer::mat;
/// use possibility::{Normal, Possibility};
///
/// let f = Normal::new([1.0, -1.0], mat![[2.0, 0.5], [0.5, 1.0]])?;
/// assert_eq!(f.possibility(&[1.0, -1.0]), 1.0);
/// // the sup-marginal of the first coordinate has the first diagonal entry as its variance
/// let first = f.marginal(&[0])?;
/// assert_eq!(first.log_possibility(&[3.0]), -1.0);
/// # Ok::<(), possibility::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Normal {
    mode: Vec<f64>,
    form: Form,
    /// Covariance or precision, as `form` says.
    matrix: Mat<f64>,
    /// Lower Cholesky factor of `matrix`.
    factor: Mat<f64>,
    /// Inverse of `matrix`, on demand.
    inverse: OnceLock<Mat<f64>>,
}

/// Equal when given equal modes and equal matrices in the same form.
impl PartialEq for Normal {
    fn eq(&self, other: &Self) -> bool {
        self.mode == other.mode && self.form == other.form && self.matrix == other.matrix
    }
}

impl Normal {
    /// `N̄(mode, covariance)`.
    ///
    /// # Errors
    /// No coordinate, a number that is not finite, sizes that differ, a covariance that is not
    /// symmetric (beyond rounding) or not positive definite (in `f64`).
    pub fn new(mode: impl Into<Vec<f64>>, covariance: Mat<f64>) -> Result<Self> {
        Self::build(mode.into(), Form::Covariance, covariance)
    }

    /// `N̄(mode, precision⁻¹)`.
    ///
    /// # Errors
    /// As [`Self::new`].
    ///
    /// ```
    /// use faer::mat;
    /// use possibility::{Normal, Possibility};
    /// let f = Normal::from_precision([0.0, 0.0], mat![[2.0, 1.0], [1.0, 3.0]])?;
    /// assert!((f.log_possibility(&[1.0, -1.0]) + 1.5).abs() < 1e-15);
    /// # Ok::<(), possibility::Error>(())
    /// ```
    pub fn from_precision(mode: impl Into<Vec<f64>>, precision: Mat<f64>) -> Result<Self> {
        Self::build(mode.into(), Form::Precision, precision)
    }

    /// `exp(-(x - mode)² / (2 variance))` on the line.
    ///
    /// # Errors
    /// A mode that is not finite, or a variance outside `(0, +∞)`.
    pub fn univariate(mode: f64, variance: f64) -> Result<Self> {
        check_positive("variance", variance)?;
        Self::new([mode], Mat::from_fn(1, 1, |_, _| variance))
    }

    /// `exp(-½ precision |θ - mode|²)`.
    ///
    /// # Errors
    /// No coordinate, a mode that is not finite, or a precision outside `(0, +∞)`.
    pub fn isotropic(mode: impl Into<Vec<f64>>, precision: f64) -> Result<Self> {
        let mode = mode.into();
        check_positive("precision", precision)?;
        let matrix = Mat::from_fn(
            mode.len(),
            mode.len(),
            |i, j| {
                if i == j { precision } else { 0.0 }
            },
        );
        Self::from_precision(mode, matrix)
    }

    /// `exp(-½ Σᵢ precisionᵢ (θᵢ - modeᵢ)²)`.
    ///
    /// # Errors
    /// No coordinate, sizes that differ, a mode that is not finite, or a precision outside
    /// `(0, +∞)`.
    pub fn diagonal(mode: impl Into<Vec<f64>>, precisions: &[f64]) -> Result<Self> {
        let mode = mode.into();
        check_size("precisions", precisions.len(), mode.len())?;
        check_entries("precisions", precisions, "(0, inf)", |p| {
            p > 0.0 && p.is_finite()
        })?;
        let matrix = Mat::from_fn(mode.len(), mode.len(), |i, j| {
            if i == j { precisions[i] } else { 0.0 }
        });
        Self::from_precision(mode, matrix)
    }

    fn build(mode: Vec<f64>, form: Form, matrix: Mat<f64>) -> Result<Self> {
        if mode.is_empty() {
            return Err(Error::Empty { name: "mode" });
        }
        check_finite("mode", &mode)?;
        let matrix = linear::symmetric(form.name(), matrix, mode.len())?;
        let factor = linear::cholesky(form.name(), matrix.as_ref())?;
        Ok(Self {
            mode,
            form,
            matrix,
            factor,
            inverse: OnceLock::new(),
        })
    }

    /// A normal whose precision, its Cholesky factor and its inverse are known, each to more digits
    /// than would be left if one were computed from another.
    pub(crate) fn from_factored(
        mode: Vec<f64>,
        precision: Mat<f64>,
        factor: Mat<f64>,
        covariance: Mat<f64>,
    ) -> Result<Self> {
        check_finite("mode", &mode)?;
        for matrix in [&precision, &factor, &covariance] {
            for (index, column) in matrix.col_iter().enumerate() {
                let is_finite = column.iter().all(|entry| entry.is_finite());
                check_entry("precision", index, f64::INFINITY, "(-inf, inf)", is_finite)?;
            }
        }
        Ok(Self {
            mode,
            form: Form::Precision,
            matrix: precision,
            factor,
            inverse: OnceLock::from(covariance),
        })
    }

    /// Lower Cholesky factor of the precision, which was given.
    pub(crate) fn precision_factor(&self) -> MatRef<'_, f64> {
        assert_eq!(
            self.form,
            Form::Precision,
            "a normal given by its precision"
        );
        self.factor.as_ref()
    }

    /// Number of coordinates `d`.
    pub fn dimension(&self) -> usize {
        self.mode.len()
    }

    /// `E*[θ] = μ`, the only maximizer.
    pub fn mode(&self) -> &[f64] {
        &self.mode
    }

    /// `E*[θ]` as the set it is in general, so that `E*[T(θ)] = T(E*[θ])` reads
    /// `f.expected_value().transform(T)`.
    pub fn expected_value(&self) -> Mode<Vec<f64>> {
        Mode::Point(self.mode.clone())
    }

    /// Precision `ℐ_f = -∇² log f(μ) = Σ⁻¹`, `[d, d]`.
    pub fn precision(&self) -> MatRef<'_, f64> {
        match self.form {
            Form::Precision => self.matrix.as_ref(),
            Form::Covariance => self.inverse(),
        }
    }

    /// Covariance `Σ`, `[d, d]`.
    pub fn covariance(&self) -> MatRef<'_, f64> {
        match self.form {
            Form::Covariance => self.matrix.as_ref(),
            Form::Precision => self.inverse(),
        }
    }

    fn inverse(&self) -> MatRef<'_, f64> {
        self.inverse
            .get_or_init(|| {
                if self.is_diagonal() {
                    let d = self.dimension();
                    Mat::from_fn(d, d, |i, j| {
                        if i == j {
                            1.0 / self.matrix[(i, i)]
                        } else {
                            0.0
                        }
                    })
                } else {
                    linear::inverse(self.factor.as_ref())
                }
            })
            .as_ref()
    }

    /// Whether the coordinates are independent: the matrix is diagonal.
    pub fn is_diagonal(&self) -> bool {
        let d = self.dimension();
        (0..d).all(|i| (0..i).all(|j| self.matrix[(i, j)] == 0.0))
    }

    /// Whether the listed coordinates are independent of the others, `f(θ) = f(θ_a)f(θ_b)`: every
    /// entry between the two groups is zero.
    ///
    /// # Errors
    /// The list is empty, repeats a coordinate or names one that does not exist.
    pub fn is_independent(&self, coordinates: &[usize]) -> Result<bool> {
        self.check_coordinates(coordinates)?;
        let others = self.others(coordinates);
        Ok(coordinates
            .iter()
            .all(|&i| others.iter().all(|&j| self.matrix[(i, j)] == 0.0)))
    }

    /// `(θ-μ)ᵀΣ⁻¹(θ-μ)`, the squared Mahalanobis distance to the mode.
    ///
    /// # Panics
    /// `point` has another dimension.
    pub fn squared_distance(&self, point: &[f64]) -> f64 {
        assert_eq!(point.len(), self.dimension(), "dimension of the point");
        if point.iter().any(|x| x.is_infinite()) {
            return f64::INFINITY;
        }
        let offset = linear::difference(point, &self.mode);
        let distance = self.squared_norm(&offset);
        if distance.is_nan() && !point.iter().any(|x| x.is_nan()) {
            f64::INFINITY // overflow on the way: farther than f64 can tell
        } else {
            distance
        }
    }

    /// `vᵀΣ⁻¹v`.
    pub(crate) fn squared_norm(&self, v: &[f64]) -> f64 {
        if let [x] = v {
            // no detour over the square root on the line
            return match self.form {
                Form::Covariance => x * (x / self.matrix[(0, 0)]),
                Form::Precision => x * (x * self.matrix[(0, 0)]),
            };
        }
        let root = self.whiten(v);
        linear::dot(&root, &root)
    }

    /// A vector of length `√(vᵀΣ⁻¹v)`, linear in `v`.
    pub(crate) fn whiten(&self, v: &[f64]) -> Vec<f64> {
        match self.form {
            Form::Covariance => {
                let mut root = v.to_vec();
                linear::solve_lower(self.factor.as_ref(), &mut root);
                root
            }
            Form::Precision => linear::multiply_upper(self.factor.as_ref(), v),
        }
    }

    /// The `v` with `whiten(v) = y`.
    pub(crate) fn unwhiten(&self, y: &[f64]) -> Vec<f64> {
        match self.form {
            Form::Covariance => linear::multiply(self.factor.as_ref(), y),
            Form::Precision => {
                let mut v = y.to_vec();
                linear::solve_upper(self.factor.as_ref(), &mut v);
                v
            }
        }
    }

    /// Whether the precision, not the covariance, was given.
    pub(crate) fn is_given_by_precision(&self) -> bool {
        self.form == Form::Precision
    }

    /// `aᵀΣa`, the variance of the linear form `aᵀθ`.
    pub(crate) fn variance_along(&self, a: &[f64]) -> f64 {
        let root = match self.form {
            Form::Covariance => linear::multiply_upper(self.factor.as_ref(), a),
            Form::Precision => {
                let mut root = a.to_vec();
                linear::solve_lower(self.factor.as_ref(), &mut root);
                root
            }
        };
        linear::dot(&root, &root)
    }

    /// `Σ⁻¹v`.
    pub(crate) fn precision_times(&self, v: &[f64]) -> Vec<f64> {
        match self.form {
            Form::Covariance => linear::solve(self.factor.as_ref(), v),
            Form::Precision => linear::multiply(self.matrix.as_ref(), v),
        }
    }

    /// `∇ log f(θ) = -Σ⁻¹(θ-μ)`.
    ///
    /// # Errors
    /// `point` has another dimension or is not finite.
    pub fn log_gradient(&self, point: &[f64]) -> Result<Vec<f64>> {
        self.check_point("point", point)?;
        check_finite("point", point)?;
        Ok(self.precision_times(&linear::difference(&self.mode, point)))
    }

    /// `Ok(())` if the point has the right dimension and no NaN.
    pub(crate) fn check_point(&self, name: &'static str, point: &[f64]) -> Result<()> {
        check_size(name, point.len(), self.dimension())?;
        check_numbers(name, point)
    }

    /// `Ok(())` if the indices are distinct coordinates, at least one.
    fn check_coordinates(&self, coordinates: &[usize]) -> Result<()> {
        if coordinates.is_empty() {
            return Err(Error::Empty {
                name: "coordinates",
            });
        }
        for (index, &i) in coordinates.iter().enumerate() {
            let accepted = i < self.dimension() && !coordinates[..index].contains(&i);
            let range = "0..dimension, none twice";
            check_entry("coordinates", index, i as f64, range, accepted)?;
        }
        Ok(())
    }

    /// The coordinates that are not listed, in increasing order.
    fn others(&self, coordinates: &[usize]) -> Vec<usize> {
        (0..self.dimension())
            .filter(|i| !coordinates.contains(i))
            .collect()
    }

    /// `M_aa - M_ab M_bb⁻¹ M_ba` and `M_bb`'s factor.
    fn schur(&self, a: &[usize], b: &[usize]) -> Result<(Mat<f64>, Mat<f64>)> {
        let m = self.matrix.as_ref();
        let factor = linear::cholesky(self.form.name(), linear::block(m, b, b).as_ref())?;
        let root = linear::solve_lower_matrix(factor.as_ref(), linear::block(m, b, a).as_ref());
        let complement = linear::block(m, a, a) - linear::gram(root.as_ref());
        Ok((complement, factor))
    }

    /// Sup-marginal `f_a(θ_a) = sup_{θ_b} f(θ_a, θ_b)` of the listed coordinates, in the listed
    /// order.
    ///
    /// # Errors
    /// The list is empty, repeats a coordinate or names one that does not exist.
    pub fn marginal(&self, coordinates: &[usize]) -> Result<Self> {
        self.check_coordinates(coordinates)?;
        let mode: Vec<f64> = coordinates.iter().map(|&i| self.mode[i]).collect();
        let others = self.others(coordinates);
        let matrix = if self.form == Form::Covariance || others.is_empty() {
            linear::block(self.matrix.as_ref(), coordinates, coordinates)
        } else {
            self.schur(coordinates, &others)?.0
        };
        Self::build(mode, self.form, matrix)
    }

    /// Conditional `f(θ_a | θ_b = values) = f(θ_a, values) / sup_{θ_a} f(θ_a, values)` given the
    /// listed coordinates `b`; the result is over the remaining ones, in increasing order.
    ///
    /// # Errors
    /// The list is not one of distinct coordinates, leaves none free, or `values` does not fit or
    /// is not finite.
    ///
    /// ```
    /// use faer::mat;
    /// use possibility::Normal;
    /// let f = Normal::new([1.0, -1.0], mat![[2.0, 0.5], [0.5, 1.0]])?;
    /// let given = f.conditional(&[1], &[1.0])?;
    /// assert_eq!(given.mode(), &[2.0]); // 1 + 0.5 / 1 · 2
    /// assert_eq!(given.covariance()[(0, 0)], 1.75); // 2 - 0.5² / 1
    /// # Ok::<(), possibility::Error>(())
    /// ```
    pub fn conditional(&self, coordinates: &[usize], values: &[f64]) -> Result<Self> {
        self.check_coordinates(coordinates)?;
        check_size("values", values.len(), coordinates.len())?;
        check_finite("values", values)?;
        let free = self.others(coordinates);
        if free.is_empty() {
            return Err(Error::Empty {
                name: "free coordinates",
            });
        }
        let shift: Vec<f64> = coordinates
            .iter()
            .zip(values)
            .map(|(&i, x)| x - self.mode[i])
            .collect();
        let cross = linear::block(self.matrix.as_ref(), &free, coordinates);
        let (matrix, move_by) = match self.form {
            Form::Covariance => {
                let (matrix, factor) = self.schur(&free, coordinates)?;
                let weights = linear::solve(factor.as_ref(), &shift);
                (matrix, linear::multiply(cross.as_ref(), &weights))
            }
            Form::Precision => {
                let matrix = linear::block(self.matrix.as_ref(), &free, &free);
                let factor = linear::cholesky(self.form.name(), matrix.as_ref())?;
                let pull: Vec<f64> = linear::multiply(cross.as_ref(), &shift)
                    .iter()
                    .map(|v| -v)
                    .collect();
                (matrix, linear::solve(factor.as_ref(), &pull))
            }
        };
        let mode: Vec<f64> = free
            .iter()
            .zip(&move_by)
            .map(|(&i, m)| self.mode[i] + m)
            .collect();
        Self::build(mode, self.form, matrix)
    }

    /// The product `f₁f₂` over its supremum, and the log of that supremum: the log consistency
    /// `log sup f₁f₂ = -½dᵀ(Σ₁+Σ₂)⁻¹d ≤ 0` with `d = μ₁-μ₂`, far below 0 when the two are in
    /// conflict.
    ///
    /// # Errors
    /// The dimensions differ, or the sum of the matrices is not positive definite in `f64`.
    ///
    /// ```
    /// use possibility::Normal;
    /// let f = Normal::univariate(0.0, 1.0)?;
    /// let g = Normal::univariate(4.0, 3.0)?;
    /// let (both, log_consistency) = f.fuse(&g)?;
    /// assert!((both.mode()[0] - 1.0).abs() < 1e-15);
    /// assert!((both.covariance()[(0, 0)] - 0.75).abs() < 1e-15);
    /// assert!((log_consistency + 2.0).abs() < 1e-15); // -½ · 16 / 4
    /// # Ok::<(), possibility::Error>(())
    /// ```
    pub fn fuse(&self, other: &Self) -> Result<(Self, f64)> {
        check_size(
            "dimension of the other normal",
            other.dimension(),
            self.dimension(),
        )?;
        let gap = linear::difference(&other.mode, &self.mode);
        let (form, matrix, move_by) =
            if (self.form, other.form) == (Form::Covariance, Form::Covariance) {
                let sum = &self.matrix + &other.matrix;
                let factor = linear::cholesky("sum of covariances", sum.as_ref())?;
                // the parallel sum Σ₁(Σ₁+Σ₂)⁻¹Σ₂ has no cancellation
                let left = linear::solve_lower_matrix(factor.as_ref(), self.matrix.as_ref());
                let right = linear::solve_lower_matrix(factor.as_ref(), other.matrix.as_ref());
                let product = left.transpose() * &right;
                let matrix = Mat::from_fn(gap.len(), gap.len(), |i, j| {
                    0.5 * product[(i, j)] + 0.5 * product[(j, i)]
                });
                let weights = linear::solve(factor.as_ref(), &gap);
                let move_by = linear::multiply(self.matrix.as_ref(), &weights);
                (Form::Covariance, matrix, move_by)
            } else {
                let matrix = self.precision() + other.precision();
                let factor = linear::cholesky("sum of precisions", matrix.as_ref())?;
                let move_by = linear::solve(factor.as_ref(), &other.precision_times(&gap));
                (Form::Precision, matrix, move_by)
            };
        let mode: Vec<f64> = self.mode.iter().zip(&move_by).map(|(m, v)| m + v).collect();
        // the value of the product at its mode: errors of the mode enter only squared
        let log_consistency = -0.5 * (self.squared_distance(&mode) + other.squared_distance(&mode));
        Ok((Self::build(mode, form, matrix)?, log_consistency))
    }

    /// Image `N̄(Aμ+b, AΣAᵀ)` under `θ ↦ Aθ+b`: `y ↦ sup {f(θ) : Aθ+b = y}`, with
    /// `E*[Aθ+b] = A E*[θ] + b`. `matrix` is `[rows, d]`, `offset` has `rows` entries.
    ///
    /// # Errors
    /// Sizes that do not fit, numbers that are not finite, or a matrix without full row rank (the
    /// image is then no normal on the whole space).
    pub fn affine_image(&self, matrix: MatRef<'_, f64>, offset: &[f64]) -> Result<Self> {
        check_size("columns of the map", matrix.ncols(), self.dimension())?;
        check_size("offset", offset.len(), matrix.nrows())?;
        check_finite("offset", offset)?;
        for j in 0..matrix.ncols() {
            for i in 0..matrix.nrows() {
                check_real("map", matrix[(i, j)])?;
            }
        }
        let image = linear::multiply(matrix, &self.mode);
        let mode: Vec<f64> = image.iter().zip(offset).map(|(y, b)| y + b).collect();
        let root = match self.form {
            Form::Covariance => self.factor.transpose() * matrix.transpose(),
            Form::Precision => linear::solve_lower_matrix(self.factor.as_ref(), matrix.transpose()),
        };
        Self::build(mode, Form::Covariance, linear::gram(root.as_ref()))
    }

    /// The joint function `f(θ)g(ψ)` of independent `θ` and `ψ`, on `ℝ^{d+d'}`.
    ///
    /// # Errors
    /// None but those of a matrix that is not positive definite in `f64` once inverted.
    pub fn independent_product(&self, other: &Self) -> Result<Self> {
        let mode: Vec<f64> = self.mode.iter().chain(&other.mode).copied().collect();
        let (form, first, second) = if self.form == other.form {
            (self.form, self.matrix.as_ref(), other.matrix.as_ref())
        } else {
            (Form::Precision, self.precision(), other.precision())
        };
        let d = self.dimension();
        let matrix = Mat::from_fn(mode.len(), mode.len(), |i, j| match (i < d, j < d) {
            (true, true) => first[(i, j)],
            (false, false) => second[(i - d, j - d)],
            _ => 0.0,
        });
        Self::build(mode, form, matrix)
    }

    /// α-cut `{θ : f(θ) ≥ α}`, an ellipsoid around the mode.
    ///
    /// # Errors
    /// `alpha` outside `(0, 1]`.
    ///
    /// ```
    /// use possibility::Normal;
    /// let f = Normal::diagonal([1.0, 0.0], &[1.0, 4.0])?;
    /// let cut = f.alpha_cut((-2.0f64).exp())?; // radius √(2 · 2)
    /// assert!(cut.contains(&[2.9, 0.0]) && !cut.contains(&[3.1, 0.0]));
    /// let extents = cut.extents();
    /// assert!((extents[0].upper() - 3.0).abs() < 1e-15);
    /// assert!((extents[1].upper() - 1.0).abs() < 1e-15);
    /// # Ok::<(), possibility::Error>(())
    /// ```
    pub fn alpha_cut(&self, alpha: f64) -> Result<Ellipsoid> {
        check_alpha(alpha)?;
        self.log_alpha_cut(alpha.ln())
    }

    /// α-cut `{θ : log f(θ) ≥ log α}`, for levels too small for `α` itself.
    ///
    /// # Errors
    /// `log_alpha` outside `(-∞, 0]`.
    pub fn log_alpha_cut(&self, log_alpha: f64) -> Result<Ellipsoid> {
        check("log_alpha", log_alpha, "(-inf, 0]", |a| {
            a.is_finite() && a <= 0.0
        })?;
        Ok(Ellipsoid {
            normal: self.clone(),
            // `0.0 +`: the level of α = 1 is 0, not -0
            log_level: 0.0 + log_alpha,
        })
    }

    /// α-cut of a normal on the line, `[μ - σ√(-2 log α), μ + σ√(-2 log α)]`.
    ///
    /// # Errors
    /// `alpha` outside `(0, 1]`, or more than one coordinate.
    pub fn alpha_interval(&self, alpha: f64) -> Result<Interval> {
        check_size("dimension", self.dimension(), 1)?;
        Ok(self.alpha_cut(alpha)?.extent(0))
    }

    /// Whether `self ⪯ other`, i.e. `self(θ) ≤ other(θ)` everywhere: equal modes and
    /// `Σ_self ⪯ Σ_other`. Eigenvalues of the difference within rounding of zero count as zero.
    ///
    /// # Errors
    /// The dimensions differ.
    pub fn precedes(&self, other: &Self) -> Result<bool> {
        check_size(
            "dimension of the other normal",
            other.dimension(),
            self.dimension(),
        )?;
        Ok(self.mode == other.mode && self.max_relative_entropy(other)? == 0.0)
    }

    /// Max-relative entropy `D_max(g‖f) = sup log(g/f)` with `g = self` and `f = other`,
    /// `d = μ_g - μ_f`:
    ///
    /// * `½dᵀ(Σ_f-Σ_g)⁻¹d` if `Σ_f - Σ_g ≻ 0`;
    /// * the same with the pseudo-inverse if `Σ_f - Σ_g ⪰ 0` is singular and `d` lies in its range,
    ///   in particular 0 if the modes agree;
    /// * `+∞` otherwise.
    ///
    /// It is 0 exactly when `g ⪯ f`. Two precision matrices are compared without an inversion,
    /// since `(Σ_f-Σ_g)⁻¹ = P_f + P_f(P_g-P_f)⁻¹P_f`. An eigenvalue of the difference, scaled to
    /// unit diagonal, counts as zero when it is within rounding of it; on the line and for diagonal
    /// matrices of the same form nothing is rounded.
    ///
    /// # Errors
    /// The dimensions differ.
    ///
    /// ```
    /// use possibility::Normal;
    /// let g = Normal::univariate(0.0, 1.0)?;
    /// let f = Normal::univariate(1.0, 4.0)?;
    /// assert!((g.max_relative_entropy(&f)? - 1.0 / 6.0).abs() < 1e-15);
    /// assert_eq!(f.max_relative_entropy(&g)?, f64::INFINITY);
    /// # Ok::<(), possibility::Error>(())
    /// ```
    pub fn max_relative_entropy(&self, other: &Self) -> Result<f64> {
        let (g, f) = (self, other);
        check_size(
            "dimension of the other normal",
            f.dimension(),
            g.dimension(),
        )?;
        let n = g.dimension();
        let d = linear::difference(&g.mode, &f.mode);
        let exact = |_: usize, _: usize| 0.0;
        let rounding = 4.0 * n as f64 * f64::EPSILON;
        // With y = θ - μ_g: log g/f = -½yᵀ(P_g-P_f)y + (P_f d)ᵀy + ½dᵀP_f d.
        Ok(match (g.form, f.form) {
            (Form::Covariance, Form::Covariance) => {
                let gap = &f.matrix - &g.matrix;
                linear::semidefinite_conjugate(gap.as_ref(), &d, exact, &vec![0.0; n])
            }
            (Form::Precision, Form::Precision) => {
                let gap = &g.matrix - &f.matrix;
                let w = linear::multiply(f.matrix.as_ref(), &d);
                let noise: Vec<f64> = (0..n)
                    .map(|i| {
                        let terms = (0..n).map(|j| (f.matrix[(i, j)] * d[j]).abs());
                        let several = terms.clone().filter(|t| *t > 0.0).count() > 1;
                        if several {
                            rounding * terms.sum::<f64>()
                        } else {
                            0.0
                        }
                    })
                    .collect();
                let constant = 0.5 * f.squared_norm(&d);
                constant + linear::semidefinite_conjugate(gap.as_ref(), &w, exact, &noise)
            }
            // One of each: whiten with the covariance Σ = LLᵀ at hand, θ = μ_g + Ly.
            (Form::Covariance, Form::Precision) => {
                let (whitened, error) = whitened(g.factor.as_ref(), f.matrix.as_ref());
                let gap = Mat::<f64>::identity(n, n) - &whitened;
                let w = linear::multiply_upper(g.factor.as_ref(), &f.precision_times(&d));
                let noise = vec![rounding * largest(&w); n];
                let constant = 0.5 * f.squared_norm(&d);
                let entry = |i, j| rounding * error[(i, j)];
                constant + linear::semidefinite_conjugate(gap.as_ref(), &w, entry, &noise)
            }
            (Form::Precision, Form::Covariance) => {
                let (whitened, error) = whitened(f.factor.as_ref(), g.matrix.as_ref());
                let gap = &whitened - Mat::<f64>::identity(n, n);
                let w = f.whiten(&d);
                let noise = vec![rounding * largest(&w); n];
                let constant = 0.5 * linear::dot(&w, &w);
                let entry = |i, j| rounding * error[(i, j)];
                constant + linear::semidefinite_conjugate(gap.as_ref(), &w, entry, &noise)
            }
        })
    }
}

impl Possibility for Normal {
    type Point = [f64];

    /// # Panics
    /// `point` has another dimension.
    fn log_possibility(&self, point: &[f64]) -> f64 {
        // `0.0 -`: the log at the mode is 0, not -0
        0.0 - 0.5 * self.squared_distance(point)
    }
}

/// `max |vᵢ|`.
fn largest(v: &[f64]) -> f64 {
    v.iter().fold(0.0, |m, x| x.abs().max(m))
}

/// `LᵀPL`, and `|L|ᵀ|P||L| + I`, to which its rounding error is proportional.
fn whitened(l: MatRef<'_, f64>, p: MatRef<'_, f64>) -> (Mat<f64>, Mat<f64>) {
    let n = l.nrows();
    let absolute = |m: MatRef<'_, f64>| Mat::from_fn(n, n, |i, j| m[(i, j)].abs());
    let size = {
        let (l, p) = (absolute(l), absolute(p));
        l.transpose() * (&p * &l) + Mat::<f64>::identity(n, n)
    };
    (linear::mirrored(l.transpose() * (p * l)), size)
}

/// An α-cut of a normal, `{θ : (θ-μ)ᵀΣ⁻¹(θ-μ) ≤ -2 log α}`.
#[derive(Debug, Clone, PartialEq)]
pub struct Ellipsoid {
    normal: Normal,
    log_level: f64,
}

impl Ellipsoid {
    /// The normal whose α-cut this is.
    pub fn normal(&self) -> &Normal {
        &self.normal
    }

    /// `log α`.
    pub fn log_level(&self) -> f64 {
        self.log_level
    }

    /// Center `μ`.
    pub fn center(&self) -> &[f64] {
        self.normal.mode()
    }

    /// Squared radius `-2 log α` in the Mahalanobis distance of the normal.
    pub fn squared_radius(&self) -> f64 {
        -2.0 * self.log_level
    }

    /// Whether the point belongs to the ellipsoid.
    ///
    /// # Panics
    /// `point` has another dimension.
    pub fn contains(&self, point: &[f64]) -> bool {
        self.normal.squared_distance(point) <= self.squared_radius()
    }

    /// The range of coordinate `i` over the ellipsoid, `μᵢ ± √(-2 log α · Σᵢᵢ)`.
    ///
    /// # Panics
    /// There is no such coordinate.
    pub fn extent(&self, i: usize) -> Interval {
        let center = self.center()[i];
        let half = if self.log_level == 0.0 {
            0.0
        } else {
            let half = self.squared_radius().sqrt() * self.normal.covariance()[(i, i)].sqrt();
            // a variance beyond the range of f64
            if half.is_nan() { f64::INFINITY } else { half }
        };
        Interval::closed(center - half, center + half)
            .expect("a finite center and a nonnegative half width make an interval")
    }

    /// The range of each coordinate over the ellipsoid: the smallest box around it.
    pub fn extents(&self) -> Vec<Interval> {
        (0..self.normal.dimension())
            .map(|i| self.extent(i))
            .collect()
    }
}

/// Strategies and brute-force maximization shared by the tests of normals and of their events.
#[cfg(test)]
pub(crate) mod testing {
    use super::*;
    use proptest::prelude::*;

    /// `LLᵀ` and a small ridge.
    pub(crate) fn two_by_two([a, b, c]: [f64; 3]) -> Mat<f64> {
        Mat::from_fn(2, 2, |i, j| match (i, j) {
            (0, 0) => a * a + 0.2,
            (1, 1) => b * b + c * c + 0.2,
            _ => a * b,
        })
    }

    /// `RRᵀ + ridge I` with entries of `R` in `[-1, 1]`.
    pub(crate) fn matrices(d: usize) -> impl Strategy<Value = Mat<f64>> {
        (prop::collection::vec(-1.0f64..1.0, d * d), 0.2f64..1.5).prop_map(move |(r, ridge)| {
            Mat::from_fn(d, d, |i, j| {
                let product: f64 = (0..d).map(|k| r[i * d + k] * r[j * d + k]).sum();
                product + if i == j { ridge } else { 0.0 }
            })
        })
    }

    pub(crate) fn points(d: usize) -> impl Strategy<Value = Vec<f64>> {
        prop::collection::vec(-3.0f64..3.0, d)
    }

    /// Normals in either form.
    pub(crate) fn normals(d: usize) -> impl Strategy<Value = Normal> {
        (points(d), matrices(d), any::<bool>()).prop_map(|(mode, matrix, by_precision)| {
            if by_precision {
                Normal::from_precision(mode, matrix).unwrap()
            } else {
                Normal::new(mode, matrix).unwrap()
            }
        })
    }

    /// The same function given by its other matrix.
    pub(crate) fn in_other_form(f: &Normal) -> Normal {
        if f.is_given_by_precision() {
            Normal::new(f.mode(), f.covariance().to_owned()).unwrap()
        } else {
            Normal::from_precision(f.mode(), f.precision().to_owned()).unwrap()
        }
    }

    /// Maximum of a concave quadratic function of which only values are known: parabolas through
    /// three points, coordinate after coordinate, clamped to the given ranges.
    pub(crate) fn maximize(
        f: impl Fn(&[f64]) -> f64,
        mut x: Vec<f64>,
        ranges: Option<&[Interval]>,
    ) -> f64 {
        let mut best = f(&x);
        for _ in 0..3000 {
            let before = x.clone();
            for i in 0..x.len() {
                let center = x[i];
                let mut at = |value: f64| {
                    x[i] = value;
                    f(&x)
                };
                let (left, middle, right) = (at(center - 1.0), at(center), at(center + 1.0));
                let curvature = left - 2.0 * middle + right;
                let moved = center - 0.5 * (right - left) / curvature;
                x[i] = ranges.map_or(moved, |ranges| ranges[i].clamp(moved));
            }
            best = f(&x);
            let change = linear::difference(&x, &before);
            if largest(&change) <= 1e-13 * (1.0 + largest(&x)) {
                break;
            }
        }
        best
    }

    /// `|a - b| ≤ tolerance · max(1, |a|, |b|)`.
    pub(crate) fn close(a: f64, b: f64, tolerance: f64) -> bool {
        a == b || (a - b).abs() <= tolerance * a.abs().max(b.abs()).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{close, in_other_form, matrices, maximize, normals, points};
    use super::*;
    use faer::mat;
    use proptest::prelude::*;

    /// Both sides are closed forms of matrices with condition number below 100.
    const CLOSED: f64 = 1e-12;
    /// One side is a maximization over values.
    const SEARCHED: f64 = 1e-9;

    #[test]
    fn hand_values_in_two_dimensions() {
        // precision [[3, -2], [-2, 4]] / 8; at offset (1, 2): (3 - 8 + 16) / 8
        let f = Normal::new([1.0, -1.0], mat![[4.0, 2.0], [2.0, 3.0]]).unwrap();
        assert!(close(f.log_possibility(&[2.0, 1.0]), -11.0 / 16.0, 1e-15));
        assert!(close(f.precision()[(0, 1)], -0.25, 1e-15));
        assert_eq!(f.mode(), &[1.0, -1.0]);
        assert_eq!(
            f.expected_value().transform(|m| m[0] + m[1]),
            Some(Mode::Point(0.0))
        );
        // what was given stays as it was given
        let g = Normal::from_precision([0.0, 0.0], mat![[0.1, 0.03], [0.03, 0.7]]).unwrap();
        assert_eq!(g.precision()[(0, 1)], 0.03);
        assert_eq!(f.log_possibility(&[f64::INFINITY, 0.0]), f64::NEG_INFINITY);
        assert_eq!(
            f.log_possibility(&[f64::INFINITY, f64::NEG_INFINITY]),
            f64::NEG_INFINITY
        );
    }

    #[test]
    fn constructors_agree_and_diagonals_invert_exactly() {
        let a = Normal::isotropic([1.0, 2.0], 5.0).unwrap();
        let b = Normal::diagonal([1.0, 2.0], &[5.0, 5.0]).unwrap();
        assert_eq!(a, b);
        assert!(a.is_diagonal());
        assert_eq!(a.covariance()[(0, 0)], 0.2);
        let line = Normal::univariate(0.3, 0.7).unwrap();
        assert_eq!(
            line.log_possibility(&[1.3]),
            -0.5 * (1.3 - 0.3) * ((1.3 - 0.3) / 0.7)
        );
        assert_eq!(line.dimension(), 1);
    }

    #[test]
    fn bad_input_is_a_typed_error() {
        let empty: [f64; 0] = [];
        assert_eq!(
            Normal::new(empty, Mat::zeros(0, 0)),
            Err(Error::Empty { name: "mode" })
        );
        assert!(Normal::univariate(f64::NAN, 1.0).is_err());
        for variance in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(matches!(
                Normal::univariate(0.0, variance),
                Err(Error::OutOfRange {
                    field: "variance",
                    ..
                })
            ));
            assert!(Normal::isotropic([0.0], variance).is_err());
            assert!(Normal::diagonal([0.0, 1.0], &[1.0, variance]).is_err());
        }
        assert!(matches!(
            Normal::new([0.0, 0.0], mat![[1.0, 2.0], [2.0, 1.0]]),
            Err(Error::NotPositiveDefinite { name: "covariance", smallest }) if smallest < -0.9
        ));
        assert!(matches!(
            Normal::from_precision([0.0, 0.0], mat![[1.0, 0.5], [0.0, 1.0]]),
            Err(Error::NotSymmetric {
                name: "precision",
                row: 1,
                column: 0
            })
        ));
        assert!(Normal::new([0.0], mat![[1.0, 0.0], [0.0, 1.0]]).is_err());
        let f = Normal::isotropic([0.0, 0.0], 1.0).unwrap();
        let line = Normal::univariate(0.0, 1.0).unwrap();
        assert!(f.fuse(&line).is_err());
        assert!(f.precedes(&line).is_err());
        assert!(f.max_relative_entropy(&line).is_err());
        for coordinates in [&[][..], &[2], &[0, 0]] {
            assert!(f.marginal(coordinates).is_err());
            assert!(f.conditional(coordinates, &[0.0][..]).is_err());
        }
        assert!(f.conditional(&[0, 1], &[0.0, 0.0]).is_err());
        assert!(f.conditional(&[0], &[f64::NAN]).is_err());
        assert!(f.conditional(&[0], &[0.0, 1.0]).is_err());
        for alpha in [0.0, 1.1, f64::NAN] {
            assert!(f.alpha_cut(alpha).is_err());
            assert!(line.alpha_interval(alpha).is_err());
        }
        assert!(f.alpha_interval(0.5).is_err());
        assert!(f.log_alpha_cut(f64::NEG_INFINITY).is_err());
        assert!(f.log_gradient(&[0.0]).is_err());
        // rank deficient, too many rows, wrong sizes, not finite
        assert!(matches!(
            f.affine_image(mat![[1.0, 1.0], [2.0, 2.0]].as_ref(), &[0.0, 0.0]),
            Err(Error::NotPositiveDefinite { .. })
        ));
        let tall = mat![[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]];
        assert!(f.affine_image(tall.as_ref(), &[0.0; 3]).is_err());
        assert!(f.affine_image(mat![[1.0]].as_ref(), &[0.0]).is_err());
        assert!(
            f.affine_image(mat![[1.0, f64::NAN]].as_ref(), &[0.0])
                .is_err()
        );
        assert!(f.affine_image(mat![[1.0, 0.0]].as_ref(), &[]).is_err());
    }

    #[test]
    fn nearly_singular_covariance_keeps_both_directions() {
        let small = 2f64.powi(-30);
        let f = Normal::new([0.0, 0.0], mat![[1.0, 1.0 - small], [1.0 - small, 1.0]]).unwrap();
        // eigenvalues 2 - small along (1, 1) and small along (1, -1)
        assert!(close(
            f.squared_distance(&[1.0, 1.0]),
            2.0 / (2.0 - small),
            1e-15
        ));
        // the smaller eigenvalue is known to 2⁻⁵³ / 2⁻³⁰ of itself
        let across = f.squared_distance(&[1.0, -1.0]);
        assert!((across * small / 2.0 - 1.0).abs() < 2f64.powi(-22));
        // the marginal does not see the singularity at all
        assert_eq!(f.marginal(&[1]).unwrap().covariance()[(0, 0)], 1.0);
        // one step further there is no second dimension left in f64
        let lost = 2f64.powi(-54);
        assert!(Normal::new([0.0, 0.0], mat![[1.0, 1.0 - lost], [1.0 - lost, 1.0]]).is_err());
    }

    #[test]
    fn coordinates_of_very_different_units_do_not_drown_each_other() {
        let f = Normal::new([0.0, 0.0], mat![[1e-150, 0.0], [0.0, 1e150]]).unwrap();
        let g = Normal::new([0.0, 0.0], mat![[0.5e-150, 0.0], [0.0, 1e150]]).unwrap();
        assert!(g.precedes(&f).unwrap() && !f.precedes(&g).unwrap());
    }

    #[test]
    fn singular_difference_is_finite_exactly_on_its_range() {
        let base = mat![[2.0, 0.5], [0.5, 1.0]];
        // Σ_f = Σ_g + vvᵀ with v = (1, 2): along d = tv the value is t²/2
        let wide = mat![[3.0, 2.5], [2.5, 5.0]];
        let g = Normal::new([0.75, 1.5], base.clone()).unwrap();
        let f = Normal::new([0.0, 0.0], wide.clone()).unwrap();
        assert!(close(
            g.max_relative_entropy(&f).unwrap(),
            0.75 * 0.75 / 2.0,
            1e-14
        ));
        let off = Normal::new([0.75, 1.25], base.clone()).unwrap();
        assert_eq!(off.max_relative_entropy(&f).unwrap(), f64::INFINITY);
        let centered = Normal::new([0.0, 0.0], base).unwrap();
        assert_eq!(centered.max_relative_entropy(&f).unwrap(), 0.0);
        assert!(centered.precedes(&f).unwrap());
        assert_eq!(f.max_relative_entropy(&centered).unwrap(), f64::INFINITY);
        // the same with P_g = P_f + vvᵀ: finite iff P_f d lies along v
        let base = mat![[2.0, 0.5], [0.5, 1.0]];
        let f = Normal::from_precision([0.0, 0.0], base.clone()).unwrap();
        let narrow = Normal::from_precision([0.0, 2.0], wide.clone()).unwrap();
        // P_f (0, 2) = (1, 2) = v, and ½dᵀP_f d + ½ = 2 + ½
        assert!(close(narrow.max_relative_entropy(&f).unwrap(), 2.5, 1e-14));
        let off = Normal::from_precision([0.5, 2.0], wide).unwrap();
        assert_eq!(off.max_relative_entropy(&f).unwrap(), f64::INFINITY);
        // equal functions, different places
        let moved = Normal::from_precision([0.0, 1e-9], base).unwrap();
        assert_eq!(moved.max_relative_entropy(&f).unwrap(), f64::INFINITY);
        assert_eq!(f.max_relative_entropy(&f).unwrap(), 0.0);
    }

    #[test]
    fn variances_and_points_beyond_the_range_of_f64_stay_ordered() {
        let flat = Normal::diagonal([0.0, 0.0], &[1e-310, 1.0]).unwrap();
        let extent = flat.alpha_cut(0.5).unwrap().extent(0);
        assert_eq!(extent, Interval::REAL_LINE);
        assert_eq!(
            flat.alpha_cut(1.0).unwrap().extent(0),
            Interval::point(0.0).unwrap()
        );
        let steep = Normal::new([0.0, 0.0], mat![[1e-300, 0.9e-300], [0.9e-300, 1e-300]]).unwrap();
        assert_eq!(steep.log_possibility(&[1e300, 1e300]), f64::NEG_INFINITY);
        assert_eq!(steep.log_possibility(&[-1e300, 1e300]), f64::NEG_INFINITY);
        let tied = Normal::new([0.0, 0.0], mat![[2.0, 1.0], [1.0, 2.0]]).unwrap();
        assert!(!tied.is_independent(&[0]).unwrap());
        assert!(tied.is_independent(&[0, 1]).unwrap());
        assert!(tied.is_independent(&[2]).is_err());
    }

    #[test]
    fn line_is_decided_exactly() {
        let f = Normal::univariate(0.0, 1.0).unwrap();
        let barely = Normal::univariate(0.0, 1.0 + f64::EPSILON).unwrap();
        assert!(f.precedes(&barely).unwrap() && !barely.precedes(&f).unwrap());
        let cut = Normal::univariate(1.5, 0.0625).unwrap().alpha_interval(1.0);
        assert_eq!(cut, Interval::point(1.5));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn precision_is_minus_the_hessian_of_the_log(
            (f, x) in (1usize..5).prop_flat_map(|d| (normals(d), points(d))),
        ) {
            let d = f.dimension();
            // a quadratic has no higher derivatives: a wide step only reduces rounding
            let at = |base: &[f64], i: usize, a: f64, j: usize, b: f64| {
                let mut y = base.to_vec();
                y[i] += a;
                y[j] += b;
                f.log_possibility(&y)
            };
            for i in 0..d {
                for j in 0..d {
                    let m = f.mode();
                    let hessian = (at(m, i, 1.0, j, 1.0) - at(m, i, 1.0, j, -1.0)
                        - at(m, i, -1.0, j, 1.0) + at(m, i, -1.0, j, -1.0)) / 4.0;
                    prop_assert!(close(f.precision()[(i, j)], -hessian, 1e-11));
                }
                let slope = (at(&x, i, 1.0, i, 0.0) - at(&x, i, -1.0, i, 0.0)) / 2.0;
                prop_assert!(close(f.log_gradient(&x).unwrap()[i], slope, 1e-10));
            }
            let product = f.precision() * f.covariance();
            for i in 0..d {
                for j in 0..d {
                    let identity = if i == j { 1.0 } else { 0.0 };
                    prop_assert!((product[(i, j)] - identity).abs() < CLOSED);
                }
            }
            prop_assert!(close(in_other_form(&f).log_possibility(&x), f.log_possibility(&x), CLOSED));
        }

        #[test]
        fn marginal_is_the_supremum_and_times_conditional_is_the_joint(
            (f, x, mask) in (2usize..5).prop_flat_map(|d| (normals(d), points(d), 1..(1u32 << d) - 1)),
        ) {
            let d = f.dimension();
            let kept: Vec<usize> = (0..d).rev().filter(|i| mask >> i & 1 == 1).collect();
            let rest: Vec<usize> = (0..d).filter(|i| mask >> i & 1 == 0).collect();
            let marginal = f.marginal(&kept).unwrap();
            let values: Vec<f64> = kept.iter().map(|&i| x[i]).collect();
            let free: Vec<f64> = rest.iter().map(|&i| x[i]).collect();
            let log_marginal = marginal.log_possibility(&values);
            let best = maximize(|z| {
                let mut y = x.clone();
                for (&i, v) in rest.iter().zip(z) {
                    y[i] = *v;
                }
                f.log_possibility(&y)
            }, free.clone(), None);
            prop_assert!(close(log_marginal, best, SEARCHED), "{} {}", log_marginal, best);
            let conditional = f.conditional(&kept, &values).unwrap();
            let product = conditional.log_possibility(&free) + log_marginal;
            prop_assert!(close(product, f.log_possibility(&x), CLOSED));
        }

        #[test]
        fn fusion_is_the_product_over_its_supremum(
            (f, g, x) in (1usize..5).prop_flat_map(|d| (normals(d), normals(d), points(d))),
        ) {
            let (both, log_consistency) = f.fuse(&g).unwrap();
            let product = |y: &[f64]| f.log_possibility(y) + g.log_possibility(y);
            prop_assert!(close(both.log_possibility(&x) + log_consistency, product(&x), CLOSED));
            prop_assert!(close(log_consistency, maximize(product, x, None), SEARCHED));
            // -½dᵀ(Σ₁+Σ₂)⁻¹d
            let sum = Normal::new(f.mode(), f.covariance() + g.covariance()).unwrap();
            prop_assert!(close(log_consistency, sum.log_possibility(g.mode()), CLOSED));
            prop_assert!(log_consistency <= 0.0);
        }

        #[test]
        fn affine_image_is_the_supremum_over_preimages(
            (f, rows, entries, offset, y) in (1usize..5).prop_flat_map(|d| (
                normals(d),
                1..=d,
                prop::collection::vec(-1.0f64..1.0, d * d),
                points(d),
                points(d),
            )),
        ) {
            let d = f.dimension();
            // unit upper triangle on the left: full row rank
            let a = Mat::from_fn(rows, d, |i, j| {
                if i == j { 1.0 } else if j > i { entries[i * d + j] } else { 0.0 }
            });
            let (offset, y) = (&offset[..rows], &y[..rows]);
            let image = f.affine_image(a.as_ref(), offset).unwrap();
            let best = maximize(|rest| {
                let mut x = vec![0.0; d];
                x[rows..].copy_from_slice(rest);
                for i in (0..rows).rev() {
                    x[i] = y[i] - offset[i] - (i + 1..d).map(|j| a[(i, j)] * x[j]).sum::<f64>();
                }
                f.log_possibility(&x)
            }, vec![0.0; d - rows], None);
            prop_assert!(close(image.log_possibility(y), best, SEARCHED));
            // E*[Aθ + b] = A E*[θ] + b
            for i in 0..rows {
                let want: f64 = (0..d).map(|j| a[(i, j)] * f.mode()[j]).sum::<f64>() + offset[i];
                prop_assert!(close(image.mode()[i], want, CLOSED));
            }
        }

        #[test]
        fn independent_product_multiplies_and_gives_its_factors_back(
            (f, x, g, y) in (1usize..4, 1usize..4)
                .prop_flat_map(|(a, b)| (normals(a), points(a), normals(b), points(b))),
        ) {
            let joint = f.independent_product(&g).unwrap();
            let both: Vec<f64> = x.iter().chain(&y).copied().collect();
            let want = f.log_possibility(&x) + g.log_possibility(&y);
            prop_assert!(close(joint.log_possibility(&both), want, CLOSED));
            let first: Vec<usize> = (0..x.len()).collect();
            let second: Vec<usize> = (x.len()..both.len()).collect();
            prop_assert!(joint.is_independent(&second).unwrap());
            let marginal = joint.marginal(&first).unwrap();
            prop_assert!(close(marginal.log_possibility(&x), f.log_possibility(&x), CLOSED));
            // independent: the condition does not matter
            let given = joint.conditional(&second, &y).unwrap();
            prop_assert!(close(given.log_possibility(&x), f.log_possibility(&x), CLOSED));
        }

        #[test]
        fn cuts_hold_the_points_above_their_level(
            (f, x) in (1usize..5).prop_flat_map(|d| (normals(d), points(d))),
            alpha in 1e-6f64..1.0,
        ) {
            let cut = f.alpha_cut(alpha).unwrap();
            if (f.log_possibility(&x) - alpha.ln()).abs() > 1e-12 {
                prop_assert_eq!(cut.contains(&x), f.possibility(&x) >= alpha);
            }
            for (i, extent) in cut.extents().iter().enumerate() {
                let marginal = f.marginal(&[i]).unwrap();
                for end in [extent.lower(), extent.upper()] {
                    prop_assert!(close(marginal.log_possibility(&[end]), alpha.ln(), 1e-11));
                }
                prop_assert!(!cut.contains(&x) || extent.contains(x[i]));
            }
            if f.dimension() == 1 {
                prop_assert_eq!(f.alpha_interval(alpha).unwrap(), cut.extents()[0]);
            }
        }

        #[test]
        fn max_relative_entropy_is_the_maximum_of_the_log_ratio(
            (g, gap, mode) in (1usize..5).prop_flat_map(|d| (normals(d), matrices(d), points(d))),
        ) {
            let wide = Normal::new(mode.clone(), g.covariance() + &gap).unwrap();
            let want = maximize(|x| g.log_possibility(x) - wide.log_possibility(x), mode, None);
            for g in [&g, &in_other_form(&g)] {
                for f in [&wide, &in_other_form(&wide)] {
                    let value = g.max_relative_entropy(f).unwrap();
                    prop_assert!(value >= 0.0);
                    prop_assert!(close(value, want, SEARCHED), "{} {}", value, want);
                    prop_assert_eq!(f.max_relative_entropy(g).unwrap(), f64::INFINITY);
                    prop_assert!(!g.precedes(f).unwrap() && !f.precedes(g).unwrap());
                }
            }
        }

        #[test]
        fn order_is_zero_max_relative_entropy(
            (g, f, gap) in (1usize..5).prop_flat_map(|d| (normals(d), normals(d), matrices(d))),
        ) {
            for (g, f) in [(&g, &f), (&f, &g), (&g, &g)] {
                let value = g.max_relative_entropy(f).unwrap();
                prop_assert!(value >= 0.0);
                prop_assert_eq!(value == 0.0, g.precedes(f).unwrap());
            }
            let wide = Normal::new(g.mode(), g.covariance() + &gap).unwrap();
            for g in [&g, &in_other_form(&g)] {
                for f in [&wide, &in_other_form(&wide)] {
                    prop_assert!(g.precedes(f).unwrap() && !f.precedes(g).unwrap());
                }
            }
        }
    }
}
