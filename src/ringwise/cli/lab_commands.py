"""The commands for the running lab: submit, get, describe, top, delete, cordon, drain, advance."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ringwise.cli.completion import LabName
from ringwise.cli.draining import before_draining, jobs_that_stay
from ringwise.cli.exit_codes import ExitCode, code_of_outcomes
from ringwise.cli.output import FILES, complain, exit_code_option, output_option, stdout_console, stop
from ringwise.cli.queries import (
    QueryResult,
    lab_client,
    lab_option,
    query_lab,
    show_result,
    terminal,
)
from ringwise.grammar import counted

if TYPE_CHECKING:
    from rich.console import Console

_PLURALS = {"node": "nodes", "job": "jobs", "queue": "queues", "pod": "pods"}
_SINGULARS = {plural: singular for singular, plural in _PLURALS.items()}
#: Seconds between two questions whether jobs have started.
_POLL_SECONDS = 0.5
_NAMESPACE = click.option("-n", "--namespace", help="Only this namespace.  [default: all]")


def duration_argument(text: str) -> int:
    """`90`, `90s`, `1h30m`, in nanoseconds."""
    from ringwise.apps.lab.api import MOST_TIME
    from ringwise.embed.kubelet import NotSimulatableError, seconds_or_duration

    try:
        found = seconds_or_duration(text)
    except NotSimulatableError:
        raise click.BadParameter(
            f"{text!r} is no span of time: write seconds (90), or 90s, 30m, 1h30m"
        ) from None
    if found >= MOST_TIME:
        raise click.BadParameter(f"{text!r} is too long: at most 100 years")
    return found


# -- reading -------------------------------------------------------------------------------------


@click.command("get")
@click.argument("kind", type=click.Choice([*_PLURALS.values(), *_PLURALS]), metavar="nodes|jobs|queues|pods")
@_NAMESPACE
@lab_option
@output_option
def get_command(kind: str, namespace: str | None, lab: Path | None, output: str) -> None:
    """List the lab's nodes, jobs, queues or pods."""
    query_lab(lab, "get", output, kind=_PLURALS.get(kind, kind), namespace=namespace)


@click.command("describe")
@click.argument("kind", type=click.Choice([*_PLURALS]), metavar="node|job|queue|pod")
@click.argument("name", type=LabName(), metavar="[NAMESPACE/]NAME")
@_NAMESPACE
@lab_option
@output_option
def describe_command(kind: str, name: str, namespace: str | None, lab: Path | None, output: str) -> None:
    """Show all fields of one object of the lab."""
    query_lab(lab, "describe", output, kind=kind, name=name, namespace=namespace)


@click.command("top")
@click.option("--once", is_flag=True, help="Print one frame and exit.")
@click.option(
    "--every",
    type=click.FloatRange(0.1, 3600),
    default=1.0,
    show_default=True,
    help="Seconds between frames.",
)
@lab_option
@output_option
def top_command(once: bool, every: float, lab: Path | None, output: str) -> None:
    """Show the chips of all nodes, the queues and the pending jobs, until Ctrl-C."""
    console = stdout_console()
    if once or output != "table" or not console.is_terminal:
        query_lab(lab, "top", output)
        return
    _show_frames(console, lab, every)


def _show_frames(console: Console, lab: Path | None, every: float) -> None:
    import time

    from rich.live import Live
    from rich.text import Text

    from ringwise.apps.lab.client import LabClient, NoLabError, RefusedByLabError
    from ringwise.apps.lab.folder import default_folder

    client = LabClient(lab or default_folder())
    try:
        with Live(console=console, screen=True, auto_refresh=False) as live:
            while True:
                frame = client.ask("top", output="table", height=console.height, **terminal())
                live.update(Text.from_ansi(frame["text"]), refresh=True)
                time.sleep(every)
    except KeyboardInterrupt:
        return
    except (NoLabError, RefusedByLabError) as error:
        raise stop(f"ringwise: {error}") from None


# -- changing ------------------------------------------------------------------------------------


