"""Why a running job must not be moved, and why no plan starts a job that waits."""

from __future__ import annotations

from ringwise.reasons import CAPACITY, ReasonFamily, Stage, Trigger

_JOB_CHANGED, _TIME_PASSED = {Trigger.JOB_CHANGED}, {Trigger.TIME_PASSED}
# By what can fix them. All are of the gang: whole gangs move.
_of_job = ReasonFamily(Stage.GANG, frozenset(_JOB_CHANGED))
_of_time = ReasonFamily(Stage.GANG, frozenset(_TIME_PASSED | _JOB_CHANGED))
_of_settings = ReasonFamily(Stage.GANG, frozenset(_TIME_PASSED | {Trigger.CONFIGURATION_CHANGED}))
_of_capacity = ReasonFamily(Stage.GANG)
_of_job_or_capacity = ReasonFamily(Stage.GANG, CAPACITY | _JOB_CHANGED)


# -- jobs that must not be moved

MUST_NOT_MOVE = _of_job("move-disabled", "{job} is not moved: {key} is {value}", "remove {key} from the job")
MOVE_NOT_ALLOWED = _of_job(
    "move-not-allowed",
    "{job} is moved only by `ringwise defrag --apply`: {key} is not {value}",
    "set {key}: {value} on the job",
)
NOT_RECREATED = _of_job("not-recreated", "{job} is not moved: its pods would not be recreated ({why})")
TIED_TO_NODE = _of_job(
    "tied-to-node", "{job} is not moved: its pods belong to a {kind} and cannot run on other nodes"
)
POLICY_ENDS_JOB = _of_job(
    "policy-ends-job",
    "{job} is not moved: its policy {event}: {action} would end it",
    "use a policy for {event} that does not end the job",
)
RETRIES_USED_UP = _of_job(
    "retries-exhausted",
    "{job} is not moved: its policy {event}: {action} restarts it, and {left} of maxRetry {limit} "
    "{left:=is|are} left",
    "raise maxRetry",
)
EVICTION_COUNTS_AS_FAILURE = _of_job(
    "eviction-counts-as-failure", "{job} is not moved: its Job counts evicted pods as failures, {why}"
)
BUDGET_FORBIDS_MOVE = _of_time(
    "budget-forbids-move",
    "{job} is not moved: PodDisruptionBudget {budget} allows {allowed:eviction}, {needed} required",
)
COOLS_DOWN = _of_time("move-cooldown", "{job} is not moved for another {seconds:~}: {why}")
BEING_RESCHEDULED = _of_time(
    "being-rescheduled", "{job} is not moved: it is being rescheduled after a fault, a drain or a move"
)
NOT_COMPLETE = _of_job_or_capacity("job-incomplete", "{job} is not moved: {why}")
OF_ANOTHER_SCHEDULER = _of_job(
    "scheduled-by-another-scheduler", "{job} is not moved: another scheduler bound its pods"
)
MOVE_IS_WORSE = _of_capacity(
    "move-to-worse-placement", "{job} is not moved: it would use {after} {what} instead of {before}"
)

MOVE_IS_HIGHER = _of_capacity(
    "move-to-higher-tier",
    "{job} is not moved: the lowest HyperNode with all its pods would be on tier {after} instead of {before}",
)

# -- jobs for which there is no plan

STARTS_WITHOUT_MOVES = _of_capacity(
    "starts-without-moves", "the job fits without moves, and starts in the next cycle"
)
MOVED_LATELY = _of_settings(
    "moved-recently",
    "{job} was moved within the last {span}",
    "wait",
    "set `move-again-after` to a shorter time",
)
OVER_HOURLY_LIMIT = _of_settings(
    "move-limit-reached",
    "{job} is not moved automatically: it has {chips:chip}, and {left} of `move-chips-per-hour` "
    "{left:=is|are} left",
    "wait",
    "raise `move-chips-per-hour`",
    "run `ringwise defrag --apply`",
)
MOVES_UNDER_WAY = ReasonFamily(Stage.GANG, CAPACITY | _TIME_PASSED | _JOB_CHANGED)(
    "moves-in-progress", "{moved:job is|jobs are} already being moved so that {job} can start"
)
NOT_WAITING = _of_job_or_capacity("not-pending", "the job is not waiting for chips")
NOT_ENOUGH_FREE = _of_capacity(
    "too-few-chips-for-moves", "moving jobs cannot help: {needed:chip} requested, {free} {free:=is|are} free"
)
NO_MOVES_HELP = _of_job_or_capacity("no-moves-help", "no moves can start the job: {why}")
PLAN_TOO_COSTLY = ReasonFamily(Stage.GANG, CAPACITY | _TIME_PASSED)(
    "plan-search-limit-reached",
    "search limit reached; no plan found",
    "plan for this job only: `ringwise defrag --plan --for {job}`",
)
