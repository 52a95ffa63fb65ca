"""N7, N8: chips on which Kubernetes' count, the node's report and the scheduler's state disagree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import reduce
from operator import or_

from ringwise.durations import SECOND, duration_text, time_text
from ringwise.framework.gangs.visible_devices import ALLOWED, STRICT
from ringwise.framework.reasons import VISIBLE_DEVICES_HIDDEN, VISIBLE_DEVICES_SET
from ringwise.grammar import agrees, counted
from ringwise.scheduler.explain.findings import ERROR, NOTE, WARNING, Finding, Subject, named
from ringwise.scheduler.node_states import stale_reports
from ringwise.scheduler.view import SchedulerView
from ringwise.state.allocation_modes import NO_CHIPS, NodeMode
from ringwise.state.cluster import ClusterState, PodRecord, double_claims
from ringwise.state.fleet import HOSTS, Fleet
from ringwise.state.model import DYNAMIC, SOFT, STATIC, MountedShare
from ringwise.state.part_requests import PartBinding, binding_of, mounted_part, requested
from ringwise.state.reasons import UNKNOWN_PART, UNSTABLE_NODE
from ringwise.topology.chips import chip_names, chips_of, mask_of
from ringwise.topology.natural import natural_key
from ringwise.topology.policy import is_part_of_a_chip
from ringwise.wellknown import ASCEND_REAL

REPORT_STALE = "report-stale"
#: Nanoseconds by which ClusterD's report of a node may be older than that of the node: it writes every 5 s.
_BEHIND_AFTER = 60 * SECOND


def chip_findings(view: SchedulerView) -> Iterator[Finding]:
    for node, resource, chip, pods in double_claims(view.cluster):
        yield Subject(f"node {node}").error(
            "chip-held-twice",
            f"{chip_names(resource, (chip,))} is named by {counted(pods, 'live pod')}: {', '.join(pods)}",
            "delete all but one of them",
        )
    for resource, fleet in sorted(view.cluster.fleets.items()):
        if resource != HOSTS:
            yield from _fleet(view, resource, fleet)
    yield from _parts(view)
    yield from _chosen_chips(view)
    yield from _isolations(view)
    yield from _node_reservations(view)
    yield from _reports(view)


def _chosen_chips(view: SchedulerView) -> Iterator[Finding]:
    """Live pods that say themselves which chips they see, whoever placed them.

    They keep their place and what they hold. Pods still to be placed are refused with the reason.
    """
    state, setting = view.cluster, view.settings.visible_devices
    pods = [
        (natural_key(record.pod.key), record.pod, record.pod.visible_devices, state.names[record.node])
        for record in state.pods.values()
        if record.pod.visible_devices is not None and record.node >= 0 and record.pod.live
        if record.pod.visible_devices.certain or setting == STRICT
    ]
    pods.sort(key=lambda one: one[0])
    for _, pod, own, node in pods:
        kind = VISIBLE_DEVICES_SET if own.certain else VISIBLE_DEVICES_HIDDEN
        reason = kind(container=own.container, pod=pod.name, field=own.field, source=own.source)
        yield Finding(
            WARNING if own.certain and setting != ALLOWED else NOTE,
            reason.code,
            f"pod {pod.namespace}/{pod.name}/{own.container}",
            f"on {node}, {reason.message}",
            f"delete {pod.key}, so that its owner creates it without the variable",
        )


def _isolations(view: SchedulerView) -> Iterator[Finding]:
    """What an operator took out of use; that may have been forgotten."""
    state = view.cluster
    concerned = (
        {one.name for one in state.isolations_of(number)} if state.isolations else ()
        for number in state.existing_nodes()
    )
    nodes_of = Counter(name for names in concerned for name in names)
    for one in sorted(state.isolations.values(), key=lambda one: natural_key(f"{one.target} {one.name}")):
        by = f" by {one.by}" if one.by else ""
        at = f" at {time_text(one.created)}" if one.created else ""
        why = f": {one.reason}" if one.reason else ""
        members, missing = nodes_of[one.name], state.isolation_problems.get(one.name)
        gone = f"; {missing}" if missing else ""
        nodes, done = counted(members, "node"), "is repaired"
        what = f"{', '.join(one.chips) or 'the whole node'} {agrees(len(one.chips), 'was', 'were')} isolated"
        if not one.node:
            what = f"its {nodes} {agrees(members, 'was', 'were')} isolated"
        if one.start is not None:
            of = "" if one.node else f" of its {nodes}"
            what = f"drain{of} scheduled for {time_text(one.start)}, created"
            why, done = "", "is done"
        ignored = f"; fields {', '.join(one.ignored)} are unknown and ignored" if one.ignored else ""
        yield Finding(
            WARNING if gone or ignored else NOTE,
            "isolated",
            f"node {one.node}" if one.node else one.title,
            f"{what}{by}{at}{why}{gone}{ignored}",
            f"when it {done}: ringwise unisolate {' '.join((one.target, *one.chips))}",
        )


def _node_reservations(view: SchedulerView) -> Iterator[Finding]:
    """Reservations that are not accepted, and those of nodes that do not exist."""
    reservations = view.cluster.node_reservations
    for name, problem in reservations.problems.items():
        yield Subject(f"NodeReservation {name}").warning(
            "reservation-not-accepted",
            f"it is not in effect: {problem}",
            f"correct it or delete it: ringwise unreserve {name}",
        )
    for one in reservations.entries:
        gone = [node for node in one.nodes if node not in view.cluster.node_id]
        if gone:
            yield Subject(f"reservation {one.name}").note(
                "reservation-node-gone",
                f"it names {named(gone, 'node')}, which {agrees(len(gone), 'does', 'do')} not exist",
                f"reserve other nodes: ringwise unreserve {one.name}, then ringwise reserve",
            )


def _fleet(view: SchedulerView, resource: str, fleet: Fleet) -> Iterator[Finding]:
    state = view.cluster
    nodes = [number for number in state.existing_nodes() if fleet.allocatable[number] >= 0]
    for number in nodes:
        yield from _NodeChips(state, resource, fleet, number).findings()
    for number in nodes:
        if fleet.assumed[number] and fleet.allocatable[number] > 0:
            yield Subject(f"node {state.names[number]}").warning(
                "chips-assumed",
                f"no list of chips of {resource} (neither baseDeviceInfos nor a device-info ConfigMap): "
                "chips 0 to n-1 are assumed to be healthy",
                "run the device plugin there, so that it writes baseDeviceInfos",
            )


class _NodeChips:
    """The chips of one resource on a node."""

    def __init__(self, state: ClusterState, resource: str, fleet: Fleet, number: int) -> None:
        self._state = state
        self._resource = resource
        self._fleet = fleet
        self._number = number
        self._name = state.names[number]
        self._subject = Subject(f"node {self._name}")
        placed = ((uid, state.pods[uid]) for uid in state.pods_on[number])
        #: By uid: the pods on the node that request such chips, in the order of their names.
        self._pods = dict(
            sorted(
                ((uid, one) for uid, one in placed if one.pod.cls.resource == resource),
                key=lambda entry: (entry[1].pod.key, entry[0]),
            )
        )

    def findings(self) -> Iterator[Finding]:
        yield from self._holders()
        yield from self._annotations()
        yield from self._doubtful()
        yield from self._views()
        yield from self._mounts()

    def _holders(self) -> Iterator[Finding]:
        fleet, number = self._fleet, self._number
        for pod, chips in sorted(fleet.unknown_holders.get(number, {}).items()):
            yield self._subject.error(
                "unknown-holder",
                f"pod {pod} uses {counted(chips, 'chip')} of {self._resource} and has no annotation that "
                f"names {agrees(chips, 'it', 'them')}; "
                f"{self._name} accepts no new NPU pods",
                f"wait until the device plugin has written huawei.com/AscendReal on {pod}, or delete the pod",
            )
        for pod in sorted(fleet.unreadable_pods.get(number, {}).values()):
            yield self._subject.error(
                "invalid-pod",
                f"pod {pod} cannot be read and may use chips; {self._name} accepts no new NPU pods",
                f"correct or delete {pod}; another finding describes the problem",
            )
        ghosts = fleet.held[number] & ~fleet.listed[number]
        if ghosts:
            yield self._subject.error(
                "chip-not-on-node",
                f"pods hold {self._names(ghosts)}, which the node does not list: "
                + self._pods_holding(ghosts),
                "correct the pods' chip annotations, or the node's baseDeviceInfos",
            )
        broken = fleet.held[number] & (fleet.unhealthy[number] | fleet.recovering[number])
        if broken:
            yield self._subject.warning(
                "faulty-chip-in-use",
                f"{self._names(broken)} is faulty and in use by " + self._pods_holding(broken),
                "wait until the job is rescheduled, or delete its pod",
            )

    def _annotations(self) -> Iterator[Finding]:
        """N8: live pods whose annotations name other chips than count as theirs, or than each other."""
        reports = self._state.reports.get((self._name, self._resource), {}).values()
        for uid, placement in self._pods.items():
            pod, key = placement.pod, placement.pod.key
            if placement.assumed or not placement.chips:
                continue
            lists = {self._resource: mask_of(pod.holds), ASCEND_REAL: mask_of(pod.mounted)}
            reported = next((report.mounted[uid] for report in reports if uid in report.mounted), 0)
            if all(chips == placement.chips for chips in lists.values() if chips) and (
                any(lists.values()) or reported
            ):
                continue
            sources = [
                f"{where} {self._names(chips)}"
                for where, chips in (*lists.items(), ("its device plugin", reported))
                if chips
            ]
            named_by = f"named by {'; '.join(sources)}" if sources else "no longer named by an annotation"
            yield self._subject.warning(
                "annotations-differ",
                f"pod {key} holds {self._names(placement.chips)}, {named_by}",
                f"delete {key} if it was edited, and install the admission policy (annotationPolicy)",
            )

    def _doubtful(self) -> Iterator[Finding]:
        """N8: pods of whose mount the device plugin has no record; some are gone and may still run."""
        for placement in self._pods.values():
            doubtful, pod = placement.doubtful, placement.pod
            if not doubtful:
                continue
            certain = placement.chips | doubtful == placement.chips and doubtful.bit_count() == pod.cls.chips
            report = self._subject.note if certain else self._subject.warning
            yield report(
                "chips-without-record",
                f"the device plugin has no record of what it mounted for pod {pod.key}, which requests "
                f"{counted(pod.cls.chips, 'chip')}: {self._names(doubtful)} may be in its container and are "
                "not assigned to other pods until it ends",
                f"no action is required; delete {pod.key} when possible, or configure the device plugin to "
                "read container specifications (--container-spec-dir)",
            )
        for uid, left in sorted(self._state.left_chips(self._name, self._resource).items()):
            yield self._subject.warning(
                "chips-without-record",
                f"the pod with uid {uid} is deleted and its container may still run: {self._names(left)} go "
                "to no other pod until the device plugin sees that it has ended",
                "if this persists, look on the node for processes of the pod that wait in the driver",
            )

    def _mounts(self) -> Iterator[Finding]:
        """D2, N8: where kubelet, our device plugin and the scheduler disagree about a pod."""
        report = self._state.reports.get((self._name, self._resource), {}).get(False)
        if report is None:
            return
        if report.kubelet_silent:
            yield self._subject.warning(
                "kubelet-silent",
                "kubelet does not report to the device plugin which pod has which devices, so "
                "exchanged devices are not detected",
                "check kubelet, and the socket in its directory pod-resources, which the plugin must "
                "be able to reach",
            )
        if report.kubelet_ids is None:
            return
        here = {
            (placement := self._state.pods[uid]).pod.key: (uid, placement)
            for uid in self._state.pods_on[self._number]
            if requested(self._state.pods[uid].pod.cls)[0] == self._resource
        }

        def differs(what: str, fix: str) -> Finding:
            return self._subject.warning("mounts-differ", what, fix)

        for key, ids in sorted(report.kubelet_ids.items()):
            listing = f"kubelet gave pod {key} the {agrees(ids.bit_count(), 'id', 'ids')} {self._names(ids)}"
            if not ids:
                # Of a share: its ids are not chips.
                listing = f"kubelet lists a share for pod {key}"
            if key not in here:
                yield differs(
                    f"{listing}; the scheduler knows no such pod there",
                    "kubelet has not cleaned up a pod that is gone: restart kubelet if this stays",
                )
                continue
            uid, placement = here[key]
            mounted = report.mounted.get(uid, 0)
            if placement.doubtful or uid in report.doubtful or uid in report.mounted_shares:
                # Named by a finding of its own; or a share, whose annotations are compared.
                continue
            if not mounted:
                yield differs(
                    f"{listing}; the device plugin does not know which chips it has",
                    f"delete {key} if this stays: its chips may be given to another pod",
                )
            elif mounted.bit_count() != ids.bit_count():
                yield differs(
                    f"{listing}; the device plugin mounted {self._names(mounted)}",
                    f"delete {key}: what is in its container is not what it asked for",
                )
        for key, (uid, placement) in sorted(here.items()):
            pod = placement.pod
            held = placement.chips | placement.part_chips
            if key in report.kubelet_ids or pod.phase != "Running" or not held or placement.doubtful:
                continue
            mounted = report.mounted.get(uid, 0)
            who = "the device plugin mounted" if mounted else "the scheduler gave it"
            yield differs(
                f"pod {key} runs, and kubelet lists no device for it; {who} {self._names(mounted or held)}",
                f"delete {key} if this stays: its container runs without these chips, "
                "or kubelet has lost its records",
            )

    def _views(self) -> Iterator[Finding]:
        """Free by Kubernetes' count, by the report, and by the scheduler's state."""
        fleet, number = self._fleet, self._number
        closed = fleet.closed[number]
        mode = self._state.modes.get(number, NO_CHIPS)
        if mode.closed is not None:
            # Kubernetes counts something else than chips here, so its numbers cannot be compared.
            yield self._subject.refused(ERROR, mode.closed)
            return
        if mode.mode in (SOFT, DYNAMIC) or is_part_of_a_chip(self._resource):
            return
        reported = fleet.reported[number]
        unfit = fleet.taken(number) | fleet.broken(number) | fleet.pre_separated[number]
        usable = fleet.listed[number] & ~unfit
        # Isolated chips are healthy: Kubernetes counts them, and a report may.
        isolated = usable if number in self._state.isolated_nodes else usable & fleet.isolated[number]
        free = usable & ~isolated
        if reported is not None:
            only_free = free & ~reported
            # The report need not include pods whose containers have not started yet.
            held = reported & fleet.held[number] & ~self._chips_not_started()
            if held:
                yield self._subject.warning(
                    "views-differ",
                    f"its report lists {self._names(held)} as free; "
                    f"according to the scheduler, {agrees(held.bit_count(), 'it is', 'they are')} held by "
                    + self._pods_holding(held),
                    "the device plugin reports late, or the container is gone: restart the device "
                    "plugin if this persists",
                )
            if only_free:
                yield self._subject.warning(
                    "views-differ",
                    f"according to the scheduler, {self._names(only_free)} "
                    f"{agrees(only_free.bit_count(), 'is', 'are')} free; its report does not list "
                    f"{agrees(only_free.bit_count(), 'it', 'them')} as free, and no pod names "
                    f"{agrees(only_free.bit_count(), 'it', 'them')}",
                    "look for containers outside Kubernetes that use them, and at the device plugin's log",
                )
        idle = fleet.idle(number)
        count = usable.bit_count()
        if closed is not None and closed.code == UNSTABLE_NODE.code:
            yield self._subject.error(
                closed.code,
                f"{closed.message} (free: {closed.details['free']}); it accepts no new NPU pods",
                "configure the device plugin to publish faulty chips as Unhealthy, or correct allocatable",
            )
        elif idle > count and number not in fleet.unknown_holders:
            yield self._subject.note(
                "views-differ",
                f"Kubernetes counts {counted(idle, 'idle chip')} of {self._resource} and the scheduler's "
                f"state has {count} {'free or isolated' if isolated else 'free'}: "
                f"{counted(idle - count, 'allocatable chip is', 'allocatable chips are')} faulty or not "
                "listed",
                "no action is required: the smaller number is used; the device plugin should "
                "lower allocatable",
            )

    def _chips_not_started(self) -> int:
        """Return the chips of pods on the node whose binding is not confirmed or that have not started."""
        pods = self._pods.values()
        return reduce(or_, (one.chips for one in pods if one.assumed or one.pod.phase == "Pending"), 0)

    def _pods_holding(self, chips: int) -> str:
        return ", ".join(one.pod.key for one in self._pods.values() if one.chips & chips)

    def _names(self, chips: int) -> str:
        return chip_names(self._resource, chips_of(chips))


def _behind(view: SchedulerView) -> Iterator[Finding]:
    """N7: ClusterD's reports count, also where it no longer runs."""
    state = view.cluster
    both = [(kinds, state.report_of(*key)) for key, kinds in state.reports.items() if len(kinds) > 1]
    late = [
        (age, report)
        for kinds, report in both
        if report is not None and report.aggregated and report.update_time
        if (age := kinds[False].update_time - report.update_time) > _BEHIND_AFTER
    ]
    if late:
        age, worst = max(late, key=lambda one: (one[0], one[1].node))
        yield Subject("ClusterD").warning(
            "aggregate-behind",
            f"its reports of {counted(late, 'node')} are older than those of the device plugins, that of "
            f"{worst.node} by {duration_text(age)}; faults since then are not detected",
            "check that ClusterD is running; if it is not used, delete its ConfigMaps "
            "cluster-info-device-*, or set useClusterInfoManager: false",
        )


