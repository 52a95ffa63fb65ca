"""One HTML page with plots that needs nothing else: no script, no network."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from html import escape
from math import ceil, log10
from typing import Literal

from ringwise.durations import seconds_text
from ringwise.grammar import counted
from ringwise.views.documents.simulation import RunFields, SimulationDocument

_COLORS = ("#5b6770", "#1f6fb2", "#d1621a", "#2e8b57", "#8a4fbf", "#b8860b", "#c2385a", "#3aa6a6")
_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP = 760, 280, 70, 40, 10

_STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #ffffff; --line: #c9d1d9; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --paper: #0d1117; --line: #3d444d; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 2rem auto;
  max-width: 60rem; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; } th, td { text-align: right; padding: .25rem .75rem;
  border-bottom: 1px solid var(--line); font-variant-numeric: tabular-nums; }
th:first-child, td:first-child { text-align: left; }
.wide { overflow-x: auto; } svg { max-width: 100%; height: auto; }
svg text { fill: var(--ink); font-size: 12px; }
.axis { stroke: var(--line); } .key span { display: inline-block; margin-right: 1.2rem; }
.key i { display: inline-block; width: .8em; height: .8em; margin-right: .4em; }
"""


def page_text(document: SimulationDocument) -> str:
    runs = document.runs
    title = escape(document.title)
    cluster = document.cluster
    span = seconds_text(round(document.virtual_seconds))
    nodes, chips = counted(f"{cluster.nodes:,}", "node"), counted(f"{cluster.chips:,}", "chip")
    parts = [
        f"<h1>{title}</h1>",
        f"<p>{counted(document.jobs, 'job')} in {span} on {nodes} of {escape(cluster.board)} "
        f"({chips}), load {document.load:.2f}, seed {escape(document.seed)}.</p>",
    ]
    if document.interrupted:
        parts.append("<p><strong>Interrupted: the last run is not complete.</strong></p>")
    if document.omitted:
        rows = "".join(
            f"<li>{counted(one.jobs, 'job')}: {escape(one.message)}</li>" for one in document.omitted
        )
        parts.append(f"<p>Left out:</p><ul>{rows}</ul>")
    parts += [
        _key(runs),
        "<h2>Runs</h2>",
        _table([name for name, _ in _RUN_COLUMNS], [[cell(run) for _, cell in _RUN_COLUMNS] for run in runs]),
        "<h2>Mean wait by size</h2>",
        _bars(runs),
        _sizes(runs),
        "<h2>Jobs that wait</h2>",
        _curves(runs, "pending_jobs", "jobs"),
        "<h2>Chips in use</h2>",
        _curves(runs, "chips_in_use", "chips"),
        "<p>The bound is a cluster that only counts chips and serves its queue strictly in order: where the "
        "order is strict, no job can start before it does there.</p>",
    ]
    body = "\n".join(parts)
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>'
    top = f'<html lang="en"><head>{head}<style>{_STYLE}</style></head>'
    return f"<!doctype html>\n{top}\n<body>\n{body}\n</body></html>\n"


def _error(run: RunFields) -> str:
    return _hours(None if run.estimates is None else run.estimates.median_error_seconds)


def _inside(run: RunFields) -> str:
    inside = None if run.estimates is None else run.estimates.within_range_ratio
    return "-" if inside is None else f"{inside:.0%}"


def _color(number: int) -> str:
    return _COLORS[number % len(_COLORS)]


def _key(runs: Sequence[RunFields]) -> str:
    names = "".join(
        f'<span><i style="background:{_color(number)}"></i>{escape(run.name)}</span>'
        for number, run in enumerate(runs)
    )
    return f'<p class="key">{names}</p>'


