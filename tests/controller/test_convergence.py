"""A controller that restarts at any moment, or gets events twice and in another order, ends the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from ringwise.controller.machine import Controller
from ringwise.durations import SECOND
from ringwise.embed.kubelet import SimulationSettings
from ringwise.embed.loop import EmbeddedLoop
from ringwise.messages import events as ev
from ringwise.messages.commands import Command
from ringwise.state.model import Pod, PodGroup
from ringwise.state.vcjob import Policy, VcJob
from tests.builders.values import job_of, task_of
from tests.embed.drains import drain
from tests.embed.first_fit import lab_of
from tests.examples import examples

END = 400 * SECOND
SCRIPTS = ("forever", "succeed@20", "fail@15", "fail@40:7")
POLICIES = (
    Policy("RestartJob", ("PodEvicted",)),
    Policy("RestartPod", ("PodFailed",)),
    Policy("RestartTask", ("PodFailed",)),
    Policy("RestartJob", ("PodFailed",)),
    Policy("AbortJob", (), 7),
    Policy("CompleteJob", ("TaskCompleted",)),
    Policy("TerminateJob", ("PodPending",), timeout=90 * SECOND),
    Policy("TerminateJob", ("PodFailed",), timeout=33 * SECOND),
    Policy("RestartPod", ("PodEvicted",)),
)
POLICIES_OF_TASKS = st.lists(st.sampled_from(POLICIES), max_size=1)


@st.composite
def jobs(
    draw: st.DrawFn,
    name: str,
    chips: tuple[int, ...] = (1, 4, 8),
    policies_of_tasks: st.SearchStrategy[list[Policy]] = POLICIES_OF_TASKS,
) -> VcJob:
    tasks = []
    for task in draw(st.sampled_from([["w"], ["m", "w"]])):
        replicas = draw(st.integers(1, 3))
        script = draw(st.sampled_from(SCRIPTS))
        tasks.append(
            task_of(
                task,
                replicas,
                chips=draw(st.sampled_from(chips)),
                min_available=draw(st.integers(1, replicas)),
                annotations={"ringwise.io/simulate": script},
                policies=draw(policies_of_tasks),
            )
        )
    return job_of(
        *tasks,
        name=name,
        policies=draw(st.lists(st.sampled_from(POLICIES), max_size=3, unique=True)),
        max_retry=draw(st.integers(1, 3)),
        ttl_seconds=draw(st.sampled_from([None, None, 50])),
    )


@dataclass(frozen=True)
class Deed:
    """An action of a user: at a second, on the job or node of a number."""

    second: int
    what: str
    number: int


WISHES = ("delete pod", "delete job", "AbortJob", "ResumeJob", "RestartJob")
NODE_WORK = ("drain", "uncordon")


def deeds_of(kinds: tuple[str, ...]) -> st.SearchStrategy[list[Deed]]:
    deed = st.builds(Deed, st.integers(0, 150), st.sampled_from(kinds), st.integers(0, 2))
    return st.lists(deed, max_size=6)


DEEDS = deeds_of(WISHES + NODE_WORK)


def do(lab: EmbeddedLoop, deed: Deed) -> None:
    cluster = lab.cluster
    match deed.what:
        case "delete pod":
            pods = sorted(pod.key for pod in cluster.all(Pod) if not pod.deleting)
            if pods:
                cluster.delete("Pod", pods[deed.number % len(pods)])
        case "drain":
            drain(cluster, f"node-{deed.number}")
        case "uncordon":
            cluster.cordon(f"node-{deed.number}", False)
        case "delete job":
            cluster.delete("VcJob", f"default/job-{deed.number}")
        case action:
            lab.inject(ev.JobCommand(f"default/job-{deed.number}", action))


def outcome(lab: EmbeddedLoop, exact: bool) -> object:
    """What a person sees in the end: neither uids nor the number of writes matter.

    Who is told of one failure of several first names another pod and keeps fewer ended ones: that is
    left out where the order of events may differ.
    """
    jobs = lab.cluster.all(VcJob)
    pods = sorted(lab.cluster.all(Pod), key=lambda pod: pod.key)
    groups = sorted(
        (group.owner.name if group.owner else "", group.min_member) for group in lab.cluster.all(PodGroup)
    )
    rough = (
        [(job.key, job.phase, job.reason, job.retry_count, job.version, job.since) for job in jobs],
        [(pod.key, pod.phase, pod.deleting) for pod in pods if pod.live],
        groups,
    )
    if not exact:
        return rough
    return (
        rough,
        [(job.message, job.counts) for job in jobs],
        [(pod.key, pod.node, pod.phase) for pod in pods],
    )


def lived(
    submitted: list[VcJob],
    deeds: list[Deed],
    controller: Controller,
    between: Callable[[EmbeddedLoop], None],
    *,
    exact: bool = True,
) -> object:
    lab = lab_of(3, settings=SimulationSettings(start_delay=SECOND, grace=3 * SECOND), start=0)
    lab.controller = controller
    lab.cluster.submit_all(submitted)
    for deed in sorted(deeds, key=lambda deed: deed.second):
        lab.run_until(deed.second * SECOND)
        do(lab, deed)
        between(lab)
        lab.step()
        between(lab)
    for second in range(160, 400, 7):
        lab.run_until(second * SECOND)
        between(lab)
    lab.run_until(END)
    assert lab.cluster.alarms == []
    return outcome(lab, exact)


def nothing(lab: EmbeddedLoop) -> None:
    """Without a restart."""


@settings(max_examples=examples(60))
@given(first=jobs("job-0"), second=jobs("job-1"), deeds=DEEDS, chance=st.randoms(use_true_random=False))
def test_a_restarted_controller_continues_as_the_old_one_would(
    first: VcJob, second: VcJob, deeds: list[Deed], chance: Random
) -> None:
    def crash(lab: EmbeddedLoop) -> None:
        if chance.random() < 0.5:
            lab.replace_controller(Controller())

    expected = lived([first, second], deeds, Controller(), nothing)
    assert lived([first, second], deeds, Controller(), crash) == expected


class Shaky(Controller):
    """Gets events twice and objects in another order; the order of each object's events is kept.

    Pods that end at the same time are told together: where each has another policy, the first end that is
    known decides which action is carried out, as it does in Volcano.
    """

    def __init__(self, chance: Random) -> None:
        super().__init__()
        self.chance = chance
        self.calls = 0

    def handle(self, events: Iterable[ev.Event], now: int) -> list[Command]:
        lines: dict[object, list[ev.Event]] = {}
        for event in events:
            lines.setdefault(subject(event), []).append(event)
        ends = {subject(one) for line in lines.values() for one in line if is_end(one)}
        told: set[object] = set()
        commands: list[Command] = []
        piece: list[ev.Event] = []
        while lines:
            line = self.chance.choice(list(lines))
            piece.append(lines[line][0])
            told |= {line} & ends if is_end(lines[line][0]) else set()
            if self.chance.random() < 0.7 or isinstance(lines[line][0], ev.JobCommand):
                lines[line].pop(0)
            if not lines[line]:
                del lines[line]
            if self.chance.random() < 0.2 and told in (set(), ends):
                commands += super().handle(piece, now)
                piece = []
        return commands + super().handle(piece, now)


def is_end(event: ev.Event) -> bool:
    return isinstance(event, ev.PodSeen) and event.pod.phase in ("Failed", "Succeeded")


def subject(event: ev.Event) -> object:
    match event:
        case ev.PodSeen():
            return event.pod.uid
        case ev.PodGone():
            return event.uid
        case ev.VcJobSeen():
            return event.job.key
        case ev.VcJobGone() | ev.PodGroupGone() | ev.JobCommand():
            return event.key
        case ev.PodGroupSeen():
            return event.group.key
    return type(event)


@settings(max_examples=examples(60))
@given(
    first=jobs("job-0", chips=(1,), policies_of_tasks=st.just([])),
    second=jobs("job-1", chips=(1,), policies_of_tasks=st.just([])),
    deeds=deeds_of(WISHES),
    chance=st.randoms(use_true_random=False),
)
def test_repeated_and_reordered_events_change_nothing(
    first: VcJob, second: VcJob, deeds: list[Deed], chance: Random
) -> None:
    """Which pod is created first decides its node; there is capacity for all, so nothing else differs.

    All tasks have the policies of their job: where two tasks fail together and one of them restarts the job,
    the other only itself, the order in which the controller hears of it counts.
    """
    expected = lived([first, second], deeds, Controller(), nothing, exact=False)
    assert lived([first, second], deeds, Shaky(chance), nothing, exact=False) == expected


@settings(max_examples=examples(40))
@given(first=jobs("job-0"), second=jobs("job-1"), deeds=DEEDS)
def test_a_quiet_lab_stays_quiet(first: VcJob, second: VcJob, deeds: list[Deed]) -> None:
    """Without events nothing is written: no command is repeated, and equal runs are equal."""

    def step_again(lab: EmbeddedLoop) -> None:
        lab.step()
        version = lab.cluster.table.version
        assert lab.step() == 0
        assert lab.cluster.table.version == version

    expected = lived([first, second], deeds, Controller(), nothing)
    assert lived([first, second], deeds, Controller(), step_again) == expected
