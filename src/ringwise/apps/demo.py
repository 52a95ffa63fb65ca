"""The clusters and jobs of `ringwise demo`, in virtual time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ringwise.apps.extensions import new_scheduler
from ringwise.apps.queries import explain_job
from ringwise.controller.machine import Controller
from ringwise.embed.clock import SECOND, VirtualClock
from ringwise.embed.cluster import EmbeddedCluster
from ringwise.embed.containers import PodContainer
from ringwise.embed.fleets import GeneratedFleet
from ringwise.embed.loop import EmbeddedLoop
from ringwise.framework.configuration import Configuration
from ringwise.framework.gangs.ranks import ranks_of
from ringwise.framework.job import Job
from ringwise.records import dataclass
from ringwise.scheduler.defaults import default_configuration
from ringwise.scheduler.explain.why import Explanation, find_job
from ringwise.scheduler.node_states import chips_of_node, node_states
from ringwise.state.model import Pod, PodClass, Queue
from ringwise.state.vcjob import PodTemplate, Task, VcJob
from ringwise.topology.board import Board
from ringwise.wellknown import ASCEND910, EXPECTED_DURATION

#: 2026-01-10T08:00:00Z: the same in every run.
START = 1_768_032_000 * SECOND


def job_of(
    name: str,
    pods: int,
    chips: int,
    *,
    queue: str = "default",
    minutes: int | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    selector: Mapping[str, str] | None = None,
) -> VcJob:
    """A vcjob of equal pods that start together."""
    cls = PodClass(ASCEND910, chips, node_selector=tuple((selector or {}).items()))
    notes = {} if minutes is None else {EXPECTED_DURATION: f"{minutes}m"}
    template = PodTemplate(cls, annotations=notes, chip_containers=1)
    return VcJob(
        "demo",
        name,
        "",
        (Task("worker", pods, pods, template),),
        pods,
        queue=queue,
        labels=labels or {},
        annotations={**notes, **(annotations or {})},
    )


def _configuration() -> Configuration:
    """The default, with the newer rules for leaf switches: their states are worth a look."""
    default = default_configuration()
    return replace(default, settings=replace(default.settings, nslb_version="2.0"))


@dataclass(frozen=True, slots=True)
class Placement:
    """One pod of a job, with the free chips of its node before it came and now."""

    pod: Pod
    rank: int
    before: int


@dataclass(frozen=True, slots=True)
class Mounting:
    """A pod as the scheduler bound it, as its node started it, and what its container got."""

    bound: Pod
    started: Pod
    container: PodContainer


def mounting(fleet: GeneratedFleet, board: Board, mount_by: str) -> tuple[DemoCluster, Mounting]:
    """Let a pod of two chips go all the way to its container, through a real device plugin."""
    from ringwise.apps.lab.device_plugins import DevicePlugins, MountSettings

    stage = DemoCluster(fleet, board)
    stage.settle("node-0", "notebook", (0, 1))
    plugins = DevicePlugins(stage.cluster, MountSettings(mount_by))
    stage.cluster.nodes.agents = plugins
    try:
        stage.submit(job_of("train", 1, 2))
        bound = stage.cluster.get(Pod, "demo/train-worker-0")
        stage.pass_time()
        started = stage.cluster.get(Pod, "demo/train-worker-0")
        assert bound is not None, "there is room for two chips"
        assert started is not None, "it does not end"
        container = stage.cluster.container(bound.uid)
        assert container is not None, "the agents start every pod with chips"
    finally:
        plugins.close()
    return stage, Mounting(bound, started, container)


class DemoCluster:
    """One embedded cluster with the real scheduler and controller."""

    def __init__(self, fleet: GeneratedFleet, board: Board) -> None:
        self.board = board
        self.cluster = EmbeddedCluster(now=START)
        self.cluster.submit_all(fleet.nodes)
        self.cluster.submit_all(fleet.reports)
        if fleet.topology is not None:
            self.cluster.submit(fleet.topology)
        self.scheduler = new_scheduler(_configuration())
        self.clock = VirtualClock(START)
        self.lab = EmbeddedLoop(self.cluster, self.scheduler, Controller(), self.clock)
        self.lab.step()
        self._before: dict[str, int] = {}

    def why(self, name: str) -> Explanation:
        return explain_job(self.scheduler.view, self.cluster.now, f"demo/{name}")

    @property
    def elapsed(self) -> int:
        """Nanoseconds since the start."""
        return self.cluster.now - START

    def break_chips(self, node: str, *chips: int, network: bool = False) -> None:
        self.cluster.nodes.set_health(node, chips, healthy=False, network=network, now=self.cluster.now)

    def settle(self, node: str, name: str, chips: Sequence[int]) -> None:
        """Add a pod that runs from the beginning."""
        notes = {ASCEND910: ",".join(f"Ascend910-{chip}" for chip in chips)}
        cls = PodClass(ASCEND910, len(chips))
        self.cluster.submit(
            Pod(
                "",
                "demo",
                name,
                cls,
                "Running",
                node,
                annotations=notes,
                chip_containers=1,
                holds=tuple(chips),
            )
        )
        self.cluster.nodes.set_health(node, (), healthy=True, now=self.cluster.now)

    def add_queue(self, name: str, weight: int, chips: int) -> None:
        self.cluster.submit(Queue(name, weight, {ASCEND910: chips}))

    def submit(self, *jobs: VcJob) -> None:
        """All at once, as if they had arrived in the same second."""
        view = self.scheduler.view
        state = view.cluster
        self._before = {
            state.names[number]: chips.states.free
            for number in state.known_nodes()
            for chips in chips_of_node(state, number, node_states(state, number, view.now))
            if chips.resource == ASCEND910
        }
        self.cluster.submit_all(jobs)
        self.lab.step()

    def pass_time(self) -> bool:
        """Advance to the next deadline; False without one."""
        due = self.lab.next_deadline()
        if due is not None:
            self.lab.run_until(due)
        return due is not None

    def job(self, name: str) -> Job:
        return find_job(self.scheduler.view, f"demo/{name}")

    def placements(self, name: str) -> list[Placement]:
        job = self.job(name)
        ranks = ranks_of(job)
        pods = [pod for pod in job.pods.values() if pod.node is not None]
        return [
            Placement(pod, ranks[pod.uid], self._before.get(pod.node or "", 0))
            for pod in sorted(pods, key=lambda pod: ranks[pod.uid])
        ]

    def wrongs(self) -> list[str]:
        """Chips held twice and inconsistent tables; always empty unless there is a defect."""
        return [*self.cluster.alarms, *self.scheduler.view.inconsistencies()]
