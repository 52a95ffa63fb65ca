"""Pods with soft shares and vNPUs whose annotations differ from what they count with (rule V4)."""

from __future__ import annotations

from collections.abc import Iterator

from ringwise.scheduler.explain.findings import ERROR, Finding, Subject
from ringwise.scheduler.view import SchedulerView
from ringwise.state.allocation_modes import NO_CHIPS, NodeMode
from ringwise.state.cluster import PodRecord
from ringwise.state.model import DYNAMIC, SOFT, STATIC, MountedShare
from ringwise.state.part_requests import PartBinding, binding_of, mounted_part, requested
from ringwise.state.reasons import UNKNOWN_PART
from ringwise.topology.chips import chip_names, chips_of
from ringwise.topology.natural import natural_key
from ringwise.wellknown import ASCEND_REAL


def part_findings(view: SchedulerView) -> Iterator[Finding]:
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
                yield from _doubtful(view, name, resource, record)
            if record.assumed or not record.pod.live or record.binding is None or record.pod.cls.part is None:
                continue
            resource = mode.resource or requested(record.pod.cls)[0] or ""
            reports = state.reports.get((name, resource), {}).values()
            share = next((one.mounted_shares[uid] for one in reports if uid in one.mounted_shares), None)
            yield from _differences(name, resource, mode, record, record.binding, share)


def _doubtful(view: SchedulerView, node: str, resource: str, record: PodRecord) -> Iterator[Finding]:
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
