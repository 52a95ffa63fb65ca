"""Small clusters for tests, in one breath:

lab = cluster().node("n1", cpu=4000).job("train", pods=2, cpu=1000).running("old", on="n1")
session = lab.session("gang", "predicates")
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ringwise.framework.amounts import add
from ringwise.framework.budget import StepBudget
from ringwise.framework.configuration import Configuration, PluginOption, Tier
from ringwise.framework.job import Job
from ringwise.framework.registry import PluginBuilder, PluginSpec
from ringwise.framework.session import Session
from ringwise.framework.topology_cache import TopologyCache
from ringwise.framework.usage import ResourceUsage
from ringwise.manifests.settings.boards import shipped_catalog
from ringwise.scheduler.defaults import BUILT_IN
from ringwise.state.cluster import ClusterState
from ringwise.state.model import (
    HyperNode,
    HyperNodeMember,
    NetworkTopology,
    Node,
    Pod,
    PodClass,
    PodGroup,
    Queue,
    Taint,
)
from ringwise.state.node_shapes import label_keys
from ringwise.state.reservations import Reservations
from tests.builders.values import CHIP, pod_class


def option(name: str, switched: Mapping[str, bool] | None = None, **arguments: Any) -> PluginOption:
    """A plugin's entry. Arguments are written with `_` for `.`: `binpack_cpu=2`."""
    written = {key.replace("_", "."): value for key, value in arguments.items()}
    return BUILT_IN.plugins[name].option(switched, written)


class CountedSteps(StepBudget):
    """Counts the steps of all jobs, and limits none."""

    def __init__(self) -> None:
        super().__init__()
        self.all = 0

    def spend(self, steps: int, besides: int = 0) -> None:
        self.all += steps


