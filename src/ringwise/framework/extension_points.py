"""The extension points: where a plugin takes part in a decision, and how several answers are combined.

Each point has the type of the functions that plugins register there. The functions
at the end of this file are the combination rules; a session only walks the tiers.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, TypeVarTuple

from ringwise.framework.amounts import Amount
from ringwise.framework.job import Job
from ringwise.framework.policy import ChipPolicy
from ringwise.framework.preferred_nodes import ScoredNodes
from ringwise.framework.sub_groups import SubGroup
from ringwise.framework.victim_queues import VictimQueue
from ringwise.reasons import Reason, ReasonKind
from ringwise.records import dataclass
from ringwise.state.hyper_nodes import Domain
from ringwise.state.model import NetworkTopology, Pod, PodClass, Queue
from ringwise.state.node_shapes import NodeShape
from ringwise.state.volume_table import ClaimChoice

F = TypeVar("F")
Asked = TypeVarTuple("Asked")


class Vote(enum.IntEnum):
    REJECT = -1
    ABSTAIN = 0
    PERMIT = 1


@dataclass(slots=True)
class JobPlan:
    """Nodes chosen for a job as a whole (switches, SuperPoDs), pod by pod."""

    nodes: dict[str, int]
    annotations: dict[str, Mapping[str, str]] = field(default_factory=dict)
    #: For people: one line per switch or block.
    lines: tuple[str, ...] = ()


# -- what a plugin registers ---------------------------------------------------------------


class SortKey(Protocol):
    """Anything that compares with the keys that the same plugin gives for others."""

    def __lt__(self, other: Any, /) -> bool: ...


#: Whether something holds for the job.
JobCondition = Callable[[Job], bool]
#: A vote on the job, and the reason of a rejection.
JobVote = Callable[[Job], tuple[Vote, Reason | None]]


class QueueShare(NamedTuple):
    """What a plugin that shares the cluster gives a queue, with the queues below it."""

    deserved: Mapping[str, Amount]
    #: The most that it may use.
    limit: Mapping[str, Amount]
    #: The largest part that it uses of what it deserves.
    share: float
    #: What its enqueued jobs were promised and do not use.
    promised: Mapping[str, Amount]
    #: The queues that count: its own name, and in a tree those below it.
    below: Sequence[str]


#: Why no pod of this class may run on nodes of this shape.
#:
#: The answer is kept for the whole cycle, so it must depend on nothing but the arguments.
Predicate = Callable[[PodClass, ChipPolicy | None, NodeShape], Reason | None]


class NodeSet(NamedTuple):
    """The nodes that a class of pods may use, as bits by node id; and why it may not use another one."""

    nodes: int
    kind: ReasonKind
    refuse: Callable[[int], Reason]


#: Why the pod may not run on this node now; None when it may.
NodeFilter = Callable[[int], Reason | None]


class SetFilter:
    """A filter that maintains the set of all nodes it accepts, with a few steps for each change.

    Placing a pod may remove nodes from the set, as for every filter, and may also add nodes.
    """

    def __call__(self, node: int, /) -> Reason | None:
        raise NotImplementedError

    def nodes(self) -> int:
        raise NotImplementedError


class ClaimRules(Protocol):
    """What the claims of a pod's volumes ask of its node. Asked only about pods that have claims."""

    #: Nanoseconds within which the claims of a gang must be bound, once it has its nodes.
    bind_timeout: int

    def refusal(self, pod: Pod, /) -> Reason | None:
        """Why no node can be chosen for the pod now: it waits for one of its claims."""

    def node_sets(self, pod: Pod, /) -> tuple[Hashable, Sequence[NodeSet]]:
        """The sets to which its node must belong, and what is equal for pods with equal sets."""

    def choose(self, pod: Pod, node: int, /) -> tuple[ClaimChoice, ...] | Reason:
        """What those of its claims get on this node that have no volume; or why they get nothing there."""


#: The score of nodes of this shape for pods of this class.
#:
#: The answer is kept for the whole cycle, so it must depend on nothing but the arguments.
NodeScore = Callable[[PodClass, NodeShape], float]
#: Which of the candidates (pod uids) may be evicted for this pod; None to abstain.
VictimFilter = Callable[[Job, Pod, list[str]], list[str] | None]
#: Whether the plugin names none of these pods: said before any of them is looked at.
VictimPrecheck = Callable[[Job, Pod, VictimQueue], bool]
#: Until when the pod (uid) is evicted for no other job, in nanoseconds; None: it is not protected.
VictimProtection = Callable[[str], int | None]


class PodNotice(Protocol):
    """Called after the placement of a pod changed inside the cycle."""

    def __call__(self, job: Job, pod: Pod, node: int, /) -> None: ...


