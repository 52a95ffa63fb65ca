"""A scheduler with a simulated API server: commands become events, time is a number.

rig = Rig(nodes=2); rig.submit("train", pods=2, chips=8); rig.step()
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import replace
from typing import Any, Self

from ringwise.apps.extensions import new_scheduler
from ringwise.durations import earliest
from ringwise.framework.configuration import Configuration, PluginOption, Tier, settings_from
from ringwise.messages import events as ev
from ringwise.messages.commands import (
    Bind,
    Command,
    DeletePod,
    Evict,
    Publish,
    RecordJobEvent,
    SetGroupStatus,
)
from ringwise.scheduler.core.machine import Scheduler
from ringwise.scheduler.defaults import default_tiers
from ringwise.scheduler.view import SchedulerView
from ringwise.state.model import NetworkTopology, Owner, Pod, PodGroup, PriorityClass, Queue
from ringwise.wellknown import FAULT_NODE_KEY, RESCHEDULE_RECORDS_KEY
from tests.builders import values
from tests.builders.records import entries_of, written_tables
from tests.builders.values import SECOND, address, seen

NOW = 1000 * SECOND
ACTIONS = ("enqueue", "allocate", "preempt", "reclaim", "backfill")
PLAIN = ("enqueue", "allocate", "backfill")


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


def scheduler_told(*known: object, configuration: Configuration | None = None) -> Scheduler:
    """A scheduler that handled these values and events in one turn."""
    scheduler = new_scheduler(configuration)
    scheduler.handle(seen(*known), NOW)
    return scheduler


def told(*known: object, configuration: Configuration | None = None) -> SchedulerView:
    return scheduler_told(*known, configuration=configuration).view


def bound_pods(commands: Iterable[Command]) -> list[str]:
    return [one.pod for one in commands if isinstance(one, Bind)]


def deleted_pods(commands: Iterable[Command]) -> list[str]:
    return [one.pod for one in commands if isinstance(one, DeletePod)]


def messages(commands: Iterable[Command], reason: str) -> list[str]:
    """Of the events of jobs with this reason."""
    return [one.message for one in commands if isinstance(one, RecordJobEvent) and one.reason == reason]


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
        self.now = NOW
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
        #: SuperPoD and rack of the nodes that are in one.
        self._places: dict[str, dict[str, int]] = {}
        self.nodes(nodes, chips=chips)

    # -- things that happen ------------------------------------------------------------------

    def tell(self, *known: object) -> None:
        """Values that are there now, and events."""
        self.events += seen(*known)

    def node(self, name: str, **described: Any) -> None:
        self._places[name] = {key: described[key] for key in ("superpod", "rack") if key in described}
        self.tell(values.node(name, **described))

    def nodes(self, count: int, **described: Any) -> None:
        for number in range(1, count + 1):
            self.node(f"n{number}", **described)

    def switches(self, leaves: int, nodes: int) -> None:
        """Nodes n1, n2 ... under leaf switches A, B, C ... of so many nodes."""
        for number in range(1, leaves * nodes + 1):
            self.node(f"n{number}", internal_ip=address(number))
            self.sick(f"n{number}", 0)
        self.tell(values.switches(leaves, nodes))

    def superpods(self, count: int, nodes: int, **described: Any) -> None:
        for number in range(count * nodes):
            self.node(f"n{number + 1}", **{"chips": 16, "superpod": number // nodes, **described})

    def racks(self, count: int, nodes: int) -> None:
        """Of one SuperPoD."""
        for number in range(count * nodes):
            self.node(f"n{number + 1}", superpod=0, rack=number // nodes)
            self.sick(f"n{number + 1}", 0)

    def sick(self, name: str, unhealthy: int, **described: Any) -> None:
        """The device plugin reports these chips, a mask, as unhealthy."""
        self.tell(values.report(name, unhealthy=unhealthy, **{**self._places.get(name, {}), **described}))

    def queue(self, name: str, **more: Any) -> None:
        self.tell(Queue(name, created=len(name), **more))

    def priority(self, name: str, value: int, **more: Any) -> None:
        self.tell(PriorityClass(name, value, **more))

    def submit(
        self,
        name: str,
        *,
        namespace: str = "default",
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
        topology: NetworkTopology | None = None,
        claims: Iterable[str] = (),
        **asked: Any,
    ) -> None:
        """Claims are written with `{}` for the number of the pod."""
        self._serial += 1
        notes = dict(annotations or {})
        if expected:
            notes["ringwise.io/expected-duration"] = expected
        self.put_group(
            values.group(
                name,
                pods if min_available is None else min_available,
                namespace=namespace,
                queue=queue,
                priority_class=priority,
                created=self._serial,
                labels=dict(labels or {}),
                annotations=notes,
                owner=owner,
                topology=topology,
            )
        )
        for index in range(pods):
            self.put(
                values.pod(
                    f"{name}-{index}",
                    chips,
                    namespace=namespace,
                    uid=f"{name}-{index}.{self._serial}",
                    created=self._serial,
                    labels=dict(labels or {}),
                    annotations=notes,
                    group=name,
                    priority_class=priority,
                    preemptable=preemptable,
                    owner=owner,
                    claims=tuple(claim.format(index) for claim in claims),
                    **asked,
                )
            )

    def put(self, pod: Pod) -> None:
        self.pods[pod.name] = pod
        self.tell(pod)

    def change(self, name: str, **fields: Any) -> None:
        self.put(replace(self.pods[name], **fields))

    def put_group(self, group: PodGroup) -> None:
        self.groups[group.key] = group
        self.tell(group)

    def change_group(self, job: str, **fields: Any) -> None:
        self.put_group(replace(self.groups[f"default/{job}"], **fields))

    def label(self, job: str, labels: Mapping[str, str]) -> None:
        """More labels of its PodGroup."""
        self.change_group(job, labels={**self.groups[f"default/{job}"].labels, **labels})

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

    def recreate(self, *names: str) -> None:
        """The pods are gone, and their controller creates them again."""
        for name in names:
            self.tell(ev.PodGone(self.pods[name].uid))
            self.replacement(name)

    def finish(self, *, recreate: bool = True) -> None:
        """Terminating pods end, and their controller creates them again."""
        names = [name for name, pod in self.pods.items() if pod.deleting]
        (self.recreate if recreate else self.gone)(*names)

    def gone(self, *names: str) -> None:
        for name in names:
            pod = self.pods.pop(name)
            self.tell(ev.PodGone(pod.uid))

    def end(self, job: str) -> None:
        """The job has ended and is deleted."""
        self.gone(*self.pods_of(job))
        del self.groups[f"default/{job}"]
        self.tell(ev.PodGroupGone(f"default/{job}"))

    def change_leader(self, *read: object) -> None:
        """Another scheduler with the same configuration goes on, with the next turn.

        It knows the objects that are there now, and what the one before wrote, or what is to be `read`.
        """
        of_jobs = ev.PodSeen | ev.PodGroupSeen | ev.LeaderRecordRead
        known = [*self.machine.view.current_events(), *self.events]
        self.machine = new_scheduler(self.machine.view.configuration)
        self.events = [one for one in known if not isinstance(one, of_jobs)]
        # The lists of an API server come in any order: pods may be known before their PodGroups.
        self.tell(*self.pods.values(), *self.groups.values(), *(read or (self.last_record,)))

    def successor(self, *read: object) -> Self:
        """The same with another leader; this one stays as it is."""
        other = copy(self)
        other.pods, other.groups, other.events = dict(self.pods), dict(self.groups), list(self.events)
        other.change_leader(*read)
        other.history, other.commands = [], []
        return other

    # -- deciding ----------------------------------------------------------------------------------

    def step(self, seconds: float = 0, *, fail: Iterable[str] = ()) -> list[Command]:
        """One turn of the scheduler; `fail` names pods whose bindings the API server refuses."""
        self.now += int(seconds * SECOND)
        batch, self.events = tuple(self.events), []
        deadline = earliest(self.machine.next_deadline(), self.machine.next_retry())
        commands = self.machine.handle(batch, self.now)
        if self.history and not batch and not all(isinstance(command, Publish) for command in commands):
            # Time alone caused it: the process that drives the scheduler sleeps until the deadline.
            assert deadline is not None
            assert deadline <= self.now
        self.history.append((batch, self.now, tuple(commands)))
        self.commands += commands
        assert self.machine.view.inconsistencies() == []
        assert self.machine.view.history.incidents == []
        assert self.may_fail or self.machine.view.contained_objects == []
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
            self.put_group(replace(self.groups[command.key], phase=command.phase))

    # -- looking ---------------------------------------------------------------------------------------

    def places(self, job: str) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Where the pods of a job are: node and chips."""
        return {
            name: (pod.node, pod.holds)
            for name, pod in sorted(self.pods.items())
            if pod.group == job and pod.node is not None
        }

    def pods_of(self, job: str) -> list[str]:
        return [name for name, pod in self.pods.items() if pod.group == job]

    def pod_on(self, node: str) -> str:
        return next(name for name, pod in self.pods.items() if pod.node == node)

    def node_of(self, name: str) -> str:
        """The node of a pod that has one."""
        node = self.pods[name].node
        assert node is not None
        return node

    def by_rank(self, job: str = "train") -> dict[int, str]:
        """The nodes of the pods that have one and stay."""
        pods = [pod for pod in self.pods.values() if pod.group == job and not pod.deleting]
        return {int(pod.annotations["hccl/rankIndex"]): pod.node for pod in pods if pod.node is not None}

    def nodes_of(self, job: str) -> list[str]:
        return [node for node, _ in self.places(job).values()]

    def evictions(self) -> list[str]:
        return [command.pod for command in self.commands if isinstance(command, Evict)]

    def deletions(self) -> list[str]:
        return deleted_pods(self.commands)

    def published(self) -> list[Publish]:
        return [command for command in self.commands if isinstance(command, Publish)]

    @property
    def record(self) -> dict[str, str]:
        """The leader record as it was written last, by data key."""
        return written_tables(self.commands)

    def entries(self, table: str) -> dict[str, Any]:
        """The entries of a table of it, as JSON has them."""
        return entries_of(self.record, table)

    @property
    def last_record(self) -> ev.LeaderRecordRead:
        """What the next leader reads."""
        return ev.LeaderRecordRead(
            self.record, self.written(RESCHEDULE_RECORDS_KEY), self.written(FAULT_NODE_KEY)
        )

    def written(self, key: str) -> str:
        """What was published last under this key; empty: nothing."""
        return next((one.data[key] for one in reversed(self.published()) if key in one.data), "")

    def messages(self, reason: str) -> list[str]:
        return messages(self.commands, reason)

    def reason(self, job: str) -> str | None:
        found = self.machine.view.jobs[f"default/{job}"].reason
        return None if found is None else found.code
