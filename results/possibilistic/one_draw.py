#!/usr/bin/env python3
"""How often one draw of images shows many coverages with p below .05 although nothing is wrong.

    python3 one_draw.py DRAWS SIGNAL NOISE

Three networks that mostly agree see the same 2,500 images of a hundred classes; every second image
calibrates sets by possibility, by probability and by APS at five levels, and the others measure
them, as in the rows of CIFAR-100. The logits are drawn: 1.6 times a normal number, common to the
networks, plus SIGNAL less an exponential difficulty for the label, plus NOISE of each network's
own. The labels and the images that calibrate are exchangeable with the others by construction, so
that every coverage has its exact law, and only the dependence among them is to be seen.
"""

import sys

import numpy as np

import coverage

LEVELS = [0.01, 0.02, 0.05, 0.1, 0.2]
CLASSES, IMAGES = 100, 2500


def contours(z, random):
    """The three rankings of the classes of all images."""
    rows = np.arange(len(z))
    p = np.exp(z - z.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    deviation = np.sqrt(1 + random.uniform(size=(len(z), 1)))
    second, first = np.sort(z, 1)[:, -2:].T
    possible = -0.5 * ((z - first[:, None]) / deviation) ** 2
    possible[rows, z.argmax(1)] = 0.5 * ((first - second) / deviation[:, 0]) ** 2
    order = np.argsort(-p, 1)
    ranked = np.take_along_axis(p, order, 1)
    above = np.empty_like(p)
    np.put_along_axis(above, order, np.cumsum(ranked, 1) - ranked, 1)
    return possible, p, -(above + random.uniform(size=(len(z), 1)) * p)


def main():
    draws, signal, noise = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
    random = np.random.default_rng(1)
    half = IMAGES // 2
    law = {a: [coverage.two_sided(k, half, half, a) if k > 0.7 * half else 0.0 for k in range(half + 1)]
           for a in LEVELS}
    low, least, right, agree = [], [], [], []
    rows = np.arange(IMAGES)
    for _ in range(draws):
        label = random.integers(0, CLASSES, IMAGES)
        common = random.normal(size=(IMAGES, CLASSES))
        common[rows, label] += signal - 2.1 * random.exponential(size=IMAGES)
        ps, answers = [], []
        for _ in range(3):
            z = 1.6 * (common + noise * random.normal(size=common.shape))
            answers.append(z.argmax(1))
            for contour in contours(z, random):
                own = contour[rows, label]
                held_out, measured = np.sort(own[::2]), own[1::2]
                for a in LEVELS:
                    threshold = held_out[int(np.floor(a * (half + 1) + 1e-9)) - 1]
                    ps.append(law[a][int((measured >= threshold).sum())])
        low.append(sum(p < 0.05 for p in ps))
        least.append(min(ps))
        right.append((answers[0] == label).mean())
        agree.append((answers[0] == answers[1]).mean())
    low, least = np.array(low), np.array(least)
    print(f"accuracy {np.mean(right):.3f}, two networks agree on {np.mean(agree):.3f};"
          f" of 45 coverages {low.mean():.2f} have p below .05 in the mean,"
          f" none in {np.mean(low == 0):.3f} of {draws} draws, nine or more in {np.mean(low >= 9):.3f};"
          f" the smallest p is .0061 or less in {np.mean(least <= 0.0061):.3f}")


if __name__ == "__main__":
    main()