def _reports(view: SchedulerView) -> Iterator[Finding]:
    yield from _behind(view)
    state = view.cluster
    reports = [report for kinds in state.reports.values() for report in kinds.values()]
    newest = max((report.update_time for report in reports), default=0)
    stale = {(report.node, report.resource): report for _, report in stale_reports(state, newest)}
    for report in sorted(
        reports, key=lambda report: (natural_key(report.node), report.resource, report.aggregated)
    ):
        number = state.node_id.get(report.node)
        if number is None or state.nodes[number] is None:
            yield Subject(f"ConfigMap of {report.node}").warning(
                "report-without-node",
                f"reports chips of {report.resource} on {report.node}, which is not a node of the cluster",
                "delete the ConfigMap, or join the node",
            )
        elif stale.get((report.node, report.resource)) is report:
            yield Subject(f"node {report.node}").warning(
                REPORT_STALE,
                f"its report is {duration_text(newest - report.update_time)} older than the newest one",
                "check that the device plugin of the node is running",
            )


# -- soft shares and vNPUs whose annotations differ from what they count with (rule V4) ------------------


def _parts(view: SchedulerView) -> Iterator[Finding]:
    state = view.cluster
    for number in state.existing_nodes():
        mode = state.modes.get(number, NO_CHIPS)
        if mode.mode not in (SOFT, STATIC, DYNAMIC) or mode.closed is not None:
            continue
        name = state.names[number]
        for pod in sorted(state.amounts(number).unknown, key=natural_key):
            yield Subject(f"node {name}").refused(ERROR, UNKNOWN_PART(node=name, pod=pod))
        if mode.mode == STATIC:
            continue
        for uid in sorted(state.pods_on[number], key=lambda uid: natural_key(state.pods[uid].pod.key)):
            record = state.pods[uid]
            for resource in state.fleets:
                yield from _doubtful_share(view, name, resource, record)
            if record.assumed or not record.pod.live or record.binding is None or record.pod.cls.part is None:
                continue
            resource = mode.resource or requested(record.pod.cls)[0] or ""
            reports = state.reports.get((name, resource), {}).values()
            share = next((one.mounted_shares[uid] for one in reports if uid in one.mounted_shares), None)
            yield from _differences(name, resource, mode, record, record.binding, share)


