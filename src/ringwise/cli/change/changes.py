"""The commands that change a lab or a cluster: submit, delete, cordon, isolate, unisolate, advance."""

from __future__ import annotations

import getpass
from pathlib import Path
from typing import Any

import click

from ringwise.cli.change.targets import POLL_SECONDS, ChangeTarget, LabTarget, change_target
from ringwise.cli.commands import COMMAND, program_of
from ringwise.cli.completion import LabName
from ringwise.cli.exit_codes import ExitCode, code_of_outcomes
from ringwise.cli.kind_argument import KindArgument, kind_and_names
from ringwise.cli.options import (
    FILES,
    change_options,
    duration_argument,
    duration_option,
    exit_code_option,
    files_option,
    flag,
    lab_option,
    namespace_options,
    node_options,
    option,
    output_option,
    target_options,
    with_options,
)
from ringwise.cli.output import complain, stop
from ringwise.cli.query.queries import ask, only_lab, show, show_text
from ringwise.grammar import counted
from ringwise.views.documents.changes import (
    AdvanceDocument,
    DeleteDocument,
    NodeChangeDocument,
    SubmitDocument,
)
from ringwise.views.kinds import KINDS, ShownKind

#: Refused jobs that are named in a message.
_NAMED = 3


@click.command("submit")
@click.argument("files", nargs=-1, type=FILES, metavar="FILE...")
@files_option("Manifests to submit: file, directory or - (stdin).", "more")
@option("-n --namespace", "Namespace of objects that name none; an object in another one is an error.")
@flag("--keep-going", "Skip invalid documents and submit the rest (exit code 2).")
@flag("--dry-run", "Only show where the jobs would be scheduled.")
@flag(
    "--wait",
    "Wait until the jobs run or have finished. Exit code 3 if one is rejected, 4 after --timeout. "
    "Virtual time is advanced.",
)
@duration_option("--timeout", "Timeout of --wait, in time of the lab.", "1h")
@exit_code_option
@change_options
def submit_command(
    files: tuple[str, ...],
    more: tuple[str, ...],
    namespace: str | None,
    keep_going: bool,
    dry_run: bool,
    wait: bool,
    timeout: int,
    exit_code: bool,
    output: str,
    **options: Any,
) -> None:
    """Submit jobs, nodes, queues and other objects to the lab.

    A cluster accepts only objects of ringwise.io, such as Isolations; use kubectl for other kinds. Either
    all objects are stored, or none are. A job that can never run is reported immediately. Exit code 1 if
    a job is rejected or the kind of an object is unknown.
    """
    if not files and not more:
        raise stop("ringwise: nothing to submit: a file, a directory, or - for stdin is required")
    if dry_run and wait:
        raise stop("ringwise: --dry-run and --wait cannot be combined")
    from ringwise.apps.lab.submission import submission_of
    from ringwise.cli.inputs import load_bundle

    bundle = load_bundle((*files, *more), keep_going=keep_going, namespace=namespace)
    submission, problems = submission_of(bundle)
    if problems:
        raise stop(*problems)
    submission.dry_run = dry_run
    submission.create = click.get_current_context().meta.get(COMMAND) == "create"
    complain(*(f"note: {note}" for note in bundle.notes if note not in bundle.misspelled))
    if bundle.disruption_budgets:
        count = counted(len(bundle.disruption_budgets), "object")
        complain(f"note: PodDisruptionBudget: {count} not stored; a lab does not support them")
    objects = counted(f"{len(list(submission.objects())):,}", "object")
    target = change_target(options)
    answer = target.change("submit", submission, f"submitting {objects}", SubmitDocument)
    if answer is None:
        complain(f"note: {objects} stored; the lab did not explain the jobs in time: see ringwise get jobs")
        code = ExitCode.PENDING if wait else ExitCode.FAILED if bundle.misspelled else ExitCode.OK
        raise SystemExit(ExitCode.BAD_INPUT if bundle.errors else code)
    complain(*(f"note: {note}" for note in answer.notes))
    answer.notes, jobs = [], answer.jobs
    code = ExitCode.OK
    if wait:
        jobs, started = _wait_for(target, jobs, timeout)
        answer.jobs = jobs
        code = ExitCode.OK if started else ExitCode.PENDING
    refused = [f"job {job['namespace']}/{job['name']}" for job in jobs if job["state"] == "rejected"]
    if len(refused) > _NAMED:
        refused[_NAMED:] = [counted(len(refused) - _NAMED, "more job")]
    complain(*(f"not accepted: {one}" for one in bundle.misspelled))
    # They are stored all the same, and start when they are corrected.
    complain(*(f"warning: {one} is rejected" for one in refused))
    if bundle.misspelled or refused:
        code = ExitCode.FAILED
    if wait or exit_code:
        code = code_of_outcomes([job["state"] for job in jobs]) or code
    if dry_run:
        complain("note: dry run: nothing was submitted")

    show(
        answer,
        output,
        "cluster.draw_submitted",
        ExitCode.BAD_INPUT if bundle.errors else code,
        dry_run=dry_run,
    )


