"""`kubectl ringwise`: queries about a live cluster, with the user's own kubeconfig.

All objects are read once and answered by the same functions as queries about manifests. Only `drain` changes
something.
"""

from __future__ import annotations

import asyncio
import getpass
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.console import Console

from ringwise import __version__
from ringwise.apps.chips import ChipsError, isolate
from ringwise.apps.drain import drain, left_of, objects_of, plan_of
from ringwise.apps.lab.maintenance import affected_jobs, goes_in_cluster, plan_document
from ringwise.apps.lab.queries import drain_document
from ringwise.apps.live import (
    AlreadyThereError,
    LiveCluster,
    NothingReadableError,
    read_cluster,
    with_submitted,
)
from ringwise.apps.live_story import read_story
from ringwise.apps.place import place
from ringwise.apps.queries import examine
from ringwise.apps.source import Source, from_bundle
from ringwise.apps.story import ToldStory, UnknownStoryError
from ringwise.apps.targets import NODE, Target, UnknownTargetError, find_target, isolation_of, moment
from ringwise.cli.draining import before_draining, jobs_that_stay
from ringwise.cli.drawing.lines import print_lines
from ringwise.cli.drawing.maintenance import print_plan
from ringwise.cli.drawing.place import print_placements
from ringwise.cli.drawing.tables import Column, Table
from ringwise.cli.exit_codes import ExitCode, code_of_outcomes
from ringwise.cli.explain import capacity_result, diagnosis_result, tell_journals, told_result, why_result
from ringwise.cli.inputs import load_bundle, load_catalog, load_configuration
from ringwise.cli.lab_commands import duration_argument
from ringwise.cli.output import (
    FILES,
    board_option,
    complain,
    exit_code_option,
    output_option,
    spinner,
    stop,
    tell_plugin_problems,
    with_options,
)
from ringwise.cli.queries import QueryResult, show_result
from ringwise.cli.topology import topology_result
from ringwise.durations import time_text
from ringwise.framework.configuration import Configuration
from ringwise.grammar import counted
from ringwise.kubeclient.client import ApiError, Client, UnreachableError
from ringwise.kubeclient.config import Access, find_access
from ringwise.kubeclient.credentials import KubeConfigError
from ringwise.scheduler.node_states import chip_states, is_open, node_states, offered
from ringwise.views.documents.changes import NodeChangeDocument
from ringwise.views.documents.cluster import (
    LiveJobFields,
    LiveJobsDocument,
    LiveNodeFields,
    LiveNodesDocument,
)
from ringwise.views.place import PLACED, JobAnswer, place_document

Answer = TypeVar("Answer")

_SHOWN_ERRORS = 3
_LIVE = (
    click.option("--kubeconfig", help="Default: $KUBECONFIG, ~/.kube/config."),
    click.option("--context", help="A context of the kubeconfig."),
    click.option(
        "--config",
        type=click.Path(path_type=Path),
        help="A volcano-scheduler.conf.  [default: the cluster's ConfigMap]",
    ),
    board_option,
)
live_options = with_options((output_option, *_LIVE))


@click.group(name="kubectl-ringwise", context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="kubectl-ringwise")
def plugin() -> None:
    """Query a live cluster about chips and jobs, and drain its nodes; only `drain` changes something."""
    click.get_current_context().call_on_close(tell_plugin_problems)


@plugin.command("why")
@click.argument("job", metavar="[NAMESPACE/]JOB")
@click.option("--story", is_flag=True, help="Tell its life so far, from the Events of the cluster.")
@click.option(
    "--journal",
    "journals",
    multiple=True,
    type=click.Path(path_type=Path),
    help="With --story: read this journal of the scheduler instead; may be repeated, oldest first.",
)
@exit_code_option
@live_options
def why_live(
    job: str, story: bool, journals: tuple[Path, ...], exit_code: bool, output: str, **options: Any
) -> None:
    """Explain why JOB waits or where it runs, and what would change that."""
    if journals:
        tell_journals(job, journals, output)
    elif story:
        told = _finished(_read_story(options["kubeconfig"], options["context"], job))
        show_result(told_result(told), output)
    else:
        _answer(lambda source: why_result(source, job, exit_code), output, options)


@plugin.command("capacity")
@click.option("--queue", help="Count only what this queue may still use.")
@live_options
def capacity_live(queue: str | None, output: str, **options: Any) -> None:
    """Count how many more jobs of each shape would start now."""
    _answer(lambda source: capacity_result(source, queue), output, options)


