"""`ringwise submit`: hand objects to the running lab."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.markup import escape

from ringwise.apps.lab.submission import submission_of
from ringwise.cli.output import BAD_INPUT, complain, output_option, stop
from ringwise.cli.place import load_bundle
from ringwise.cli.queries import Answer, lab_option, show, talking

_COLOURS = {"placed": "green", "waiting": "yellow", "refused": "red", "ended": "dim"}
#: More objects of one kind than this are counted, not listed.
_LISTED = 10


@click.command("submit")
@click.argument("files", nargs=-1, metavar="FILE...")
@click.option("-f", "--file", "more", multiple=True, help="File, folder, or - for stdin.")
@click.option("--keep-going", is_flag=True, help="Skip bad documents and submit the rest; exit code 2.")
@lab_option
@output_option
def submit_command(
    files: tuple[str, ...], more: tuple[str, ...], keep_going: bool, lab: Path | None, output: str
) -> None:
    """Give the lab Nodes, jobs, pods, PodGroups, Queues, PriorityClasses and ConfigMaps.

    All objects are taken, or none. A job that can never run says so at once.
    """
    if not files and not more:
        raise stop("ringwise: nothing to submit: give a file, a folder, or - for stdin")
    bundle = load_bundle((*files, *more), keep_going)
    submission, problems = submission_of(bundle)
    if problems:
        raise stop(*problems)
    for note in bundle.notes:
        complain(f"note: {note}")
    with talking("submitting") as client:
        answer = client(lab).submit(submission)
    code = BAD_INPUT if bundle.errors else 0
    show(Answer(answer, lambda console: draw_submitted(console, answer), code=code), output)


def draw_submitted(console: Console, answer: dict[str, Any]) -> None:
    by_kind: dict[tuple[str, str], list[str]] = {}
    for thing in answer["objects"]:
        by_kind.setdefault((thing["kind"], thing["action"]), []).append(thing["name"])
    for (kind, action), names in by_kind.items():
        if kind in ("Job", "Pod", "PodGroup") and len(names) <= _LISTED:
            continue
        words = f"{len(names)} x {kind}" if len(names) > 1 else f"{kind} {names[0]}".rstrip()
        console.print(f"{escape(words)} {action}", soft_wrap=True)
    for job in answer["jobs"][:_LISTED] if len(answer["jobs"]) > 2 * _LISTED else answer["jobs"]:
        _draw_job(console, job)
    if len(answer["jobs"]) > 2 * _LISTED:
        counts: dict[str, int] = {}
        for job in answer["jobs"]:
            counts[job["outcome"]] = counts.get(job["outcome"], 0) + 1
        words = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
        console.print(f"... all {len(answer['jobs'])} jobs: {words}")


def _draw_job(console: Console, job: dict[str, Any]) -> None:
    outcome, reason = job["outcome"], job["reason"]
    nodes = job["nodes"]
    where = ""
    if outcome == "placed" and nodes:
        some = ", ".join(nodes[:4]) + (f" and {len(nodes) - 4} more" if len(nodes) > 4 else "")
        where = f" on {some}"
    colour = _COLOURS[outcome]
    console.print(
        f"{escape(job['namespace'])}/{escape(job['name'])}: [{colour}]{outcome}[/]{escape(where)}",
        soft_wrap=True,
    )
    if reason is not None:
        console.print(f"  {escape(reason['message'])}", soft_wrap=True)
        for cure in reason["cures"]:
            console.print(f"  -> {escape(cure)}", soft_wrap=True)
