#!/usr/bin/env python3
"""Draws a folder of pictures of three uneven classes, and ten new ones.

    python3 draw.py FOLDER

FOLDER/shapes/{train,test}/{disc,box,star} gets 600, 300 and 120 PNG files of 64×64 pixels in color to train on and a quarter as
many to test on, FOLDER/new ten pictures whose names say what they show. A shape has any place, size, turn and color; three thin
lines, a sloping background and noise are in the way. Needs Pillow and NumPy; the same files every time.
"""
import math
import sys
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

SIDE, SCALE = 64, 4
CLASSES = {"disc": 600, "box": 300, "star": 120}


def outline(kind, middle, radius, turn):
    """Corners of a shape; a disc has many."""
    corners = {"disc": 40, "box": 4, "star": 10}[kind]
    for corner in range(corners):
        reach = radius * (0.5 if kind == "star" and corner % 2 else 1.0)
        angle = turn + 2 * math.pi * corner / corners
        yield middle[0] + reach * math.cos(angle), middle[1] + reach * math.sin(angle)


def picture(kind, random):
    """One picture, drawn four times as large and made smaller, so that edges are smooth."""
    side = SIDE * SCALE
    color, back = random.uniform(120, 255, 3), random.uniform(0, 120, 3)
    slope = random.uniform(-40, 40, 3)
    ramp = np.linspace(-1, 1, side)[:, None, None] * slope
    ground = np.broadcast_to(back + ramp, (side, side, 3)).clip(0, 255).astype(np.uint8)
    image = Image.fromarray(ground.copy())
    pen = ImageDraw.Draw(image)
    radius = random.uniform(9, 20) * SCALE
    middle = random.uniform(radius, side - radius, 2)
    pen.polygon(list(outline(kind, middle, radius, random.uniform(0, 2 * math.pi))),
                fill=tuple(int(c) for c in color))
    for _ in range(3):
        ends = random.uniform(0, side, 4)
        pen.line(list(ends), fill=tuple(int(c) for c in random.uniform(0, 255, 3)), width=SCALE)
    pixels = np.asarray(image.resize((SIDE, SIDE), Image.Resampling.BOX), float)
    return Image.fromarray((pixels + random.normal(0, 15, pixels.shape)).clip(0, 255).astype(np.uint8))


def draw(folder):
    """All the files."""
    random = np.random.default_rng(20)
    for part, share in (("train", 1), ("test", 4)):
        for kind, number in CLASSES.items():
            place = folder / "shapes" / part / kind
            place.mkdir(parents=True, exist_ok=True)
            for index in range(number // share):
                picture(kind, random).save(place / f"{index:03}.png")
    new = folder / "new"
    new.mkdir(exist_ok=True)
    for index in range(10):
        kind = list(CLASSES)[index % 3]
        picture(kind, random).save(new / f"{index}-{kind}.png")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    draw(Path(sys.argv[1]))
