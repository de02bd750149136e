"""Lines over time as SVG, in panels below one another."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 900, 250, 60, 34, 190, 34
COLOURS = ("#d62728", "#1f77b4", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b", "#7f7f7f")


@dataclass(frozen=True, slots=True)
class Panel:
    title: str
    seconds: float
    top: float
    """The highest value that is drawn; lines above it are cut."""
    lines: Mapping[str, Sequence[tuple[float, float]]]
    knee: Sequence[tuple[float, float]] = ()
    """What should be reached, as steps."""
    marks: Mapping[float, str] = field(default_factory=dict)


def svg(panels: Sequence[Panel]) -> str:
    """The whole picture."""
    names = list(dict.fromkeys(name for panel in panels for name in panel.lines))
    colours = {name: COLOURS[number % len(COLOURS)] for number, name in enumerate(names)}
    parts = [_panel(panel, number * HEIGHT, colours) for number, panel in enumerate(panels)]
    height = HEIGHT * len(panels)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        'font-family="sans-serif" font-size="12">\n'
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _panel(panel: Panel, above: int, colours: Mapping[str, str]) -> str:
    right, bottom = WIDTH - RIGHT, above + HEIGHT - BOTTOM

    def x(seconds: float) -> float:
        return round(LEFT + (right - LEFT) * seconds / panel.seconds, 1)

    def y(value: float) -> float:
        return round(bottom - (bottom - above - TOP) * min(value, panel.top) / panel.top, 1)

    def path(points: Sequence[tuple[float, float]]) -> str:
        return " ".join(f"{x(time)},{y(value)}" for time, value in points)

    parts = [f'<text x="{LEFT}" y="{above + 20}" font-weight="bold">{escape(panel.title)}</text>']
    for part in range(5):
        value = panel.top * part / 4
        parts.append(
            f'<line x1="{LEFT}" x2="{right}" y1="{y(value)}" y2="{y(value)}" stroke="#dddddd"/>'
            f'<text x="{LEFT - 6}" y="{y(value) + 4}" text-anchor="end">{value:g}</text>'
        )
        time = panel.seconds * part / 4
        parts.append(f'<text x="{x(time)}" y="{bottom + 16}" text-anchor="middle">{time:g} s</text>')
    for time, text in panel.marks.items():
        parts.append(
            f'<line x1="{x(time)}" x2="{x(time)}" y1="{above + TOP}" y2="{bottom}" stroke="#999999" '
            'stroke-dasharray="2 3"/>'
            f'<text x="{x(time) + 4}" y="{above + TOP + 10}" fill="#666666">{escape(text)}</text>'
        )
    if panel.knee:
        parts.append(
            f'<polyline points="{path(panel.knee)}" fill="none" stroke="black" stroke-width="1.5" '
            'stroke-dasharray="6 4"/>'
        )
    for number, (name, points) in enumerate(panel.lines.items()):
        colour = colours[name]
        parts.append(f'<polyline points="{path(points)}" fill="none" stroke="{colour}" stroke-width="1.4"/>')
        parts.append(
            f'<text x="{right + 10}" y="{above + TOP + 14 + 18 * number}" fill="{colour}">{escape(name)}</text>'
        )
    return "\n".join(parts)
