"""The queries that a running lab answers. Its own process answers, so nothing is copied."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Sized
from typing import Any

from rich.console import Console
from rich.markup import escape

from ringwise.apps.lab.api import Query, time_of
from ringwise.apps.lab.faults import faults_now
from ringwise.apps.lab.lab import LiveLab
from ringwise.apps.lab.maintenance import (
    copy_of,
    left_by_drain,
    plan_document,
    plan_drain,
    without_many_waiting,
)
from ringwise.apps.lab.queries import (
    UnknownNameError,
    all_names,
    drain_document,
    find_name,
    plain,
    status_document,
)
from ringwise.apps.targets import find_target
from ringwise.cli.drawing.chips import chip_list
from ringwise.cli.drawing.faults import print_faults
from ringwise.cli.drawing.lab import (
    amounts_text,
    draw_jobs,
    draw_nodes,
    draw_pods,
    draw_queues,
    draw_top,
    node_picture,
    node_state,
)
from ringwise.cli.drawing.lines import print_line
from ringwise.cli.drawing.maintenance import print_plan
from ringwise.cli.drawing.tables import Column, Table
from ringwise.cli.explain import capacity_result, diagnosis_result, story_result, why_result
from ringwise.cli.queries import QueryResult, render_result
from ringwise.cli.topology import topology_result
from ringwise.durations import duration_text, time_text
from ringwise.embed.containers import PodContainer
from ringwise.framework.amounts import request_text
from ringwise.scheduler.explain.doctor import diagnose
from ringwise.scheduler.explain.why import UnknownJobError
from ringwise.state.model import Node, Pod, Queue
from ringwise.views.chips import chip_documents, chips_document
from ringwise.views.cluster import (
    JobView,
    job_views,
    node_documents,
    not_placed,
    pod_documents,
    queue_documents,
    top_document,
    with_present_reasons,
    with_reasons,
)
from ringwise.views.documents.cluster import (
    ChipsDocument,
    JobDocument,
    JobsDocument,
    NodeDocument,
    NodesDocument,
    PodDocument,
    PodFields,
    PodsDocument,
    QueueDocument,
    QueuesDocument,
)
from ringwise.views.documents.maintenance import FaultsDocument
from ringwise.views.explain import ended_document, ended_sentence

Parameters = Mapping[str, Any]


def _get(live: LiveLab, parameters: Parameters) -> QueryResult:
    kind, namespace, now = parameters.get("kind"), parameters.get("namespace"), live.now
    if kind == "nodes":
        nodes = node_documents(live.objects)
        all_nodes: NodesDocument = {"schema": "ringwise.io/nodes/v2", "nodes": nodes}
        return _listed(kind, nodes, all_nodes, lambda console: draw_nodes(console, live, nodes))
    if kind == "jobs":
        chosen = [view for view in job_views(live.objects) if namespace in (None, view.namespace)]
        views = with_reasons(live.objects, chosen)
        jobs = [view.document() for view in views]
        all_jobs: JobsDocument = {"schema": "ringwise.io/jobs/v1", "jobs": jobs}
        return _listed(kind, jobs, all_jobs, lambda console: draw_jobs(console, views, now))
    if kind == "queues":
        queues = queue_documents(live.objects)
        all_queues: QueuesDocument = {"schema": "ringwise.io/queues/v1", "queues": queues}
        return _listed(kind, queues, all_queues, lambda console: draw_queues(console, queues))
    if kind == "pods":
        some = [pod for pod in live.objects.pods if namespace in (None, pod.namespace)]
        pods = pod_documents(live.objects, some)
        all_pods: PodsDocument = {"schema": "ringwise.io/pods/v1", "pods": pods}
        return _listed(kind, pods, all_pods, lambda console: draw_pods(console, pods, now))
    raise UnknownNameError(f"there is no kind {kind}; known are nodes, jobs, queues, pods")


def _listed(kind: str, found: Sized, document: object, draw: Callable[[Console], None]) -> QueryResult:
    """A list of objects; where there is none, a line that says so."""
    return QueryResult(document, draw if found else lambda console: console.print(f"there are no {kind}"))


# -- one object --------------------------------------------------------------------------------


def _describe(live: LiveLab, parameters: Parameters) -> QueryResult:
    kind = str(parameters.get("kind"))
    key = find_name(live, kind, str(parameters.get("name")), parameters.get("namespace"))
    return {"node": _node, "job": _job, "queue": _queue, "pod": _pod}[kind](live, key)


def _node(live: LiveLab, name: str) -> QueryResult:
    node = live.cluster.get(Node, name)
    assert node is not None
    fields = next(found for found in node_documents(live.objects) if found["name"] == name)
    pods = pod_documents(live.objects, [pod for pod in live.cluster.all(Pod) if pod.node == name])
    document: NodeDocument = {"schema": "ringwise.io/node/v2", **fields, "object": plain(node), "on_it": pods}

    def draw(console: Console) -> None:
        _facts(
            console,
            f"node {name}",
            {
                "state": node_state(document),
                "address": document["address"],
                "leaf switch": document["switch"],
                "SuperPoD": document["superpod"],
                "labels": ", ".join(f"{key}={value}" for key, value in node.labels.items()),
                "taints": ", ".join(f"{taint.key}:{taint.effect}" for taint in node.taints),
            },
        )
        for chips in document["chips"]:
            picture = node_picture(live, chips)
            print_line(
                console,
                f"  {escape(chips['resource'])} ({chips['board'] or 'no board'})  {escape(picture)}  "
                f"{len(chips['free'])} of {chips['count']} free",
            )
            kept_back = chips["marks"]["pre_separated"]
            if kept_back:
                print_line(
                    console,
                    f"  PreSeparateNPU: {chip_list(kept_back)} (new pods do not get them)",
                    style="yellow",
                )
        for one in document["states"]:
            if one["why"]:
                print_line(console, f"  {escape(one['why'])}", style="yellow")
        _titled_pods(console, live, pods)

    return QueryResult(document, draw)


def _job(live: LiveLab, key: str) -> QueryResult:
    found = [view for view in job_views(live.objects) if view.key == key]
    view = with_present_reasons(live.objects, found[:1], live.now)[0]
    pods = pod_documents(live.objects, view.pods, live.now)
    document: JobDocument = {
        "schema": "ringwise.io/job/v1",
        **view.document(),
        "object": plain(view.vcjob),
        "counts": view.counts,
        "all_pods": pods,
    }

    def draw(console: Console) -> None:
        _facts(console, f"job {key} ({view.kind})", _job_facts(view))
        for note in document.get("notes", ()):
            print_line(console, f"  {escape(note)}", style="yellow")
        if view.reason is not None:
            print_line(console, f"  {escape(view.reason.message)}", style="yellow")
            if view.board is not None:
                print_line(console, f"  {escape(view.board)}")
            for cure in view.reason.cures:
                print_line(console, f"  -> {escape(cure)}")
        _titled_pods(console, live, pods)

    return QueryResult(document, draw)


def _job_facts(view: JobView) -> dict[str, Any]:
    vcjob = view.vcjob
    tasks = "" if vcjob is None else ", ".join(f"{task.replicas} x {task.name}" for task in vcjob.tasks)
    return {
        "phase": view.shown_phase,
        "queue": view.queue,
        "priority": view.priority or None,
        "tasks": tasks,
        "pods": f"{view.placed} of {view.wanted} placed, {view.needed} needed to start",
        "chips": view.chips,
        "retries": None if vcjob is None else vcjob.retry_count or None,
        "message": " ".join(filter(None, (vcjob.reason, vcjob.message))) if vcjob is not None else None,
        "submitted": time_text(view.created),
    }


def _queue(live: LiveLab, name: str) -> QueryResult:
    own = [view for view in job_views(live.objects) if view.queue == name]
    views = with_reasons(live.objects, own)
    fields = next(found for found in queue_documents(live.objects) if found["name"] == name)
    document: QueueDocument = {
        "schema": "ringwise.io/queue/v1",
        **fields,
        "object": plain(live.cluster.get(Queue, name)),
        "in_it": [view.document() for view in views],
    }

    def draw(console: Console) -> None:
        _facts(
            console,
            f"queue {name}",
            {
                "state": document["state"],
                "weight": document["weight"],
                "used": amounts_text(document["used"]),
                "kept": _kept(live, document),
                "at most": amounts_text(document["capability"]),
                "guaranteed": amounts_text(document["guarantee"]),
                "reclaimable": "yes" if document["reclaimable"] else "no",
            },
        )
        if views:
            console.print()
            draw_jobs(console, views, live.now)

    return QueryResult(document, draw)


def _kept(live: LiveLab, queue: QueueDocument) -> str | None:
    """What counts as used although no pod uses it (F6)."""
    if not queue["kept"]:
        return None
    until = live.objects.view.kept_until(queue["name"])
    limit = "" if until is None else f", for at most {duration_text(until - live.now)}"
    return f"{amounts_text(queue['kept'])} for {', '.join(queue['kept_for'])}, which lost pods{limit}"


def _pod(live: LiveLab, key: str) -> QueryResult:
    pod = live.cluster.get(Pod, key)
    assert pod is not None
    additions = plain(live.cluster.additions(pod.uid))
    container = live.cluster.container(pod.uid)
    document: PodDocument = {
        "schema": "ringwise.io/pod/v1",
        **pod_documents(live.objects, [pod], live.now)[0],
        "object": plain(pod),
        "additions": additions,
        "container": plain(container),
    }
    given = {} if container is None else container.environment

    def draw(console: Console) -> None:
        _facts(
            console,
            f"pod {key}",
            {
                "phase": document["phase"],
                "job": document["job"],
                "node": pod.node,
                "asks for": request_text(pod.cls),
                "chips": ", ".join(map(str, pod.named_chips)),
                "rank": document["rank"],
                "exit code": pod.exit_code,
                "created": time_text(pod.created),
            },
        )
        reason = document["reason"]
        if reason is not None:
            print_line(console, f"  {escape(reason['message'])}", style="yellow")
            for cure in reason["cures"]:
                print_line(console, f"  -> {escape(cure)}")
        if container is not None:
            _draw_container(console, container)
        # What the pod's own specification sets comes last, and so wins.
        environment = {**given, **_environment(live, pod)}
        for title, pairs in (("annotations", pod.annotations), ("environment", environment)):
            if pairs:
                console.print(f"  {title}:")
                for name, value in sorted(pairs.items()):
                    print_line(console, f"    {escape(name)}: {escape(value)}")

    return QueryResult(document, draw)


def _environment(live: LiveLab, pod: Pod) -> dict[str, str]:
    """The variables that job plugins set, with the values that a container would read now."""
    additions = live.cluster.additions(pod.uid)
    found = {**dict(additions.env), **dict(additions.container_env)}
    for name, source in additions.env_from:
        found[name] = live.cluster.published(pod.namespace, source, name)
    return found


def _draw_container(console: Console, container: PodContainer) -> None:
    """What the device plugin's answer brought into the container."""
    if container.refused:
        print_line(console, f"  UnexpectedAdmissionError: {escape(container.refused)}", style="red")
        return
    nodes = [
        one.container if one.container == one.host else f"{one.container} (host {one.host})"
        for one in container.devices
    ]
    for title, names in (
        ("kubelet's ids", container.ids),
        ("device nodes", nodes),
        ("CDI devices", container.cdi_devices),
        ("mounts, read only", container.mounts),
    ):
        if names:
            console.print(f"  {title}:")
            for name in names:
                print_line(console, f"    {escape(name)}")


