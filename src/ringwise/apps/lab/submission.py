"""What is handed to a lab: the objects of an input, read and checked where the files are, sent as values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from ringwise.apps.extensions import read_user_configuration
from ringwise.embed.cluster import EmbeddedCluster
from ringwise.embed.records import ObjectRefusedError, TableKey, key_of, merged
from ringwise.manifests.bundle import Bundle
from ringwise.manifests.kinds import STORED
from ringwise.manifests.text.errors import DocumentError
from ringwise.messages.events import JobCommand, QueueCommand
from ringwise.messages.job_expansion import group_name
from ringwise.state.job_rules import problems_of
from ringwise.state.model import DEFAULT_QUEUE, Owner, Pod, PodClass, PodGroup, Queue
from ringwise.state.queue_rules import queue_problems
from ringwise.state.ranges import out_of_range
from ringwise.state.vcjob import VcJob
from ringwise.wellknown import GROUP_NAME, JOB_NAME, JOB_VERSION, SCHEDULER_CONFIG_KEY

StoredKind = TypeVar("StoredKind")


if TYPE_CHECKING:
    StoredObjects = Any
else:
    #: The objects of each kind.
    StoredObjects = msgspec.defstruct(
        "StoredObjects",
        [(kind.name, list[kind.value], msgspec.field(default_factory=list)) for kind in STORED.values()],
        omit_defaults=True,
        forbid_unknown_fields=True,
    )


class Submission(msgspec.Struct, forbid_unknown_fields=True):
    """A field of another name is refused: what a command of another version sends would be lost."""

    stored: StoredObjects = msgspec.field(default_factory=lambda: StoredObjects())
    #: Text of a volcano-scheduler.conf, and where it stood.
    configuration: tuple[str, str] | None = None
    job_commands: list[JobCommand] = []
    queue_commands: list[QueueCommand] = []
    #: Only tell what would become of it.
    dry_run: bool = False
    #: Objects that exist are an error, as for `kubectl create`, and not changed.
    create: bool = False

    def of(self, kind: type[StoredKind]) -> list[StoredKind]:
        result: list[StoredKind] = getattr(self.stored, kind.__name__)
        return result

    def objects(self) -> Iterator[object]:
        """In the order in which they are stored: what others need comes first."""
        return chain.from_iterable(map(self.of, STORED))

    def share_classes(self) -> None:
        """Pods of one template share one class again, as before they were sent."""
        classes: dict[PodClass, PodClass] = {}
        for pod in self.of(Pod):
            pod.cls = classes.setdefault(pod.cls, pod.cls)


def submission_of(bundle: Bundle) -> tuple[Submission, list[str]]:
    """The bundle as it is sent, and what is wrong with its ConfigMaps. Its commands are taken out of it."""
    problems: list[str] = []
    made = Submission(
        StoredObjects(**{kind.name: bundle.of(kind.value) for kind in STORED.values()}),
        job_commands=[one for one in bundle.commands if isinstance(one, JobCommand)],
        queue_commands=[one for one in bundle.commands if isinstance(one, QueueCommand)],
    )
    bundle.commands = []
    for config_map in bundle.config_maps:
        text = config_map.data.get(SCHEDULER_CONFIG_KEY)
        if text is None:
            problems.append(f"{config_map.origin}: data.{SCHEDULER_CONFIG_KEY}: is missing")
            continue
        try:
            read_user_configuration(text, config_map.origin)
        except DocumentError as error:
            problems += str(error).splitlines()
        made.configuration = (text, config_map.origin)
    return made, problems


def refusals(cluster: EmbeddedCluster, objects: Iterable[object]) -> list[str]:
    """What the cluster would refuse. Checked before anything is stored, so that all is stored or nothing."""
    result = []
    objects = list(objects)
    queues = {queue.name: queue for queue in cluster.all(Queue)}
    # Queues of one submission count for each other, whatever their order.
    together = {**queues, **{value.name: value for value in objects if isinstance(value, Queue)}}
    pods = _pods_of_queues(cluster) if any(isinstance(value, Queue) for value in objects) else {}
    for value in objects:
        problem = out_of_range(value)
        if problem is not None:
            result.append(problem)
            continue
        if isinstance(value, VcJob):
            # What is sent is not believed: a job with a thousand million pods would be expanded.
            value.problems = problems_of(value)
        if isinstance(value, Queue):
            before = queues.get(value.name)
            result += [
                f"queue {value.name}: {problem}" for problem in queue_problems(value, together, pods, before)
            ]
        name = key_of(value)
        try:
            merged(cluster.table.get(name.kind, name.key), value, cluster.now, "")
        except ObjectRefusedError as error:
            result.append(str(error))
    return result


def already_there(cluster: EmbeddedCluster, objects: Iterable[object]) -> list[TableKey]:
    """Return the names of the objects that the cluster has."""
    return [name for name in map(key_of, objects) if cluster.table.get(name.kind, name.key) is not None]


def without_target(cluster: EmbeddedCluster, submission: Submission) -> list[str]:
    """Commands for jobs and queues that are neither in the cluster nor submitted with them."""
    jobs = {job.key for job in submission.of(VcJob)}
    queues = {queue.name for queue in submission.of(Queue)}
    lost = [
        f'{command.action}: vcjob "{command.key}" not found'
        for command in submission.job_commands
        if command.key not in jobs and cluster.get(VcJob, command.key) is None
    ]
    return lost + [
        f'{command.action}: queue "{command.name}" not found'
        for command in submission.queue_commands
        if command.name not in queues and cluster.get(Queue, command.name) is None
    ]


def _pods_of_queues(cluster: EmbeddedCluster) -> Counter[str]:
    queue_of = {group.key: group.queue for group in cluster.all(PodGroup)}
    bound = (pod for pod in cluster.all(Pod) if pod.node is not None and pod.live)
    return Counter(queue_of.get(f"{pod.namespace}/{pod.group}", DEFAULT_QUEUE) for pod in bound)


def adopted(cluster: EmbeddedCluster, submission: Submission) -> Submission:
    """Groups and pods that came with their vcjob belong to the job as the lab knows it.

    The lab gives every job a uid of its own; what was made for it elsewhere is written for the old one.
    """
    ours: dict[str, VcJob] = {}
    for sent in submission.of(VcJob):
        existing = cluster.get(VcJob, sent.key)
        if existing is not None and sent.uid:
            ours[sent.uid] = existing
    groups: dict[str, str] = {}
    groups_sent = submission.of(PodGroup)
    for position, group in enumerate(groups_sent):
        job = ours.get(group.owner.uid) if group.owner is not None else None
        if job is not None:
            name = group_name(job)
            groups[group.key] = name
            owner = Owner("Job", job.name, job.uid)
            groups_sent[position] = replace(group, name=name, uid="", owner=owner)
    pods_sent = submission.of(Pod)
    for position, pod in enumerate(pods_sent):
        job = ours.get(pod.owner.uid) if pod.owner is not None else None
        if job is not None:
            name = groups.get(f"{pod.namespace}/{pod.group}", group_name(job))
            pods_sent[position] = replace(
                pod,
                group=name,
                owner=Owner("Job", job.name, job.uid),
                # The lab starts the job for the first time.
                annotations={**pod.annotations, GROUP_NAME: name, JOB_NAME: job.name, JOB_VERSION: "0"},
            )
    return submission