@click.command("submit")
@click.argument("files", nargs=-1, type=FILES, metavar="FILE...")
@click.option("-f", "--file", "more", multiple=True, type=FILES, help="File, folder, or - for stdin.")
@click.option("--keep-going", is_flag=True, help="Skip bad documents and submit the rest; exit code 2.")
@click.option("--dry-run", is_flag=True, help="Only show what would become of the jobs.")
@click.option(
    "--wait",
    is_flag=True,
    help="Wait until the jobs run or have ended. Exit code 3 when one is refused, 4 after --timeout. "
    "Virtual time is advanced.",
)
@click.option(
    "--timeout",
    type=duration_argument,
    metavar="DURATION",
    default="1h",
    show_default=True,
    help="How long --wait waits, in time of the lab.",
)
@exit_code_option
@lab_option
@output_option
def submit_command(
    files: tuple[str, ...],
    more: tuple[str, ...],
    keep_going: bool,
    dry_run: bool,
    wait: bool,
    timeout: int,
    exit_code: bool,
    lab: Path | None,
    output: str,
) -> None:
    """Submit Nodes, jobs, pods, PodGroups, Queues, PriorityClasses, ConfigMaps and Commands to the lab.

    All objects are stored, or none. A job that can never run is reported at once.
    """
    if not files and not more:
        raise stop("ringwise: nothing to submit: give a file, a folder, or - for stdin")
    if dry_run and wait:
        raise stop("ringwise: --dry-run submits nothing that --wait could wait for: give one of them")
    from ringwise.apps.lab.submission import submission_of
    from ringwise.cli.inputs import load_bundle, tell_notes

    bundle = load_bundle((*files, *more), keep_going=keep_going)
    submission, problems = submission_of(bundle)
    if problems:
        raise stop(*problems)
    submission.dry_run = dry_run
    tell_notes(bundle)
    with lab_client(lab, "submitting") as client:
        answer = client.submit(submission)
    complain(*(f"note: {note}" for note in answer.pop("notes")))
    jobs = answer["jobs"]
    code = ExitCode.OK
    if wait:
        jobs, started = _wait_for(lab, jobs, timeout)
        answer["jobs"] = jobs
        code = ExitCode.OK if started else ExitCode.PENDING
    if wait or exit_code:
        code = code_of_outcomes([job["outcome"] for job in jobs]) or code
    if dry_run:
        complain("note: a dry run: nothing was submitted")

    def draw(console: Console) -> None:
        from ringwise.cli.drawing.lab import draw_submitted

        draw_submitted(console, answer)

    show_result(QueryResult(answer, draw, code=ExitCode.BAD_INPUT if bundle.errors else code), output)


def _wait_for(lab: Path | None, jobs: list[Any], timeout: int) -> tuple[list[Any], bool]:
    """The jobs after they have started, or after the timeout; and whether all that can have started."""
    import time

    from ringwise.apps.lab.api import MOST_TIME

    names = [f"{job['namespace']}/{job['name']}" for job in jobs]
    with lab_client(lab, f"waiting for {', '.join(names[:3])}{' ...' if len(names) > 3 else ''}") as client:
        limit = min(client.do("wait", jobs=[], until=0)["now"] + timeout, MOST_TIME - 1)
        while True:
            answer = client.do("wait", jobs=names, until=limit)
            if answer["settled"] or answer["over"]:
                return answer["jobs"], answer["settled"]
            time.sleep(_POLL_SECONDS)


def _do(lab: Path | None, output: str, action: str, sentence: str, **parameters: Any) -> None:
    with lab_client(lab, action) as client:
        answer = client.do(action, **parameters)
    _show_text(answer, sentence.format(**{**parameters, **answer}), output)


def _show_text(document: Any, text: str, output: str) -> None:
    def draw(console: Console) -> None:
        from ringwise.cli.drawing.lines import print_lines

        print_lines(console, text)

    show_result(QueryResult(document, draw), output)