class DomainRequest(NamedTuple):
    """Pods that are to be near each other in the network: those of a job, or of one of its sub-groups."""

    job: Job
    #: Those that wait, in the order in which they are placed, and how many of them must start together.
    pods: Sequence[Pod]
    missing: int
    topology: NetworkTopology
    #: Nodes where others of them have their place, as bits by node id: those pin the rest.
    placed: int = 0
    #: Only domains inside this one, or itself.
    within: Domain | None = None
    #: Whether pods may be evicted: then what is free in a domain does not count, only what it has.
    evicting: bool = False
    #: Then: nodes where a pod may be evicted, as bits by node id. A domain without any has no more to give.
    evictable: int = -1


class DomainAttempt(NamedTuple):
    """A candidate that did not take the pods after all: how many it took, and why not all."""

    domain: Domain
    placed: int
    reason: Reason


class DomainCandidates(NamedTuple):
    """Domains that may take the pods, by tier from the lowest; of equal scores the first is tried first.

    Where no domain has to, the last one holds all nodes and has no name.
    """

    tiers: Iterable[Sequence[Domain]]
    #: Why none of them takes the pods, given what was tried.
    refuse: Callable[[Sequence[DomainAttempt]], Reason]


# -- the points -----------------------------------------------------------------------------


class ExtensionPoint(Generic[F]):
    """A point, the type of the functions registered there, and the enable flag that gates it."""

    # Points are looked up several times for every pod: they hash by identity.
    __slots__ = ("flag", "name")

    def __init__(self, name: str, flag: str | None = None) -> None:
        self.name = name
        #: The enable flag of the plugin that switches this point off; None where nothing does.
        self.flag = flag

    def __repr__(self) -> str:
        return f"<extension point {self.name}>"


#: The sort key of a job; the smallest is served first.
JOB_ORDER = ExtensionPoint[Callable[[Job], SortKey]]("job_order", "job_order")
#: The sort key of a queue; the smallest is served first.
QUEUE_ORDER = ExtensionPoint[Callable[[Queue], SortKey]]("queue_order", "queue_order")
#: The sort key of a pod among the pods of its job.
TASK_ORDER = ExtensionPoint[Callable[[Pod], SortKey]]("task_order", "task_order")
#: Why the job can never run as it is; None when nothing is wrong with it.
JOB_VALID = ExtensionPoint[Callable[[Job], Reason | None]]("job_valid")
JOB_READY = ExtensionPoint[JobCondition]("job_ready", "job_ready")
#: Asked before pods are evicted for a job: whether it could start once they are gone.
JOB_PIPELINED = ExtensionPoint[JobVote]("job_pipelined", "job_pipelined")
#: Whether enough sub-groups of the job have the pods that they need.
SUB_JOB_READY = ExtensionPoint[JobCondition]("sub_job_ready", "sub_job_ready")
SUB_JOB_PIPELINED = ExtensionPoint[JobVote]("sub_job_pipelined", "sub_job_pipelined")
#: The sort key of a sub-group of the job; the smallest is placed first.
SUB_JOB_ORDER = ExtensionPoint[Callable[[Job, SubGroup], SortKey]]("sub_job_order", "sub_job_order")
JOB_ENQUEUEABLE = ExtensionPoint[JobVote]("job_enqueueable", "job_enqueued")
#: Called after a job was enqueued.
JOB_ENQUEUED = ExtensionPoint[Callable[[Job], None]]("job_enqueued", "job_enqueued")
JOB_STARVING = ExtensionPoint[JobCondition]("job_starving", "job_starving")
#: Whether the queue uses more than it deserves.
OVERUSED = ExtensionPoint[Callable[[Queue], bool]]("overused", "overused")
#: Why the queue may not give this pod what it requests; None when it may.
ALLOCATABLE = ExtensionPoint[Callable[[Queue, Pod], Reason | None]]("allocatable", "allocatable")
#: The share of the queue; None if the plugin does not know it. The first plugin that answers counts. It is
#: for reports only.
QUEUE_SHARE = ExtensionPoint[Callable[[Queue], QueueShare | None]]("queue_share")
#: Whether the queue may take resources from other queues for this pod.
PREEMPTIVE = ExtensionPoint[Callable[[Queue, Pod], bool]]("preemptive", "preemptive")
PREDICATE = ExtensionPoint[Predicate]("predicate", "predicate")
#: The sets to which single nodes must belong; none for most classes of pods.
NODE_SET = ExtensionPoint[Callable[[PodClass], Sequence[NodeSet]]]("node_set", "predicate")
#: A filter for what only a single node can answer; None for a pod that needs no filter.
NODE_FILTER = ExtensionPoint[Callable[[Job, Pod], NodeFilter | None]]("node_filter", "predicate")
#: The rules for claims of volumes. The first plugin that registers some decides.
CLAIMS = ExtensionPoint[ClaimRules]("claims", "predicate")
NODE_SCORE = ExtensionPoint[NodeScore]("node_score", "node_order")
#: Extra scores of nodes, for what the shape of a node does not show; none for most pods.
NODE_PREFERENCE = ExtensionPoint[Callable[[Job, Pod], Sequence[ScoredNodes]]]("node_preference", "node_order")
#: Nodes for all pending pods of a job, why there are none, or None to have them placed one by one. The first
#: plugin that answers decides.
JOB_PLAN = ExtensionPoint[Callable[[Job, Sequence[Pod]], JobPlan | Reason | None]]("job_plan")
#: The domains to try; None if the topology restricts nothing. The first plugin that answers decides.
DOMAINS = ExtensionPoint[Callable[[DomainRequest], DomainCandidates | None]]("domains", "hyper_node_gradient")
#: The score of a domain for these pods.
DOMAIN_SCORE = ExtensionPoint[Callable[[DomainRequest, Domain], float]]("domain_score", "hyper_node_order")
PREEMPTABLE = ExtensionPoint[VictimFilter]("preemptable", "preemptable")
RECLAIMABLE = ExtensionPoint[VictimFilter]("reclaimable", "reclaimable")
#: Complements the two above: a plugin can say cheaply that it names no pod of a queue. In one cycle thousands
#: of jobs may ask about thousands of pods.
PREEMPT_PRECHECK = ExtensionPoint[VictimPrecheck]("preempt_precheck", "preemptable")
RECLAIM_PRECHECK = ExtensionPoint[VictimPrecheck]("reclaim_precheck", "reclaimable")
#: These pods are not candidates, whatever the plugins of any tier say about them.
PREEMPT_PROTECTION = ExtensionPoint[VictimProtection]("preempt_protection", "preemptable")
RECLAIM_PROTECTION = ExtensionPoint[VictimProtection]("reclaim_protection", "reclaimable")


