"""`ringwise defrag --apply`: the question before it, and the moves in a lab and in a cluster."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ringwise.cli.change.changes import POLL_SECONDS
from ringwise.cli.change.targets import change_target
from ringwise.cli.exit_codes import ExitCode
from ringwise.cli.output import confirm, spinner, stop
from ringwise.cli.query.queries import (
    cluster_source,
    in_cluster_hint,
    lab_client,
    namespace_of,
    show_text,
    talking_to_cluster,
)
from ringwise.grammar import counted

if TYPE_CHECKING:
    from ringwise.kubeclient.config import Access
    from ringwise.messages.move_plan import MovePlan
    from ringwise.views.documents.changes import AppliedPlanFields, MovesDocument
    from ringwise.views.documents.maintenance import DefragPlanDocument

#: Nanoseconds: longer than any plan lives.
_LONGEST = 2 * 3600 * 1_000_000_000


def apply_moves(job: str | None, yes: bool, output: str, options: dict[str, Any]) -> None:
    if options.get("files"):
        raise click.UsageError("--apply moves jobs of a lab or of a cluster; files have none that run")
    change_target(options).carry_out(
        lambda lab: _apply_in_lab(lab, job, namespace_of(options), yes, output),
        lambda access: _apply_in_cluster(access, job, yes, output, options),
    )


# -- the question --------------------------------------------------------------------------------


def _before_moving(document: DefragPlanDocument, plans: list[MovePlan], yes: bool) -> bool:
    """Show on stderr what moves, and ask. False: there is nothing to move. Ends the command without a yes."""
    from rich.console import Console

    from ringwise.cli.printers.defragment import print_move_plans

    print_move_plans(Console(stderr=True, highlight=False), document, tried=False)
    if not plans:
        return False
    if yes:
        return True
    names = dict.fromkeys(
        f"{move['namespace']}/{move['name']}" for plan in document["plans"] for move in plan["moves"]
    )
    pods = sum(len(move.pods) for plan in plans for move in plan.moves)
    confirm(f"move {', '.join(names)} and evict {counted(pods, 'pod')}?", "moves")
    return True


def _show(document: DefragPlanDocument, done: list[AppliedPlanFields], left: int, output: str) -> None:
    answer: MovesDocument = {"schema": "ringwise.io/moves/v1", "plans": done, "skipped_plans": left}
    lines = [_line(one) for one in done]
    if left:
        lines.append(f"{counted(left, 'plan')} not begun: they follow from the one that failed")
    failed = any(one["state"] != "done" for one in done)
    # A job that was asked for by name and is not helped is no success either.
    nothing = not done and bool(document["without_plan"])
    text = "\n".join(lines) if lines else "nothing was changed: no moves start a job"
    show_text(answer, output, text, ExitCode.FAILED if failed or nothing else ExitCode.OK)


def _line(one: AppliedPlanFields) -> str:
    moved = ", ".join(one["moved"])
    if one["state"] == "done":
        return f"{one['job']} has started; moved: {moved}"
    happened = "was rejected" if one["state"] == "rejected" else "failed"
    return f"{one['job']}: the plan {happened}: {one['message']}"


def _goes_on(document: DefragPlanDocument, plan: MovePlan) -> click.exceptions.Exit:
    job = next(one for one in document["plans"] if one["id"] == plan.id)
    return stop(
        f"ringwise: interrupted: the plan {plan.id} goes on without this command",
        f"what becomes of it: ringwise why --history {job['namespace']}/{job['name']}",
        code=ExitCode.INTERRUPTED,
    )


# -- a lab ---------------------------------------------------------------------------------------


def _apply_in_lab(lab: Path | None, job: str | None, namespace: str | None, yes: bool, output: str) -> None:
    from ringwise.messages.move_plan import plain_plan, read_plan

    with lab_client(lab, "looking for moves", hint=in_cluster_hint()) as client:
        answer = client.ask("moves", job=job, namespace=namespace)
    document, plans = answer["document"], [read_plan(one) for one in answer["plans"]]
    done: list[AppliedPlanFields] = []
    if _before_moving(document, plans, yes):
        for plan in plans:
            try:
                with lab_client(lab, "moving jobs") as client:
                    now = client.do("move", plan=plain_plan(plan))["now"]
                    done.append(_follow_in_lab(client, plan, now + _LONGEST))
            except KeyboardInterrupt:
                raise _goes_on(document, plan) from None
            if done[-1]["state"] != "done":
                break
    _show(document, done, len(plans) - len(done), output)


def _follow_in_lab(client: Any, plan: MovePlan, limit: int) -> AppliedPlanFields:
    while True:
        found = client.do("follow", id=plan.id, until=limit)
        if found["result"] is not None:
            result: AppliedPlanFields = found["result"]
            return result
        if found["over"]:
            raise stop(f"ringwise: the plan {plan.id} does not end", code=ExitCode.FAILED)
        time.sleep(POLL_SECONDS)


# -- a cluster -----------------------------------------------------------------------------------


def _apply_in_cluster(
    access: Access, job: str | None, yes: bool, output: str, options: dict[str, Any]
) -> None:
    from ringwise.apps.live_moves import NoSchedulerAnswersError, carry_out

    with talking_to_cluster(unreachable=ExitCode.BAD_INPUT), spinner("reading the cluster"):
        source = cluster_source(access, options)
        document, plans = source.moves_to_apply(job, namespace_of(options))
    done: list[AppliedPlanFields] = []
    if _before_moving(document, plans, yes):
        for plan in plans:
            try:
                with talking_to_cluster(), spinner("moving jobs") as progress:
                    done.append(carry_out(access, plan, time.time_ns(), progress))
            except NoSchedulerAnswersError as problem:
                raise stop(f"ringwise: {problem}", code=ExitCode.FAILED) from None
            except KeyboardInterrupt:
                raise _goes_on(document, plan) from None
            if done[-1]["state"] != "done":
                break
    _show(document, done, len(plans) - len(done), output)