@click.command("delete")
@click.argument(
    "kind", type=click.Choice([*_PLURALS, *_PLURALS.values()]), required=False, metavar="[job|pod|queue|node]"
)
@click.argument("names", nargs=-1, type=LabName(), metavar="[[NAMESPACE/]NAME...]")
@click.option("-n", "--namespace", help="Their namespace, where several have that name; with --all, only it.")
@click.option(
    "-f",
    "--file",
    "files",
    multiple=True,
    type=FILES,
    help="Delete the jobs, pods, queues and nodes of this file or folder.",
)
@click.option("--all", "everything", is_flag=True, help="All objects of the kind; the queue default stays.")
@click.option("--ignore-not-found", is_flag=True, help="Pass over objects that are not there.")
@lab_option
@output_option
def delete_command(
    kind: str | None,
    names: tuple[str, ...],
    namespace: str | None,
    files: tuple[str, ...],
    everything: bool,
    ignore_not_found: bool,
    lab: Path | None,
    output: str,
) -> None:
    """Delete jobs with their pods, pods, empty queues, nodes with their pods: all that are named or none."""
    kind = None if kind is None else _SINGULARS.get(kind, kind)
    if files and (kind is not None or everything):
        raise stop("ringwise: -f names the objects by itself: give no kind, no names and no --all with it")
    if not files and kind is None:
        raise stop(
            "ringwise: nothing to delete: give job, pod, queue or node with names or --all, or -f FILE"
        )
    if kind is not None and bool(names) == everything:
        raise stop(f"ringwise: name the {_PLURALS[kind]} to delete, or give --all")
    objects = _objects_of_files(files) if files else [(kind, name) for name in names]
    with lab_client(lab, "deleting") as client:
        answer = client.do(
            "delete",
            objects=objects,
            all=kind if everything else None,
            namespace=namespace,
            ignore_not_found=ignore_not_found,
        )
    lines = [f"{one['kind']} {one['name']} deleted" for one in answer["deleted"]]
    _show_text(answer, "\n".join(lines or ["there is nothing to delete"]), output)


def _objects_of_files(files: tuple[str, ...]) -> list[tuple[str, str]]:
    """What `delete -f` deletes: (kind, key). Pods and PodGroups of a vcjob go with it."""
    from ringwise.cli.inputs import load_bundle

    bundle = load_bundle(files, keep_going=False, may_skip=False)
    vcjobs = {(job.namespace, job.name) for job in bundle.vcjobs}
    found = [("job", job.key) for job in bundle.vcjobs]
    found += [
        ("job", group.key)
        for group in bundle.pod_groups
        if group.owner is None or (group.namespace, group.owner.name) not in vcjobs
    ]
    groups = {key for _, key in found}
    for pod in bundle.pods:
        owned = pod.owner is not None and (pod.namespace, pod.owner.name) in vcjobs
        if not owned and f"{pod.namespace}/{pod.group}" not in groups:
            found.append(("pod", pod.key))
    found += [("queue", queue.name) for queue in bundle.queues if queue.name != "default"]
    found += [("node", node.name) for node in bundle.nodes]
    staying = len(bundle.config_maps) + len(bundle.priority_classes)
    if staying:
        complain(f"note: ConfigMaps and PriorityClasses stay in the lab: {staying}")
    if not found:
        raise stop("ringwise: the files hold no job, pod, queue or node")
    return found


@click.command("cordon")
@click.argument("node", type=LabName("node"))
@lab_option
@output_option
def cordon_command(node: str, lab: Path | None, output: str) -> None:
    """Mark NODE of the lab as unschedulable."""
    _do(lab, output, "cordon", "node {node} cordoned", node=node)


@click.command("uncordon")
@click.argument("node", type=LabName("node"))
@lab_option
@output_option
def uncordon_command(node: str, lab: Path | None, output: str) -> None:
    """Mark NODE of the lab as schedulable."""
    _do(lab, output, "uncordon", "node {node} uncordoned", node=node)


