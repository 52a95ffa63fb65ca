"""Which board, switch class and blocks a job gets, and whether its requests are valid (N2, S1, P1, D4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from ringwise.framework.gangs.ranks import block_pod_count
from ringwise.framework.gangs.switch_use import switch_class, writes_marks
from ringwise.framework.job import Job
from ringwise.framework.policy import ChipPolicy, RackPolicy
from ringwise.framework.reasons import CHIPS_OF_INIT_CONTAINER, TOO_MANY_CHIP_CONTAINERS
from ringwise.framework.session import Session
from ringwise.placement.racks.model import RackSystem
from ringwise.placement.racks.validity import check_rack_job
from ringwise.placement.rules import chip_rule
from ringwise.placement.superpods.validity import BlockShape, Family, check_block, check_not_combined
from ringwise.placement.switches.classes import SwitchClass
from ringwise.placement.validity import check_requests
from ringwise.plugins.topology910.reasons import CONFLICTING_VALUES, MIXED_BOARDS, MIXED_RESOURCES
from ringwise.reasons import Reason
from ringwise.state.model import Pod
from ringwise.topology.board import Board
from ringwise.topology.policy import PolicyFacts, select_board
from ringwise.topology.reasons import TOPOLOGY_MISSING
from ringwise.wellknown import (
    ACCELERATOR_TYPE,
    DISTRIBUTED,
    DUO,
    INFER_SERVICE_ID,
    NPU_310_STRATEGY,
    RA_BLOCK,
    SCHEDULE_POLICY,
    SKIP_ASCEND_PLUGIN,
    SP_BLOCK,
    SUPER_POD_AFFINITY,
    TASK_SPEC,
    TOR_AFFINITY,
    UB_MEMORY,
)

#: A job without any of these is validated by its pod alone.
_TELLING = frozenset(
    {TOR_AFFINITY, SP_BLOCK, SCHEDULE_POLICY, DUO, DISTRIBUTED, NPU_310_STRATEGY, SUPER_POD_AFFINITY}
)


def plain_key(job: Job) -> tuple[int, int] | None:
    """The key of equal one-pod jobs without labels and annotations that matter; None for all others."""
    if len(job.pods) != 1 or job.min_available > 1 or job.announced_pods > 1:
        return None
    if not _TELLING.isdisjoint(job.labels) or not _TELLING.isdisjoint(job.annotations):
        return None
    pod = next(iter(job.pods.values()))
    if not pod.cls.chips or pod.phase == "Failed":
        return None
    # Classes are shared by pods and live as long as they do, so identity is enough inside a cycle.
    return id(pod.cls), pod.chip_containers


def policy_of(job: Job, session: Session) -> ChipPolicy | Reason | None:
    """How the job's chips are chosen; None for a job without chips; a reason for an invalid one."""
    backups = [job.pods[uid] for uid in job.backups]
    # As in `chip_pods`: a block has the pod that replaces another one, not both.
    pods = [
        pod
        for pod in job.in_order
        if pod.phase != "Failed" and pod.uid not in job.backups and not job.is_replaced(pod)
    ]
    asking = job.chip_pods
    label = job.labels.get(TOR_AFFINITY)
    if not asking:
        return _zero_requests(job, pods, session)
    resources = sorted({pod.cls.resource for pod in asking if pod.cls.resource is not None})
    if len(resources) > 1:
        return MIXED_RESOURCES(resources=resources)
    for pod in (*asking, *backups):
        if pod.chip_containers > 1:
            return TOO_MANY_CHIP_CONTAINERS(containers=pod.chip_containers, pod=pod.name, chips=pod.cls.chips)
        if pod.cls.chips_before_start:
            # Kubelet would keep them for the whole pod, without telling by its API which pod has them.
            return CHIPS_OF_INIT_CONTAINER(pod=pod.name)
    conflict = _conflict(job, pods, _choosing_labels(resources[0], session), (SP_BLOCK, SCHEDULE_POLICY))
    if conflict is not None:
        return conflict
    sp_block = job.annotations.get(SP_BLOCK)
    combined = check_not_combined(label, sp_block)
    if combined is not None:
        return combined
    board = _select_board(job, resources[0], [*asking, *backups], session)
    if isinstance(board, Reason):
        return board
    if board.rack_nodes:
        conflict = _conflict(job, pods, (SUPER_POD_AFFINITY, INFER_SERVICE_ID), (RA_BLOCK, UB_MEMORY))
    elif board.superpod:
        conflict = _conflict(job, pods, (SUPER_POD_AFFINITY,), ())
    if conflict is not None:
        return conflict
    if job.has_independent_pods and label is None and not (board.superpod or board.rack_nodes or sp_block):
        return _independent_policy(job, pods, resources[0], board, session)
    # Pods that only `minMember` announces may turn out to ask for none; boards with blocks need them all.
    expected = block_pod_count(job) if board.superpod or board.rack_nodes else job.expected_chip_pods
    # Those that are lost and not replaced yet will request what the others request.
    members = [*pods, *[asking[0]] * (expected - len(asking))]
    rack = _rack_policy(job, board, members, session) if board.rack_nodes else None
    if isinstance(rack, Reason):
        return rack
    blocks = _blocks(board, members, sp_block, session) if rack is None else rack.shape
    if isinstance(blocks, Reason):
        return blocks
    job_class = _switch_class(job, session)
    if isinstance(job_class, Reason):
        return job_class
    multi_pod = job.chip_pod_count > 1
    # On SuperPoD boards the slow network is used between blocks only; racks have one rule for all jobs (R1).
    withholds = board.checks_network and (
        multi_pod if blocks is None or rack is not None else blocks.blocks > 1
    )
    return ChipPolicy(
        resource=resources[0],
        board=board,
        rule=chip_rule(board, session.settings.ring_packing),
        multi_pod=multi_pod,
        withholds_network=withholds,
        switch_class=None if job_class is None else job_class.value,
        block_nodes=None if blocks is None else blocks.nodes_per_block,
        blocks=None if blocks is None else blocks.blocks,
        soft=job.labels.get(SUPER_POD_AFFINITY) == "soft",
        rack=rack,
        distributed=job.is_distributed,
    )


