"""Draws the examples into `docs/concepts/switches.md`.

Every file that the page names runs through the same code as `ringwise place`, and
the result is drawn below its name. The text of the page is written by hand and stays.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from ringwise.apps.place import place
from ringwise.grammar import counted
from ringwise.manifests.bundle import Bundle, read_bundle
from ringwise.manifests.settings.boards import shipped_catalog
from ringwise.manifests.settings.configuration import read_configuration
from ringwise.scheduler.defaults import BUILT_IN
from ringwise.state.model import Pod
from ringwise.state.vcjob import VcJob
from ringwise.views.documents.topology import PlacedSwitchFields
from ringwise.views.place import PlaceAnswer

_DRAWING = re.compile(r"<!-- drawn from (?P<file>\S+) -->\n```\n.*?```\n", re.DOTALL)
_SETTINGS = re.compile(r"--config (\S+)")
#: The job every example is about.
_JOB = "train"


def drawn_page(page: str, root: Path) -> str:
    """The page with new drawings; files are named relative to `root`."""

    def drawing(found: re.Match[str]) -> str:
        file = found["file"]
        return f"<!-- drawn from {file} -->\n```\n{draw_example(root, file)}```\n"

    return _DRAWING.sub(drawing, page)


def draw_example(root: Path, file: str) -> str:
    """Switches before and after: letters are running jobs, numbers the ranks of the new pods."""
    first_line = (root / file).read_text(encoding="utf-8").partition("\n")[0]
    settings = _SETTINGS.search(first_line)
    if settings is None:
        raise ValueError(f"{file}: the first line must name its --config")
    bundle = read_bundle([str(root / file)])
    if bundle.errors:
        raise ValueError(str(bundle.errors[0]))
    before = _place(_running_only(bundle), root / settings[1])
    after = _place(bundle, root / settings[1])
    return _draw(bundle, before, after)


def _running_only(bundle: Bundle) -> Bundle:
    """The input without anything that waits."""
    running = [pod for pod in bundle.pods if pod.node is not None]
    return replace(bundle, objects={**bundle.objects, VcJob: [], Pod: running})


def _place(bundle: Bundle, settings: Path) -> PlaceAnswer:
    configuration = read_configuration(settings.read_bytes(), str(settings), BUILT_IN)
    return place(bundle, configuration, shipped_catalog(()))


def _draw(bundle: Bundle, before: PlaceAnswer, after: PlaceAnswer) -> str:
    resolved = after.view.switches()
    if resolved is None or before.switches is None or after.switches is None:
        raise ValueError("an example of switches needs a topology")
    job = next(job for job in after.jobs if job.name == _JOB)
    held = {pod.node: _letter(pod) for pod in bundle.pods if pod.node is not None}
    ranks = {pod.node: str(pod.rank) for pod in job.pods if pod.node is not None and pod.annotations}
    rows = []
    for seats, then, now in zip(resolved.nodes, before.switches, after.switches, strict=True):
        signs = [held.get(seat.node, ".") for seat in seats]
        signs_now = [ranks.get(seat.node, held.get(seat.node, ".")) for seat in seats]
        rows.append((then.ip, _words(then), " ".join(signs), "->", " ".join(signs_now), _words(now)))
    widths = [max(len(row[column]) for row in rows) for column in range(6)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    word = job.job_class or "job"
    lines.insert(0, f"{job.name}: a {word} job of {counted(job.pods, 'pod')}: {job.state}")
    if job.reason is not None:
        lines.append(job.reason["message"])
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _letter(pod: Pod) -> str:
    return (pod.group or pod.name)[0]


def _words(switch: PlacedSwitchFields) -> str:
    return switch.state if switch.healthy else f"{switch.state}, unhealthy"
