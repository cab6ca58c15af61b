"""Valid possibilities with mpmath and thirty digits.

pi(theta) = P_theta(R(X) <= R(x)) by the definition: sums over all counts for Bernoulli and Poisson observations, and
quadrature of the density over the region where the relative likelihood is smaller for the others.
"""
import os

from mpmath import binomial, exp, gamma, log, mp, mpf, pi, quad, sqrt

from scipy.stats import beta, gamma as gamma_law, norm, t as student_t

from common import args, write_json

mp.dps = 30
TIE = mpf("1e-20")


def xlog(a, b):
    return mpf(0) if a == 0 else a * log(a / b)


def bernoulli(n, s, p):
    p = mpf(str(p))  # as it is typed: ties are meant
    cost = lambda k: xlog(mpf(k), n * p) + xlog(mpf(n - k), n * (1 - p))
    return sum(binomial(n, k) * p ** k * (1 - p) ** (n - k) for k in range(n + 1) if cost(k) >= cost(s) - TIE)


def poisson(n, s, rate):
    m = n * mpf(str(rate))
    cost = lambda k: xlog(mpf(k), m) - k + m
    total, term, k = mpf(0), exp(-m), 0
    while k < m or term > mpf("1e-28"):
        if cost(k) >= cost(s) - TIE:
            total += term
        k += 1
        term *= m / k
    return total


def gamma_mean(n, shape, mean, theta):
    """The sum over theta is a gamma variable of shape n*shape, scaled."""
    a = n * mpf(shape)
    cost = lambda u: u - a - a * log(u / a)
    level = cost(a * mpf(mean) / mpf(theta))
    if level == 0:
        return mpf(1)
    lower = bisect(lambda u: cost(u) - level, a * exp(-level / a - 2), a)
    upper = bisect(lambda u: level - cost(u), a, 2 * a + 4 * level + 10)
    density = lambda u: u ** (a - 1) * exp(-u) / gamma(a)
    return 1 - quad(density, [lower, (lower + a) / 2, a, (a + upper) / 2, upper])


def bisect(falls, low, high):
    """The root of a function that is positive at low and negative at high."""
    for _ in range(200):
        middle = (low + high) / 2
        if falls(middle) > 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def normal_mean(n, variance, mean, theta):
    z = abs(mpf(mean) - mpf(theta)) * sqrt(n / mpf(variance))
    return 1 - quad(lambda x: exp(-x * x / 2) / sqrt(2 * pi), [-z, 0, z])


def student_mean(n, t):
    f = mpf(n - 1)
    density = lambda x: gamma((f + 1) / 2) / (sqrt(f * pi) * gamma(f / 2)) * (1 + x * x / f) ** (-(f + 1) / 2)
    return 1 - quad(density, [-t, 0, t])


def chi_squared(d, square):
    half = mpf(d) / 2
    density = lambda x: x ** (half - 1) * exp(-x / 2) / (2 ** half * gamma(half))
    ends = [mpf(square), mpf(square) + 20, mpf(square) + 100, mpf(square) + 400]
    return quad(density, ends)


def classical_binomial(n, s):
    """Clopper and Pearson's interval of level 0.95."""
    return (beta.ppf(0.025, s, n - s + 1) if s else 0.0, beta.ppf(0.975, s + 1, n - s) if s < n else 1.0)


def classical_poisson(n, s):
    """Garwood's interval of level 0.95."""
    return (gamma_law.ppf(0.025, s) / n if s else 0.0, gamma_law.ppf(0.975, s + 1) / n)


def relative_likelihood(family, n, s, theta):
    if family == "bernoulli":
        return exp(-(xlog(mpf(s), n * theta) + xlog(mpf(n - s), n * (1 - theta))))
    return exp(-(xlog(mpf(s), n * theta) - s + n * theta))


def coverage(family, n, theta):
    """Exact shares of samples whose interval covers theta: plain cut, valid cut, classical interval."""
    theta = mpf(theta)
    level = exp(-mpf(norm.ppf(0.975)) ** 2 / 2)
    shares = [mpf(0)] * 3
    most = n if family == "bernoulli" else int(n * theta + 12 * sqrt(n * theta) + 30)
    for s in range(most + 1):
        if family == "bernoulli":
            probability = binomial(n, s) * theta ** s * (1 - theta) ** (n - s)
            low, high = classical_binomial(n, s)
            valid = bernoulli(n, s, theta)
        else:
            probability = exp(-n * theta) * (n * theta) ** s / gamma(mpf(s + 1))
            low, high = classical_poisson(n, s)
            valid = poisson(n, s, theta)
        covers = [relative_likelihood(family, n, s, theta) >= level, valid >= mpf("0.05"), low <= theta <= high]
        shares = [share + probability * hit for share, hit in zip(shares, covers)]
    return {"family": family, "n": n, "truth": theta, "plain": shares[0], "valid": shares[1], "classical": shares[2]}


