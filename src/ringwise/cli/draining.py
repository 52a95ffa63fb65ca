"""The question before a drain, in a lab and in a cluster."""

from __future__ import annotations

from typing import Any

import click

from ringwise.cli.exit_codes import ExitCode
from ringwise.cli.output import complain, stop
from ringwise.grammar import agrees, counted


def before_draining(answer: dict[str, Any], yes: bool) -> list[str]:
    """Show on stderr which jobs lose pods and which stay, and ask; the keys of the jobs that go.

    Ends the command unless the answer is yes.
    """
    going = [job for job in answer["jobs"] if not job["stays"]]
    complain(*(f"note: {_stays_text(job)}" for job in answer["jobs"] if job["stays"]))
    if yes:
        # At least the jobs with pods that nothing creates again.
        complain(*(f"note: {_loss_text(job)}" for job in going if job["not_restarted"]))
    elif going:
        complain(*(f"  {line}" for line in map(_loss_text, going)))
        _ask(answer)
    return [_key(job) for job in going]


def jobs_that_stay(answer: dict[str, Any]) -> list[str]:
    return [_key(job) for job in answer["jobs"] if job["stays"]]


def _key(job: dict[str, Any]) -> str:
    return f"{job['namespace']}/{job['name']}"


def _stays_text(job: dict[str, Any]) -> str:
    """Of a job that a drain leaves (F4)."""
    return f"{_key(job)} stays, because it could not be completed: {job['stays']} (--force evicts it)"


def _ask(answer: dict[str, Any]) -> None:
    pods = counted(answer["pods"], "pod")
    try:
        agreed = click.confirm(f"drain {answer['target']} and evict {pods}?", err=True)
    except click.Abort:
        complain("")
        raise stop("ringwise: nothing was changed: there is no answer; --yes drains without asking") from None
    if not agreed:
        raise stop("nothing was changed", code=ExitCode.FAILED)


def _loss_text(job: dict[str, Any]) -> str:
    """What draining a node does to a job, in one line."""
    name, here, staying, needed = job["name"], job["here"], job["staying"], job["min_available"]
    where = f"{job['namespace']}/{name}: "
    if job["kind"] == "Pod":
        return f"{where}a pod without a controller: it is not started again"
    pods = f"{here} of {counted(here + staying, 'pod')} {agrees(here, 'runs', 'run')} here"
    left = f"{staying} would be left, enough for the gang (minAvailable {needed})"
    if job["below_min_available"]:
        left = f"{staying} would be left, and the gang needs {needed}"
    if job["not_restarted"]:
        left += f"; {counted(job['not_restarted'], 'pod')} without a controller: not started again"
    return f"{where}{pods}; {left}"
