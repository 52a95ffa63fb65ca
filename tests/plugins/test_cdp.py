"""cdp: a job is spared for a while after its start, never longer than its queue allows."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringwise.framework.evictions.lost_work import gang_started
from ringwise.messages import events as ev
from ringwise.messages.commands import Evict
from ringwise.state.model import Queue
from ringwise.wellknown import COOLDOWN_TIME, LONGEST_COOLDOWN
from tests.actions.test_victims import HOUR, fill, queue, rig_of
from tests.builders.session_lab import cluster
from tests.builders.values import SECOND
from tests.examples import examples


def test_a_job_is_not_preempted_before_it_has_run_so_long_and_is_then() -> None:
    rig = rig_of(1)
    fill(rig, ("v", 100), annotations={COOLDOWN_TIME: "10m"})
    rig.submit("boss", chips=8, priority="high")
    rig.run()
    assert rig.evictions() == []
    # The turn for it comes by itself.
    due = rig.machine.next_deadline()
    assert due is not None
    assert due <= rig.now + 500 * SECOND
    rig.step(499)
    assert rig.evictions() == []
    rig.step(1)
    assert rig.evictions() == ["v-0"]


def test_pods_of_an_earlier_run_that_failed_make_a_gang_no_older() -> None:
    lab = cluster().nodes(2, chips=8).job("train", pods=2, chips=8, on=["n1", "n2"])
    lab.change("train-0", bound=5 * SECOND, phase="Failed").change("train-1", bound=9 * SECOND)
    assert gang_started(lab["train"], 20 * SECOND) == 9 * SECOND


def test_without_the_plugin_nobody_is_spared() -> None:
    rig = rig_of(1, cdp=False)
    fill(rig, ("v", 100), annotations={COOLDOWN_TIME: "10m"})
    rig.submit("boss", chips=8, priority="high")
    rig.step()
    assert rig.evictions() == ["v-0"]


def test_another_job_is_evicted_instead() -> None:
    rig = rig_of(2)
    fill(rig, ("cheap", 10), annotations={COOLDOWN_TIME: "10m"})
    fill(rig, ("dear", 10), priority="middle")
    rig.submit("boss", chips=8, priority="high")
    rig.step()
    assert rig.evictions() == ["dear-0"]


@pytest.mark.parametrize("place", ["labels", "annotations"])
def test_a_label_does_as_well(place: str) -> None:
    rig = rig_of(1)
    fill(rig, ("v", 100), **{place: {COOLDOWN_TIME: "10m"}})
    rig.submit("boss", chips=8, priority="high")
    rig.step()
    assert rig.evictions() == []


def test_a_job_is_not_reclaimed_either() -> None:
    rig = rig_of(2)
    for name in ("a", "b"):
        rig.queue(name)
    rig.submit("v", chips=8, queue="a", preemptable=True, annotations={COOLDOWN_TIME: "10m"})
    rig.submit("w", chips=8, queue="a", preemptable=True, annotations={COOLDOWN_TIME: "20m"})
    rig.run()
    rig.submit("claim", chips=8, queue="b")
    rig.run()
    assert rig.evictions() == []
    rig.step(600)
    assert rig.evictions() == ["v-0"]


@pytest.mark.parametrize(
    ("claim", "longest", "seconds"),
    [
        ("876000h", None, HOUR),
        ("876000h", "10m", 600),
        ("5m", "10m", 300),
        ("876000h", "0s", 0),
        ("876000h", "nonsense", HOUR),
        ("-5m", None, 0),
        ("nonsense", None, 0),
        ("9" * 500, None, 0),
    ],
)
def test_no_claim_protects_longer_than_the_queue_allows(
    claim: str, longest: str | None, seconds: int
) -> None:
    rig = rig_of(1)
    if longest is not None:
        queue(rig, longest=longest)
    fill(rig, ("v", 0), annotations={COOLDOWN_TIME: claim})
    rig.submit("boss", chips=8, priority="high")
    rig.run()
    if seconds:
        rig.step(seconds - 1)
        assert rig.evictions() == []
        rig.step(1)
    assert rig.evictions() == ["v-0"]


def test_a_queue_that_allows_less_from_now_on_ends_the_wait() -> None:
    rig = rig_of(1)
    fill(rig, ("v", 100), annotations={COOLDOWN_TIME: "50m"})
    rig.submit("boss", chips=8, priority="high")
    rig.run()
    assert rig.evictions() == []
    queue(rig, longest="1m")
    rig.step()
    assert rig.evictions() == ["v-0"]


def test_a_gang_does_not_become_young_again_with_a_pod_that_is_replaced() -> None:
    rig = rig_of(2)
    rig.submit("gang", pods=2, chips=8, priority="low", preemptable=True, annotations={COOLDOWN_TIME: "10m"})
    rig.run()
    rig.step(500)
    pod = rig.pods["gang-1"]
    rig.replacement("gang-1")
    rig.tell(ev.PodGone(pod.uid))
    rig.run()
    assert len(rig.places("gang")) == 2
    rig.step(100)
    rig.submit("boss", chips=8, priority="high")
    rig.step()
    assert sorted(rig.evictions()) == ["gang-0", "gang-1"]


def test_the_next_leader_counts_from_when_the_pods_got_their_nodes() -> None:
    rig = rig_of(1)
    rig.deaf = True
    rig.submit("v", chips=8, priority="low", preemptable=True, annotations={COOLDOWN_TIME: "10m"})
    bound = rig.now - 300 * SECOND
    rig.change("v-0", node="n1", phase="Running", holds=tuple(range(8)), bound=bound, created=1)
    rig.step()
    rig.submit("boss", chips=8, priority="high")
    rig.step()
    assert rig.evictions() == []
    rig.step(300)
    assert rig.evictions() == ["v-0"]


SPANS = st.sampled_from(["", "1s", "90s", "5m", "50m", "2h", "876000h", "-1m", "x", "0"])
SECONDS = {
    "": 0,
    "1s": 1,
    "90s": 90,
    "5m": 300,
    "50m": 3000,
    "2h": 7200,
    "876000h": 10**12,
    "-1m": 0,
    "x": 0,
    "0": 0,
}


@settings(deadline=None, max_examples=examples(60))
@given(
    st.lists(st.tuples(st.integers(1, 2), SPANS, st.integers(0, 900)), min_size=1, max_size=4),
    st.sampled_from(["", "0s", "2m", "1h", "junk"]),
    st.lists(st.tuples(st.integers(1, 3), st.integers(0, 1200)), min_size=1, max_size=3),
)
def test_never_a_victim_within_its_cooldown(
    jobs: list[tuple[int, str, int]], longest: str, takers: list[tuple[int, int]]
) -> None:
    rig = rig_of(sum(pods for pods, _, _ in jobs))
    limit = {"": HOUR, "0s": 0, "2m": 120, "1h": HOUR, "junk": HOUR}[longest]
    if longest:
        rig.tell(Queue("default", annotations={LONGEST_COOLDOWN: longest}))
    not_evicted_before: dict[str, int] = {}
    for number, (pods, span, seconds) in enumerate(jobs):
        rig.submit(
            f"v{number}",
            pods=pods,
            chips=8,
            priority="low",
            preemptable=True,
            annotations={COOLDOWN_TIME: span},
        )
        rig.run()
        not_evicted_before[f"v{number}"] = rig.now + min(SECONDS[span], limit) * SECOND
        rig.step(seconds)
    for number, (pods, seconds) in enumerate(takers):
        rig.submit(f"boss{number}", pods=pods, chips=8, priority="high")
        rig.step()
        for _ in range(4):
            rig.step(seconds / 4)
            gone = [one for one in rig.commands if isinstance(one, Evict)]
            assert all(not_evicted_before[one.pod.partition("-")[0]] <= rig.now for one in gone)
            rig.commands.clear()