def _doubtful_share(view: SchedulerView, node: str, resource: str, record: PodRecord) -> Iterator[Finding]:
    """N8: a pod of whose share the device plugin has no record."""
    pod = record.pod
    reports = view.cluster.reports.get((node, resource), {}).values()
    chips = next((one.doubtful[pod.uid] for one in reports if pod.uid in one.doubtful), 0)
    if chips and pod.cls.part is not None:
        yield Subject(f"node {node}").note(
            "chips-without-record",
            f"the device plugin has no record of the share of pod {pod.key}: "
            f"{chip_names(resource, chips_of(chips))} accepts no new shares until it ends",
            f"no action required; delete {pod.key} when possible",
        )


def _differences(
    node: str,
    resource: str,
    mode: NodeMode,
    record: PodRecord,
    bound: PartBinding,
    share: MountedShare | None,
) -> Iterator[Finding]:
    pod, chips = record.pod, tuple(chips_of(record.part_chips))
    key, count = requested(pod.cls)
    counted = bound if share is None else bound._replace(chips=chips, mb=share.mb, policy=share.policy)
    now, mounted = binding_of(pod), mounted_part(pod).chips
    said = []
    if share is not None and share.percent != count:
        said.append(f"the device plugin mounted {share.percent} percent")
    if now != counted:
        what = _text(resource, now.chips, now) if now is not None else "nothing that can be read"
        said.append(f"{key} and the annotations beside it name {what}")
    if mounted and set(mounted) != set(chips):
        said.append(f"{ASCEND_REAL} names {chip_names(resource, mounted)}")
    if not said:
        return
    percent = f"{count} percent, " if mode.mode == SOFT else ""
    yield Subject(f"node {node}").warning(
        "annotations-differ",
        f"pod {pod.key} is counted as {percent}{_text(resource, chips, counted)}; {'; '.join(said)}",
        f"delete {pod.key} if it was edited, and install the admission policy (annotationPolicy)",
    )


def _text(resource: str, chips: tuple[int, ...], of: PartBinding) -> str:
    """`2048 MB (elastic) of Ascend910-0`"""
    share = f"{of.mb} MB ({of.policy}) of " if of.policy else f"{of.template} of " if of.template else ""
    return share + chip_names(resource, chips)