@plugin.group("topology")
def topology_live() -> None:
    """Leaf switches and SuperPoDs."""


@topology_live.command("show")
@live_options
def show_live(output: str, **options: Any) -> None:
    """Draw leaf switches and SuperPoDs."""
    _answer(lambda source: topology_result(source, output), output, options, decide=False)


@plugin.command("doctor")
@live_options
def doctor_live(output: str, **options: Any) -> None:
    """Check the cluster: nodes, chips, reports, switches, SuperPoDs, queues, jobs."""
    live = _read(**_way(options))
    configuration, catalog = _configuration(live, options), load_catalog(options["boards"])
    show_result(diagnosis_result(examine(live.bundle, configuration, catalog, now=time.time_ns())), output)


@plugin.command("place")
@click.option(
    "-f", "--file", "files", multiple=True, required=True, type=FILES, help="File, folder, or - for stdin."
)
@click.option("--scores", is_flag=True, help="Show every candidate node of each job's first pod.")
@exit_code_option
@live_options
def place_live(files: tuple[str, ...], scores: bool, exit_code: bool, output: str, **options: Any) -> None:
    """Show where the jobs of manifests would be placed if they were submitted now.

    Pending jobs of the cluster are decided with them, in the cluster's order.
    """
    submitted = load_bundle(files, keep_going=False, may_skip=False)
    live = _read(**_way(options))
    _complain_about_objects(live)
    try:
        asked = with_submitted(live, submitted)
    except AlreadyThereError as error:
        raise stop(error) from None
    if not asked:
        raise stop("ringwise: the files hold no job, PodGroup or pod to place")
    answer = place(
        live.bundle,
        _configuration(live, options),
        load_catalog(options["boards"]),
        now=time.time_ns(),
        scores=scores,
    )
    answer.jobs = [job for job in answer.jobs if (job.namespace, job.name) in asked]
    complain(*answer.errors)
    code = code_of_outcomes([job.outcome for job in answer.jobs]) if exit_code else 0
    result = QueryResult(
        place_document(answer), lambda console: print_placements(console, answer, scores), code=code
    )
    show_result(result, output)


@plugin.command("get")
@click.argument("kind", type=click.Choice(["jobs", "nodes"]), default="jobs")
@click.option("-n", "--namespace", help="Only this namespace.  [default: all]")
@live_options
def get_live(kind: str, namespace: str | None, output: str, **options: Any) -> None:
    """List the cluster's jobs with their nodes or why they wait, or its nodes with their chips."""
    live = _read(**_way(options))
    _complain_about_objects(live)
    configuration, catalog = _configuration(live, options), load_catalog(options["boards"])
    if kind == "nodes":
        source = from_bundle(live.bundle, configuration, catalog, now=time.time_ns(), decide=False)
        show_result(_nodes_result(source), output)
        return
    answer = place(live.bundle, configuration, catalog, now=time.time_ns(), everything=True)
    jobs = [job for job in answer.jobs if namespace in (None, job.namespace)]
    show_result(_jobs_result(jobs), output)


