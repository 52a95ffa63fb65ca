"""The findings of `doctor`, one line each."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape

from ringwise.scheduler.explain.doctor import ERROR, NOTE, WARNING, Diagnosis

_COLOURS = {ERROR: "red", WARNING: "yellow", NOTE: "cyan"}


def print_diagnosis(console: Console, diagnosis: Diagnosis) -> None:
    for finding in diagnosis.findings:
        colour = _COLOURS[finding.severity]
        console.print(
            f"[{colour}]{finding.severity}[/] {escape(finding.where)}: {escape(finding.what)} "
            f"[dim]\\[{finding.code}][/]",
            soft_wrap=True,
        )
        if finding.cure:
            console.print(f"  -> {escape(finding.cure)}", style="dim", soft_wrap=True)
    counts = [(diagnosis.count(kind), kind) for kind in (ERROR, WARNING, NOTE)]
    words = ", ".join(f"{count} {kind}{'s' if count != 1 else ''}" for count, kind in counts)
    console.print(f"{diagnosis.nodes} nodes, {diagnosis.jobs} jobs: {words}", soft_wrap=True)