def _facts(console: Console, title: str, facts: Mapping[str, Any]) -> None:
    print_line(console, f"[bold]{escape(title)}[/]")
    shown = {name: value for name, value in facts.items() if value not in (None, "")}
    table = Table([Column(""), Column("", wraps=True)], indent=2, gap=2, headings=False)
    for name, value in shown.items():
        table.add(name, str(value))
    table.print(console)


def _titled_pods(console: Console, live: LiveLab, pods: Sequence[PodFields]) -> None:
    if pods:
        console.print()
        draw_pods(console, pods, live.now)


def _why(live: LiveLab, parameters: Parameters) -> QueryResult:
    """Raises UnknownJobError. A vcjob that is over has no gang any more that the scheduler would know."""
    name = str(parameters.get("job"))
    try:
        return why_result(live.source, name, parameters.get("exit_code") is True)
    except UnknownJobError:
        over = [
            view
            for view in job_views(live.objects)
            if name in (view.key, view.name) and view.outcome == "ended"
        ]
        if not over:
            raise
        return _ended(over[-1])


def _story(live: LiveLab, parameters: Parameters) -> QueryResult:
    """Raises UnknownStoryError. Every turn is in the journal on disk before a query is answered."""
    if not live.folder.journal.exists():
        raise UnknownNameError("this lab keeps no journal (--journal-size 0)")
    journals = [path for path in (live.folder.older_journal, live.folder.journal) if path.exists()]
    return story_result(str(parameters.get("job")), journals)