def _wait_for(target: ChangeTarget, jobs: list[Any], timeout: int) -> tuple[list[Any], bool]:
    """The jobs after they have started, or after the timeout; and whether all that can have started."""
    import time

    from ringwise.apps.lab.requests import MAX_TIME, WaitRequest

    names = [f"{job['namespace']}/{job['name']}" for job in jobs]
    if not names:
        return [], True
    doing = f"waiting for {', '.join(names[:3])}{' ...' if len(names) > 3 else ''}"
    limit = min(target.change("wait", WaitRequest([], 0))["now"] + timeout, MAX_TIME - 1)
    while True:
        answer = target.change("wait", WaitRequest(names, limit), doing)
        if answer["settled"] or answer["over"]:
            return answer["jobs"], answer["settled"]
        time.sleep(POLL_SECONDS)


_DELETABLE = [kind for kind in KINDS if kind.is_deletable]


@click.command("delete")
@click.argument(
    "kind",
    type=KindArgument(_DELETABLE),
    required=False,
    metavar="[KIND]",
)
@click.argument("names", nargs=-1, type=LabName(), metavar="[[NAMESPACE/]NAME...]")
@option(
    "-n --namespace",
    "Namespace of the objects; required if several namespaces have the name.  [default: with --all or "
    "-l, default]",
)
@flag("-A --all-namespaces", "All namespaces; with --all or -l.")
@option("-l --selector", "Label selector of the objects to delete, as in kubectl.", default="")
@files_option("Delete the jobs, pods, queues and nodes of this file or directory.")
@flag("--all everything", "Delete all objects of the kind, except the queue default.")
@flag("--dry-run", "Only show what would be deleted.")
@flag("--ignore-not-found", "Ignore objects that do not exist.")
@change_options
def delete_command(
    kind: str | None,
    names: tuple[str, ...],
    namespace: str | None,
    all_namespaces: bool,
    selector: str,
    files: tuple[str, ...],
    everything: bool,
    dry_run: bool,
    ignore_not_found: bool,
    output: str,
    **options: Any,
) -> None:
    """Delete jobs, pods, queues and nodes of the lab.

    KIND is job (vcjobs, vcjob, vj), node (no), queue (q), pod (po), reservation, isolation, moveplan (mp) or
    usagelimit (ulim), and KIND/NAME is accepted, too. In a cluster, KIND is one of the last four; use kubectl
    for other kinds. Jobs and nodes are deleted with their pods; a queue must be empty. Either all named
    objects are deleted, or none.
    """
    where, is_default = "", namespace is None
    if files and (kind is not None or everything or selector):
        raise stop("ringwise: -f cannot be combined with a kind, names, -l or --all")
    if kind is not None:
        deleted, names = kind_and_names(kind, names)
        kind = deleted.name
        if [bool(names), bool(selector), everything].count(True) != 1:
            raise stop(f"ringwise: the names of the {kind}s to delete, or one of -l and --all, are required")
        if not names and "namespace" in deleted.key_fields and not all_namespaces:
            where = f" in namespace {namespace}" if namespace else " in namespace default; -A deletes in all"
            namespace = namespace or "default"
        if selector:
            names, ignore_not_found = _selected(deleted, selector, namespace, options), True
    elif not files:
        raise stop(
            "ringwise: nothing to delete: job, pod, queue or node with names, -l or --all, or -f FILE, "
            "is required"
        )
    from ringwise.apps.lab.requests import DeleteRequest

    objects = _objects_of_files(files, namespace) if files else [(str(kind), name) for name in names]
    request = DeleteRequest(objects, kind if everything else None, namespace, ignore_not_found, dry_run)
    if objects or everything:
        answer = change_target(options).change("delete", request, "deleting", DeleteDocument)
    else:
        answer = DeleteDocument(deleted=[])
    done = "deleted (dry run)" if dry_run else "deleted"
    if where and is_default and answer.deleted:
        # Lists of a lab show all namespaces.
        complain(f"note: only {kind}s{where}")
    lines = [f"{one.kind} {one.name} {done}" for one in answer.deleted]
    show_text(answer, output, "\n".join(lines or [f"there is nothing to delete{where}"]))


