"""Shares of chips and vNPUs for people: how many chips they are, and what pods have of a chip."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import TYPE_CHECKING

from ringwise.grammar import counted
from ringwise.scheduler.view import SchedulerView
from ringwise.state.allocation_modes import NO_CHIPS, NodeMode
from ringwise.state.chip_amounts import ChipUse
from ringwise.state.chip_fractions import chips_used
from ringwise.state.model import DYNAMIC, SOFT, WHOLE, Pod
from ringwise.topology.chips import chips_of
from ringwise.topology.natural import natural_key

if TYPE_CHECKING:
    from ringwise.views.documents.cluster import PartFields, ShareFields


def observed_pod(view: SchedulerView, pod: Pod) -> Pod:
    """The pod as the scheduler has it, which knows what its PodGroup says about a share."""
    record = view.cluster.pods.get(pod.uid)
    return pod if record is None else record.pod


def chips_requested(view: SchedulerView, pods: Iterable[Pod]) -> float:
    """How many chips pods request together; a whole number without shares and vNPUs (V18)."""
    total: int | Fraction = 0
    for pod in pods:
        cls = observed_pod(view, pod).cls
        if cls.part is None:
            total += cls.chips
            continue
        record = view.cluster.pods.get(pod.uid)
        if record is not None and record.node >= 0:
            mode = view.cluster.modes.get(record.node, NO_CHIPS)
            total += chips_used(cls, view.cluster.nodes[record.node], mode)
        else:
            total += chips_used(cls, None, _usual_mode(view) if cls.part.mode == DYNAMIC else NO_CHIPS)
    return int(total) if total == int(total) else round(float(total), 2)


def _usual_mode(view: SchedulerView) -> NodeMode:
    """Of the first node with dynamic vNPUs: how many cores a chip has on which a pod may start."""
    return next((one for one in view.cluster.modes.values() if one.divided is not None), NO_CHIPS)


def part_of_pod(view: SchedulerView, pod: Pod) -> PartFields | None:
    """The share or the vNPU of a pod; None for one with whole chips."""
    record = view.cluster.pods.get(pod.uid)
    part = observed_pod(view, pod).cls.part
    if part is None:
        return None
    bound = None if record is None else record.binding
    text = f"{part.count}"
    if part.mode == SOFT:
        text = f"{part.count}%"
    elif part.mode == DYNAMIC:
        text = counted(part.count, "core")
    return {
        "mode": part.mode,
        "message": text,
        "percent": part.count if part.mode == SOFT else None,
        "memory_mb": part.mb if part.mode == SOFT else None,
        "policy": part.policy or None,
        "cores": part.count if part.mode == DYNAMIC else None,
        "template": (bound.template or None) if bound is not None else None,
    }


def use_of_chip(view: SchedulerView, number: int, chip: int) -> str | None:
    """`60% 40000 MB (elastic), 2 pods`, `4 of 8 cores, 2 vNPUs`; None where pods have whole chips only."""
    mode = view.cluster.modes.get(number, NO_CHIPS)
    if mode.mode not in (SOFT, DYNAMIC):
        return None
    book = view.cluster.amounts(number)
    use = book.on(chip)
    if use.entire or chip not in book.chips:
        return None
    if mode.divided is not None:
        return f"{use.cores} of {mode.divided.cores} cores, {counted(len(use.dvpp), 'vNPU')}"
    pods = counted(sum(1 for _ in _pods_on(view, number, chip)), "pod")
    return f"{use.percent}% {use.mb} of {mode.chip_memory} MB ({', '.join(sorted(use.policies))}), {pods}"


def is_shared(view: SchedulerView, number: int) -> bool:
    """Whether several pods may use a chip of the node."""
    return view.cluster.modes.get(number, NO_CHIPS).mode in (SOFT, DYNAMIC)


def shares_on(view: SchedulerView, number: int, chip: int) -> list[ShareFields]:
    """What pods have of a chip of a soft or dynamic node, by their names."""
    mode, node = view.cluster.modes.get(number, NO_CHIPS), view.cluster.nodes[number]
    result: list[ShareFields] = []
    for pod in sorted(_pods_on(view, number, chip), key=lambda pod: natural_key(pod.key)):
        part = part_of_pod(view, pod)
        is_whole = part is None or (part["mode"] == DYNAMIC and part["template"] is None)
        result.append(
            {
                "pod": pod.key,
                "job": view.job_name_of_pod(pod),
                "message": counted(pod.cls.chips, "chip") if part is None else part["message"],
                "percent": 100 if is_whole else min(100, int(100 * chips_used(pod.cls, node, mode))),
            }
        )
    return result


def jobs_on(view: SchedulerView, number: int) -> dict[int, list[Pod]]:
    """Chip -> a pod of each job that uses it, of a soft or dynamic node."""
    by_chip: dict[int, dict[str, Pod]] = {}
    for uid in view.cluster.pods_on[number]:
        record, job = view.cluster.pods[uid], view.job_of(uid)
        for chip in chips_of(record.chips | record.part_chips):
            by_chip.setdefault(chip, {})[record.pod.key if job is None else job.key] = record.pod
    return {chip: [pods[key] for key in sorted(pods)] for chip, pods in by_chip.items()}


def allocation_mode(view: SchedulerView, node: str) -> str:
    """The allocation mode of a node; empty for one with whole chips, or none."""
    number = view.cluster.node_id.get(node, -1)
    mode = view.cluster.modes.get(number, NO_CHIPS).mode
    return "" if mode == WHOLE else mode


def percent_of_chips(view: SchedulerView, node: str) -> dict[int, int]:
    """How much of the chips of a node shares and vNPUs use: of cores, or if that is more, of memory."""
    number = view.cluster.node_id.get(node, -1)
    mode = view.cluster.modes.get(number, NO_CHIPS)
    if mode.mode not in (SOFT, DYNAMIC):
        return {}
    return {chip: _percent(use, mode) for chip, use in view.cluster.amounts(number).chips.items()}


def _percent(use: ChipUse, mode: NodeMode) -> int:
    if use.entire:
        return 100
    if mode.divided is not None:
        return use.cores * 100 // mode.divided.cores
    by_memory = use.mb * 100 // mode.chip_memory if mode.chip_memory else 0
    return min(100, max(use.percent, by_memory))


def _pods_on(view: SchedulerView, number: int, chip: int) -> Iterator[Pod]:
    for uid in view.cluster.pods_on[number]:
        record = view.cluster.pods[uid]
        if (record.chips | record.part_chips) >> chip & 1:
            yield record.pod
