"""Which jobs run under which leaf switches (S2): read from the live pods only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from ringwise.framework.configuration import Settings
from ringwise.framework.job import Job
from ringwise.placement.switches.classes import SwitchClass, asks_for_switches, classify
from ringwise.placement.switches.states import SwitchFacts, SwitchJob, as_version1, switch_states
from ringwise.reasons import Reason
from ringwise.state.cluster import ClusterState
from ringwise.state.model import Pod
from ringwise.topology.switches import ResolvedTopology, SwitchTopology
from ringwise.wellknown import IS_SHARED_TOR, TOR_AFFINITY


def switch_mark(annotations: Mapping[str, str]) -> int:
    """Rule S2: how the pod's switch was taken. A missing or unreadable annotation counts as 0."""
    value = annotations.get(IS_SHARED_TOR, "0").strip()
    return int(value) if value in ("1", "2") else 0


def written_mark(pod: Pod) -> int:
    return switch_mark(pod.annotations)


def writes_marks(settings: Settings, topology: SwitchTopology) -> bool:
    """Rule S1: version 1.0 and single layer write no marks; there the number of pods alone decides."""
    return settings.nslb_version == "2.0" and not topology.single_layer


def switch_class(
    job: Job, state: ClusterState, marks_written: bool, mark: Callable[[Pod], int] = written_mark
) -> SwitchClass | Reason | None:
    """Rule S1: the class of the job, from its label, its number of pods and the marks on its live pods."""
    label = job.labels.get(TOR_AFFINITY)
    if not asks_for_switches(label):
        return None
    marked = marks_written and any(
        state.pods[uid].node >= 0 and pod.cls.chips and mark(pod) for uid, pod in job.pods.items()
    )
    return classify(label, job.chip_pod_count, marked)


def switch_job(
    job: Job,
    state: ClusterState,
    resolved: ResolvedTopology,
    settings: Settings,
    mark: Callable[[Pod], int] = written_mark,
) -> SwitchJob | None:
    """The job's pods under switches; None when it is not switch-aware or has none there."""
    cls = switch_class(job, state, writes_marks(settings, resolved.topology), mark)
    if not isinstance(cls, SwitchClass):
        return None
    seats: list[tuple[int, int]] = []
    for uid, pod in job.pods.items():
        node = state.pods[uid].node
        if node < 0 or not pod.cls.chips:
            continue
        switch = resolved.switch_of.get(state.names[node])
        if switch is not None:
            seats.append((switch, mark(pod)))
    return SwitchJob(job.key, cls, tuple(seats)) if seats else None


def states_now(
    jobs: Iterable[Job], state: ClusterState, resolved: ResolvedTopology, settings: Settings
) -> list[SwitchFacts]:
    """The state of every switch from the live pods (S2), in the terms of the configured version."""
    placed = _placed(jobs, state, resolved, settings)
    states = switch_states(len(resolved.topology.switches), placed, settings.shared_tor_num)
    return states if settings.nslb_version == "2.0" else [as_version1(facts) for facts in states]


def _placed(
    jobs: Iterable[Job], state: ClusterState, resolved: ResolvedTopology, settings: Settings
) -> Iterator[SwitchJob]:
    for job in jobs:
        placed_job = switch_job(job, state, resolved, settings)
        if placed_job is not None:
            yield placed_job
