//! How far the lower Gaussian can be widened: the smallest precision below a posterior in one dimension,
//! `sup_u 2(ℓ̂(m+u) - ℓ̂(m))/u²`, and the smallest common scaling `c` of the Laplace precision that was found
//! necessary.
