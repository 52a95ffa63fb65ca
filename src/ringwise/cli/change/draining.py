"""`ringwise drain`: the question before it, and the drain of a lab and of a cluster."""

from __future__ import annotations

import getpass
import itertools
import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ringwise.cli.change.targets import POLL_SECONDS, ClusterTarget, change_target
from ringwise.cli.commands import program_of
from ringwise.cli.completion import LabName
from ringwise.cli.exit_codes import ExitCode
from ringwise.cli.options import (
    duration_option,
    flag,
    option,
    plan_options,
)
from ringwise.cli.output import complain, confirm, spinner, stop
from ringwise.cli.query.queries import (
    ask,
    cluster_opener,
    in_cluster_hint,
    lab_client,
    show,
    show_text,
    source_of,
    talking_to_cluster,
)
from ringwise.grammar import agrees, counted
from ringwise.records import dataclass

if TYPE_CHECKING:
    from ringwise.kubeclient.config import Access


@dataclass(frozen=True, slots=True)
class DrainOptions:
    """What a person asks for, of a lab or of a cluster."""

    target: str
    yes: bool
    force: bool
    at: str | None
    wait: bool
    #: Nanoseconds.
    timeout: int
    output: str


@click.command("drain")
@click.argument(
    "targets", nargs=-1, required=True, type=LabName("node"), metavar="NODE|switch/ADDRESS|superpod/ID"
)
@flag("--plan --dry-run", "Only show which jobs would move where, and which would be pending or not evicted.")
@flag("-y --yes", "Do not ask for confirmation.")
@flag(
    "--force",
    "Also evict jobs that could not run again, because no other nodes fit or their pods would not be "
    "recreated. PodDisruptionBudgets are still respected.",
)
@option(
    "--at",
    "Drain at this time, such as 2026-01-31T08:00:00Z, 18:00 or +2h. Until then, the nodes accept only "
    "jobs that end by then. The command to run at that time is printed.",
    metavar="TIME",
)
@flag("--wait", "Wait until the time of --at and drain (lab only); virtual time is advanced.")
@duration_option(
    "--timeout",
    "How long to wait for each job before the next one is evicted: in a lab until it is running again, "
    "in a cluster until its pods have terminated.",
    "5m",
)
# Options of kubectl for what each drain does.
@flag(
    "--ignore-daemonsets", "No effect: pods of DaemonSets are never evicted.", hidden=True, expose_value=False
)
@flag(
    "--delete-emptydir-data",
    "No effect: pods with emptyDir volumes are evicted like other pods.",
    hidden=True,
    expose_value=False,
)
@plan_options
def drain_command(
    targets: tuple[str, ...],
    plan: bool,
    yes: bool,
    force: bool,
    at: str | None,
    wait: bool,
    timeout: int,
    output: str,
    **options: Any,
) -> None:
    """Drain a node, leaf switch or SuperPoD (asks for confirmation).

    Nodes of a lab are cordoned; nodes of a cluster are isolated, and their pods without chips continue.

    Jobs that could not run again without the nodes are listed but not evicted, unless --force is given. The
    other jobs are evicted one at a time with their termination grace period, so that they can write a
    checkpoint; virtual time is advanced between evictions. --plan only shows the plan and changes nothing.
    """
    source_of(options)
    target, *others = targets
    if others:
        raise click.UsageError(
            "drain takes one target; cordon all of them first, so that no job moves to another one: "
            f"{program_of(click.get_current_context())} cordon {' '.join(targets)}"
        )
    if plan:
        document = ask(options, lambda source: source.drain_plan(target, at, force=force))
        show(document, output, "maintenance.print_plan")
        return
    if wait and at is None:
        raise click.UsageError("--wait requires --at")
    wanted = DrainOptions(target, yes, force, at, wait, timeout, output)
    drained = change_target(options)
    if isinstance(drained, ClusterTarget):
        _drain_cluster(drained.access, wanted, options)
    else:
        _drain_lab(drained.lab, wanted)


# -- the question --------------------------------------------------------------------------------


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
        confirm(f"drain {answer['target']} and evict {counted(answer['pods'], 'pod')}?", "drains")
    return [_key(job) for job in going]