@plugin.command("drain")
@click.argument("target", metavar="NODE|switch/ADDRESS|superpod/ID")
@click.option("--plan", is_flag=True, help="Only show which jobs would move where, and which would wait.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option(
    "--force",
    is_flag=True,
    help="Evict also jobs that could not be completed: no place is free for their pods, or nothing starts "
    "them again. Disruption budgets are kept all the same.",
)
@click.option(
    "--at",
    metavar="TIME",
    help="Drain at this time, like 2026-01-31T08:00:00Z, or 90m from now. From now on the nodes take no job "
    "that would not end before. The command to run at that time is printed.",
)
@click.option(
    "--timeout",
    type=duration_argument,
    metavar="DURATION",
    default="5m",
    show_default=True,
    help="How long the pods of each job may take to end before the next job is evicted.",
)
@live_options
def drain_live(
    target: str,
    plan: bool,
    yes: bool,
    force: bool,
    at: str | None,
    timeout: int,
    output: str,
    **options: Any,
) -> None:
    """Isolate nodes and evict their pods with chips, after a question that names the jobs that lose pods.

    Jobs that could not be completed without the nodes are named and stay, unless --force is given. The others
    go one after the other, each with the grace of its pods, so that it can write a checkpoint. Pods without
    chips stay. --plan tries it on a copy and changes nothing.
    """
    now = time.time_ns()
    try:
        start = None if at is None else moment(at, now)
    except ValueError as problem:
        raise click.BadParameter(str(problem), param_hint="'--at'") from None
    live = _read(**_way(options))
    _complain_about_objects(live)
    configuration = _configuration(live, options)
    catalog = load_catalog(options["boards"])
    try:
        if plan:
            found, planned = plan_of(live.bundle, configuration, options["boards"], target, now, start)
            document = plan_document(found, planned)
            show_result(
                QueryResult(document, lambda console: print_plan(console, found, planned)),
                output,
            )
            return
        objects = objects_of(live.bundle, configuration, catalog, now)
        found = find_target(objects.view, target)
        left: dict[str, str] = {}
        if start is None and not force:
            left = left_of(live.bundle, configuration, options["boards"], found.nodes, now)
        affected = drain_document(objects, target, left, of_cluster=True)
    except UnknownTargetError as problem:
        raise stop(f"ringwise: {problem}") from None
    going = before_draining(affected, yes) if start is None else []
    command = target if found.kind == NODE else f"{found.kind}/{found.name}"
    entry = isolation_of(
        found.kind, found.name, by=getpass.getuser(), at=time_text(now), reason="drain", start=start
    )
    changed = _changing(options, lambda access: isolate(access, entry))
    release = f"ringwise release {command} --reason TEXT"
    if start is not None:
        if not changed:
            complain(f"note: {found} is isolated already, or has a drain at that time")
        lines = [
            f"{found} takes no job that would not end before {time_text(start)}",
            f"then: kubectl ringwise drain {command}",
            f"afterwards, or instead: {release}",
        ]
        show_result(_drain_result(found, [], lines, at=start), output)
        return
    # Again: a pod may have come before the scheduler knew of the isolation.
    objects = objects_of(_read(**_way(options)).bundle, configuration, catalog, now)
    views = affected_jobs(objects, found.nodes, goes_in_cluster)
    stay = jobs_that_stay(affected)
    late = [view.key for view in views if view.key not in going and view.key not in stay]
    views = [view for view in views if view.key in going]
    try:
        with spinner(f"draining {found}") as show_text:
            done = _changing(
                options,
                lambda access: drain(access, views, found.nodes, timeout, show_text),
                f"{found} stays isolated; {release}",
            )
    except KeyboardInterrupt:
        raise stop(
            f"ringwise: interrupted: {found} stays isolated, and pods that were evicted are not brought back",
            f"to go on: kubectl ringwise drain {command}",
            f"to give up: {release}",
            code=ExitCode.FAILED,
        ) from None
    done.problems += [f"{key}: not evicted; its pods came meanwhile, run it again" for key in late]
    done.problems += [f"{key}: not evicted" for key in stay]
    complain(*done.problems)
    lines = [f"{found} isolated; {counted(done.evicted, 'pod')} evicted"]
    lines += [*(f"  {pod}" for pod in done.evicted), f"afterwards: {release}"]
    show_result(_drain_result(found, done.evicted, lines, failed=bool(done.problems)), output)


def _drain_result(
    target: Target, leaving: list[str], lines: list[str], failed: bool = False, at: int | None = None
) -> QueryResult:
    document: NodeChangeDocument = {
        "schema": "ringwise.io/node-change/v1",
        "node": target.name,
        "action": "drain",
        "leaving": leaving,
        "at": None if at is None else time_text(at),
    }
    code = ExitCode.FAILED if failed else ExitCode.OK
    return QueryResult(document, lambda console: print_lines(console, "\n".join(lines)), code=code)


def _jobs_result(jobs: list[JobAnswer]) -> QueryResult:
    documents: list[LiveJobFields] = [
        {
            "namespace": job.namespace,
            "name": job.name,
            # Nothing is bound from here: the scheduler will do so in its next cycle.
            "state": "starting" if job.outcome == PLACED else job.outcome,
            "pods": len(job.pods),
            "chips": sum(len(pod.chips or ()) for pod in job.pods),
            "nodes": sorted({pod.node for pod in job.pods if pod.node}),
            "reason": None if job.reason is None else job.reason.as_json(),
        }
        for job in jobs
    ]

    def draw(console: Console) -> None:
        columns = [Column("namespace", moves=True), Column("state"), Column("pods"), Column("chips")]
        columns = [Column("job"), *columns, Column("nodes", wraps=True)]
        table = Table(columns, note="why")
        for one in documents:
            table.add(
                one["name"],
                one["namespace"],
                one["state"],
                str(one["pods"]),
                str(one["chips"]),
                _few(one["nodes"]),
                note=one["reason"]["message"] if one["reason"] else "",
            )
        table.print(console)

    document: LiveJobsDocument = {"schema": "ringwise.io/live-jobs/v1", "jobs": documents}
    return QueryResult(document, draw)


