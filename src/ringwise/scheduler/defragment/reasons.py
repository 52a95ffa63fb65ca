"""Why a running job must not be moved, and why no plan starts a job that waits."""

from __future__ import annotations

from ringwise.reasons import CAPACITY, ReasonKind, Stage, Trigger

_JOB_CHANGED = frozenset({Trigger.JOB_CHANGED})
_TIME = frozenset({Trigger.TIME_PASSED, Trigger.JOB_CHANGED})


def _kind(code: str, sentence: str, resolved_by: frozenset[Trigger] = CAPACITY, *fixes: str) -> ReasonKind:
    """Return a reason about moves: whole gangs move."""
    return ReasonKind(code, Stage.GANG, sentence, fixes, resolved_by)


# -- jobs that must not be moved

MUST_NOT_MOVE = _kind(
    "move-disabled",
    "{job} is not moved: {key} is {value}",
    _JOB_CHANGED,
    "remove {key} from the job",
)
MOVE_NOT_ALLOWED = _kind(
    "move-not-allowed",
    "{job} is moved only by `ringwise defrag --apply`: {key} is not {value}",
    _JOB_CHANGED,
    "set {key}: {value} on the job",
)
NOT_RECREATED = _kind(
    "not-recreated",
    "{job} is not moved: its pods would not be recreated ({why})",
    _JOB_CHANGED,
)
TIED_TO_NODE = _kind(
    "tied-to-node",
    "{job} is not moved: its pods belong to a {kind} and cannot run on other nodes",
    _JOB_CHANGED,
)
POLICY_ENDS_JOB = _kind(
    "policy-ends-job",
    "{job} is not moved: its policy {event}: {action} would end it",
    _JOB_CHANGED,
    "use a policy for {event} that does not end the job",
)
RETRIES_USED_UP = _kind(
    "retries-exhausted",
    "{job} is not moved: its policy {event}: {action} restarts it, and {left} of maxRetry {limit} "
    "{left:=is|are} left",
    _JOB_CHANGED,
    "raise maxRetry",
)
EVICTION_COUNTS_AS_FAILURE = _kind(
    "eviction-counts-as-failure",
    "{job} is not moved: its Job counts evicted pods as failures, {why}",
    _JOB_CHANGED,
)
BUDGET_FORBIDS_MOVE = _kind(
    "budget-forbids-move",
    "{job} is not moved: PodDisruptionBudget {budget} allows {allowed:eviction}, {needed} required",
    _TIME,
)
COOLS_DOWN = _kind(
    "move-cooldown",
    "{job} is not moved for another {seconds:~}: {why}",
    _TIME,
)
BEING_RESCHEDULED = _kind(
    "being-rescheduled",
    "{job} is not moved: it is being rescheduled after a fault, a drain or a move",
    _TIME,
)
NOT_COMPLETE = _kind(
    "job-incomplete",
    "{job} is not moved: {why}",
    CAPACITY | {Trigger.JOB_CHANGED},
)
OF_ANOTHER_SCHEDULER = _kind(
    "scheduled-by-another-scheduler",
    "{job} is not moved: another scheduler bound its pods",
    _JOB_CHANGED,
)
MOVE_IS_WORSE = _kind(
    "move-to-worse-placement",
    "{job} is not moved: it would use {after} {what} instead of {before}",
)

MOVE_IS_HIGHER = _kind(
    "move-to-higher-tier",
    "{job} is not moved: the lowest HyperNode with all its pods would be on tier {after} instead of {before}",
)

# -- jobs for which there is no plan

STARTS_WITHOUT_MOVES = _kind(
    "starts-without-moves",
    "the job fits without moves, and starts in the next cycle",
)
MOVED_LATELY = _kind(
    "moved-recently",
    "{job} was moved within the last {span}",
    frozenset({Trigger.TIME_PASSED, Trigger.CONFIGURATION_CHANGED}),
    "wait",
    "set `move-again-after` to a shorter time",
)
OVER_HOURLY_LIMIT = _kind(
    "move-limit-reached",
    "{job} is not moved automatically: it has {chips:chip}, and {left} of `move-chips-per-hour` "
    "{left:=is|are} left",
    frozenset({Trigger.TIME_PASSED, Trigger.CONFIGURATION_CHANGED}),
    "wait",
    "raise `move-chips-per-hour`",
    "run `ringwise defrag --apply`",
)
MOVES_UNDER_WAY = _kind(
    "moves-in-progress",
    "{moved:job is|jobs are} already being moved so that {job} can start",
    CAPACITY | _TIME,
)
NOT_WAITING = _kind(
    "not-pending",
    "the job is not waiting for chips",
    CAPACITY | {Trigger.JOB_CHANGED},
)
NOT_ENOUGH_FREE = _kind(
    "too-few-chips-for-moves",
    "moving jobs cannot help: {needed:chip} requested, {free} {free:=is|are} free",
)
NO_MOVES_HELP = _kind(
    "no-moves-help",
    "no moves can start the job: {why}",
    CAPACITY | {Trigger.JOB_CHANGED},
)
PLAN_TOO_COSTLY = _kind(
    "plan-search-limit-reached",
    "search limit reached; no plan found",
    CAPACITY | {Trigger.TIME_PASSED},
    "plan for this job only: `ringwise defrag --plan --for {job}`",
)
