"""Draws golden/valid/coverage.json: exact coverage of plain and valid cuts at the level 95 %, as one SVG file.

    python golden/generate/plot_coverage.py golden/valid/coverage.json docs/images/coverage.svg
"""
import json
import sys

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 760, 340, 60, 40, 70
LOW, HIGH = 0.89, 1.0
MARKS = [("plain", "plain, --coverage 0.95", "#d55e00"), ("valid", "valid, --valid --alpha 0.05", "#0072b2"),
         ("classical", "classical interval", "#999999")]


def main():
    source, target = sys.argv[1:]
    with open(source) as f:
        cases = json.load(f)["cases"]
    y = lambda share: TOP + (HIGH - share) / (HIGH - LOW) * (HEIGHT - TOP - BOTTOM)
    step = (WIDTH - LEFT - 20) / len(cases)
    x = lambda i: LEFT + (i + 0.5) * step
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
           'font-size="12">', f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>']
    for percent in range(90, 101, 2):
        at = y(percent / 100)
        out.append(f'<line x1="{LEFT}" x2="{WIDTH - 20}" y1="{at:.1f}" y2="{at:.1f}" stroke="#eeeeee"/>'
                   f'<text x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{percent} %</text>')
    at = y(0.95)
    out.append(f'<line x1="{LEFT}" x2="{WIDTH - 20}" y1="{at:.1f}" y2="{at:.1f}" stroke="black" '
               'stroke-dasharray="5 4"/>')
    for i, case in enumerate(cases):
        out.append(f'<text x="{x(i):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{case["n"]}</text>')
        if i % 3 == 1:
            out.append(f'<text x="{x(i):.1f}" y="{HEIGHT - BOTTOM + 38}" text-anchor="middle">{case["family"]}</text>')
        for k, (key, _, color) in enumerate(MARKS):
            out.append(f'<circle cx="{x(i) + 9 * (k - 1):.1f}" cy="{y(case[key]):.1f}" r="4.5" fill="{color}"/>')
    for k, (_, label, color) in enumerate(MARKS):
        left = LEFT + 10 + 225 * k
        out.append(f'<circle cx="{left}" cy="20" r="4.5" fill="{color}"/><text x="{left + 10}" y="24">{label}</text>')
    out.append(f'<text x="{WIDTH / 2}" y="{HEIGHT - 10}" text-anchor="middle">number of observations, family</text></svg>')
    with open(target, "w") as f:
        f.write("\n".join(out) + "\n")


if __name__ == "__main__":
    main()
