"""An owner of pods other than a vcjob: a Deployment, an AscendJob, a PyTorchJob, before any pod exists."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from ringwise.records import dataclass
from ringwise.state.model import EMPTY, Namespaced
from ringwise.state.vcjob import PodTemplate
from ringwise.state.volumes import ClaimTemplates


@dataclass(frozen=True, slots=True)
class Role:
    """Pods of one kind in a workload."""

    #: Master, Worker, ...; empty where all pods are alike.
    name: str
    replicas: int
    template: PodTemplate
    #: Number of the first pod in the names: a StatefulSet may begin later than 0.
    first: int = 0
    #: Rank of the first pod, where the owner gives ranks; the others follow.
    first_rank: int | None = None
    #: Whether the owner writes the rank to the pod.
    writes_rank: bool = False
    #: Whether the name of its only pod has no number.
    unnumbered: bool = False
    #: What the owner adds to the labels of the template, and the labels that get the number of the pod.
    labels: Mapping[str, str] = EMPTY
    index_labels: tuple[str, ...] = ()
    claim_templates: ClaimTemplates = ()


@dataclass(frozen=True, slots=True)
class PodOwner(Namespaced):
    """A ReplicaSet, StatefulSet, DaemonSet, ReplicationController or Job of Kubernetes.

    What the PodGroup of its pods is built from, and follows.
    """

    kind: str
    namespace: str
    name: str
    uid: str
    #: How many pods it has at once; 1 where that is not known.
    replicas: int = 1
    #: Only those that PodGroups are created from.
    annotations: Mapping[str, str] = field(default=EMPTY, hash=False)
    #: A Job that has no pods because somebody wants so.
    suspended: bool = False


@dataclass(slots=True)
class Workload(Namespaced):
    kind: str
    namespace: str
    name: str
    uid: str
    roles: tuple[Role, ...] = ()
    #: PodGroup of its pods; None where another scheduler places them.
    group: str | None = None
    #: Whether that PodGroup is created for it; not where its pods name one themselves.
    creates_group: bool = True
    #: Where the owner creates no PodGroup itself: what it is built from. The next fields are for the others.
    owner: PodOwner | None = None
    min_member: int = 1
    queue: str = "default"
    priority_class: str = ""
    #: `minResources` where they are given; else they follow from the pods.
    min_resources: Mapping[str, int] = field(default_factory=dict)
    #: Labels and annotations of its PodGroup.
    group_labels: Mapping[str, str] = EMPTY
    group_annotations: Mapping[str, str] = EMPTY
    #: Whether the names of its pods end with random letters, so that existing ones can only be counted.
    random_names: bool = False
    #: How the names of its pods begin, where that is not its own name.
    stem: str = ""
    created: int = 0
    origin: str = ""

    @property
    def replicas(self) -> int:
        return sum(role.replicas for role in self.roles)

    @property
    def schedulers(self) -> tuple[str, ...]:
        """The `schedulerName` of its pods."""
        return tuple(dict.fromkeys(role.template.scheduler for role in self.roles))

    @property
    def asks_for_chips(self) -> bool:
        return any(role.template.cls.chips for role in self.roles)