class VictimPoints(NamedTuple):
    """The points at which plugins name the victims of one kind of eviction."""

    named: ExtensionPoint[VictimFilter]
    precheck: ExtensionPoint[VictimPrecheck]
    protection: ExtensionPoint[VictimProtection]


PREEMPT = VictimPoints(PREEMPTABLE, PREEMPT_PRECHECK, PREEMPT_PROTECTION)
RECLAIM = VictimPoints(RECLAIMABLE, RECLAIM_PRECHECK, RECLAIM_PROTECTION)
#: The sort key of a queue that may lose pods to `queue`; the smallest loses first.
VICTIM_QUEUE_ORDER = ExtensionPoint[Callable[[Queue, Queue], SortKey]]("victim_queue_order")
#: Which of the running pods (uids) should be evicted and placed again, even if no job needs their nodes.
VICTIMS = ExtensionPoint[Callable[[list[str]], list[str]]]("victims", "victim")
#: A pod was placed, or its eviction was undone.
ALLOCATED = ExtensionPoint[PodNotice]("allocated")
#: A placement was undone, or a pod is to be evicted.
DEALLOCATED = ExtensionPoint[PodNotice]("deallocated")

EXTENSION_POINTS: tuple[ExtensionPoint[Any], ...] = tuple(
    value for value in list(globals().values()) if isinstance(value, ExtensionPoint)
)


# -- how several answers are combined ---------------------------------------------------------


def first_reason(checks: Iterable[Callable[[*Asked], Reason | None]], *arguments: *Asked) -> Reason | None:
    """Validity and predicates: the first reason counts."""
    for check in checks:
        reason = check(*arguments)
        if reason is not None:
            return reason
    return None


def count_votes(tiers: Iterable[Iterable[tuple[Vote, Reason | None]]]) -> tuple[bool, Reason | None]:
    """Pipelined, enqueueable: a rejection or a tier with a permit decides; without either it is a yes."""
    for tier in tiers:
        permitted = False
        for vote, reason in tier:
            if vote is Vote.REJECT:
                return False, reason
            permitted = permitted or vote is Vote.PERMIT
        if permitted:
            return True, None
    return True, None


def starving(tiers: Iterable[Sequence[JobCondition]], job: Job) -> bool:
    """The first tier with any answer decides, and there all must agree."""
    for tier in tiers:
        if tier:
            return all(holds(job) for holds in tier)
    return False


def agreed_victims(tiers: Iterable[Iterable[list[str] | None]]) -> list[str]:
    """Inside a tier only the victims that all plugins name; the first tier that names any decides.

    None is an abstention. The order of the first answer is kept.
    """
    for tier in tiers:
        agreed: list[str] | None = None
        for answer in tier:
            if answer is None:
                continue
            if agreed is None:
                agreed = list(answer)
            else:
                named = set(answer)
                agreed = [uid for uid in agreed if uid in named]
            if not agreed:
                break
        if agreed:
            return agreed
    return []


def named_victims(tiers: Iterable[Iterable[list[str]]]) -> list[str]:
    """The victims that any plugin of a tier names; the first tier that names any decides."""
    for tier in tiers:
        named: dict[str, None] = {}
        for answer in tier:
            named.update(dict.fromkeys(answer))
        if named:
            return list(named)
    return []
