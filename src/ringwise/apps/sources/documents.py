"""The answers of a process that has the objects of a cluster and a scheduler that knows them.

A lab answers with its own scheduler; files and clusters with one that has read their objects.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from ringwise.apps.moves import with_saving
from ringwise.apps.queries import count_capacity, explain_job, plan_moves
from ringwise.apps.reservations import ReservationRequest, reservation_of
from ringwise.framework.amounts import request_text
from ringwise.manifests.objects.move_plans import move_plan_body
from ringwise.messages.expected_start import ExpectedStart
from ringwise.messages.move_plan import DEFAULT_TTL, MovePlan
from ringwise.records import dataclass
from ringwise.scheduler.defragment.movable import DisruptionBudget
from ringwise.scheduler.explain.findings import ERROR, Finding
from ringwise.scheduler.explain.forecast import estimates
from ringwise.scheduler.explain.why import UnknownJobError, expected_start, not_obeyed
from ringwise.scheduler.job_states import JobState
from ringwise.state.model import Pod
from ringwise.state.node_labels import members_of
from ringwise.topology.natural import natural_key
from ringwise.versions import DOCUMENT_VERSION
from ringwise.views.chips import chip_documents
from ringwise.views.cluster import (
    ClusterObjects,
    JobView,
    chip_totals,
    job_views,
    node_documents,
    pod_documents,
    queue_documents,
    top_document,
    view_of_job,
    with_reasons,
    with_starts,
)
from ringwise.views.defragment import defrag_plan_document, move_plan_document, move_plan_documents
from ringwise.views.documents.maintenance import DefragPlanDocument, FaultsDocument, PlannedMoves
from ringwise.views.explain import (
    capacity_document,
    document_without_gang,
    explanation_document,
    explanation_pictures,
)
from ringwise.views.faults import faults_document
from ringwise.views.hyper_nodes import hyper_node_documents, hyper_node_members, jobs_inside
from ringwise.views.idle import idle_document
from ringwise.views.kinds import BY_NAME, KINDS
from ringwise.views.limits import limit_problems, limits_document, usage_limit_documents
from ringwise.views.lists import EVERYTHING, Choice, Listing
from ringwise.views.names import UnknownNameError, find_key, qualified
from ringwise.views.parts import observed_pod
from ringwise.views.place import job_class, pods_of_job, sub_group_fields
from ringwise.views.reservations import reservation_documents
from ringwise.views.topology import isolation_documents, topology_document
from ringwise.wellknown import RINGWISE_PREFIX

if TYPE_CHECKING:
    from ringwise.views.documents.accounting import IdleDocument
    from ringwise.views.documents.cluster import StatusFields, TopDocument
    from ringwise.views.documents.explain import CapacityDocument, WhyDocument
    from ringwise.views.documents.limits import LimitsDocument
    from ringwise.views.documents.reservations import ReservationPlanDocument
    from ringwise.views.documents.topology import TopologyDocument


class ClusterAnswers(ABC):
    """Every method reads the objects as they are at that moment."""

    @property
    @abstractmethod
    def now(self) -> int:
        """Nanoseconds since 1970: the moment that the answers are about."""

    @property
    @abstractmethod
    def objects(self) -> ClusterObjects:
        """The objects as they are: the moment that every answer shows."""

    @property
    def decided(self) -> ClusterObjects:
        """The same after a cycle: pending jobs have their reasons, or the nodes that they would get."""
        return self.objects

    @property
    def starts(self) -> Mapping[str, ExpectedStart]:
        """When waiting jobs are expected to start."""
        return estimates(self.decided.view, self.now)

    # -- objects

    def get(self, kind: str, listing: Listing = EVERYTHING) -> dict[str, Any]:
        choice = Choice(kind, listing)
        finder = FINDERS[choice.kind.name]
        rows, more = choice.of(finder.rows(self, choice))
        return {
            "schema": _schema(kind),
            **({"now": self.now} if finder.has_now else {}),
            kind: rows,
            **finder.beside(self),
            **({"remaining_item_count": more} if more else {}),
        }

    def describe(self, kind: str, name: str, namespace: str | None = None) -> dict[str, Any]:
        described = FINDERS[kind].described if kind in FINDERS else None
        if described is None:
            kinds = ", ".join(one.name for one in KINDS if one.is_described)
            raise UnknownNameError(f"unknown kind {kind}; must be one of {kinds}")
        return {"schema": _schema(kind), **described(self, name, namespace)}

    # -- reports

    def limits(self) -> LimitsDocument:
        return limits_document(self.decided.view, self.objects.view, self.now)

    def reservation_plan(self, request: ReservationRequest) -> ReservationPlanDocument:
        """Raises ValueError and LookupError with one line."""
        made = reservation_of(self.objects, request, self.now)
        (fields,) = reservation_documents(self.objects.view, self.now, [made])
        return {"schema": "ringwise.io/reservation-plan/v1", "now": self.now, "reservation": fields}

    def faults(self) -> FaultsDocument:
        return faults_document(self.objects.view, self.now)

    # -- explanations

    def top(self) -> TopDocument:
        views = self.views()
        return top_document(self.objects, self.status(views), views)

    def status(self, views: Sequence[JobView]) -> StatusFields:
        objects = self.objects
        outcomes = [view.outcome for view in views]
        return {
            "directory": "",
            "now": self.now,
            "speed": 1.0,
            "nodes": len(objects.nodes),
            "resources": chip_totals(objects.view, self.now),
            "jobs": len(views),
            "pending": outcomes.count("pending"),
            "scheduled": outcomes.count("scheduled"),
            "rejected": outcomes.count("rejected"),
            "pods": len(objects.pods),
            "commands": {},
            "incidents": [str(incident) for incident in objects.view.history.incidents[-5:]],
            "alarms": [],
        }

    def why(self, job: str, namespace: str | None = None, *, pictures: bool = False) -> WhyDocument:
        """Raises UnknownJobError. A vcjob that is over or suspended has no gang that the scheduler knows."""
        decided, name = self.decided, qualified(job, namespace)
        try:
            explanation = explain_job(decided.view, self.now, name, self._disruption_budgets)
        except UnknownJobError:
            others = [
                view
                for view in job_views(decided)
                if name in (view.key, view.name)
                and (view.outcome in ("finished", "suspended") or view.job is None)
            ]
            if not others:
                raise
            return document_without_gang(others[-1], self.now)
        shown = view_of_job(decided.view, explanation.job)
        if shown is not None and (
            shown.suspended
            or (shown.kind == "vcjob" and shown.outcome == "finished" and explanation.job.group is None)
        ):
            # Pods of it still exist, or its PodGroup does.
            return document_without_gang(shown, self.now)
        document = explanation_document(explanation, self.now)
        if explanation.outcome is JobState.PENDING:
            key = explanation.job.key
            findings = self._scheduler_findings(key, f"{document.namespace}/{document.name}")
            document.errors = [one.message for one in findings if one.severity == ERROR]
            document.notes += [f"{one.object}: {one.message}" for one in findings if one.severity != ERROR]
        if pictures:
            document.pictures = explanation_pictures(explanation, decided.view, self.now)
        return document

    def _scheduler_findings(self, _job: str, _name: str) -> list[Finding]:
        """Return what prevents the scheduler of a cluster from placing a job; empty for labs and files."""
        return []

    def capacity(self, queue: str | None = None) -> CapacityDocument:
        """Raises UnknownQueueError."""
        return capacity_document(count_capacity(self.objects.view, self.now, queue))

    def defrag_plan(self, job: str | None = None, namespace: str | None = None) -> DefragPlanDocument:
        """Raises UnknownJobError."""
        return self._planned_moves(job, namespace)[0]

    def move_plans(self, job: str | None = None, namespace: str | None = None) -> PlannedMoves:
        """The same, and the plans as MovePlan objects. Raises UnknownJobError."""
        document, plans = self._planned_moves(job, namespace)
        valued = (with_saving(self.decided.view, plan, self.now) for plan in plans)
        objects = [move_plan_body(replace(plan, ttl=DEFAULT_TTL)) for plan in valued]
        return PlannedMoves(document=document, objects=objects)

    def _planned_moves(
        self, job: str | None, namespace: str | None
    ) -> tuple[DefragPlanDocument, list[MovePlan]]:
        view = self.decided.view
        budgets, omitted = self._disruption_budgets()
        name = None if job is None else qualified(job, namespace)
        result = plan_moves(view, self.now, name, budgets)
        return defrag_plan_document(view, self.now, *result[:2], [*omitted, *result[2]]), result[0]

    def _disruption_budgets(self) -> tuple[Sequence[DisruptionBudget], Sequence[str]]:
        """Those that evictions have to keep, and what could not be read of them, as sentences."""
        return (), ()

    def topology(self) -> TopologyDocument:
        return topology_document(self.objects.view, self.now)

    def idle(self) -> IdleDocument:
        return idle_document(self.objects.view, self.now)

    # -- parts

    def views(self) -> list[JobView]:
        decided = self.decided
        return with_reasons(decided, job_views(decided))

    def additions(self, _pod: Pod) -> dict[str, Any] | None:
        """What job plugins add to its containers; only a lab knows."""
        return None

    def container(self, _pod: Pod) -> dict[str, Any] | None:
        """What its container got; only a lab knows."""
        return None

    def environment(self, _pod: Pod) -> Mapping[str, str]:
        """The variables that job plugins set, with the values that a container would read now."""
        return {}


def _schema(kind: str) -> str:
    return f"{RINGWISE_PREFIX}{kind}/{DOCUMENT_VERSION}"


def _check_queue(objects: ClusterObjects, views: Sequence[JobView], queue: str | None) -> None:
    """Raises UnknownNameError. A job may name a queue that does not exist."""
    if queue is not None and all(view.queue != queue for view in views):
        find_name(objects, "queue", queue)


def plain(value: object) -> Any:
    """An object as JSON has it."""
    return msgspec.to_builtins(value)


# -- the objects of each kind --------------------------------------------------------------------

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Finder:
    """How the objects of a kind are found and described."""

    #: The keys of all objects.
    keys: Callable[[ClusterObjects], Iterable[str]]
    rows: Callable[[ClusterAnswers, Choice], Iterable[Document]]
    #: All fields of one object, by its name and namespace. Raises UnknownNameError.
    described: Callable[[ClusterAnswers, str, str | None], Document] | None = None
    #: The list says at what time it was made, for the ages of its rows.
    has_now: bool = False
    #: What the list says beside its rows.
    beside: Callable[[ClusterAnswers], Document] = lambda answers: {}


def all_names(objects: ClusterObjects, kind: str, namespace: str | None = None) -> list[str]:
    """The keys of all objects of a kind, in this namespace or in all, as commands complete and delete them.

    The queue default is not among them, and neither are jobs whose pods all terminate: they are deleted.
    """
    if kind == "queue":
        return [queue.name for queue in objects.queues if queue.name != "default"]
    if kind == "job":
        return [
            view.key
            for view in job_views(objects)
            if namespace in (None, view.namespace)
            and not (view.pods and all(pod.deleting for pod in view.pods))
        ]
    keys = FINDERS[kind].keys(objects) if kind in FINDERS else ()
    return [key for key in keys if namespace is None or "/" not in key or key.startswith(f"{namespace}/")]


def find_name(objects: ClusterObjects, kind: str, name: str, namespace: str | None = None) -> str:
    """The key of the object with this name. Raises UnknownNameError."""
    return find_key(BY_NAME[kind], FINDERS[kind].keys(objects), name, namespace)


def _nodes(answers: ClusterAnswers, choice: Choice) -> Iterable[Document]:
    objects = answers.objects
    return node_documents(objects, [node for node in objects.nodes if choice.takes(node.labels)])


def _node(answers: ClusterAnswers, name: str, _namespace: str | None) -> Document:
    objects = answers.objects
    find_name(objects, "node", name)
    node = next(one for one in objects.nodes if one.name == name)
    return {
        "now": answers.now,
        **node_documents(objects, [node])[0],
        "labels": dict(node.labels),
        "taints": [f"{taint.key}:{taint.effect}" for taint in node.taints],
        "object": plain(node),
        "pod_details": pod_documents(objects, [pod for pod in objects.pods if pod.node == name]),
    }


def _jobs(answers: ClusterAnswers, choice: Choice) -> Iterable[Document]:
    decided = answers.decided
    views = job_views(decided)
    _check_queue(decided, views, choice.listing.queue)
    chosen = [view for view in views if choice.takes(view.labels, view.queue, view.namespace)]
    if choice.listing.fixes:
        names = choice.listing.names
        with_reasons(decided, [one for one in chosen if one.key in names or one.name in names], fixes=True)
    shown = with_starts(with_reasons(decided, chosen), answers.starts, answers.now)
    return (view.document() for view in shown)


def _job(answers: ClusterAnswers, name: str, namespace: str | None) -> Document:
    decided = answers.decided
    key = find_name(decided, "job", name, namespace)
    views = [view for view in job_views(decided) if view.key == key]
    view = with_reasons(decided, views[:1], fixes=True)[0]
    if view.job is not None and view.outcome == "pending":
        view.start, view.now = expected_start(decided.view, view.job, answers.now), answers.now
    vcjob = view.vcjob
    said = "" if vcjob is None else " ".join(filter(None, (vcjob.reason, vcjob.message)))
    tasks = () if vcjob is None else vcjob.tasks
    fields = view.document()
    if view.job is not None and (notes := [*not_obeyed(decided.view, view.job)]):
        fields["notes"] = notes
    return {
        "now": answers.now,
        **fields,
        "tasks": [{"name": task.name, "replicas": task.replicas} for task in tasks],
        "sub_groups": [] if view.job is None else sub_group_fields(view.job),
        "retries": 0 if vcjob is None else vcjob.retry_count,
        "message": said or None,
        "object": plain(vcjob),
        "counts": view.counts,
        "class": None if view.job is None else job_class(decided.view, view.job),
        "pod_details": pods_of_job(decided.view, view.job, pod_documents(decided, view.pods, fixes=True)),
    }


def _queue(answers: ClusterAnswers, name: str, _namespace: str | None) -> Document:
    objects, views = answers.objects, answers.views()
    find_name(objects, "queue", name)
    fields = next(one for one in queue_documents(objects, views) if one["name"] == name)
    return {
        "now": answers.now,
        **fields,
        "reserved_quota_until": objects.view.reserved_quota_until(name),
        "object": plain(next(queue for queue in objects.queues if queue.name == name)),
        "job_details": [view.document() for view in views if view.queue == name],
    }


def _pods(answers: ClusterAnswers, choice: Choice) -> Iterable[Document]:
    decided, queues = answers.decided, dict[str, str]()
    if choice.listing.queue is not None:
        views = job_views(decided)
        _check_queue(decided, views, choice.listing.queue)
        queues = {pod.uid: view.queue for view in views for pod in view.pods}
    node = _node_of(choice, decided)
    chosen = [
        pod
        for pod in decided.pods
        if node in (None, pod.node) and choice.takes(pod.labels, queues.get(pod.uid), pod.namespace)
    ]
    return pod_documents(decided, chosen)


def _pod(answers: ClusterAnswers, name: str, namespace: str | None) -> Document:
    decided = answers.decided
    key = find_name(decided, "pod", name, namespace)
    pod = next(one for one in decided.pods if one.key == key)
    container = answers.container(pod)
    environment = {} if container is None else container["environment"]
    return {
        **pod_documents(decided, [pod], fixes=True)[0],
        "request": request_text(observed_pod(decided.view, pod).cls),
        "annotations": dict(pod.annotations),
        # What the pod's own specification sets comes last, and so wins.
        "environment": {**environment, **answers.environment(pod)},
        "object": plain(pod),
        "additions": answers.additions(pod),
        "container": container,
    }


def _node_of(choice: Choice, objects: ClusterObjects) -> str | None:
    node = choice.listing.node
    return None if node is None else find_name(objects, "node", node)


def _chips(answers: ClusterAnswers, choice: Choice) -> Iterable[Document]:
    """A selector is about the labels of their nodes."""
    objects = answers.objects
    node = _node_of(choice, objects)
    nodes = {one.name for one in objects.nodes if node in (None, one.name) and choice.takes(one.labels)}
    return chip_documents(objects.view, answers.now, nodes)


def _hyper_nodes(answers: ClusterAnswers, choice: Choice) -> Iterable[Document]:
    view = answers.objects.view
    return hyper_node_documents(view, [one for one in view.hyper_nodes if choice.takes(one.labels)])


def _move_plan(answers: ClusterAnswers, name: str, _namespace: str | None) -> Document:
    objects = answers.objects
    return move_plan_document(objects.view, find_name(objects, "moveplan", name), answers.now)


def _hyper_node(answers: ClusterAnswers, name: str, _namespace: str | None) -> Document:
    objects = answers.objects
    find_name(objects, "hypernode", name)
    view, forest = objects.view, objects.view.hyper_forest()
    match = next(one for one in view.hyper_nodes if one.name == name)
    domain = forest.domains.get(name)
    nodes, below = (0, ()) if domain is None else (domain.nodes, domain.children)
    names = sorted((view.cluster.names[number] for number in members_of(nodes)), key=natural_key)
    (fields,) = hyper_node_documents(view, [match])
    return {
        "now": answers.now,
        **fields,
        "above": [one.name for one in forest.ancestors(name)],
        "below": list(hyper_node_documents(view, [one for one in view.hyper_nodes if one.name in below])),
        "members": hyper_node_members(match),
        "node_names": names,
        "resources": chip_totals(view, answers.now, nodes),
        "labels": dict(match.labels),
        "object": plain(match),
        "job_details": jobs_inside(view, answers.views(), nodes),
    }


def _names_of(values: Iterable[Any]) -> list[str]:
    return [value.name for value in values]


def _keys_of(values: Iterable[Any]) -> list[str]:
    return [value.key for value in values]


FINDERS = {
    "job": Finder(lambda objects: _keys_of(job_views(objects)), _jobs, _job, has_now=True),
    "node": Finder(lambda objects: _names_of(objects.nodes), _nodes, _node, has_now=True),
    "queue": Finder(
        lambda objects: _names_of(objects.queues),
        lambda answers, _choice: queue_documents(answers.objects, job_views(answers.decided)),
        _queue,
    ),
    "pod": Finder(lambda objects: _keys_of(objects.pods), _pods, _pod, has_now=True),
    "chip": Finder(lambda objects: (), _chips),
    "reservation": Finder(
        lambda objects: _names_of(objects.view.cluster.node_reservations.entries),
        lambda answers, _choice: reservation_documents(answers.objects.view, answers.now),
        has_now=True,
        beside=lambda answers: {
            "problems": [
                f"{name}: {problem}"
                for name, problem in answers.objects.view.cluster.node_reservations.problems.items()
            ]
        },
    ),
    "isolation": Finder(
        lambda objects: list(objects.view.cluster.isolations),
        lambda answers, _choice: isolation_documents(answers.objects.view, answers.now),
        has_now=True,
    ),
    "moveplan": Finder(
        lambda objects: list(objects.view.history.moves.objects),
        lambda answers, _choice: move_plan_documents(answers.objects.view),
        _move_plan,
        has_now=True,
    ),
    "usagelimit": Finder(
        lambda objects: list(objects.view.limits.limits),
        lambda answers, _choice: usage_limit_documents(answers.objects.view),
        beside=lambda answers: {"problems": limit_problems(answers.objects.view)},
    ),
    "hypernode": Finder(lambda objects: _names_of(objects.view.hyper_nodes), _hyper_nodes, _hyper_node),
}
