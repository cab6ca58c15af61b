"""The probabilistic twin: evidence, ELBO and Renyi's bounds, and additive log-partitions.

Finite sets: plain sums with mpmath (40 digits). Normal distributions: the evidence from SciPy's
density of the marginal, the ELBO as an expectation of log densities by Gauss-Hermite quadrature,
which is exact for polynomials. Log-partitions: sums and integrals with mpmath.
"""
import itertools
import os

import mpmath as mp
import numpy as np
from scipy.stats import multivariate_normal

from common import args, write_json

mp.mp.dps = 40


def finite_case(rng, n):
    loss = rng.uniform(-3, 3, n).tolist()
    prior, q = (rng.uniform(0.05, 1, n).tolist() for _ in range(2))
    ell = [mp.mpf(x) for x in loss]
    pi, qq = ([mp.mpf(x) / mp.fsum(map(mp.mpf, v)) for x in v] for v in (prior, q))
    joint = [mp.exp(-l) * p for l, p in zip(ell, pi)]
    elbo = mp.fsum(qi * (-l - mp.log(qi / p)) for qi, l, p in zip(qq, ell, pi))
    bounds = []
    for order in (-40.0, -1.0, 0.0, 0.5, 2.0, 40.0):
        a = mp.mpf(order)
        total = mp.fsum(qi * (j / qi) ** (1 - a) for qi, j in zip(qq, joint))
        bounds.append({"order": order, "bound": mp.log(total) / (1 - a)})
    ratios = [mp.log(j / qi) for j, qi in zip(joint, qq)]
    bounds += [{"order": float("-inf"), "bound": max(ratios)}, {"order": float("inf"), "bound": min(ratios)}]
    return {"kind": "finite", "loss": loss, "prior": prior, "candidate": q,
            "log_evidence": mp.log(mp.fsum(joint)), "elbo": elbo, "renyi": bounds}


def covariance(rng, d):
    a = rng.normal(size=(d, d))
    return a @ a.T + 0.3 * np.eye(d)


def expectation(mean, cov, f, d):
    """E[f] under N(mean, cov) for polynomials of low degree."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(6)
    root = np.linalg.cholesky(cov)
    total = 0.0
    for index in itertools.product(range(6), repeat=d):
        z = nodes[list(index)]
        total += np.prod(weights[list(index)]) * f(mean + root @ z)
    return total / (2 * np.pi) ** (d / 2)


def normal_case(rng, d):
    means = {k: rng.normal(size=d) for k in ("likelihood", "prior", "candidate")}
    covs = {k: covariance(rng, d) for k in means}
    offset = float(rng.normal())
    like = multivariate_normal(means["likelihood"], covs["likelihood"])
    prior = multivariate_normal(means["prior"], covs["prior"])
    q = multivariate_normal(means["candidate"], covs["candidate"])
    half_volume = 0.5 * np.linalg.slogdet(2 * np.pi * covs["likelihood"])[1]

    def log_likelihood(x):
        return like.logpdf(x) + half_volume - offset

    marginal = multivariate_normal(means["prior"], covs["prior"] + covs["likelihood"])
    log_evidence = marginal.logpdf(means["likelihood"]) + half_volume - offset
    elbo = expectation(means["candidate"], covs["candidate"],
                       lambda x: log_likelihood(x) + prior.logpdf(x) - q.logpdf(x), d)
    parts = {k: {"mean": means[k], "covariance": covs[k]} for k in means}
    return {"kind": "normal", "offset": offset, **parts, "log_evidence": log_evidence, "elbo": elbo}


def partitions():
    cases = []
    for l1, l2 in [(0.3, -1.2), (-2.0, 0.75), (30.0, 31.0)]:
        cases.append({"family": "bernoulli", "natural": [l1, l2], "possibilistic": max(l1, l2),
                      "additive": mp.log(mp.exp(l1) + mp.exp(l2))})
    for rate in (0.4, 2.5, 17.3):
        natural = mp.log(mp.mpf(rate))
        terms = [k * natural - mp.log(mp.factorial(k)) for k in range(400)]
        cases.append({"family": "poisson", "natural": [natural], "possibilistic": max(terms),
                      "additive": mp.log(mp.fsum(map(mp.exp, terms)))})
    for natural, variance in [(0.7, 2.0), (-3.0, 0.25)]:
        n, v = mp.mpf(natural), mp.mpf(variance)
        peak, width = n * v, mp.sqrt(v)
        ends = [peak + k * width for k in (-40, -8, 0, 8, 40)]
        total = mp.quad(lambda t: mp.exp(n * t - t * t / (2 * v)), ends)
        cases.append({"family": "normal", "natural": [natural], "variance": variance,
                      "possibilistic": n * peak - peak ** 2 / (2 * v), "additive": mp.log(total)})
    for l1, l2 in [(1.5, 0.6), (-4.0, 2.0), (0.0, -1.0), (1e-9, 0.5)]:
        total = mp.quad(lambda t: mp.exp(mp.mpf(l1) * t), [0, 1])
        cases.append({"family": "point mass", "natural": [l1, l2],
                      "possibilistic": max(0.0, l1, l2), "additive": mp.log(total)})
    return cases


def main():
    _, out = args()
    rng = np.random.default_rng(20260)
    cases = [finite_case(rng, n) for n in (2, 3, 5, 9)]
    cases += [normal_case(rng, d) for d in (1, 2, 3)]
    about = "evidence, ELBO and Renyi's bounds; exp(-loss) = exp(-offset) N(likelihood)/its peak"
    write_json(os.path.join(out, "twin", "evidence.json"), {"about": about}, cases)
    about = "log-partitions: supremum, and sum or integral, of exp(natural T - B)"
    write_json(os.path.join(out, "twin", "partitions.json"), {"about": about}, partitions())


if __name__ == "__main__":
    main()
