"""When a pod is faulty: its node, its chips, itself, or what ClusterD says about it.

The first match counts. One pod is looked at in constant time; which pods a fault concerns follows from the
index of the pods on a node, so nothing here grows with the cluster.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable

from ringwise.durations import SECOND, earliest
from ringwise.messages import events as ev
from ringwise.records import dataclass
from ringwise.scheduler import internal_events as ie
from ringwise.scheduler.cache.component import Component, Context, on
from ringwise.scheduler.cache.record_tables import RecordTable, RestoredRecord
from ringwise.scheduler.faults.policy import FaultPolicy, SubHealth
from ringwise.state.cluster import ClusterState
from ringwise.state.failures import is_made_again
from ringwise.state.fleet import Fleet
from ringwise.state.model import Pod, ReportedFault
from ringwise.state.nested import discard
from ringwise.state.node_health import SUB_HEALTH_LEVEL, NodeStatus, unhealthy_because
from ringwise.topology.chips import chip_names, chips_of, mask_of
from ringwise.wellknown import BACKUP_NEW_POD, FAULT_TYPE, NEED_VOLCANO_OPERATION

#: Levels of chip faults that never make a chip unhealthy for the pod that has it.
HARMLESS_LEVELS = frozenset(
    {"NotHandleFault", "SubHealthFault", "PreSeparateNPU", "NormalNPU", "NormalNetwork"}
)
#: Nanoseconds for which a node that was never seen may still appear: after a start, pods may be read first.
UNKNOWN_NODE_GRACE = 60_000_000_000
#: Nanoseconds after the end of a failed pod in which a report can still tell why it failed: as long as the
#: device plugin may wait before it writes an unchanged report again. What breaks later did not break the pod.
BROKE_THE_POD_WITHIN = 300_000_000_000


class FaultType(enum.Enum):
    """The spelling of Huawei's records. In this order one of them is the reason of the whole job."""

    NODE = "NodeUnhealthy"
    CHIP = "CardUnhealthy"
    SUB_HEALTH = "SubHealthFault"
    RELATION = "RelationFaultSeparate"
    POD = "pod-failed"


#: Types that no retry is needed for: hardware that is reported as broken.
HARDWARE = frozenset({FaultType.NODE, FaultType.CHIP})


@dataclass(frozen=True, slots=True)
class PodFault:
    type: FaultType
    #: A sentence without a full stop, for records, events and the history of the job.
    why: str
    #: Its node cannot terminate it: only deletion by force ends it.
    unreachable: bool = False
    #: The faulty chips of the pod (F3).
    chips: int = 0
    #: A hot switch: a backup pod takes over.
    hot_switch: bool = False


@dataclass(frozen=True, slots=True)
class PodCheck:
    """The fault of a pod, and when it has to be looked at again because time alone changes the answer."""

    fault: PodFault | None = None
    due: int | None = None


HEALTHY = PodCheck()


@dataclass(frozen=True, slots=True)
class ToleratedFault:
    """A fault that a mask of the job tolerates, in nanoseconds: first seen, and when it begins to count."""

    fault: ReportedFault
    seen: int
    end: int


