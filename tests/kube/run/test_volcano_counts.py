"""Volcano's metrics: what a scheduler counts for them, in its turns and from its view."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ringwise.apps.extensions import new_scheduler
from ringwise.framework.configuration import PluginOption, Tier
from ringwise.kube.run.core_thread import SchedulerAdapter
from ringwise.kube.run.volcano_counts import MAX_JOBS, BoundedJobs
from ringwise.messages import events as ev
from ringwise.messages.commands import Bind, Command, Evict
from ringwise.metrics.prometheus import Metrics
from ringwise.state.model import Pod, PriorityClass, Queue
from tests.builders.values import CHIP, SECOND, gang, group, node, pod, seen
from tests.metric_text import samples
from tests.scheduler.rig import configuration, gangs_may_end, with_capacity

NOW = 1000 * SECOND
PREFIX = "volcano_"
Figures = tuple[float | None, ...]


class Counted:
    """A scheduler in its adapter, whose bindings are confirmed at once."""

    def __init__(self, *objects: object, **described: Any) -> None:
        self.metrics = Metrics(volcano=True)
        self.adapter = SchedulerAdapter(new_scheduler(configuration(**described)), self.metrics.volcano)
        self.pods: dict[str, Pod] = {}
        self.turn(*objects)

    def turn(self, *objects: object, at: int = NOW) -> list[Command]:
        events = seen(*objects)
        self.pods |= {event.pod.uid: event.pod for event in events if isinstance(event, ev.PodSeen)}
        commands = self.adapter.decide(events, at)
        self.confirm(one for one in commands if isinstance(one, Bind))
        return commands

    def confirm(self, binds: Iterable[Bind]) -> None:
        for bind in binds:
            bound = replace(self.pods[bind.uid], node=bind.node, phase="Running", holds=bind.chips)
            self.pods[bind.uid] = bound
            self.adapter.decide([ev.PodSeen(bound)], NOW)

    def values(self) -> dict[str, float]:
        """Those of Volcano, without the prefix."""
        self.adapter.count(self.metrics)
        found = samples(self.metrics.text().decode())
        return {name.removeprefix(PREFIX): value for name, value in found.items() if name.startswith(PREFIX)}

    def queue(self, name: str, *metrics: str) -> list[float | None]:
        found = self.values()
        label = f'queue_name="{name}"'
        return [
            found.get(f'queue_{one}{{{label},resource="{CHIP}"}}', found.get(f"queue_{one}{{{label}}}"))
            for one in metrics
        ]


OF_CHIPS = tuple(
    f"{kind}_scalar_resources"
    for kind in ("allocated", "request", "deserved", "capacity", "real_capacity", "inqueue")
)


def jobs_of(queue: str, count: int, running: Iterable[tuple[str, int]]) -> list[object]:
    """Jobs of one chip; the first ones run on these nodes and chips."""
    places = dict(enumerate(running))
    made: list[object] = []
    for number in range(count):
        on, chip = places.get(number, (None, 0))
        name = f"{queue}-{number:02}"
        made.append(group(name, queue=queue, phase="Running" if on else "Inqueue"))
        made.append(pod(f"{name}-0", group=name, on=on, holds=(chip,) if on else ()))
    return made


def test_nothing_of_volcano_is_exported_unless_it_is_switched_on() -> None:
    metrics = Metrics()
    adapter = SchedulerAdapter(new_scheduler(configuration()), metrics.volcano)
    adapter.decide(seen(node(), gang("train", 1, 1)), NOW)
    adapter.count(metrics)
    metrics.bound(1.0)
    metrics.bind_failed("conflict")
    assert PREFIX not in metrics.text().decode()


@pytest.mark.parametrize(
    ("tiers", "a", "b", "of_b"),
    [
        # Both request all 16 chips: the shares are 3 to 1.
        (None, (12, 16, 12, None, 14, 4), (4, 16, 4, 8, 8, 12), (1, 1, 1)),
        # As written, and at least the guarantee. Nothing is promised to jobs without minResources.
        (with_capacity(), (12, 16, 10, None, 14, 0), (4, 16, 2, 8, 8, 0), (2, 1, 0)),
    ],
    ids=["proportion", "capacity"],
)
def test_queues_have_what_the_plugins_decide_by(
    tiers: tuple[Tier, ...] | None, a: Figures, b: Figures, of_b: Figures
) -> None:
    queues = [
        Queue("a", weight=3, deserved={CHIP: 10}),
        Queue("b", weight=1, capability={CHIP: 8}, guarantee={CHIP: 2}),
    ]
    chips = [(f"n{number // 8 + 1}", number % 8) for number in range(16)]
    jobs = [*jobs_of("a", 16, chips[:12]), *jobs_of("b", 16, chips[12:])]
    counted = Counted(node("n1"), node("n2"), queues, jobs, tiers=tiers, actions=("enqueue",))
    assert counted.queue("a", *OF_CHIPS) == [one and one * 1000 for one in a]
    assert counted.queue("b", *OF_CHIPS) == [one and one * 1000 for one in b]
    assert counted.queue("b", "share", "weight", "overused") == list(of_b)
    phases = ("pending", "inqueue", "running", "unknown", "completed")
    assert counted.queue("a", *(f"pod_group_{phase}_count" for phase in phases)) == [0, 4, 12, 0, 0]


def test_a_queue_counts_with_those_below_it() -> None:
    queues = [Queue("dept", deserved={CHIP: 8}), Queue("team", parent="dept", deserved={CHIP: 4})]
    counted = Counted(
        node(),
        queues,
        jobs_of("team", 3, [("n1", 0), ("n1", 1)]),
        tiers=with_capacity({"hierarchy": True}),
        actions=("enqueue",),
    )
    for name in ("team", "dept"):
        assert counted.queue(name, *OF_CHIPS[:2]) == [2000, 3000]


def test_without_a_plugin_that_shares_the_cluster_only_facts_are_shown() -> None:
    tiers = (Tier((PluginOption.of("gang"), PluginOption.of("topology910"))),)
    counted = Counted(node(), Queue("a", capability={CHIP: 8}), jobs_of("a", 2, [("n1", 0)]), tiers=tiers)
    assert counted.queue("a", *OF_CHIPS, "share") == [2000, 2000, None, 8000, None, None, None]


def test_resources_that_only_pods_name_have_no_series() -> None:
    hostile = [pod(f"p{at}", 0, extended={f"example.com/{at}": 1}) for at in range(3)]
    counted = Counted(node(), hostile)
    assert not [name for name in counted.values() if "example.com" in name]


def test_series_of_a_job_tell_when_it_got_nodes_and_end_with_it() -> None:
    counted = Counted(node("n1"), node("n2"))
    counted.turn(gang("train", 2, 8, created=NOW - 5 * SECOND))
    found = counted.values()
    labels = '{job_name="train",job_namespace="default",queue="default"}'
    names = ("duration", "start_time", "last_time")
    assert [found[f"e2e_job_scheduling_{one}{labels}"] for one in names] == [5000, 995, 1000]
    assert found["e2e_job_scheduling_latency_milliseconds_sum"] == 5000
    assert found["e2e_job_scheduling_latency_milliseconds_count"] == 1
    assert found['task_scheduling_latency_milliseconds_count{stage="Assumed"}'] == 2
    assert found['job_share{job_id="train",job_ns="default"}'] == 1
    counted.turn(ev.PodGone("train-0"), ev.PodGone("train-1"), ev.PodGroupGone("default/train"))
    assert not [name for name in counted.values() if "train" in name]


def test_a_job_of_the_same_name_does_not_have_the_series_of_the_one_before() -> None:
    counted = Counted(node(), gang("train", 1, 8, created=NOW - 5 * SECOND))
    gone = [ev.PodGone("train-0"), ev.PodGroupGone("default/train")]
    group, waiting = gang("train", 1, 16, created=NOW - SECOND)
    counted.turn(gone, group, replace(waiting, uid="another"))
    found = counted.values()
    assert not [name for name in found if name.startswith("e2e_job") and "train" in name]
    assert found['unschedule_task_count{job_id="train"}'] == 1


def test_pods_that_pending_jobs_of_one_name_lack_are_added() -> None:
    counted = Counted(node())
    for namespace, pods in (("a", 3), ("b", 4)):
        members = [pod(f"{namespace}-{at}", 8, namespace=namespace, group="train") for at in range(pods)]
        counted.turn(group("train", pods, namespace=namespace), members)
    assert counted.values()['unschedule_task_count{job_id="train"}'] == 7


def test_preemptions_and_evictions_are_counted_for_each_job_that_gets_room() -> None:
    low = [replace(one, preemptable=True) if isinstance(one, Pod) else one for one in gang("low", 2, 8)]
    counted = Counted(PriorityClass("high", 100), node("n1"), node("n2"), tiers=gangs_may_end())
    counted.turn(low)
    assert counted.values()["total_preemption_attempts"] == 0
    evicted = counted.turn([replace(one, priority_class="high") for one in gang("boss", 2, 8, created=NOW)])
    assert len([one for one in evicted if isinstance(one, Evict)]) == 2
    found = counted.values()
    assert found["pod_preemption_victims"] == 2
    assert found["total_preemption_attempts"] == 1
    assert found['eviction_transactions_total{action="preempt"}'] == 1


def test_cycles_plugins_and_actions_are_measured_but_not_questions() -> None:
    counted = Counted(node(), gang("train", 1, 1))
    once = counted.values()
    again = counted.values()
    for name in (
        "e2e_scheduling_latency_milliseconds_count",
        "open_session_duration_milliseconds_count",
        'action_scheduling_latency_milliseconds_count{action="allocate"}',
        'plugin_scheduling_latency_milliseconds_count{OnSession="OnSessionOpen",plugin="gang"}',
    ):
        # The gauges are counted with a session that is not a cycle.
        assert once[name] == again[name] >= 1


def test_a_new_term_begins_without_the_gauges_of_the_last_one() -> None:
    counted = Counted(node(), gang("train", 1, 1))
    before = counted.values()
    volcano = counted.metrics.volcano
    SchedulerAdapter(new_scheduler(configuration()), volcano)
    after = {name.removeprefix(PREFIX) for name in samples(counted.metrics.text().decode())}
    assert [name for name in after if name.startswith("queue_")] == []
    # Counters and histograms go on.
    assert {name for name in before if name.endswith("_count")} <= after | {
        name for name in before if "queue" in name
    }


class TestBoundedJobs:
    def test_the_namespace_with_most_jobs_loses_its_oldest(self) -> None:
        jobs: BoundedJobs[int] = BoundedJobs(4)
        jobs.put("quiet", "quiet/one", 0)
        for number in range(10):
            jobs.put("flood", f"flood/{number}", number)
        assert dict(jobs.items()) == {"quiet/one": 0, "flood/7": 7, "flood/8": 8, "flood/9": 9}

    def test_a_job_that_is_put_again_is_the_newest(self) -> None:
        jobs: BoundedJobs[int] = BoundedJobs(2)
        for key, value in (("a/1", 1), ("a/2", 2), ("a/1", 3), ("a/3", 4)):
            jobs.put("a", key, value)
        assert dict(jobs.items()) == {"a/1": 3, "a/3": 4}

    def test_those_that_are_not_known_make_room(self) -> None:
        jobs: BoundedJobs[int] = BoundedJobs(2)
        jobs.put("a", "a/1", 1)
        jobs.put("b", "b/1", 1)
        jobs.keep(lambda key, value: key == "b/1")
        jobs.put("c", "c/1", 1)
        assert dict(jobs.items()) == {"b/1": 1, "c/1": 1}


def test_as_many_jobs_have_series_as_the_page_says() -> None:
    page = (Path(__file__).parents[3] / "docs/reference/volcano-metrics.md").read_text(encoding="utf-8")
    assert f"at most {MAX_JOBS:,} jobs" in page
