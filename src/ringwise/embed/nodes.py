"""Simulated nodes and device plugins: readiness, chip faults, mounted chips."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ringwise.embed import parts
from ringwise.embed.containers import NodeAgents, PodContainer
from ringwise.embed.kubelet import (
    ALLOCATED_TIME,
    ChipAssignments,
    SimulationSettings,
    script_or_failure,
)
from ringwise.embed.objects import ObjectTable
from ringwise.embed.records import ObjectRefusedError
from ringwise.manifests.kinds import report_key
from ringwise.manifests.objects.chips import chip_of
from ringwise.state.model import PRE_SEPARATE_LEVEL, DeviceReport, Isolation, Node, NodeReport, Pod
from ringwise.topology.chips import chip_names, mask_of
from ringwise.wellknown import ASCEND_REAL, KUBELET_DEVICES, NO_NPU_RESOURCE, PREDICATE_TIME

#: Levels of which none makes a chip unhealthy while a pod has it.
HARMLESS_WITH_IT = frozenset({PRE_SEPARATE_LEVEL, "SubHealthFault", "NotHandleFault"})
#: Kubelet's word for a pod that could not get its chips and never ran.
NOT_ADMITTED = "UnexpectedAdmissionError"


class SimulatedNodes:
    """Nodes and device reports in the table, and the chip assignments of each node."""

    def __init__(self, table: ObjectTable) -> None:
        self._table = table
        self._assignments: dict[tuple[str, str], ChipAssignments] = {}
        #: Kubelets and device plugins with code of their own.
        self.agents: NodeAgents | None = None

    def get(self, name: str) -> Node | None:
        return self._table.find(Node, name)

    def report(self, node: str, resource: str) -> DeviceReport | None:
        return self._table.find(DeviceReport, report_key(node, resource))

    def cordon(self, name: str, on: bool = True) -> bool:
        """False: it was so already."""
        node = self._node(name)
        changed = node.unschedulable != on
        if changed:
            self._put(replace(node, unschedulable=on))
        return changed

    def set_ready(self, name: str, ready: bool) -> None:
        node = self._node(name)
        if node.ready != ready:
            self._put(replace(node, ready=ready))

    def remove(self, name: str) -> None:
        node = self._node(name)
        if self.agents is not None:
            self.agents.forget(name)
        for resource in parts.reported_chips(node):
            self._table.remove("DeviceReport", report_key(name, resource))
            self._assignments.pop((name, resource), None)
        for report in self._table.each(NodeReport):
            if report.node == name:
                self._table.remove("NodeReport", report_key(name, report.source, report.aggregated))
        self._table.remove("Node", name)

    # -- faults ------------------------------------------------------------------------

    def report_again(self, name: str, now: int) -> None:
        """Let its device plugin report which chips are free: others are isolated now (F4), or in use."""
        node = self.get(name)
        for resource in parts.reported_chips(node) if node is not None else ():
            report = self.report(name, resource)
            if report is not None:
                self.put_report(self.own_health(report), now)

    def isolated(self, name: str) -> int:
        """Chips that a device plugin knows as isolated: by themselves, or with the node."""
        every = self._table.each(Isolation)
        here = [one for one in every if one.node == name and one.start is None]
        if any(not one.chips for one in here):
            return -1
        return mask_of(number for one in here for chip in one.chips if (number := chip_of(chip)) is not None)

    def chips_in_use(self, name: str, resource: str) -> int:
        """Mask of the chips that bound pods have."""
        assignments = self._assignments.get((name, resource))
        return 0 if assignments is None else mask_of(assignments.assigned)

    # -- chips -------------------------------------------------------------------------

    def claim(self, pod: Pod) -> tuple[int, ...]:
        """Assign a bound pod its chips; returns those that another live pod holds."""
        assignments = self._assignments_for(pod)
        if assignments is None:
            return ()
        twice = assignments.assign(pod.uid, pod.holds)
        if pod.phase == "Running":
            assignments.mounted[pod.uid] = mask_of(pod.holds)
        return twice

    def release(self, pod: Pod, now: int = 0) -> None:
        assignments = self._assignments_for(pod)
        if assignments is None:
            return
        assignments.release(pod.uid, pod.holds)
        agents = self._agents_for(pod.node or "", pod.cls.resource or "")
        if agents is not None:
            agents.release(pod)
        self._report_free(pod, assignments, now)

    def reassign(self, pod: Pod, chips: tuple[int, ...]) -> None:
        """A pod has other chips than it was bound with."""
        assignments = self._assignments_for(pod)
        if assignments is not None:
            mounted = pod.uid in assignments.mounted
            assignments.release(pod.uid, pod.holds)
            assignments.assign(pod.uid, chips)
            if mounted:
                assignments.mounted[pod.uid] = mask_of(chips)

    def start(self, pod: Pod, now: int) -> tuple[Pod, PodContainer | None]:
        """The pod running with its chips mounted, or failed because it cannot get them.

        With agents also what its container got.
        """
        agents = self._agents_for(pod.node or "", pod.cls.resource or "") if pod.cls.chips else None
        if agents is None:
            return self._started(pod, now), None
        container = agents.start(pod)
        if container.refused:
            return replace(pod, phase="Failed", rejected=NOT_ADMITTED, ended=now), container
        assignments = self._assignments_for(pod)
        if assignments is not None:
            assignments.mounted[pod.uid] = mask_of(pod.holds)
            self._report_free(pod, assignments, now)
        return replace(pod, phase="Running"), container

    def _started(self, pod: Pod, now: int) -> Pod:
        mode = parts.shared_mode(self.get(pod.node or ""))
        assignments, resource = self._assignments_for(pod), pod.cls.resource
        of_chips = mode.resource if mode is not None and mode.resource else resource
        report = self.report(pod.node or "", of_chips or "")
        withheld = self.isolated(pod.node or "") | (0 if report is None else report.unhealthy)
        refused = replace(pod, phase="Failed", rejected=NOT_ADMITTED, ended=now)
        if mode is not None and pod.cls.chips:
            return parts.started(pod, mode, withheld) or replace(refused, allocate_error=NO_NPU_RESOURCE)
        if assignments is None or resource is None:
            return replace(pod, phase="Running")
        broken = mask_of(pod.holds) & withheld
        if len(pod.holds) != pod.cls.chips or broken or assignments.others(pod.uid, pod.holds):
            return refused
        assignments.mounted[pod.uid] = mask_of(pod.holds)
        self._report_free(pod, assignments, now)
        names = chip_names(resource, pod.holds)
        added = {ASCEND_REAL: names, KUBELET_DEVICES: names, PREDICATE_TIME: ALLOCATED_TIME}
        return replace(pod, phase="Running", annotations={**pod.annotations, **added})

    def reported(self, pod: Pod, others: Iterable[Pod]) -> Pod:
        """The pod with the name of its vNPU, which the device plugin writes later."""
        mode = parts.shared_mode(self.get(pod.node or ""))
        return pod if mode is None else parts.reported(pod, mode, others)

    def end(self, pod: Pod, now: int, settings: SimulationSettings) -> Pod:
        code = script_or_failure(pod, settings).exit_code
        return replace(pod, phase="Failed" if code else "Succeeded", exit_code=code, ended=now)

    def _agents_for(self, name: str, resource: str) -> NodeAgents | None:
        node = self.get(name)
        shared = parts.shared_mode(node) is not None
        if self.agents is None or node is None or shared or not self.agents.serve(node, resource):
            return None
        return self.agents

    def _assignments_for(self, pod: Pod) -> ChipAssignments | None:
        if pod.node is None or pod.cls.resource is None or not pod.cls.chips:
            return None
        if parts.shared_mode(self.get(pod.node)) is not None:
            # The scheduler counts shares and vNPUs; several pods have the same chip.
            return None
        return self._assignments.setdefault((pod.node, pod.cls.resource), ChipAssignments())

    def _report_free(self, pod: Pod, assignments: ChipAssignments, now: int) -> None:
        report = self.report(pod.node or "", pod.cls.resource or "")
        if report is not None:
            self.put_report(self.own_health(report), now, assignments)

    def own_health(self, report: DeviceReport) -> DeviceReport:
        """The report without chips that are reported as unhealthy because they are isolated."""
        agents = self._agents_for(report.node, report.resource)
        if agents is None:
            return report
        own, network = agents.broken(report)
        return replace(report, unhealthy=own, network_unhealthy=network)

    def put_report(
        self, report: DeviceReport, now: int = 0, assignments: ChipAssignments | None = None
    ) -> None:
        """Write what the device plugin found out about the chips, with its list of free ones.

        Who uses which of them is known here.
        """
        node = self._node(report.node)
        agents = self._agents_for(report.node, report.resource)
        if agents is not None:
            written = agents.report(report)
            self._table.put("DeviceReport", report_key(report.node, report.resource), written)
            self._offer(node, written)
            return
        assignments = (
            assignments or self._assignments.get((report.node, report.resource)) or ChipAssignments()
        )
        listed = (1 << parts.reported_chips(node).get(report.resource, 0)) - 1
        if node.devices is not None:
            listed = mask_of(device.chip for device in node.devices)
        report = _separated(report, mask_of(assignments.assigned))
        free = listed & ~assignments.in_use & ~report.unhealthy & ~report.recovering
        free &= ~self.isolated(report.node)
        updated = replace(report, free=free)
        self._offer(node, report)
        if updated != self.report(report.node, report.resource):
            updated = replace(updated, update_time=max(report.update_time, now))
            self._table.put("DeviceReport", report_key(report.node, report.resource), updated)

    def _offer(self, node: Node, report: DeviceReport) -> None:
        """Kubelet offers the healthy chips."""
        good = parts.offered(node, report.resource, report.unhealthy.bit_count())
        if any(node.chips_allocatable.get(resource) != count for resource, count in good.items()):
            self._put(replace(node, chips_allocatable={**node.chips_allocatable, **good}))

    def _node(self, name: str) -> Node:
        node = self.get(name)
        if node is None:
            raise ObjectRefusedError(f'node "{name}" not found')
        return node

    def _put(self, node: Node) -> None:
        self._table.put("Node", node.name, node)


def _separated(report: DeviceReport, in_use: int) -> DeviceReport:
    """A chip that is to be separated later is unhealthy as soon as no pod has it."""
    levels: dict[int, set[str]] = {}
    for fault in report.faults:
        if fault.network:
            continue
        levels.setdefault(fault.chip, set()).add(fault.level)
    later = mask_of(
        chip for chip, codes in levels.items() if PRE_SEPARATE_LEVEL in codes and codes <= HARMLESS_WITH_IT
    )
    return replace(report, unhealthy=(report.unhealthy & ~later) | (later & ~in_use)) if later else report
