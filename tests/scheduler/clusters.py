"""Small clusters for tests of explanations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ringwise.apps.extensions import new_scheduler
from ringwise.framework.configuration import Configuration
from ringwise.messages import events as ev
from ringwise.scheduler.core.machine import Scheduler
from ringwise.scheduler.view import SchedulerView
from ringwise.state.model import Device, DeviceReport, Node, Pod, PodClass, PodGroup
from ringwise.topology.chips import mask_of

CHIP = "huawei.com/Ascend910"
NOW = 1_000_000_000_000


def node(name: str, chips: int = 8, *, faulty: int = 0, **more: Any) -> ev.NodeSeen:
    more.setdefault("devices", tuple(Device(chip) for chip in range(chips)))
    return ev.NodeSeen(
        Node(name, chips_allocatable={CHIP: chips - faulty}, chips_capacity={CHIP: chips}, **more)
    )


def report(name: str, free: Iterable[int], **more: Any) -> ev.ReportSeen:
    more.setdefault("network_unhealthy", 0)
    return ev.ReportSeen(DeviceReport(name, CHIP, mask_of(free), **more))


def pod(
    name: str, chips: int, *, on: str | None = None, holds: Iterable[int] = (), **more: Any
) -> ev.PodSeen:
    more.setdefault("cls", PodClass(CHIP if chips else None, chips))
    more.setdefault("phase", "Running" if on else "Pending")
    return ev.PodSeen(Pod(name, "default", name, node=on, holds=tuple(holds), **more))


def gang(name: str, pods: int, chips: int, **more: Any) -> list[ev.Event]:
    least = more.pop("min_member", pods)
    group = PodGroup("default", name, min_member=least, **more)
    return [
        ev.PodGroupSeen(group),
        *(pod(f"{name}-{number}", chips, group=name, created=group.created) for number in range(pods)),
    ]


def told(*events: ev.Event | list[ev.Event], configuration: Configuration | None = None) -> SchedulerView:
    """The view of a scheduler that handled these events."""
    return scheduler_told(*events, configuration=configuration).view


def scheduler_told(
    *events: ev.Event | list[ev.Event], configuration: Configuration | None = None
) -> Scheduler:
    scheduler = new_scheduler(configuration)
    flat = [one for event in events for one in (event if isinstance(event, list) else [event])]
    scheduler.handle(flat, NOW)
    return scheduler