class Lab:
    """A cluster, its jobs and queues; `session` opens a cycle over it."""

    def __init__(self) -> None:
        self.state = ClusterState()
        self.usage = ResourceUsage()
        self.jobs: dict[str, Job] = {}
        self.queues: dict[str, Queue] = {"default": Queue("default")}
        self._clock = 0

    # -- things that are there -------------------------------------------------------------

    def node(
        self,
        name: str,
        *,
        cpu: int = 0,
        memory: int = 0,
        chips: int = 0,
        pods: int = 0,
        labels: Mapping[str, str] | None = None,
        taints: Iterable[Taint] = (),
        cordoned: bool = False,
        extended: Mapping[str, int] | None = None,
    ) -> Lab:
        offered = {CHIP: chips} if chips else {}
        self.state.put_node(
            Node(
                name,
                labels=dict(labels or {}),
                taints=tuple(taints),
                unschedulable=cordoned,
                cpu_milli=cpu,
                memory=memory,
                max_pods=pods,
                extended=tuple(sorted((extended or {}).items())),
                chips_allocatable=offered,
                chips_capacity=offered,
            )
        )
        add(self.usage.capacity, {"cpu": cpu, "memory": memory, CHIP: chips, **(extended or {})})
        return self

    def nodes(self, count: int, **described: Any) -> Lab:
        for number in range(1, count + 1):
            self.node(f"n{number}", **described)
        return self

    def hyper_node(self, name: str, tier: int, *members: str, tier_name: str = "") -> Lab:
        """Of nodes that are there; every other member is a HyperNode."""
        found = tuple(HyperNodeMember(member not in self.state.node_id, member) for member in members)
        self.state.hyper_nodes.put(HyperNode(name, tier, found, tier_name))
        return self

    def queue(self, name: str, **described: Any) -> Lab:
        self._clock += 1
        self.queues[name] = Queue(name, created=self._clock, **described)
        return self

    def job(
        self,
        name: str,
        *,
        pods: int = 1,
        min_available: int | None = None,
        queue: str = "default",
        priority: int = 0,
        namespace: str = "default",
        tasks: Mapping[str, int] | None = None,
        min_per_task: Mapping[str, int] | None = None,
        min_resources: Mapping[str, int] | None = None,
        on: str | Iterable[str] | None = None,
        labels: Mapping[str, str] | None = None,
        inqueue: bool = False,
        cls: PodClass | None = None,
        topology: NetworkTopology | None = None,
        **asked: Any,
    ) -> Lab:
        """A job of equal pods, waiting, or with `on` running on that node (or one node per pod)."""
        self._clock += 1
        counts = dict(tasks or {"": pods})
        total = sum(counts.values())
        places = [on] * total if isinstance(on, str) else list(on or ())
        needed = total if min_available is None else min_available
        group = PodGroup(
            namespace,
            name,
            min_member=needed,
            min_resources=dict(min_resources or {}),
            queue=queue,
            topology=topology,
        )
        job = Job(
            group.key,
            namespace,
            name,
            group=group,
            queue=queue,
            priority=priority,
            created=self._clock,
            min_available=needed,
            min_per_task=dict(min_per_task or {}),
            inqueue=inqueue,
        )
        asked_class = cls or pod_class(**asked)
        for task, count in counts.items():
            for index in range(count):
                pod_name = f"{name}-{task}-{index}" if task else f"{name}-{index}"
                self._add(
                    job,
                    Pod(pod_name, namespace, pod_name, asked_class, task=task, labels=labels or {}),
                    places,
                )
        self.jobs[job.key] = job
        return self

    def _add(self, job: Job, pod: Pod, places: list[str]) -> None:
        pod.group = job.name
        pod.priority = job.priority
        if places:
            pod.node, pod.phase = places.pop(0), "Running"
            chips = pod.cls.chips
            if chips:
                number = self.state.node_id[pod.node]
                free = self.state.fleets[CHIP].listed[number] & ~self.state.fleets[CHIP].held[number]
                pod.holds = tuple(chip for chip in range(64) if free >> chip & 1)[:chips]
                assert len(pod.holds) == chips, f"{pod.node} has no {chips} free chips"
        self.put(pod, job)

    def put(self, pod: Pod, job: Job | None = None) -> Lab:
        """Let the cluster know a pod, and its job if it has one."""
        self.state.watch_labels(label_keys(pod.cls))
        self.state.put_pod(pod)
        if job is not None:
            job.pods[pod.uid] = pod
            job.changed()
            if pod.node is not None and pod.live:
                self.usage.add_pod(job.key, job.queue, pod.cls)
        return self

    # -- looking ------------------------------------------------------------------------------

    def __getitem__(self, name: str) -> Job:
        return self.jobs[name if "/" in name else f"default/{name}"]

    def pod(self, name: str) -> Pod:
        return self.state.pods[name].pod

    def change(self, name: str, **fields: Any) -> Lab:
        """Replace fields of a pod, as if the cluster had reported it."""
        job = next(job for job in self.jobs.values() if name in job.pods)
        pod = replace(job.pods[name], **fields)
        job.pods[name] = pod
        job.changed()
        self.state.put_pod(pod)
        return self

    # -- deciding -----------------------------------------------------------------------------

    def session(
        self,
        *tier: str | PluginOption | Iterable[str | PluginOption],
        plugins: Mapping[str, PluginBuilder] | None = None,
        incidents: bool = False,
        **configured: Any,
    ) -> Session:
        """Open a cycle: plugins named by themselves are the first tier, each list is one more tier.

        A plugin that fails to open fails the test, unless `incidents` are expected.
        """
        rows: list[list[PluginOption]] = []
        loose: list[PluginOption] = []
        for entry in tier:
            if isinstance(entry, (str, PluginOption)):
                loose.append(_as_option(entry))
            else:
                rows.append([_as_option(one) for one in entry])
        if loose:
            rows.insert(0, loose)
        configuration = Configuration(("allocate",), tuple(Tier(tuple(row)) for row in rows), **configured)
        session = Session(
            state=self.state,
            reservations=Reservations(self.state),
            jobs=self.jobs,
            queues=self.queues,
            usage=self.usage,
            topology=TopologyCache(shipped_catalog()),
            configuration=configuration,
            now=0,
            pending=self.jobs.values(),
        )
        more = [PluginSpec(name, "", build, arguments=None) for name, build in (plugins or {}).items()]
        BUILT_IN.with_specs(more).open_plugins(session)
        assert incidents or not session.incidents, session.incidents
        return session


def _as_option(entry: str | PluginOption) -> PluginOption:
    if isinstance(entry, PluginOption):
        return entry
    spec = BUILT_IN.plugins.get(entry)
    return PluginOption.of(entry) if spec is None else spec.option()


def cluster() -> Lab:
    return Lab()