def _drain_plan(live: LiveLab, parameters: Parameters) -> QueryResult:
    """Raises UnknownTargetError."""
    target = find_target(live.view, str(parameters.get("target")))
    at = time_of(live, parameters)
    table, without = without_many_waiting(live.cluster.table)
    with copy_of(table, live.now, live.settings) as copy:
        plan = plan_drain(copy, target.nodes, at=at, without=without)
    return QueryResult(plan_document(target, plan), lambda console: print_plan(console, target, plan))


def _drain_question(live: LiveLab, parameters: Parameters) -> dict[str, Any]:
    """What a drain would do to jobs. Raises UnknownTargetError."""
    target = str(parameters.get("target"))
    nodes = find_target(live.view, target).nodes
    left: dict[str, str] = {}
    if not parameters.get("force"):
        left = left_by_drain(live.cluster.table, live.now, live.settings, nodes)
    return drain_document(live.objects, target, left)


def _faults(live: LiveLab, _parameters: Parameters) -> QueryResult:
    rows = [row.as_json() for row in faults_now(live.cluster)]
    document = FaultsDocument(schema="ringwise.io/faults/v1", faults=rows)
    return QueryResult(document, lambda console: print_faults(console, rows))


def _ended(view: JobView) -> QueryResult:
    sentence = ended_sentence(view)
    document = ended_document(view, sentence)

    def draw(console: Console) -> None:
        print_line(console, f"[bold]{escape(view.key)}[/]: [dim]ended[/]")
        print_line(console, f"  {escape(sentence)}")

    return QueryResult(document, draw)