def _independent_policy(
    job: Job, pods: list[Pod], resource: str, board: Board, session: Session
) -> ChipPolicy | Reason:
    """N2 for pods that are not a gang: each is checked and placed as a job of one pod."""
    for chips, exempt in dict.fromkeys((pod.cls.chips, may_request_none(pod.annotations)) for pod in pods):
        if chips or board.zero_chip_pods_need_annotation:
            requests = session.settings.multi_pod_requests
            problem = check_requests(board, [chips], multi_pod_requests=requests, exempt=[exempt])
            if problem is not None:
                return problem
    return ChipPolicy(
        resource,
        board,
        chip_rule(board, session.settings.ring_packing),
        False,
        False,
        distributed=job.is_distributed,
    )


def _rack_policy(job: Job, board: Board, pods: list[Pod], session: Session) -> RackPolicy | Reason:
    """How a job on a board with racks is cut and placed, or why it cannot be (R1)."""
    requests = [pod.cls.chips for pod in pods]
    sp_block = job.annotations.get(SP_BLOCK)
    combined = check_not_combined(job.labels.get(TOR_AFFINITY), sp_block or str(sum(requests)))
    if combined is not None:
        return combined
    system = RackSystem(board.chips_per_node, board.rack_nodes, board.domain_racks)
    ub_memory = job.annotations.get(UB_MEMORY) == "true"
    shape = check_rack_job(
        requests,
        sp_block,
        job.annotations.get(RA_BLOCK),
        super_pod_size=session.settings.super_pod_size,
        ub_memory=ub_memory,
        system=system,
    )
    if isinstance(shape, Reason):
        return shape
    service = job.labels.get(INFER_SERVICE_ID) or None
    if service is not None:
        # A block of a service lies inside one rack, so it is its own logical rack.
        shape = replace(shape, nodes_per_group=shape.nodes_per_block)
    return RackPolicy(shape, system, ub_memory, service)


def board_policy(job: Job, session: Session) -> ChipPolicy | None:
    """How the job's board would choose, whether or not it allows the requests."""
    asking = job.chip_pods
    request = _board_of(job, asking, session)
    if request is None:
        return None
    resource, board = request
    multi_pod = len(asking) > 1
    return ChipPolicy(
        resource,
        board,
        chip_rule(board, session.settings.ring_packing),
        multi_pod,
        board.checks_network and multi_pod,
    )