def pivot_coverage(family, n, shape=1):
    """The same where the relative likelihood has one law; the valid cut covers exactly."""
    ell = norm.ppf(0.975) ** 2 / 2
    if family == "normal":
        t = ((exp(2 * ell / n) - 1) * (n - 1)) ** 0.5
        plain = 1 - 2 * student_t.sf(float(t), n - 1)
    else:
        a = n * shape
        cost = lambda u: u - a - a * log(u / a)
        low = bisect(lambda u: cost(u) - ell, mpf("1e-9"), mpf(a))
        high = bisect(lambda u: ell - cost(u), mpf(a), mpf(20 * a + 50))
        plain = gamma_law.cdf(float(high), a) - gamma_law.cdf(float(low), a)
    return {"family": family, "n": n, "truth": None, "plain": plain, "valid": 0.95, "classical": 0.95}


def main():
    _, out = args()
    cases = []
    for n, s, points in [(5, 2, [0.1, 0.3, 0.4, 0.9]), (20, 0, [0.01, 0.2]), (20, 13, [0.31, 0.5, 0.65, 0.92]),
                         (100, 37, [0.25, 0.3, 0.45])]:
        cases.append({"family": "bernoulli", "n": n, "mean": mpf(s) / n,
                      "points": [{"value": p, "possibility": bernoulli(n, s, p)} for p in points]})
    for n, s, points in [(5, 9, [0.7, 1.5, 2.9, 5.0]), (1, 0, [0.5, 3.0]), (20, 70, [2.4, 3.2, 4.7])]:
        cases.append({"family": "poisson", "n": n, "mean": mpf(s) / n,
                      "points": [{"value": r, "possibility": poisson(n, s, r)} for r in points]})
    for n, shape, mean, points in [(5, 1.0, 3.0, [1.0, 2.0, 8.0]), (20, 2.5, 0.7, [0.5, 0.9])]:
        cases.append({"family": "gamma", "n": n, "mean": mean, "extra": shape,
                      "points": [{"value": t, "possibility": gamma_mean(n, shape, mean, t)} for t in points]})
    cases.append({"family": "normal", "n": 7, "mean": 1.5, "extra": 2.0,
                  "points": [{"value": t, "possibility": normal_mean(7, 2.0, 1.5, t)} for t in [0.0, 1.0, 3.5]]})
    # the value is Student's t
    cases.append({"family": "student", "n": 5, "mean": 0.0,
                  "points": [{"value": t, "possibility": student_mean(5, t)} for t in [0.5, 2.0, 6.0]]})
    # n is the number of dimensions, the value the squared distance
    for d in [1, 2, 3, 10]:
        cases.append({"family": "chi-squared", "n": d, "mean": 0.0,
                      "points": [{"value": q, "possibility": chi_squared(d, q)} for q in [0.5, 4.0, 25.0]]})
    head = {"about": "probability under the value of data that agree with it no better than n observations of the given "
                     "mean; extra is the shape or the variance; for student the value is the t statistic, "
                     "for chi-squared the squared distance in n dimensions"}
    write_json(os.path.join(out, "valid", "valid.json"), head, cases)
    rows = [coverage(family, n, theta) for family, theta in [("bernoulli", "0.3"), ("poisson", "1.7")]
            for n in [5, 20, 100]]
    rows += [pivot_coverage(family, n, shape) for family, shape in [("exponential", 1), ("gamma", 2), ("normal", 1)]
             for n in [5, 20, 100]]
    head = {"about": "exact share of samples of n whose interval covers the truth: the plain cut of asymptotic coverage "
                     "0.95, the valid 0.05-cut, and Clopper-Pearson, Garwood, equal-tailed gamma (for gamma of shape 2) or t"}
    write_json(os.path.join(out, "valid", "coverage.json"), head, rows)


if __name__ == "__main__":
    main()