def jobs_that_stay(answer: dict[str, Any]) -> list[str]:
    return [_key(job) for job in answer["jobs"] if job["stays"]]


def _key(job: dict[str, Any]) -> str:
    return f"{job['namespace']}/{job['name']}"


def _stays_text(job: dict[str, Any]) -> str:
    """Of a job that a drain leaves (F4)."""
    return f"{_key(job)} is not evicted, because it could not run again: {job['stays']} (--force evicts it)"


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


def _later(title: str, when: str, again: str, unisolate: str) -> str:
    """What to do after a drain was scheduled."""
    return (
        f"{title} takes only jobs that end before {when}\nto drain it at that time: {again}\n"
        f"to cancel or undo the drain: {unisolate}"
    )


# -- a lab ---------------------------------------------------------------------------------------


def _drain_lab(lab: Path | None, wanted: DrainOptions) -> None:
    target, at, output = wanted.target, wanted.at, wanted.output
    if at is not None and not _announce(lab, target, at, wanted.wait, output):
        return
    with lab_client(lab, "querying the lab", hint=in_cluster_hint()) as client:
        affected = client.ask("drain", target=target, force=wanted.force)
    going = before_draining(affected, wanted.yes)
    try:
        answer = _drain_jobs(lab, target, going, wanted.timeout)
    except KeyboardInterrupt:
        target_flag = f" --lab {shlex.quote(str(lab))}" if lab else ""
        raise stop(
            f"ringwise: interrupted: {affected['target']} stays cordoned, and pods that were evicted are not "
            "brought back",
            f"to continue: ringwise drain {target}{target_flag}",
            f"to cancel: ringwise uncordon NODE{target_flag}",
            code=ExitCode.INTERRUPTED,
        ) from None
    leaving = answer["evicted_pods"]
    lines = [
        f"{affected['target']} cordoned; {counted(leaving, 'pod')} evicted",
        *(f"  {pod}" for pod in leaving),
    ]
    show_text(answer, output, "\n".join(lines))
    stay = jobs_that_stay(affected)
    if stay:
        raise stop(f"ringwise: not evicted: {', '.join(stay)}", code=ExitCode.FAILED)


def _announce(lab: Path | None, target: str, at: str, wait: bool, output: str) -> bool:
    """Keep jobs off that would run beyond the time; True when it has come."""
    from ringwise.apps.lab.requests import IsolateRequest, PassRequest
    from ringwise.durations import time_text

    with lab_client(lab, "asking the lab", hint=in_cluster_hint()) as client:
        request = IsolateRequest(target, by=getpass.getuser(), reason="drain", at=at)
        answer = client.do("isolate", request)
        when = time_text(answer["start"])
        if not wait:
            here = f" --lab {shlex.quote(str(lab))}" if lab else ""
            unisolate = f"ringwise unisolate {answer['target']}{here}"
            again = f"ringwise drain {answer['target']}{here}"
            show_text(answer, output, _later(answer["title"], when, again, unisolate))
            return False
        complain(f"{answer['title']} takes only jobs that end before {when}; waiting until then")
        while not client.do("pass", PassRequest(answer["start"]))["over"]:
            time.sleep(POLL_SECONDS)
    return True


def _drain_jobs(lab: Path | None, target: str, jobs: list[str], timeout: int) -> Any:
    """One job after the other: the next goes when the one before runs again, or has had its time."""
    from ringwise.apps.lab.requests import MAX_TIME, DrainRequest, SettleRequest

    leaving: list[str] = []
    with lab_client(lab, f"draining {target}") as client:
        answer = client.do("drain", DrainRequest(target, jobs[0] if jobs else ""))
        leaving += answer["evicted_pods"]
        for before, job in itertools.pairwise(jobs):
            limit: int | None = None
            while True:
                settled = client.do("settle", SettleRequest(target, before, limit or 0))
                if settled["settled"] or (limit is not None and settled["over"]):
                    break
                limit = limit or min(settled["now"] + timeout, MAX_TIME - 1)
                if not settled["over"]:
                    time.sleep(POLL_SECONDS)
            if not settled["settled"]:
                complain(f"note: {before} is not running again yet; evicting the next job")
            leaving += client.do("drain", DrainRequest(target, job))["evicted_pods"]
    return {**answer, "evicted_pods": leaving}


