"""Queries about a cluster that a scheduler knows: why a job waits, how much more fits, what is wrong."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ringwise.apps.loading import from_bundle
from ringwise.framework.configuration import Configuration
from ringwise.grammar import counted
from ringwise.manifests.bundle import Bundle
from ringwise.manifests.text.errors import ManifestError, one_line
from ringwise.messages.move_plan import MovePlan
from ringwise.reasons import Reason
from ringwise.scheduler.defragment.movable import BudgetReader, DisruptionBudget, no_budgets
from ringwise.scheduler.defragment.reasons import MOVES_UNDER_WAY, NO_MOVES_HELP, PLAN_TOO_COSTLY
from ringwise.scheduler.defragment.search import find_plan, find_plans
from ringwise.scheduler.explain.capacity import BoardCapacity, capacity
from ringwise.scheduler.explain.doctor import Diagnosis, diagnose
from ringwise.scheduler.explain.findings import ERROR, Finding
from ringwise.scheduler.explain.why import Explanation, explain, find_job
from ringwise.scheduler.view import SchedulerView
from ringwise.topology.boards import BoardCatalog
from ringwise.topology.nearest import did_you_mean

#: Of jobs that wait for holes and get no plan.
_REPORTED_CODES = frozenset({NO_MOVES_HELP.code, MOVES_UNDER_WAY.code})


class UnknownQueueError(LookupError):
    """No queue has that name."""


def explain_job(
    view: SchedulerView, now: int, name: str, disruption_budgets: BudgetReader = no_budgets
) -> Explanation:
    """Raises UnknownJobError."""
    job = find_job(view, name)
    if job.policy is None and view.serves(job):
        # An event about a running job clears its policy; its board and switches are part of the result.
        view.what_if.job_valid(job, now)
    return explain(view, job, now, disruption_budgets)


def count_capacity(view: SchedulerView, now: int, queue: str | None = None) -> list[BoardCapacity]:
    """Raises UnknownQueueError."""
    queues = view.queues
    if queue is not None and queue not in queues:
        raise UnknownQueueError(f'queue "{queue}" not found{did_you_mean(queue, queues)}')
    return capacity(view, now, queue)


def plan_moves(
    view: SchedulerView,
    now: int,
    name: str | None = None,
    budgets: Sequence[DisruptionBudget] = (),
) -> tuple[list[MovePlan], dict[str, Reason], list[str]]:
    """Plans for one job, or for all that wait for holes; jobs without one, and what was not looked at.

    Raises UnknownJobError.
    """
    if view.settings.defragment == "off":
        return [], {}, ["moves: the setting defragment is off"]
    if name is not None:
        job = find_job(view, name)
        plan = find_plan(view, job, now, disruption_budgets=budgets)
        return ([], {job.key: plan}, []) if isinstance(plan, Reason) else ([plan], {}, [])
    plans, without = find_plans(view, now, disruption_budgets=budgets)
    costly = sum(reason.code == PLAN_TOO_COSTLY.code for reason in without.values())
    omitted = [f"{counted(costly, 'job')}: the search has used its steps"] if costly else []
    return (
        plans,
        {key: reason for key, reason in without.items() if reason.code in _REPORTED_CODES},
        omitted,
    )


def examine(
    bundle: Bundle,
    configuration: Configuration,
    catalog: BoardCatalog,
    *,
    now: int | None = None,
    reported: Iterable[Finding] = (),
) -> Diagnosis:
    """Everything wrong with the objects of an input, and with the cluster they describe.

    `reported` are findings that do not follow from the objects.
    """
    loaded = from_bundle(bundle, configuration, catalog, now=now, keep_wrong_pods=True)
    unread = list(_unread(bundle.errors))
    diagnosis = diagnose(loaded.view, reported)
    codes = {finding.code for finding in diagnosis.findings}
    # The checks of the state report chips held twice, or not on their node, with all pods.
    if not codes & {"chip-held-twice", "chip-not-on-node"}:
        unread += _unread(loaded.errors)
    return Diagnosis(diagnosis.nodes, diagnosis.jobs, (*unread, *diagnosis.findings))


def _unread(errors: Iterable[ManifestError]) -> Iterator[Finding]:
    for error in errors:
        yield unreadable(": ".join(part for part in (error.origin, error.field) if part), [error.message])


def unreadable(where: str, problems: Iterable[str]) -> Finding:
    what = one_line("; ".join(problems))
    return Finding(ERROR, "unreadable-object", one_line(where), what, "correct it; until then it is ignored")