def _table(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = "".join(f"<th>{escape(one)}</th>" for one in headings)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


#: Headings, and the cells of a run.
_RUN_COLUMNS: tuple[tuple[str, Callable[[RunFields], str]], ...] = (
    ("run", lambda run: run.name),
    ("mean wait (h)", lambda run: _hours(run.pending_seconds.mean)),
    ("over bound", lambda run: "-" if run.mean_over_bound is None else f"{run.mean_over_bound:.3f}"),
    ("p50 (h)", lambda run: _hours(run.pending_seconds.p50)),
    ("p90 (h)", lambda run: _hours(run.pending_seconds.p90)),
    ("p99 (h)", lambda run: _hours(run.pending_seconds.p99)),
    ("chips in use", lambda run: f"{run.utilization:.1%}"),
    ("head blocked (h)", lambda run: f"{run.head_blocked_hours:,.1f}"),
    ("idle chip-hours meanwhile", lambda run: f"{run.idle_chip_hours_while_blocked:,.0f}"),
    ("restarts", lambda run: f"{run.restarts:,}"),
    ("lost chip-hours", lambda run: f"{run.lost_chip_hours:,.0f}"),
    ("jobs moved", lambda run: f"{run.moves.jobs:,}"),
    ("chips moved", lambda run: f"{run.moves.chips:,}"),
    ("chip-hours of their restarts", lambda run: f"{run.moves.cost_chip_hours:,.0f}"),
    ("median error of estimates (h)", _error),
    ("starts inside", _inside),
)


def _sizes(runs: Sequence[RunFields]) -> str:
    headings = ("chips", "jobs", "run", "mean wait (h)", "p50 (h)", "p90 (h)", "p99 (h)")
    rows = []
    for place, size in enumerate(runs[0].sizes):
        names = str(size.chips), f"{size.jobs:,}"
        for run in runs:
            wait = run.sizes[place].pending_seconds
            numbers = (_hours(one) for one in (wait.mean, wait.p50, wait.p90, wait.p99))
            rows.append((*names, run.name, *numbers))
            names = "", ""
    return _table(headings, rows)


def _hours(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds / 3600:,.2f}"


# -- plots -----------------------------------------------------------------------------------------


def _ceiling(value: float) -> float:
    """A round number that is not smaller."""
    if value <= 0:
        return 1.0
    power = 10.0 ** int(log10(value) - (value < 1))
    return next(step * power for step in (1, 2, 2.5, 5, 10, 20) if step * power >= value)


def _frame(most: float, unit: str, marks: Iterable[tuple[float, str]]) -> list[str]:
    """Axes: `marks` are places on the lower one, as a share of its length."""
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - 10
    lines = [f'<line class="axis" x1="{_LEFT}" y1="{bottom}" x2="{right}" y2="{bottom}"/>']
    for part in range(5):
        y = bottom - (bottom - _TOP) * part / 4
        lines.append(
            f'<line class="axis" x1="{_LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" stroke-dasharray="2 4"/>'
        )
        lines.append(
            f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{most * part / 4:,.4g} {unit}</text>'
        )
    for place, text in marks:
        x = _LEFT + (right - _LEFT) * place
        lines.append(f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{escape(text)}</text>')
    return lines


def _svg(label: str, lines: Iterable[str]) -> str:
    inside = "\n".join(lines)
    return f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(label)}">\n{inside}\n</svg>'


def _bars(runs: Sequence[RunFields]) -> str:
    sizes = [size.chips for size in runs[0].sizes]
    waits = [[(one.pending_seconds.mean or 0.0) / 3600 for one in run.sizes] for run in runs]
    most = _ceiling(max((wait for row in waits for wait in row), default=0.0))
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - 10
    slot = (right - _LEFT) / len(sizes)
    width = slot * 0.8 / len(runs)
    marks = [((place + 0.5) / len(sizes), f"{size}") for place, size in enumerate(sizes)]
    lines = _frame(most, "h", marks)
    for number, (run, row) in enumerate(zip(runs, waits, strict=True)):
        for place, wait in enumerate(row):
            height = (bottom - _TOP) * wait / most
            x = _LEFT + slot * (place + 0.1) + width * number
            span = seconds_text(round(wait * 3600))
            title = f"{run.name}, {counted(sizes[place], 'chip')}: {span}"
            lines.append(
                f'<rect x="{x:.1f}" y="{bottom - height:.1f}" width="{max(1.0, width - 1):.1f}" '
                f'height="{height:.1f}" fill="{_color(number)}"><title>{escape(title)}</title></rect>'
            )
    return _svg("mean wait in hours by chips of the job, one bar for each run", lines)


def _curves(runs: Sequence[RunFields], what: Literal["pending_jobs", "chips_in_use"], unit: str) -> str:
    series = [[(point.after_seconds, float(getattr(point, what))) for point in run.curve] for run in runs]
    most = _ceiling(max((value for row in series for _, value in row), default=0.0))
    last = max((at for row in series for at, _ in row), default=1.0) or 1.0
    name, length = ("day", 86400) if last > 2 * 86400 else ("hour", 3600)
    count = last / length
    step = max(1, ceil(count / 8))
    marks = [(place / count, f"{name} {place}") for place in range(0, int(count) + 1, step)]
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - 10
    lines = _frame(most, "", marks)
    for number, row in enumerate(series):
        points = " ".join(
            f"{_LEFT + (right - _LEFT) * at / last:.1f},{bottom - (bottom - _TOP) * value / most:.1f}"
            for at, value in row
        )
        lines.append(
            f'<polyline points="{points}" fill="none" stroke="{_color(number)}" stroke-width="1.5"/>'
        )
    return _svg(f"{unit} over time, one line for each run", lines)
