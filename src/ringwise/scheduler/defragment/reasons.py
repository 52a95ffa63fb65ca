"""Why a running job must not be moved, and why no plan starts a job that waits."""

from __future__ import annotations

from ringwise.reasons import CAPACITY, ReasonKind, Stage, Trigger

_JOB_CHANGED = frozenset({Trigger.JOB_CHANGED})
_TIME = frozenset({Trigger.TIME_PASSED, Trigger.JOB_CHANGED})

# -- jobs that must not be moved

MUST_NOT_MOVE = ReasonKind(
    "move-disabled",
    Stage.GANG,
    "{job} is not moved: {key} is {value}",
    ("remove {key} from the job",),
    _JOB_CHANGED,
)
MOVE_NOT_ALLOWED = ReasonKind(
    "move-not-allowed",
    Stage.GANG,
    "{job} is moved only by `ringwise defrag --apply`: {key} is not {value}",
    ("set {key}: {value} on the job",),
    _JOB_CHANGED,
)
NOT_RECREATED = ReasonKind(
    "not-recreated",
    Stage.GANG,
    "{job} is not moved: its pods would not be recreated ({why})",
    resolved_by=_JOB_CHANGED,
)
TIED_TO_NODE = ReasonKind(
    "tied-to-node",
    Stage.GANG,
    "{job} is not moved: its pods belong to a {kind} and cannot run on other nodes",
    resolved_by=_JOB_CHANGED,
)
POLICY_ENDS_JOB = ReasonKind(
    "policy-ends-job",
    Stage.GANG,
    "{job} is not moved: its policy {event}: {action} would end it",
    ("use a policy for {event} that does not end the job",),
    _JOB_CHANGED,
)
RETRIES_USED_UP = ReasonKind(
    "retries-exhausted",
    Stage.GANG,
    "{job} is not moved: its policy {event}: {action} restarts it, and {left} of maxRetry {limit} "
    "{left:=is|are} left",
    ("raise maxRetry",),
    _JOB_CHANGED,
)
EVICTION_COUNTS_AS_FAILURE = ReasonKind(
    "eviction-counts-as-failure",
    Stage.GANG,
    "{job} is not moved: its Job counts evicted pods as failures, {why}",
    resolved_by=_JOB_CHANGED,
)
BUDGET_FORBIDS_MOVE = ReasonKind(
    "budget-forbids-move",
    Stage.GANG,
    "{job} is not moved: PodDisruptionBudget {budget} allows {allowed:eviction}, {needed} required",
    resolved_by=_TIME,
)
COOLS_DOWN = ReasonKind(
    "move-cooldown",
    Stage.GANG,
    "{job} is not moved for another {seconds:~}: {why}",
    resolved_by=_TIME,
)
BEING_RESCHEDULED = ReasonKind(
    "being-rescheduled",
    Stage.GANG,
    "{job} is not moved: it is being rescheduled after a fault, a drain or a move",
    resolved_by=_TIME,
)
NOT_COMPLETE = ReasonKind(
    "job-incomplete",
    Stage.GANG,
    "{job} is not moved: {why}",
    resolved_by=CAPACITY | {Trigger.JOB_CHANGED},
)
OF_ANOTHER_SCHEDULER = ReasonKind(
    "scheduled-by-another-scheduler",
    Stage.GANG,
    "{job} is not moved: another scheduler bound its pods",
    resolved_by=_JOB_CHANGED,
)
MOVE_IS_WORSE = ReasonKind(
    "move-to-worse-placement",
    Stage.GANG,
    "{job} is not moved: it would use {after} {what} instead of {before}",
)

MOVE_IS_HIGHER = ReasonKind(
    "move-to-higher-tier",
    Stage.GANG,
    "{job} is not moved: the lowest HyperNode with all its pods would be on tier {after} instead of {before}",
)

# -- jobs for which there is no plan

STARTS_WITHOUT_MOVES = ReasonKind(
    "starts-without-moves",
    Stage.GANG,
    "the job fits without moves, and starts in the next cycle",
)
MOVED_LATELY = ReasonKind(
    "moved-recently",
    Stage.GANG,
    "{job} was moved within the last {span}",
    (
        "wait",
        "set `move-again-after` to a shorter time",
    ),
    frozenset({Trigger.TIME_PASSED, Trigger.CONFIGURATION_CHANGED}),
)
OVER_HOURLY_LIMIT = ReasonKind(
    "move-limit-reached",
    Stage.GANG,
    "{job} is not moved automatically: it has {chips:chip}, and {left} of `move-chips-per-hour` "
    "{left:=is|are} left",
    (
        "wait",
        "raise `move-chips-per-hour`",
        "run `ringwise defrag --apply`",
    ),
    frozenset({Trigger.TIME_PASSED, Trigger.CONFIGURATION_CHANGED}),
)
MOVES_UNDER_WAY = ReasonKind(
    "moves-in-progress",
    Stage.GANG,
    "{moved:job is|jobs are} already being moved so that {job} can start",
    resolved_by=CAPACITY | _TIME,
)
NOT_WAITING = ReasonKind(
    "not-pending",
    Stage.GANG,
    "the job is not waiting for chips",
    resolved_by=CAPACITY | {Trigger.JOB_CHANGED},
)
NOT_ENOUGH_FREE = ReasonKind(
    "too-few-chips-for-moves",
    Stage.GANG,
    "moving jobs cannot help: {needed:chip} requested, {free} {free:=is|are} free",
)
NO_MOVES_HELP = ReasonKind(
    "no-moves-help",
    Stage.GANG,
    "no moves can start the job: {why}",
    resolved_by=CAPACITY | {Trigger.JOB_CHANGED},
)
PLAN_TOO_COSTLY = ReasonKind(
    "plan-search-limit-reached",
    Stage.GANG,
    "search limit reached; no plan found",
    ("plan for this job only: `ringwise defrag --plan --for {job}`",),
    CAPACITY | {Trigger.TIME_PASSED},
)