def _selected(
    kind: ShownKind, selector: str, namespace: str | None, options: dict[str, Any]
) -> tuple[str, ...]:
    """The names of the objects with these labels."""
    from ringwise.views.lists import Choice, ListError, Listing

    listing = Listing(selector, namespace=namespace)
    try:
        Choice(kind.plural, listing)
    except ListError as error:
        raise stop(f"ringwise: {error}") from None
    rows = ask(options, lambda source: source.get(kind.plural, listing))[kind.plural]
    return tuple(kind.key(row) for row in rows)


def _objects_of_files(files: tuple[str, ...], namespace: str | None) -> list[tuple[str, str]]:
    """What `delete -f` deletes: (kind, key). Pods and PodGroups of a vcjob go with it."""
    from ringwise.cli.inputs import load_bundle
    from ringwise.messages.move_plan import MovePlan
    from ringwise.state.limits import UsageLimit
    from ringwise.state.model import Isolation, NodeReservation, PriorityClass
    from ringwise.topology.switches import SwitchTopology

    bundle = load_bundle(files, keep_going=False, may_skip=False, namespace=namespace)
    vcjobs = {(job.namespace, job.name) for job in bundle.vcjobs}
    result = [("job", job.key) for job in bundle.vcjobs]
    result += [
        ("job", group.key)
        for group in bundle.pod_groups
        if group.owner is None or (group.namespace, group.owner.name) not in vcjobs
    ]
    groups = {key for _, key in result}
    for pod in bundle.pods:
        owned = pod.owner is not None and (pod.namespace, pod.owner.name) in vcjobs
        if not owned and f"{pod.namespace}/{pod.group}" not in groups:
            result.append(("pod", pod.key))
    result += [("queue", queue.name) for queue in bundle.queues if queue.name != "default"]
    result += [("node", node.name) for node in bundle.nodes]
    result += [("reservation", one.name) for one in bundle.of(NodeReservation)]
    result += [("isolation", one.name) for one in bundle.of(Isolation)]
    result += [("usagelimit", limit.name) for limit in bundle.of(UsageLimit)]
    result += [("moveplan", plan.id) for plan in bundle.of(MovePlan)]
    stored: tuple[type, ...] = (PriorityClass, SwitchTopology)
    staying = len(bundle.config_maps) + sum(len(bundle.of(kind)) for kind in stored)
    if staying:
        complain(f"note: ConfigMaps and PriorityClasses stay in the lab: {staying}")
    if not result:
        raise stop("ringwise: the files do not contain an object that can be deleted")
    return result


# -- nodes ---------------------------------------------------------------------------------------


_cordoning = with_options(
    click.argument("nodes", nargs=-1, required=True, type=LabName("node"), metavar="NODE..."),
    node_options,
)