@click.command("drain")
@click.argument("target", type=LabName("node"), metavar="NODE|switch/ADDRESS|superpod/ID")
@click.option("--plan", is_flag=True, help="Only show which jobs would move where, and which would wait.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option(
    "--force",
    is_flag=True,
    help="Evict also jobs that could not be completed: no place is free for their pods, or nothing starts "
    "them again.",
)
@click.option(
    "--at",
    metavar="TIME",
    help="Drain at this time, like 2026-01-31T08:00:00Z, or 90m from now. From now on the nodes take no job "
    "that would not end before.",
)
@click.option("--wait", is_flag=True, help="With --at: wait until then and drain; virtual time is advanced.")
@click.option(
    "--timeout",
    type=duration_argument,
    metavar="DURATION",
    default="5m",
    show_default=True,
    help="How long each job may take to run again before the next one is evicted, in time of the lab.",
)
@lab_option
@output_option
def drain_command(
    target: str,
    plan: bool,
    yes: bool,
    force: bool,
    at: str | None,
    wait: bool,
    timeout: int,
    lab: Path | None,
    output: str,
) -> None:
    """Cordon nodes and evict their pods, after a question that names the jobs that lose pods.

    Jobs that could not be completed without the nodes are named and stay, unless --force is given. The others
    go one after the other, each with the grace of its pods, so that it can write a checkpoint; virtual time
    is advanced between them. --plan tries it on a copy and changes nothing.
    """
    if plan:
        query_lab(lab, "drain-plan", output, target=target, at=at)
        return
    if wait and at is None:
        raise click.UsageError("--wait goes with --at TIME")
    if at is not None and not _announce(lab, target, at, wait, output):
        return
    with lab_client(lab, "querying the lab") as client:
        affected = client.ask("drain", target=target, force=force)
    answer = _drain(lab, target, before_draining(affected, yes), timeout)
    leaving = answer["leaving"]
    lines = [
        f"{affected['target']} cordoned; {counted(leaving, 'pod')} evicted",
        *(f"  {pod}" for pod in leaving),
    ]
    _show_text(answer, "\n".join(lines), output)
    stay = jobs_that_stay(affected)
    if stay:
        raise stop(f"ringwise: not evicted: {', '.join(stay)}", code=ExitCode.FAILED)


def _announce(lab: Path | None, target: str, at: str, wait: bool, output: str) -> bool:
    """Keep jobs off that would run beyond the time; True when it has come."""
    import getpass
    import shlex
    import time

    from ringwise.apps.lab.folder import default_folder
    from ringwise.durations import time_text

    with lab_client(lab, "asking the lab") as client:
        answer = client.do("isolate", target=target, chip="", by=getpass.getuser(), reason="drain", at=at)
        when = time_text(answer["start"])
        if not wait:
            # Without --lab `release` changes the cluster of the kubeconfig.
            here = f"--lab {shlex.quote(str((lab or default_folder()).expanduser().absolute()))}"
            lines = [
                f"{answer['title']} takes no job that would not end before {when}",
                f"then: ringwise drain {answer['target']}{f' {here}' if lab else ''}",
                f"afterwards, or instead: ringwise release {answer['target']} --reason TEXT {here}",
            ]
            _show_text(answer, "\n".join(lines), output)
            return False
        complain(f"{answer['title']} takes no job that would not end before {when}; waiting until then")
        while not client.do("pass", until=answer["start"])["over"]:
            time.sleep(_POLL_SECONDS)
    return True


def _drain(lab: Path | None, target: str, jobs: list[str], timeout: int) -> Any:
    """One job after the other: the next goes when the one before runs again, or has had its time."""
    import time

    from ringwise.apps.lab.api import MOST_TIME

    leaving: list[str] = []
    with lab_client(lab, f"draining {target}") as client:
        answer = client.do("drain", target=target, job=jobs[0] if jobs else "")
        leaving += answer["leaving"]
        for before, job in itertools.pairwise(jobs):
            limit: int | None = None
            while True:
                wanted = {"target": target, "job": before}
                settled = client.do("settle", **wanted, until=0 if limit is None else limit)
                if settled["settled"] or (limit is not None and settled["over"]):
                    break
                limit = limit or min(settled["now"] + timeout, MOST_TIME - 1)
                if not settled["over"]:
                    time.sleep(_POLL_SECONDS)
            if not settled["settled"]:
                complain(f"note: {before} does not run again yet; the next job is evicted")
            leaving += client.do("drain", target=target, job=job)["leaving"]
    return {**answer, "leaving": leaving}


@click.command("advance", context_settings={"ignore_unknown_options": True})
@click.argument("duration", type=duration_argument, required=False, metavar="[DURATION]")
@lab_option
@output_option
def advance_command(duration: int | None, lab: Path | None, output: str) -> None:
    """Advance the virtual time of a lab by DURATION; without it, to the next event."""
    from ringwise.durations import time_text

    with lab_client(lab, "advancing the time") as client:
        answer = client.do("advance", nanoseconds=duration)
    _show_text(answer, f"it is {time_text(answer['now'])}", output)