class FaultDetector(Component):
    name = "fault detection"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        #: When a fault code of a chip was first seen: node -> (chip, code) -> nanoseconds.
        self._first_seen: dict[str, dict[tuple[int, str], int]] = {}
        #: Of those, nodes with faults that a job tolerates: their times survive a restart (F1).
        self._tolerated: RecordTable[dict[tuple[int, str], int]]
        self._tolerated = context.record.add(
            RecordTable("tolerated-faults", dict[tuple[int, str], int], subject=lambda node, faults: "")
        )
        #: Nodes that pods name and that were never seen, with the time of the first look.
        self._unknown: dict[str, int] = {}
        #: Nodes that were seen and are gone.
        self._gone: set[str] = set()
        #: Failed pods with chips, which the state no longer lists on their node: node -> uid -> end.
        self._failed: dict[str, dict[str, int]] = {}
        #: F5: whether a pod that kubelet rejected is not made again. Set by who makes it again.
        self.is_rejected_for_good: Callable[[Pod], bool] = lambda pod: False

    # -- facts -------------------------------------------------------------------------------------

    @on(ev.NodeSeen)
    def _node_seen(self, event: ev.NodeSeen, now: int) -> None:
        self._gone.discard(event.node.name)
        self._unknown.pop(event.node.name, None)

    @on(ev.NodeGone)
    def _node_gone(self, event: ev.NodeGone, now: int) -> None:
        number = self._state.node_id.get(event.name)
        if number is not None and (self._state.pods_on[number] or event.name in self._failed):
            self._gone.add(event.name)
        self._forget_faults(event.name)

    def _forget_faults(self, node: str) -> None:
        self._first_seen.pop(node, None)
        self._tolerated.pop(node)

    @on(ev.ReportSeen, ev.ReportGone)
    def _report_changed(self, event: ev.ReportSeen | ev.ReportGone, now: int) -> None:
        """Fault codes of the node begin or end; their windows count from now (masks)."""
        _, node = event.about
        faults = [fault for resource in self._state.fleets for fault in self._faults(node, resource)]
        if not faults:
            self._forget_faults(node)
            return
        before = self._first_seen.get(node, {})
        self._first_seen[node] = seen = {
            (fault.chip, fault.code): before.get((fault.chip, fault.code), now) for fault in faults
        }
        if node in self._tolerated and seen != before:
            self._tolerated[node] = seen

    def restore(self, record: RestoredRecord, now: int) -> None:
        """Continue the windows; a report that no longer names a fault has ended it."""
        for node, faults in record.of(self._tolerated).items():
            number = self._state.node_id.get(node)
            if number is None or self._state.nodes[number] is None:
                # It was deleted between the two leaders.
                continue
            since = self._first_seen.get(node)
            for fault, seen in faults.items():
                if since is not None and fault in since:
                    since[fault] = min(seen, since[fault])
            reports = (self._state.report_of(node, resource) for resource in self._state.fleets)
            if since is None and not any(report is not None for report in reports):
                self._first_seen[node] = {fault: min(seen, now) for fault, seen in faults.items()}
            if node in self._first_seen:
                self._tolerated[node] = self._first_seen[node]

    @on(ie.PodChanged)
    def _pod_changed(self, event: ie.PodChanged, now: int) -> None:
        """A pod that failed may have failed because of hardware that is reported later."""
        pod = event.pod
        if event.job is None or event.only_confirmed:
            return
        if pod.phase == "Failed" and pod.node is not None and pod.cls.uses_chips:
            on_node = self._failed.setdefault(pod.node, {})
            on_node.setdefault(pod.uid, min(pod.ended, now) if pod.ended else now)

    def failed_on(self, node: str) -> Iterable[str]:
        """Failed pods that had chips of the node."""
        return self._failed.get(node, ())

    @on(ie.PodRemoved)
    def _pod_removed(self, event: ie.PodRemoved, now: int) -> None:
        """Forget the pod, and a lost node with its last pod."""
        node = event.node
        if node is None:
            return
        discard(self._failed, node, event.uid)
        number = self._state.node_id.get(node)
        if (number is None or not self._state.pods_on[number]) and node not in self._failed:
            self._gone.discard(node)
            self._unknown.pop(node, None)

    def _faults(self, node: str, resource: str) -> tuple[ReportedFault, ...]:
        report = self._state.report_of(node, resource)
        return () if report is None else report.faults

    # -- questions ---------------------------------------------------------------------------------

    def is_suspect(self, number: int) -> bool:
        """Whether pods of this node may be faulty because of it: cheap, for every report of every node."""
        node = self._state.nodes[number]
        if node is None or not node.ready or number in self._state.node_status:
            return True
        if node.name in self._first_seen:
            return True
        shared = number in self._state.shared_nodes
        for fleet in self._state.fleets.values():
            # Of chips with shares and vNPUs it is not known here which are used.
            held = fleet.listed[number] if shared else fleet.held[number]
            if held and (held & fleet.unhealthy[number] or held & ~fleet.listed[number]):
                return True
        return False

    def may_be_faulty(self, pod: Pod) -> bool:
        """Whether it is worth a look: cheap, for every change of every pod."""
        if pod.node is None:
            return False
        if pod.phase == "Failed" or pod.exit_code or FAULT_TYPE in pod.labels:
            return True
        if NEED_VOLCANO_OPERATION in pod.annotations:
            return True
        number = self._state.node_id.get(pod.node)
        return number is not None and pod.live and self.is_suspect(number)

    def look(self, pod: Pod, policy: FaultPolicy, now: int) -> PodCheck:
        """Whether the pod is faulty (the order of rules is that of Huawei's plugin)."""
        if pod.node is None or pod.phase == "Succeeded":
            return HEALTHY
        record = self._state.pods.get(pod.uid)
        number = self._state.node_id.get(pod.node)
        due: int | None = None
        chips = (record.chips or record.part_chips) if record is not None else 0
        if number is not None and (pod.live or self._may_explain(pod, now)):
            if not pod.live:
                # It no longer holds chips (N6). Those that another pod has by now do not count.
                fleet = self._fleet(pod)
                chips = 0 if fleet is None else mask_of(pod.named_chips) & ~fleet.held[number]
            examined = self._hardware(pod, number, chips, policy, now)
            if examined.fault is not None:
                return examined
            due = examined.due
        made_again = is_made_again(pod) and not self.is_rejected_for_good(pod)
        if policy.retries and not made_again and _has_failed(pod):
            code = "" if pod.exit_code is None else f" with exit code {pod.exit_code}"
            return PodCheck(PodFault(FaultType.POD, f"the pod failed{code}"))
        said = pod.labels.get(FAULT_TYPE)
        if said == "Separate":
            return PodCheck(
                PodFault(FaultType.RELATION, "ClusterD separates the pod because of related faults")
            )
        examined = self._sub_health(pod, number, chips, policy, said, now)
        return PodCheck(examined.fault, earliest(due, examined.due))

    def _fleet(self, pod: Pod) -> Fleet | None:
        return self._state.fleets.get(self._state.reported_resource(pod) or "")

    def _may_explain(self, pod: Pod, now: int) -> bool:
        """Whether broken hardware of its node may be why the pod failed."""
        ended = self._failed.get(pod.node or "", {}).get(pod.uid)
        return ended is not None and now < ended + BROKE_THE_POD_WITHIN

    def _hardware(self, pod: Pod, number: int, chips: int, policy: FaultPolicy, now: int) -> PodCheck:
        name = self._state.names[number]
        node = self._state.nodes[number]
        if node is None:
            return self._missing(name, now)
        # A pod without chips would be placed there again.
        if pod.cls.uses_chips and self._state.node_status.get(number) is NodeStatus.UNHEALTHY:
            because = unhealthy_because(self._state.node_reports(name))
            return PodCheck(PodFault(FaultType.NODE, f"node {name} is reported as unhealthy{because}"))
        fleet = self._fleet(pod)
        due: int | None = None
        if fleet is not None and chips:
            bad = chips & fleet.unhealthy[number]
            if bad and policy.masks:
                # The chips that have a fault which counts, and when that changes next.
                harmful = self._harmful(name, fleet.resource)
                bad, due = self._after_windows(name, harmful, bad, policy, now)
            if bad:
                named = chip_names(fleet.resource, chips_of(bad))
                return PodCheck(PodFault(FaultType.CHIP, f"{named} of {name} is unhealthy", chips=bad), due)
            # Only a node that lists its chips can show that one is missing.
            vanished = chips & ~fleet.listed[number] if node.devices and node.ready else 0
            if vanished:
                named = chip_names(fleet.resource, chips_of(vanished))
                return PodCheck(
                    PodFault(FaultType.CHIP, f"{name} no longer lists {named}", chips=vanished),
                    due,
                )
        if not node.ready:
            return PodCheck(PodFault(FaultType.NODE, f"node {name} is not Ready", unreachable=True))
        return PodCheck(None, due)

    def _missing(self, name: str, now: int) -> PodCheck:
        if name not in self._gone:
            due = self._unknown.setdefault(name, now) + UNKNOWN_NODE_GRACE
            if now < due:
                return PodCheck(None, due)
        return PodCheck(PodFault(FaultType.NODE, f"node {name} no longer exists", unreachable=True))

    def _harmful(self, node: str, resource: str) -> list[ReportedFault]:
        return [fault for fault in self._faults(node, resource) if fault.level not in HARMLESS_LEVELS]

    def _weak(self, node: str, resource: str, chips: int) -> list[ReportedFault]:
        return [
            fault
            for fault in self._faults(node, resource)
            if fault.level == SUB_HEALTH_LEVEL and chips >> fault.chip & 1
        ]

    def _after_windows(
        self, node: str, faults: Iterable[ReportedFault], bad: int, policy: FaultPolicy, now: int
    ) -> tuple[int, int | None]:
        counted = bad
        due: int | None = None
        for one in self._windows(node, faults, bad, policy, now):
            counted &= ~(1 << one.fault.chip)
            if node not in self._tolerated and node in self._first_seen:
                self._tolerated[node] = self._first_seen[node]
            due = earliest(due, one.end)
        return counted, due

    def _windows(
        self, node: str, faults: Iterable[ReportedFault], bad: int, policy: FaultPolicy, now: int
    ) -> list[ToleratedFault]:
        """Of each chip whose faults are all tolerated now, the window that ends first: then it counts."""
        first_seen = self._first_seen.get(node, {})
        windows: dict[int, ToleratedFault] = {}
        for fault in faults:
            if not bad >> fault.chip & 1:
                continue
            seen = first_seen.get((fault.chip, fault.code), now)
            end = seen + policy.masks.window(fault.code, fault.level) * SECOND
            if fault.chip not in windows or end < windows[fault.chip].end:
                windows[fault.chip] = ToleratedFault(fault, seen, end)
        return [one for one in windows.values() if one.end > now]

    def _sub_health(
        self, pod: Pod, number: int | None, chips: int, policy: FaultPolicy, said: str | None, now: int
    ) -> PodCheck:
        strategy = policy.sub_health
        if strategy is SubHealth.IGNORE or number is None:
            return HEALTHY
        name = self._state.names[number]
        if strategy is SubHealth.HOT_SWITCH:
            # ClusterD prepares a backup pod first, and says when this one goes; its word is enough.
            if pod.annotations.get(NEED_VOLCANO_OPERATION) != "delete":
                return HEALTHY
            if BACKUP_NEW_POD not in pod.annotations:
                # The hot switch failed: the job restarts as after any fault.
                why = "ClusterD wants the pod on sub-healthy hardware to be deleted, without a backup"
                return PodCheck(PodFault(FaultType.SUB_HEALTH, why))
            why = "ClusterD replaced the pod by a backup (hot switch)"
            return PodCheck(PodFault(FaultType.SUB_HEALTH, why, hot_switch=True))
        weak = self._weak(name, pod.cls.resource or "", chips)
        bad, due = mask_of(fault.chip for fault in weak), None
        if bad and policy.masks:
            bad, due = self._after_windows(name, weak, bad, policy, now)
        why = self._why_sub_healthy(pod, number, bad, said)
        if not why:
            return PodCheck(None, due)
        return PodCheck(PodFault(FaultType.SUB_HEALTH, why, chips=bad), due)

    def _why_sub_healthy(self, pod: Pod, number: int, bad: int, said: str | None) -> str:
        name = self._state.names[number]
        if bad:
            return f"{chip_names(pod.cls.resource or '', chips_of(bad))} of {name} is sub-healthy"
        if said == "SubHealth":
            return "ClusterD says that the pod is on sub-healthy hardware"
        if pod.cls.chips and self._state.node_status.get(number) is NodeStatus.SUB_HEALTHY:
            return f"node {name} is sub-healthy"
        return ""

    # -- what is not acted on yet, for explanations: nothing changes ------------------------------------

    def tolerated(self, pod: Pod, policy: FaultPolicy, now: int) -> list[ToleratedFault]:
        """The faults of the pod's chips that a mask of its job tolerates: of each chip what counts next."""
        record = self._state.pods.get(pod.uid)
        if record is None or record.node < 0 or not policy.masks:
            return []
        name, resource = self._state.names[record.node], pod.cls.resource or ""
        fleet = self._state.fleets.get(resource)
        bad = 0 if fleet is None else record.chips & fleet.unhealthy[record.node]
        result = self._windows(name, self._harmful(name, resource), bad, policy, now)
        if policy.sub_health not in (SubHealth.IGNORE, SubHealth.HOT_SWITCH):
            weak = self._weak(name, resource, record.chips)
            result += self._windows(name, weak, record.chips, policy, now)
        return result

    def awaits_hot_switch(self, pod: Pod, policy: FaultPolicy) -> str:
        """Why the pod is sub-healthy, where ClusterD has to say first when it goes; else empty."""
        record = self._state.pods.get(pod.uid)
        if record is None or record.node < 0 or policy.sub_health is not SubHealth.HOT_SWITCH:
            return ""
        if pod.annotations.get(NEED_VOLCANO_OPERATION) == "delete":
            return ""
        weak = self._weak(self._state.names[record.node], pod.cls.resource or "", record.chips)
        bad = mask_of(fault.chip for fault in weak)
        return self._why_sub_healthy(pod, record.node, bad, pod.labels.get(FAULT_TYPE))


def _has_failed(pod: Pod) -> bool:
    return pod.phase == "Failed" or pod.exit_code not in (None, 0)


def is_unfit(state: ClusterState, resource: str, name: str, mask: int) -> bool:
    """Whether no pod can return to these chips of a node now, broken or taken out of use."""
    # By name: another node may have the id of a deleted one.
    number, fleet = state.node_id.get(name), state.fleets.get(resource)
    if number is None or fleet is None:
        return True
    node = state.nodes[number]
    bad = fleet.unhealthy[number] | fleet.recovering[number] | max(0, fleet.network[number])
    # What an operator takes out of use is not waited for either.
    bad |= fleet.isolated[number] | fleet.pre_separated[number]
    refused = state.node_status.get(number, NodeStatus.HEALTHY) >= NodeStatus.PRE_SEPARATE
    if node is not None and node.devices is not None:
        # It came back with other chips.
        bad |= ~fleet.listed[number]
    refused = refused or number in state.isolated_nodes
    return node is None or not node.ready or refused or bool(mask & bad)