@click.command("cordon")
@_cordoning
def cordon_command(nodes: tuple[str, ...], output: str, **options: Any) -> None:
    """Mark nodes as unschedulable."""
    _cordon("cordon", nodes, output, options)


@click.command("uncordon")
@_cordoning
def uncordon_command(nodes: tuple[str, ...], output: str, **options: Any) -> None:
    """Mark nodes as schedulable."""
    _cordon("uncordon", nodes, output, options)


def _cordon(action: str, nodes: tuple[str, ...], output: str, options: dict[str, Any]) -> None:
    from ringwise.apps.lab.requests import NodeRequest

    target = change_target(options)
    for number, node in enumerate(nodes):
        document = target.change(action, NodeRequest(node), document=NodeChangeDocument)
        if number and output == "yaml":
            click.echo("---")
        show_text(document, output, f"node {node} {'' if document.changed else 'already '}{action}ed")
        if document.withheld:
            program = program_of(click.get_current_context())
            complain(f"note: {document.withheld}; to end that, too: {program} unisolate {node}")


_isolating = with_options(
    click.argument("target", metavar="NODE|switch/ADDRESS|superpod/ID"),
    click.argument("chips", nargs=-1, metavar="[CHIP...]"),
    target_options,
    namespace_options,
)


@click.command("isolate")
@_isolating
@option("--reason", "Reason to record in the Isolation.", required=True, metavar="TEXT")
def isolate_command(target: str, chips: tuple[str, ...], reason: str, **options: Any) -> None:
    """Isolate chips, a node, a leaf switch or a SuperPoD.

    Pods that use them continue; no new pod is scheduled on them.
    """
    what, answer = _isolate("isolate", target, chips, reason, options)
    click.echo(f"{what} isolated" if answer["changed"] else f"{what} is isolated already")


@click.command("unisolate")
@_isolating
def unisolate_command(target: str, chips: tuple[str, ...], **options: Any) -> None:
    """End the isolation of chips, a node, switch or SuperPoD.

    Chips of a node that were isolated by name stay isolated.
    """
    what, answer = _isolate("unisolate", target, chips, "", options)
    click.echo(f"{what} is no longer isolated" if answer["changed"] else f"{what} is not isolated")
    if not chips and (left := answer["isolated_chips"]):
        complain(f"note: {counted(left, 'chip stays', 'chips stay')} isolated: {', '.join(left)}")
        complain(
            f"to end that, too: {program_of(click.get_current_context())} unisolate {target} {' '.join(left)}"
        )


def _isolate(
    action: str, target: str, chips: tuple[str, ...], reason: str, options: dict[str, Any]
) -> tuple[str, dict[str, Any]]:
    """What it is about, in words, and the answer."""
    from ringwise.apps.lab.requests import IsolateRequest
    from ringwise.apps.targets import NODE, Target, isolation_of, named

    kind, name = named(target)
    try:
        isolation_of(kind, name, *chips)
    except ValueError as problem:
        raise click.UsageError(str(problem)) from None
    what = str(Target(kind, name, ())) if not chips else f"chip {', '.join(chips)} of {NODE} {name}"
    request = IsolateRequest(target, list(chips), getpass.getuser(), reason)
    return what, change_target(options).change(action, request)


@click.command("advance", context_settings={"ignore_unknown_options": True})
@click.argument("duration", type=duration_argument, required=False, metavar="[DURATION]")
@lab_option
@output_option
def advance_command(duration: int | None, lab: Path | None, output: str) -> None:
    """Advance the virtual time of a lab.

    Without DURATION, time is advanced to the next event.
    """
    from ringwise.apps.lab.requests import AdvanceRequest
    from ringwise.durations import time_text

    only_lab({"lab": lab}, "a cluster has real time")
    answer = LabTarget(lab).change("advance", AdvanceRequest(duration), "advancing the time", AdvanceDocument)
    show_text(answer, output, f"virtual time: {time_text(answer.now)}")