def _nodes_result(source: Source) -> QueryResult:
    cluster = source.view.cluster
    documents: list[LiveNodeFields] = []
    for number in cluster.known_nodes():
        states = node_states(cluster, number, source.now)
        for resource, fleet in offered(cluster, number):
            chips = chip_states(cluster, number, fleet, is_open=is_open(states))
            documents.append(
                {
                    "node": cluster.names[number],
                    "resource": resource,
                    "state": states[0].state.value,
                    "chips": chips.listed.bit_count(),
                    "held": chips.used.bit_count(),
                    "faulty": chips.faulty.bit_count(),
                    "isolated": chips.isolated.bit_count(),
                    "reserved": chips.reserved.bit_count(),
                    "closed": chips.closed.bit_count(),
                    "free": chips.free.bit_count(),
                }
            )
    documents.sort(key=lambda one: one["resource"])

    def draw(console: Console) -> None:
        table = Table([Column(name) for name in LiveNodeFields.__annotations__])
        for one in documents:
            table.add(*map(str, one.values()))
        table.print(console)

    document: LiveNodesDocument = {"schema": "ringwise.io/live-nodes/v1", "nodes": documents}
    return QueryResult(document, draw)


def _few(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


# -- the cluster


def _answer(
    answering: Callable[[Source], QueryResult], output: str, options: dict[str, Any], *, decide: bool = True
) -> None:
    live = _read(**_way(options))
    _complain_about_objects(live)
    source = from_bundle(
        live.bundle,
        _configuration(live, options),
        load_catalog(options["boards"]),
        now=time.time_ns(),
        decide=decide,
    )
    complain(*source.errors)
    try:
        answer = answering(source)
    except LookupError as error:
        raise stop(f"ringwise: {error}") from None
    show_result(answer, output)


def _way(options: dict[str, Any]) -> dict[str, str | None]:
    return {"kubeconfig": options["kubeconfig"], "context": options["context"]}


def _configuration(live: LiveCluster, options: dict[str, Any]) -> Configuration:
    return live.configuration if options["config"] is None else load_configuration(options["config"])


def _read(kubeconfig: str | None, context: str | None) -> LiveCluster:
    live = _finished(_read_live(kubeconfig, context))
    complain(*(f"note: {line}" for line in live.missing))
    return live


async def _read_live(kubeconfig: str | None, context: str | None) -> LiveCluster:
    with spinner("reading the cluster") as show_text:

        def progress(kind: str, count: int) -> None:
            show_text(f"reading the cluster: {count} {kind}")

        async with Client(find_access(kubeconfig, context), component="kubectl") as client:
            return await read_cluster(client, progress=progress)


async def _read_story(kubeconfig: str | None, context: str | None, job: str) -> ToldStory:
    with spinner("reading the cluster"):
        async with Client(find_access(kubeconfig, context), component="kubectl") as client:
            return await read_story(client, job, time.time_ns())


def _finished(reading: Coroutine[Any, Any, Answer]) -> Answer:
    """Read something of the cluster; an error is one line."""
    try:
        return asyncio.run(reading)
    except (KubeConfigError, UnreachableError, NothingReadableError, UnknownStoryError) as error:
        raise stop(f"ringwise: {error}") from None
    except ApiError as error:
        raise stop(f"ringwise: the API server refused: {error}", code=ExitCode.FAILED) from None


def _changing(options: dict[str, Any], change: Callable[[Access], Answer], hint: str = "") -> Answer:
    """Carry out a change; an error is one line, followed by what is left to do."""
    try:
        return change(find_access(options["kubeconfig"], options["context"]))
    except (ChipsError, KubeConfigError) as problem:
        message, code = f"ringwise: {problem}", ExitCode.BAD_INPUT
    except UnreachableError as problem:
        message, code = f"ringwise: {problem}", ExitCode.FAILED
    except ApiError as problem:
        message, code = f"ringwise: the API server refused: {problem}", ExitCode.FAILED
    raise stop("\n".join(filter(None, (message, hint))), code=code)


def _complain_about_objects(live: LiveCluster) -> None:
    errors = live.bundle.errors
    complain(*(f"ignored: {error}" for error in errors[:_SHOWN_ERRORS]))
    if len(errors) > _SHOWN_ERRORS:
        complain(
            f"{counted(len(errors) - _SHOWN_ERRORS, 'more object')} cannot be read; kubectl ringwise "
            "doctor lists them"
        )