def _board_of(job: Job, pods: list[Pod], session: Session) -> tuple[str, Board] | None:
    """The one resource these pods name and its board; None where they name none or several."""
    resource = pods[0].cls.resource if pods else None
    if resource is None or any(pod.cls.resource != resource for pod in pods):
        return None
    board = _select_board(job, resource, pods, session)
    return None if isinstance(board, Reason) else (resource, board)


def _select_board(job: Job, resource: str, pods: list[Pod], session: Session) -> Board | Reason:
    """N1: the board of the job. Pods that select no accelerator-type follow those that do."""
    types = [dict(pod.cls.node_selector).get(ACCELERATOR_TYPE, "") for pod in reversed(pods)]
    boards: dict[str, Board] = {}
    for selected in dict.fromkeys(filter(None, types)) or ("",):
        facts = PolicyFacts(resource, job.annotations, job.labels, selected)
        board = select_board(session.topology.catalog, facts)
        if isinstance(board, Reason):
            return board
        boards[board.name] = board
    if len(boards) > 1:
        return MIXED_BOARDS(boards=sorted(boards))
    return next(iter(boards.values()))


def _choosing_labels(resource: str, session: Session) -> list[str]:
    """Labels that choose the rules for a job with chips of this resource."""
    serving = session.topology.catalog.serving(resource)
    return sorted({TOR_AFFINITY, *(key for board in serving for key, _ in board.job_labels)})


def _conflict(job: Job, pods: list[Pod], labels: Iterable[str], annotations: Iterable[str]) -> Reason | None:
    """S1: PodGroup and pods that carry different values. A missing one is not a different value."""
    group = job.group
    sources = [("label", key, group and group.labels, [pod.labels for pod in pods]) for key in labels]
    sources += [
        ("annotation", key, group and group.annotations, [pod.annotations for pod in pods])
        for key in annotations
    ]
    for what, key, of_group, of_pods in sources:
        in_pods = {one[key] for one in of_pods if key in one}
        in_group = {of_group[key]} if of_group and key in of_group else set()
        if len(in_pods | in_group) > 1:
            return CONFLICTING_VALUES(what=what, key=key, values=_values_text(in_group, in_pods))
    return None


def _values_text(of_group: set[str], of_pods: set[str]) -> str:
    return ", ".join(
        f"{carrier}: " + " and ".join(f'"{value}"' for value in sorted(values))
        for carrier, values in (("PodGroup", of_group), ("pods", of_pods))
        if values
    )


def _zero_requests(job: Job, pods: list[Pod], session: Session) -> Reason | None:
    """N2: the check of a job whose pods all request 0 chips of a resource."""
    request = _board_of(job, pods, session)
    if request is None:
        return None
    return check_requests(
        request[1],
        [0] * len(pods),
        multi_pod_requests=session.settings.multi_pod_requests,
        exempt=[may_request_none(pod.annotations) for pod in pods],
    )


def _blocks(
    board: Board, pods: list[Pod], sp_block: str | None, session: Session
) -> BlockShape | Reason | None:
    requests = [pod.cls.chips for pod in pods]
    exempt = [may_request_none(pod.annotations) for pod in pods]
    if not board.superpod:
        return check_requests(
            board, requests, multi_pod_requests=session.settings.multi_pod_requests, exempt=exempt
        )
    family = Family.A3 if board.rule == "two-chip-cards" else Family.A850
    return check_block(
        board.chips_per_node, sp_block, requests, session.settings.super_pod_size, family, exempt
    )


def _switch_class(job: Job, session: Session) -> SwitchClass | Reason | None:
    topology, problem = session.topology.switch_topology, session.topology.topology_problem
    marks_written = topology is not None and writes_marks(session.settings, topology)
    result = switch_class(job, session.state, marks_written)
    if not isinstance(result, SwitchClass):
        return result
    if topology is None or topology.unusable is not None:
        unusable = None if topology is None else topology.unusable
        missing = TOPOLOGY_MISSING(origin="no ConfigMap kube-system/basic-tor-node-cm")
        return problem or unusable or missing
    return result


def may_request_none(annotations: Mapping[str, str]) -> bool:
    """Whether the pod may request no chips on a board where all others must."""
    return annotations.get(TASK_SPEC) == "scheduler" or annotations.get(SKIP_ASCEND_PLUGIN) == "enabled"
