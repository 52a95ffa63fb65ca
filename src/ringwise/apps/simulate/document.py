"""What `ringwise simulate` found out, as a document."""

from __future__ import annotations

from collections.abc import Sequence

from ringwise.apps.simulate import bound
from ringwise.apps.simulate.comparison import Comparison
from ringwise.apps.simulate.jobs import HOUR, SECOND, mean_demand
from ringwise.apps.simulate.measures import RunOutcome, quality, quantile
from ringwise.views.documents.simulation import (
    CurvePoint,
    LeftOutJobs,
    MoveFields,
    RunFields,
    SimulatedCluster,
    SimulationDocument,
    SizeFields,
    WaitFields,
)


def simulation_document(comparison: Comparison) -> SimulationDocument:
    plan, jobs = comparison.plan, comparison.jobs
    return SimulationDocument(
        title=plan.title,
        seed=plan.seed,
        interrupted=comparison.interrupted,
        cluster=SimulatedCluster(
            board=comparison.board.name,
            nodes=comparison.nodes,
            chips=comparison.chips,
            leaf_size=plan.cluster.leaf_size,
            superpod_size=plan.cluster.superpod_size,
        ),
        jobs=len(jobs),
        omitted=[LeftOutJobs(message=why, jobs=count) for why, count in comparison.omitted.items()],
        virtual_seconds=_seconds(jobs[-1].submitted),
        load=round(mean_demand(jobs) / comparison.chips, 4),
        runs=[_run(comparison, outcome) for outcome in comparison.outcomes],
    )


def _run(comparison: Comparison, outcome: RunOutcome) -> RunFields:
    first = comparison.outcomes[0]
    variant = next((one for one in comparison.plan.variants if one.name == outcome.name), None)
    waits = _waits(outcome)
    # Of a run that is not complete only the first jobs are known: they are compared with themselves.
    best = _mean(_waits(first, among=outcome))
    mean = _mean(waits)
    sizes = sorted({job.chips for job in outcome.jobs})
    span = outcome.jobs[-1].submitted
    early = sum(
        start is not None and soonest is not None and start < soonest
        for start, soonest in zip(outcome.starts, first.starts, strict=True)
    )
    return RunFields(
        name=outcome.name,
        kind="bound"
        if outcome.name == bound.NAME
        else "policy"
        if variant and variant.policy
        else "configuration",
        settings=dict(variant.settings) if variant is not None else {},
        policy=str(variant.policy) if variant and variant.policy else None,
        started=len(waits),
        pending_seconds=_wait_fields(waits),
        mean_over_bound=round(mean / best, 4) if mean is not None and best else None,
        started_before_bound=early,
        utilization=round(outcome.used / (outcome.chips * span), 4) if span else 0.0,
        head_blocked_hours=round(outcome.blocked / HOUR, 2),
        idle_chip_hours_while_blocked=round(outcome.idle_while_blocked / HOUR, 1),
        restarts=outcome.restarts,
        lost_chip_hours=round(outcome.lost / HOUR, 1),
        moves=MoveFields.of(outcome.moves, cost_chip_hours=round(outcome.moves.cost / HOUR, 1)),
        estimates=quality(outcome.estimates, outcome.starts),
        sizes=[_size(outcome, size) for size in sizes],
        curve=[
            CurvePoint(after_seconds=_seconds(at), chips_in_use=used, pending_jobs=waiting)
            for at, used, waiting in outcome.curve
        ],
    )


def _size(outcome: RunOutcome, chips: int) -> SizeFields:
    waits = _waits(outcome, chips)
    jobs = sum(job.chips == chips for job in outcome.jobs)
    return SizeFields(chips=chips, jobs=jobs, started=len(waits), pending_seconds=_wait_fields(waits))


def _waits(outcome: RunOutcome, chips: int | None = None, among: RunOutcome | None = None) -> list[int]:
    """Of jobs that have started, sorted; `among`: in that run, too."""
    others = (among or outcome).starts
    return sorted(
        start - job.submitted
        for start, other, job in zip(outcome.starts, others, outcome.jobs, strict=True)
        if start is not None and other is not None and chips in (None, job.chips)
    )


def _mean(waits: Sequence[int]) -> float | None:
    return sum(waits) / len(waits) if waits else None


def _wait_fields(waits: Sequence[int]) -> WaitFields:
    mean = _mean(waits)
    if mean is None:
        return WaitFields(mean=None, p50=None, p90=None, p99=None)
    return WaitFields(
        mean=round(mean / SECOND, 1),
        p50=_seconds(quantile(waits, 0.5)),
        p90=_seconds(quantile(waits, 0.9)),
        p99=_seconds(quantile(waits, 0.99)),
    )


def _seconds(nanoseconds: int) -> float:
    return round(nanoseconds / SECOND, 1)
