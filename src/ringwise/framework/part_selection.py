"""Selects the node for a pod with a share of a chip or a vNPU among the nodes of its allocation mode."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Protocol

from ringwise.durations import SECOND
from ringwise.framework.job import Job
from ringwise.framework.node_selection import NodeSelection
from ringwise.placement.reasons import (
    IDLE_BELOW_REQUEST,
    JOB_ON_ANOTHER_NODE,
    NO_SUCH_TEMPLATE,
    PART_NOT_OFFERED,
)
from ringwise.placement.shares import PartFit, fit_share
from ringwise.placement.vnpus import fit_vnpu, takes_request
from ringwise.reasons import Reason, ReasonKind
from ringwise.state.allocation_modes import NO_CHIPS, offers_no_chips
from ringwise.state.cluster import ClusterState
from ringwise.state.fleet import health_refusal
from ringwise.state.index import View
from ringwise.state.model import EMPTY, SOFT, STATIC, PartRequest
from ringwise.state.part_requests import PartBinding
from ringwise.state.reasons import NODE_ISOLATED, NODE_NOT_READY, OTHER_MODE, UNKNOWN_PART
from ringwise.topology.natural import natural_key
from ringwise.wellknown import AICORE_QUOTA, HBM_QUOTA, SHARE_POLICY

#: For how long a chip is not used again for a template that could not be created (V16).
AVOIDED = 600 * SECOND


class PartRule:
    """The order of nodes in a view: by the raw score that was computed for each."""

    def signature(self, usable: int, allocatable: int, faulty: int) -> Hashable:
        return usable

    def score(self, signature: Hashable, request: int, multi_pod: bool) -> int | None:
        return signature if isinstance(signature, int) and signature >= 0 else None


def pods_to_place(state: ClusterState, job: Job) -> tuple[int, frozenset[int]]:
    """V6: how many pods of a job have no node yet, and the nodes of its live pods that stay.

    Independent pods are jobs of one pod.
    """
    if job.group is None or job.has_independent_pods:
        return 1, frozenset()
    live = [pod for pod in job.in_order if pod.phase != "Failed" and not pod.deleting]
    asking = [pod for pod in live if pod.cls.part is not None]
    records = [state.pods.get(pod.uid) for pod in asking]
    placed = [one for one in records if one is not None and (one.node >= 0 or one.pod.node is not None)]
    missing = max(len(asking), job.ordered_chip_pods, job.min_available) - len(placed)
    nodes = frozenset(one.node for one in placed if one.node >= 0)
    return max(1, missing), nodes


class FailedVnpuReader(Protocol):
    """What `failed_on` reads of the state of the cluster."""

    @property
    def names(self) -> Sequence[str]: ...
    @property
    def failed_vnpus(self) -> Mapping[str, Mapping[tuple[int, str], int]]: ...


def failed_on(state: FailedVnpuReader, number: int, now: int) -> frozenset[tuple[int, str]]:
    """V16: chips of the node that are not used for a template now."""
    failed = state.failed_vnpus.get(state.names[number])
    if not failed:
        return frozenset()
    return frozenset(key for key, at in failed.items() if now - at < AVOIDED)


class PartSelection(NodeSelection):
    """As for whole chips; the view has the nodes of the mode, ordered by the raw scores V7 and V15."""

    __slots__ = ("_fits", "_job", "_now", "_position", "_request", "_scope")

    def __init__(self, state: ClusterState, request: PartRequest, job: Job, now: int, **rest: Any) -> None:
        self._request = request
        self._job = job
        self._now = now
        self._fits: dict[int, PartFit] = {}
        self._position = -1
        self._scope: tuple[int, frozenset[int]] = (1, frozenset())
        super().__init__(state, **rest)
        self.view = View(PartRule(), False)
        self._synchronize()

    def _synchronize(self) -> None:
        """Bring the view up to date: after the first time only nodes that changed are looked at."""
        state = self.state
        scope = self._scope
        if self._request.mode == SOFT:
            scope = pods_to_place(state, self._job)
        nodes = state.nodes_in_mode[self._request.mode]
        changed = state.node_changes.since(self._position) if self._position >= 0 else None
        if changed is None or scope != self._scope or len(self.view._group_of) != len(state.names):
            state.settle()
            self._scope = scope
            self._fits.clear()
            self.view.renumber(state._rank_of, state._node_at)
            changed = list(nodes)
        for number in dict.fromkeys(changed):
            if number in nodes:
                self.budget.spend(1)
                self._put(number)
            else:
                self.view.drop(number)
        self._position = state.node_changes.end

    def _put(self, number: int) -> None:
        shape = self.state.shape_of(number)
        fit = self._fit(number)
        if shape is None or isinstance(fit, Reason):
            self._fits.pop(number, None)
            self.view.drop(number)
            return
        self._fits[number] = fit
        self.view.put(number, fit.score, 0, 0, shape)

    def _fit(self, number: int) -> PartFit | Reason:
        """Where the pod would go on the node, or the first reason why the node does not take it."""
        state, request = self.state, self._request
        node = state.nodes[number]
        name = state.names[number]
        mode = state.modes.get(number, NO_CHIPS)
        if mode.closed is not None:
            return mode.closed
        if node is None or not node.ready:
            return NODE_NOT_READY(node=name)
        if mode == NO_CHIPS:
            return offers_no_chips(node)
        if mode.mode != request.mode:
            return OTHER_MODE(node=name, mode=mode.mode, requested=request.mode)
        requested = _text(request)
        if mode.divided is not None and not takes_request(mode.divided, request):
            return NO_SUCH_TEMPLATE(node=name, requested=requested)
        if request.mode == STATIC and not node.chips_capacity.get(request.resource):
            return PART_NOT_OFFERED(node=name, resource=request.resource)
        book = state.amounts(number)
        unknown = list(book.unknown)
        if request.mode == STATIC:
            unknown += [key for one in state.fleets.values() for key in one.unknown_holders.get(number, ())]
        if unknown:
            return UNKNOWN_PART(node=name, pod=min(unknown, key=natural_key))
        isolation = state.isolated_nodes.get(number)
        if isolation is not None:
            return NODE_ISOLATED(node=name, **isolation.details)
        refused = health_refusal(state.node_status.get(number), name)
        if refused is not None:
            return refused
        fleet = state.fleets.get(request.resource)
        idle = 0 if fleet is None else fleet.idle(number)
        if idle < request.count:
            return IDLE_BELOW_REQUEST(
                node=name, idle=max(0, idle), resource=request.resource, requested=request.count
            )
        if request.mode == STATIC:
            return PartFit(0, ())
        available = state.available_chips(number, mode.resource or request.resource)
        if mode.divided is not None:
            failed = failed_on(state, number, self._now)
            fit = fit_vnpu(request, mode.divided, book, available, idle, failed)
        else:
            unplaced, nodes = self._scope
            if nodes and number not in nodes:
                return JOB_ON_ANOTHER_NODE(
                    node=name, others=sorted((state.names[one] for one in nodes), key=natural_key)
                )
            fit = fit_share(request, book, available, mode.chip_memory, unplaced)
        return fit(node=name, requested=requested) if isinstance(fit, ReasonKind) else fit

    # -- as for whole chips -------------------------------------------------------------

    def choose(self, *args: Any, **kwargs: Any) -> Any:
        self._synchronize()
        return super().choose(*args, **kwargs)

    def fits(self, node: int) -> bool:
        self._synchronize()
        return super().fits(node)

    def rank(self, node: int) -> Any:
        self._synchronize()
        return super().rank(node)

    def fitting_set(self, cache: dict[tuple[int, ...], int]) -> int:
        self._synchronize()
        return super().fitting_set(cache)

    def room(self, most: int) -> Any:
        self._synchronize()
        return super().room(1)

    def chips_on(self, node: int) -> tuple[int, ...]:
        fit = self._fit(node)
        return () if isinstance(fit, Reason) else fit.chips

    def chips_of_chosen(self, node: int) -> tuple[int, ...]:
        return self.chips_on(node)

    def part_on(self, node: int) -> tuple[PartBinding, Mapping[str, str]] | None:
        """What a pod gets on the node that was chosen for it, and the annotations that say so."""
        fit = self._fit(node)
        request = self._request
        if isinstance(fit, Reason) or request.mode == STATIC:
            return None
        if request.mode == SOFT:
            name = f"{request.resource.rpartition('/')[2]}-{fit.chips[0]}"
            annotations = {
                request.resource: name,
                AICORE_QUOTA: str(request.count),
                HBM_QUOTA: str(request.mb),
                SHARE_POLICY: request.policy,
            }
            return PartBinding(fit.chips, request.mb, request.policy), annotations
        chips = ",".join(map(str, fit.chips))
        text = f"{chips}-{fit.template}" if fit.template else chips
        return PartBinding(fit.chips, template=fit.template), {request.resource: text}

    def _board_score(self, group: Any) -> int | None:
        signature = group.bucket.signature
        return signature if isinstance(signature, int) else None

    def verdict(self, node: int) -> tuple[int | None, Reason | None]:
        fit = self._fit(node)
        if isinstance(fit, Reason):
            return None, fit
        refused = self.unselected(node)
        return (None, refused) if refused is not None else (fit.score, None)

    def refusals(self, hidden: Mapping[int, Reason]) -> dict[str, int]:
        counts: Counter[str] = Counter(reason.code for reason in hidden.values())
        for number in self.state.existing_nodes():
            if number not in hidden:
                reason = self.verdict(number)[1]
                if reason is not None:
                    counts[reason.code] += 1
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def part_of(selection: NodeSelection, node: int) -> tuple[Mapping[str, str], PartBinding | None]:
    """Annotations and binding of a pod with a share or a vNPU on its node; other pods have none."""
    part = selection.part_on(node) if isinstance(selection, PartSelection) else None
    return (EMPTY, None) if part is None else (part[1], part[0])


def _text(request: PartRequest) -> str:
    if request.mode == SOFT:
        return f"{request.count} percent and {request.mb} MB of {request.resource} ({request.policy})"
    return f"{request.count} of {request.resource}"


def selection_scope(job: Job, request: PartRequest) -> Sequence[Hashable]:
    """What a selection depends on besides the class of the pods: gangs with shares stay on one node."""
    return (
        (job.key,) if request.mode == SOFT and job.group is not None and not job.has_independent_pods else ()
    )
