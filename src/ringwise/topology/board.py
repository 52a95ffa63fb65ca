"""Rule N1: a board is data: the chips of one kind of node, their links, the requests it allows."""

from __future__ import annotations

from collections.abc import Mapping

from ringwise.records import dataclass

Labels = tuple[tuple[str, str], ...]
Table = tuple[tuple[int, ...], ...]
RuleParameter = bool | int | Table


@dataclass(frozen=True, slots=True)
class Board:
    """A board profile. Read from a file, never changed.

    `rings` are the groups of chips with a fast link between them: HCCS rings,
    meshes or cards, as named by `ring_kind`. The three request sets hold the
    numbers of chips that one pod may request (rule N2).
    """

    name: str
    title: str
    resources: tuple[str, ...]
    chips_per_node: int
    rule: str
    one_pod: frozenset[int]
    #: For each pod of a job with several pods that request chips, as the documents have it.
    multi_pod: frozenset[int]
    #: The same under `multi-pod-requests: vendor`.
    multi_pod_vendor: frozenset[int]
    rings: tuple[tuple[int, ...], ...] = ()
    ring_kind: str = "ring"
    parameters: tuple[tuple[str, RuleParameter], ...] = ()
    #: Values of `huawei.com/schedule_policy` that choose this board.
    policies: tuple[str, ...] = ()
    #: Values of nodeSelector `accelerator-type`; `*card*` is a pattern, `` means no selector at all.
    accelerator_types: tuple[str, ...] = ()
    #: Job labels that choose this board (310 family).
    job_labels: Labels = ()
    #: The board of its resource where no label chooses another: `never`, `unlabeled`, `always`.
    fallback: str = "never"
    #: Chosen by the annotation `sp-block` where nothing else selects a SuperPoD board.
    sp_block_fallback: bool = False
    #: Labels a node must have to take pods under this board.
    node_labels: Labels = ()
    #: Chips with network faults are withheld from multi-pod jobs. On SuperPoD boards only from jobs
    #: that span several logical SuperPoDs.
    checks_network: bool = False
    superpod: bool = False
    #: Nodes of a rack, on boards whose SuperPoDs have racks; 0: they have none.
    rack_nodes: int = 0
    #: Racks of a UB-memory domain, counted from rack 0 of the SuperPoD.
    domain_racks: int = 0
    #: Pods without chips in a job with chips must carry the annotation that exempts them.
    zero_chip_pods_need_annotation: bool = False
    #: A job's total must be 1 or a multiple of this.
    total_multiple_of: int = 1
    notes: tuple[str, ...] = ()

    def __hash__(self) -> int:
        # Boards are keys of caches on the hot path; the name is a sufficient hash.
        return hash(self.name)

    @property
    def parameter(self) -> Mapping[str, RuleParameter]:
        return dict(self.parameters)

    @property
    def ring_masks(self) -> tuple[int, ...]:
        return tuple(sum(1 << chip for chip in ring) for ring in self.rings)

    def requests(self, pods: int, multi_pod_requests: str = "document") -> frozenset[int]:
        """Rule N2: the numbers of chips that each pod of a job with so many chip pods may request."""
        if pods <= 1:
            return self.one_pod
        return self.multi_pod if multi_pod_requests == "document" else self.multi_pod_vendor
