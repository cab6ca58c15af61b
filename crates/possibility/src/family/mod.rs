//! Families of possibility functions: `g_λ(θ) = exp(λᵀT(θ) - A(λ) - B(θ))` in general
//! ([`exponential`]), and the conjugate priors `g_λ^ν` of an exponential-family likelihood
//! ([`conjugate`]). Paper: Section 5 and the appendix "Possibilistic Exponential Family".

pub mod conjugate;
pub mod exponential;
pub(crate) mod special;
pub(crate) mod tails;