# -- a cluster -----------------------------------------------------------------------------------


def _drain_cluster(access: Access, wanted: DrainOptions, options: dict[str, Any]) -> None:
    from ringwise.apps.drain import drain, objects_of, table_of
    from ringwise.apps.lab.lab import LabSettings
    from ringwise.apps.lab.maintenance import affected_jobs, goes_in_cluster, left_by_drain
    from ringwise.apps.lab.queries import drain_document
    from ringwise.apps.live_changes import isolate
    from ringwise.apps.sources.cluster import read_live
    from ringwise.apps.targets import NODE, find_target, isolation_of, moment
    from ringwise.durations import time_text
    from ringwise.views.changes import node_change

    target, at, output, now = wanted.target, wanted.at, wanted.output, time.time_ns()
    if wanted.wait:
        raise stop("ringwise: --wait requires a lab; in a cluster, run the command at the time of --at")
    try:
        start = None if at is None else moment(at, now)
    except ValueError as problem:
        raise click.BadParameter(str(problem), param_hint="'--at'") from None
    with talking_to_cluster(unreachable=ExitCode.BAD_INPUT), spinner("reading the cluster"):
        source = cluster_opener(access, options)(now=now, notify=complain)
        bundle, configuration = source.bundle, source.configuration
        objects = objects_of(bundle, configuration, source.catalog, now)
        place = find_target(objects.view, target)
        left: dict[str, str] = {}
        if start is None and not wanted.force:
            settings = LabSettings(boards=options["boards"])
            table = table_of(bundle, now)
            left = left_by_drain(table, now, settings, place.nodes, configuration, of_cluster=True)
        affected = drain_document(objects, target, left, of_cluster=True)
    going = before_draining(affected, wanted.yes) if start is None else []
    command = target if place.kind == NODE else f"{place.kind}/{place.name}"
    entry = isolation_of(place.kind, place.name, reason="drain", start=start)
    with talking_to_cluster():
        changed = isolate(access, entry, on=True)
    flags = [f" --{name} {shlex.quote(options[name])}" for name in ("kubeconfig", "context") if options[name]]
    again = f"kubectl ringwise drain {command}{''.join(flags)}"
    unisolate = f"kubectl ringwise unisolate {command}{''.join(flags)}"
    if start is not None:
        if not changed:
            complain(f"note: {place} is already isolated, or a drain is already scheduled for that time")
        when = time_text(start)
        show_text(
            node_change(place.name, "drain", at=when), output, _later(str(place), when, again, unisolate)
        )
        return
    # Again: a pod may have come before the scheduler knew of the isolation.
    with talking_to_cluster(unreachable=ExitCode.BAD_INPUT), spinner("reading the cluster"):
        objects = objects_of(read_live(access).bundle, configuration, source.catalog, now)
    views = affected_jobs(objects, place.nodes, goes_in_cluster)
    stay = jobs_that_stay(affected)
    late = [view.key for view in views if view.key not in going and view.key not in stay]
    views = [view for view in views if view.key in going]
    try:
        with (
            talking_to_cluster(f"{place} stays isolated; {unisolate}"),
            spinner(f"draining {place}") as show_progress,
        ):
            done = drain(access, views, place.nodes, wanted.timeout, show_progress)
    except KeyboardInterrupt:
        raise stop(
            f"ringwise: interrupted: {place} stays isolated, and evicted pods are not restored",
            f"to continue: {again}",
            f"to cancel: {unisolate}",
            code=ExitCode.INTERRUPTED,
        ) from None
    done.problems += [f"{key}: not evicted; its pods came meanwhile, run it again" for key in late]
    done.problems += [f"{key}: not evicted" for key in stay]
    complain(*done.problems)
    lines = [f"{place} isolated; {counted(done.evicted, 'pod')} evicted"]
    lines += [*(f"  {pod}" for pod in done.evicted), f"afterwards: {unisolate}"]
    code = ExitCode.FAILED if done.problems else ExitCode.OK
    show_text(node_change(place.name, "drain", done.evicted), output, "\n".join(lines), code)
