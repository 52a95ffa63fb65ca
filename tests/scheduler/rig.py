"""A scheduler with a simulated API server: commands become events, time is a number.

rig = Rig(nodes=2); rig.submit("train", pods=2, chips=8); rig.step()
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ringwise.apps.extensions import new_scheduler
from ringwise.framework.configuration import Configuration, PluginOption, Tier, settings_from
from ringwise.messages import events as ev
from ringwise.messages.commands import Bind, Command, DeletePod, Evict, Publish, SetGroupStatus
from ringwise.scheduler.defaults import default_tiers
from ringwise.state.model import (
    Device,
    DeviceReport,
    NetworkTopology,
    Node,
    Owner,
    Pod,
    PodClass,
    PodGroup,
    PriorityClass,
    Queue,
)
from ringwise.topology.switches import SwitchTopology

SECOND = 1_000_000_000
CHIP = "huawei.com/Ascend910"
ACTIONS = ("enqueue", "allocate", "preempt", "reclaim", "backfill")


def configuration(
    actions: Iterable[str] = ACTIONS, *, tiers: tuple[Tier, ...] | None = None, **settings: Any
) -> Configuration:
    written = {name.replace("_", "-"): value for name, value in settings.items()}
    return Configuration(tuple(actions), tiers or default_tiers(), settings_from(written))


def _with_option(name: str, other: PluginOption) -> tuple[Tier, ...]:
    """The default tiers with another option in the place of that of a plugin."""
    return tuple(
        Tier(tuple(other if option.name == name else option for option in tier.plugins))
        for tier in default_tiers()
    )


def gangs_may_end() -> tuple[Tier, ...]:
    """The default tiers, but the gang plugin lets whole gangs be evicted (`enablePreemptable: false`)."""
    return _with_option("gang", PluginOption.of("gang", {"preemptable": False, "reclaimable": False}))


def with_capacity(flags: Mapping[str, bool] | None = None) -> tuple[Tier, ...]:
    """The default tiers with the plugin capacity in the place of proportion."""
    return _with_option("proportion", PluginOption.of("capacity", flags))


class Rig:
    def __init__(
        self,
        nodes: int = 0,
        *,
        chips: int = 8,
        actions: Iterable[str] = ACTIONS,
        deaf: bool = False,
        **settings: Any,
    ) -> None:
        self.machine = new_scheduler(configuration(actions, **settings))
        self.now = 1000 * SECOND
        self.pods: dict[str, Pod] = {}
        self.groups: dict[str, PodGroup] = {}
        self.events: list[ev.Event] = []
        #: Everything told, when, and what came of it.
        self.history: list[tuple[tuple[ev.Event, ...], int, tuple[Command, ...]]] = []
        self.commands: list[Command] = []
        #: Bindings and evictions are carried out only when the test says so.
        self.deaf = deaf
        #: Whether the test makes the scheduler raise.
        self.may_fail = False
        self._serial = 0
        for number in range(1, nodes + 1):
            self.node(f"n{number}", chips=chips)

    # -- things that happen ------------------------------------------------------------------

    def tell(self, *events: ev.Event) -> None:
        self.events += events

    def node(self, name: str, *, chips: int = 8, ready: bool = True, **more: Any) -> None:
        offered = {CHIP: chips}
        self.tell(
            ev.NodeSeen(
                Node(
                    name,
                    ready=ready,
                    chips_allocatable=offered,
                    chips_capacity=offered,
                    devices=tuple(Device(chip) for chip in range(chips)),
                    **more,
                )
            )
        )

    def sick(self, name: str, unhealthy: int) -> None:
        self.tell(ev.ReportSeen(DeviceReport(name, CHIP, unhealthy=unhealthy, network_unhealthy=0)))

    def queue(self, name: str, **more: Any) -> None:
        self.tell(ev.QueueSeen(Queue(name, created=len(name), **more)))

    def priority(self, name: str, value: int, **more: Any) -> None:
        self.tell(ev.PriorityClassSeen(PriorityClass(name, value, **more)))

    def submit(
        self,
        name: str,
        *,
        pods: int = 1,
        chips: int = 1,
        min_available: int | None = None,
        queue: str = "default",
        priority: str = "",
        preemptable: bool = False,
        expected: str = "",
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        owner: Owner | None = None,
        resource: str = CHIP,
        topology: NetworkTopology | None = None,
        claims: Iterable[str] = (),
        **asked: Any,
    ) -> None:
        """Claims are written with `{}` for the number of the pod."""
        self._serial += 1
        notes = dict(annotations or {})
        if expected:
            notes["ringwise.io/expected-duration"] = expected
        group = PodGroup(
            "default",
            name,
            min_member=pods if min_available is None else min_available,
            queue=queue,
            priority_class=priority,
            created=self._serial,
            labels=dict(labels or {}),
            annotations=notes,
            owner=owner,
            topology=topology,
        )
        self.groups[group.key] = group
        self.tell(ev.PodGroupSeen(group))
        for index in range(pods):
            self.put(
                Pod(
                    f"{name}-{index}.{self._serial}",
                    "default",
                    f"{name}-{index}",
                    PodClass(resource if chips else None, chips, **asked),
                    created=self._serial,
                    labels=dict(labels or {}),
                    annotations=notes,
                    group=name,
                    priority_class=priority,
                    preemptable=preemptable,
                    owner=owner,
                    claims=tuple(claim.format(index) for claim in claims),
                )
            )

    def put(self, pod: Pod) -> None:
        self.pods[pod.name] = pod
        self.tell(ev.PodSeen(pod))

    def change(self, name: str, **fields: Any) -> None:
        self.put(replace(self.pods[name], **fields))

    def replacement(self, name: str) -> None:
        """The pod's controller creates it again, under the same name."""
        self._serial += 1
        old = self.pods.pop(name)
        group = self.groups[f"default/{old.group}"]
        self.put(
            replace(
                old,
                uid=f"{name}.{self._serial}",
                phase="Pending",
                node=None,
                deleting=False,
                holds=(),
                annotations=dict(group.annotations),
                rank=None,
            )
        )

    def gone(self, *names: str) -> None:
        for name in names:
            pod = self.pods.pop(name)
            self.tell(ev.PodGone(pod.uid))

    def end(self, job: str) -> None:
        """The job has ended and is deleted."""
        self.gone(*[name for name, pod in self.pods.items() if pod.group == job])
        del self.groups[f"default/{job}"]
        self.tell(ev.PodGroupGone(f"default/{job}"))

    def topology(self, topology: SwitchTopology) -> None:
        self.tell(ev.TopologySeen(topology))

    # -- deciding ----------------------------------------------------------------------------------

    def step(self, seconds: float = 0, *, fail: Iterable[str] = ()) -> list[Command]:
        """One turn of the scheduler; `fail` names pods whose bindings the API server refuses."""
        self.now += int(seconds * SECOND)
        batch, self.events = tuple(self.events), []
        deadline = self.machine.next_deadline()
        commands = self.machine.handle(batch, self.now)
        if self.history and not batch and not all(isinstance(command, Publish) for command in commands):
            # Time alone caused it: the process that drives the scheduler sleeps until the deadline.
            assert deadline is not None
            assert deadline <= self.now
        self.history.append((batch, self.now, tuple(commands)))
        self.commands += commands
        assert self.machine.view.inconsistencies() == []
        assert self.machine.view.incidents == []
        assert self.may_fail or self.machine.view.set_aside == []
        failing = set(fail)
        if not self.deaf:
            for command in commands:
                self._carry_out(command, failing)
        return commands

    def run(self, turns: int = 10) -> None:
        """Turn until there are no more events."""
        for _ in range(turns):
            self.step()
            if not self.events:
                return

    def _carry_out(self, command: Command, failing: set[str]) -> None:
        if isinstance(command, Bind):
            if command.pod in failing:
                self.tell(ev.BindFailed(command.uid, "refused by the test"))
                return
            pod = self.pods.get(command.pod)
            if pod is None or pod.uid != command.uid:
                return
            rank = command.annotations.get("hccl/rankIndex")
            self.change(
                command.pod,
                node=command.node,
                annotations={**pod.annotations, **command.annotations},
                holds=command.chips,
                rank=int(rank) if rank is not None else pod.rank,
                phase="Running",
            )
        elif isinstance(command, Evict | DeletePod):
            if command.pod in self.pods and self.pods[command.pod].uid == command.uid:
                self.change(command.pod, deleting=True)
        elif isinstance(command, SetGroupStatus) and command.key in self.groups:
            self.groups[command.key] = replace(self.groups[command.key], phase=command.phase)
            self.tell(ev.PodGroupSeen(self.groups[command.key]))

    # -- looking ---------------------------------------------------------------------------------------

    def places(self, job: str) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Where the pods of a job are: node and chips."""
        return {
            name: (pod.node, pod.holds)
            for name, pod in sorted(self.pods.items())
            if pod.group == job and pod.node is not None
        }

    def nodes_of(self, job: str) -> list[str]:
        return [node for node, _ in self.places(job).values()]

    def evictions(self) -> list[str]:
        return [command.pod for command in self.commands if isinstance(command, Evict)]

    def deletions(self) -> list[str]:
        return [command.pod for command in self.commands if isinstance(command, DeletePod)]

    def published(self) -> list[Publish]:
        return [command for command in self.commands if isinstance(command, Publish)]

    def reason(self, job: str) -> str | None:
        found = self.machine.view.jobs[f"default/{job}"].reason
        return None if found is None else found.code