def _top(live: LiveLab, height: Any = None) -> QueryResult:
    objects = live.objects
    views = with_reasons(objects, job_views(objects))
    document = top_document(objects, status_document(live), views)
    waiting = not_placed(views)
    return QueryResult(document, lambda console: draw_top(console, live, document, waiting, height))


# -- the table of queries ------------------------------------------------------------------------


def _rendered(answering: Callable[[LiveLab, Parameters], QueryResult]) -> Query:
    return lambda live, parameters: render_result(answering(live, parameters), parameters)


def _status(live: LiveLab, _parameters: Parameters) -> dict[str, Any]:
    """With a check of all tables, which takes too long for every second."""
    return {**status_document(live), "wrong": live.view.inconsistencies()}


def _chips(live: LiveLab, parameters: Parameters) -> ChipsDocument:
    node = parameters.get("node")
    if node is not None:
        find_name(live, "node", str(node))
    return chips_document(chip_documents(live.view, live.now, node))


QUERIES: dict[str, Query] = {
    "status": _status,
    "get": _rendered(_get),
    "chips": _chips,
    "describe": _rendered(_describe),
    "names": lambda live, parameters: all_names(live, str(parameters.get("kind"))),
    "drain": _drain_question,
    "drain-plan": _rendered(_drain_plan),
    "top": _rendered(lambda live, parameters: _top(live, parameters.get("height"))),
    "why": _rendered(_why),
    "story": _rendered(_story),
    "faults": _rendered(_faults),
    "capacity": _rendered(lambda live, parameters: capacity_result(live.source, parameters.get("queue"))),
    "doctor": _rendered(lambda live, _parameters: diagnosis_result(diagnose(live.view))),
    "topology": _rendered(
        lambda live, parameters: topology_result(live.source, str(parameters.get("output", "table")))
    ),
}
