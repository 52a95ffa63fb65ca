"""capacity: limits, shares and reclaiming of queues, flat and in a tree."""

from __future__ import annotations

from typing import Any

import pytest

from ringwise.framework.configuration import PluginOption
from ringwise.framework.session import Session
from tests.builders.session_lab import Lab, cluster
from tests.builders.values import CHIP


def capacity(hierarchy: bool = False, **arguments: Any) -> PluginOption:
    return PluginOption.of("capacity", {"hierarchy": hierarchy}, arguments)


def enters(session: Session, lab: Lab, job: str) -> str:
    """The code of the refusal; empty when the job is let in."""
    _, reason = session.job_enqueueable(lab[job])
    return "" if reason is None else reason.code


def pod_of(lab: Lab, job: str) -> Any:
    return next(iter(lab[job].pods.values()))


# -- flat --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("described", "used", "asked", "allowed"),
    [
        ({}, 0, 10, True),  # no limit but the cluster
        ({}, 0, 11, False),
        ({"capability": {"cpu": 4}}, 0, 4, True),
        ({"capability": {"cpu": 4}}, 1, 4, False),
        ({"capability": {"cpu": 0}}, 1, 9, True),  # cpu of 0 means no limit
        ({"capability": {CHIP: 0}}, 1, 9, True),  # another resource does not matter
        ({"deserved": {"cpu": 2}}, 4, 6, True),  # above what it deserves while there is room
        ({"deserved": {"cpu": 2}, "capability": {"cpu": 5}}, 4, 2, False),
        ({"state": "Closed"}, 0, 1, False),
    ],
)
def test_a_queue_may_use_its_capability(
    described: dict[str, Any], used: int, asked: int, allowed: bool
) -> None:
    lab = cluster().node("n1", cpu=10, chips=8).queue("q", **described)
    if used:
        lab.job("runs", queue="q", cpu=used, on="n1", inqueue=True, min_resources={"cpu": used})
    lab.job("job", queue="q", cpu=asked, min_resources={"cpu": asked})
    session = lab.session(capacity())
    assert (session.allocatable(lab.queues["q"], pod_of(lab, "job")) is None) is allowed
    assert (enters(session, lab, "job") == "") is allowed
    assert not session.overused(lab.queues["q"])


@pytest.mark.parametrize(("asked", "allowed"), [(7, True), (8, False)])
def test_what_others_are_guaranteed_is_kept_for_them(asked: int, allowed: bool) -> None:
    lab = cluster().node("n1", cpu=10)
    lab.queue("q", guarantee={"cpu": 2}).queue("other", guarantee={"cpu": 3})
    lab.job("job", queue="q", cpu=asked, min_resources={"cpu": asked})
    session = lab.session(capacity())
    assert (session.allocatable(lab.queues["q"], pod_of(lab, "job")) is None) is allowed


def test_promises_count_and_what_is_used_beyond_them_does_not() -> None:
    lab = cluster().node("n1", cpu=100).queue("q", capability={"cpu": 10})
    lab.job(
        "elastic", pods=3, min_available=1, queue="q", cpu=2, on="n1", inqueue=True, min_resources={"cpu": 2}
    )
    lab.job("promised", queue="q", cpu=3, inqueue=True, min_resources={"cpu": 3})
    lab.job("five", queue="q", cpu=5, min_resources={"cpu": 5})
    lab.job("six", queue="q", cpu=6, min_resources={"cpu": 6})
    lab.job("unknown", queue="q", cpu=60)
    session = lab.session(capacity())
    assert enters(session, lab, "five") == ""
    assert enters(session, lab, "six") == "queue-quota-insufficient"
    assert enters(session, lab, "unknown") == ""  # without minResources it is permitted


def test_queues_are_ordered_by_priority_share_and_whether_they_deserve_anything() -> None:
    lab = cluster().node("n1", cpu=100)
    lab.queue("none").queue("full", deserved={"cpu": 4}).queue("half", deserved={"cpu": 8})
    lab.queue("first", priority=5, deserved={"cpu": 1}).queue("guaranteed", guarantee={"cpu": 40})
    for name in ("full", "half", "first", "guaranteed"):
        lab.job(name, queue=name, cpu=4, on="n1")
    session = lab.session(capacity())
    order = sorted(lab.queues.values(), key=session.queue_key)
    # Shares: first 4 (by priority), guaranteed 0.1, half 0.5, full 1; default and none deserve nothing.
    assert [queue.name for queue in order] == ["first", "guaranteed", "half", "full", "default", "none"]


@pytest.mark.parametrize(
    ("described", "used", "asked", "may"),
    [
        ({"deserved": {"cpu": 4}}, 2, {"cpu": 2}, True),
        ({"deserved": {"cpu": 4}}, 2, {"cpu": 3}, False),
        ({"deserved": {"cpu": 4}}, 2, {"cpu": 3, "chips": 1}, False),
        ({"deserved": {"cpu": 4, CHIP: 1}}, 2, {"cpu": 3, "chips": 1}, True),  # one resource is enough
        ({"deserved": {"cpu": 4, CHIP: 0}}, 2, {"cpu": 3, "chips": 1}, False),  # 0 does not count
        ({}, 0, {"cpu": 1}, False),
        ({"deserved": {"cpu": 4}, "capability": {"cpu": 3}}, 2, {"cpu": 2}, False),
        ({"deserved": {"cpu": 4}, "state": "Closing"}, 0, {"cpu": 1}, False),
    ],
)
def test_a_queue_reclaims_up_to_what_it_deserves(
    described: dict[str, Any], used: int, asked: dict[str, Any], may: bool
) -> None:
    lab = cluster().node("n1", cpu=10, chips=8).queue("q", **described)
    if used:
        lab.job("runs", queue="q", cpu=used, on="n1")
    lab.job("job", queue="q", **asked)
    assert lab.session(capacity()).preemptive(lab.queues["q"], pod_of(lab, "job")) is may


@pytest.mark.parametrize(
    ("described", "victims"),
    [
        ({"deserved": {"cpu": 2}}, 2),  # 6 used: two pods of 2 until it is at what it deserves
        ({"deserved": {"cpu": 3}}, 2),  # 6 > 3, 4 > 3, 2 is not
        ({"deserved": {"cpu": 6}}, 0),
        ({}, 3),  # it deserves nothing of it
        ({"deserved": {CHIP: 1}}, 3),
        ({"deserved": {"cpu": 2}, "guarantee": {"cpu": 4}}, 1),
        ({"deserved": {"cpu": 4}, "guarantee": {"cpu": 2}}, 1),
        ({"deserved": {"cpu": 6}, "capability": {"cpu": 2}}, 2),  # it deserves no more than it may use
        ({"guarantee": {"cpu": 6}}, 0),
        ({"deserved": {"cpu": 2}, "guarantee": {CHIP: 8}}, 2),  # its pods use no chips
    ],
)
def test_victims_are_what_a_queue_uses_beyond(described: dict[str, Any], victims: int) -> None:
    lab = cluster().node("n1", cpu=10).queue("taker", deserved={"cpu": 9}).queue("q", **described)
    lab.job("runs", pods=3, min_available=1, queue="q", cpu=2, on="n1").job("job", queue="taker", cpu=2)
    session = lab.session(capacity())
    found = session.reclaimable(lab["job"], pod_of(lab, "job"), [f"runs-{index}" for index in range(3)])
    assert found == [f"runs-{index}" for index in range(victims)]


def test_a_pod_that_uses_nothing_of_what_is_wanted_is_no_victim() -> None:
    lab = cluster().node("n1", cpu=10, chips=8).queue("taker", deserved={"cpu": 9}).queue("q")
    lab.job("chips", queue="q", chips=8, on="n1").job("job", queue="taker", cpu=2)
    session = lab.session(capacity())
    assert session.reclaimable(lab["job"], pod_of(lab, "job"), ["chips-0"]) == []


# -- in a tree -----------------------------------------------------------------------------------


def tree() -> Lab:
    lab = cluster().node("n1", cpu=100)
    lab.queue("research", parent="root", capability={"cpu": 10}, deserved={"cpu": 10})
    lab.queue("vision", parent="research", deserved={"cpu": 4}).queue("speech", parent="research")
    lab.queue("work", deserved={"cpu": 8}).queue("web", parent="work", deserved={"cpu": 8})
    return lab


@pytest.mark.parametrize(
    ("queue", "asked", "code"),
    [
        ("vision", 6, ""),
        ("vision", 7, "queue-quota-insufficient"),  # speech uses 4 of the 10 of research
        ("web", 200, ""),  # the root has no limit, also not that of the cluster
        ("orphan", 1, "queue-tree-broken"),
        ("left", 1, "queue-tree-broken"),
        ("below", 1, "queue-tree-broken"),
    ],
)
def test_limits_hold_for_all_queues_above(queue: str, asked: int, code: str) -> None:
    lab = tree().queue("orphan", parent="nowhere").queue("left", parent="right").queue("right", parent="left")
    lab.queue("below", parent="left").queue("root", reclaimable=False)
    lab.job("runs", queue="speech", cpu=4, on="n1", inqueue=True, min_resources={"cpu": 4})
    lab.job("job", queue=queue, cpu=asked, min_resources={"cpu": asked})
    session = lab.session(capacity(hierarchy=True))
    assert enters(session, lab, "job") == code
    denied = session.allocatable(lab.queues[queue], pod_of(lab, "job"))
    assert (denied is None) is (code == "")
    if code == "queue-quota-insufficient":
        assert denied is not None
        assert denied.details["queue"] == "research"


@pytest.mark.parametrize(("asked", "code"), [(6, ""), (7, "queue-quota-insufficient")])
def test_a_limit_of_the_root_holds_for_all_queues_together(asked: int, code: str) -> None:
    lab = tree().queue("root", reclaimable=False, capability={"cpu": 12})
    for queue, cpu in (("speech", 4), ("work", 2)):
        lab.job(queue, queue=queue, cpu=cpu, on="n1", inqueue=True, min_resources={"cpu": cpu})
    lab.job("job", queue="web", cpu=asked, min_resources={"cpu": asked})
    session = lab.session(capacity(hierarchy=True))
    assert enters(session, lab, "job") == code
    denied = session.allocatable(lab.queues["web"], pod_of(lab, "job"))
    assert (denied.details["queue"] if denied is not None else "") == ("root" if code else "")


def test_a_child_inherits_the_capability_and_leaves_the_guarantees_of_its_siblings() -> None:
    lab = cluster().node("n1", cpu=100).queue("top", capability={"cpu": 10})
    lab.queue("a", parent="top", guarantee={"cpu": 1}).queue("b", parent="top", guarantee={"cpu": 3})
    lab.job("seven", queue="a", cpu=7, min_resources={"cpu": 7})
    lab.job("eight", queue="a", cpu=8, min_resources={"cpu": 8})
    session = lab.session(capacity(hierarchy=True))
    assert enters(session, lab, "seven") == ""
    assert enters(session, lab, "eight") == "queue-quota-insufficient"


def test_without_hierarchy_parents_do_not_matter() -> None:
    lab = tree().job("job", queue="research", cpu=9, min_resources={"cpu": 9})
    assert enters(lab.session(capacity()), lab, "job") == ""


def test_leaves_are_ordered_by_the_shares_below_the_common_queue() -> None:
    lab = tree()
    lab.job("v", queue="vision", cpu=1, on="n1").job("s", queue="speech", cpu=1, on="n1")
    lab.job("w", queue="web", cpu=1, on="n1")
    session = lab.session(capacity(hierarchy=True))
    leaves = [lab.queues[name] for name in ("speech", "web", "vision")]
    # work uses 1/8 and research 2/10; inside research vision uses 1/4 and speech deserves nothing.
    order = [queue.name for queue in sorted(leaves, key=session.queue_key)]
    assert order == ["web", "vision", "speech"]


def test_queues_near_the_reclaiming_one_give_first() -> None:
    lab = tree()
    session = lab.session(capacity(hierarchy=True))
    taker = lab.queues["vision"]
    near, far = (session.victim_queue_key(taker, lab.queues[name]) for name in ("speech", "web"))
    assert near < far


@pytest.mark.parametrize(("level", "may"), [(0, False), (1, True), (9, True)])
def test_a_queue_may_reclaim_by_what_queues_above_deserve(level: int, may: bool) -> None:
    lab = tree().job("job", queue="speech", cpu=2)
    session = lab.session(capacity(hierarchy=True, ancestorReclaimLevel=level))
    assert session.preemptive(lab.queues["speech"], pod_of(lab, "job")) is may


@pytest.mark.parametrize(
    ("level", "taker", "victims"),
    [
        (0, "vision", ["web-0"]),
        (1, "vision", []),  # work as a whole does not exceed what it deserves
        (1, "speech", []),
    ],
)
def test_queues_above_the_victim_must_exceed_what_they_deserve_too(
    level: int, taker: str, victims: list[str]
) -> None:
    lab = cluster().node("n1", cpu=100).queue("research", deserved={"cpu": 50})
    lab.queue("vision", parent="research", deserved={"cpu": 4}).queue("speech", parent="research")
    lab.queue("work", deserved={"cpu": 50}).queue("web", parent="work", deserved={"cpu": 8})
    lab.job("web", queue="web", cpu=9, on="n1").job("job", queue=taker, cpu=1)
    session = lab.session(capacity(hierarchy=True, ancestorReclaimLevel=level))
    assert session.reclaimable(lab["job"], pod_of(lab, "job"), ["web-0"]) == victims


def test_each_victim_counts_for_the_queues_above_it() -> None:
    lab = cluster().node("n1", cpu=100).queue("vision", deserved={"cpu": 4})
    lab.queue("work", deserved={"cpu": 18}).queue("web", parent="work", deserved={"cpu": 1})
    lab.job("web", pods=5, queue="web", cpu=4, on="n1").job("job", queue="vision", cpu=1)
    session = lab.session(capacity(hierarchy=True, ancestorReclaimLevel=1))
    pods = [f"web-{index}" for index in range(5)]
    # web exceeds what it deserves with each pod, work with all five of them.
    assert session.reclaimable(lab["job"], pod_of(lab, "job"), pods) == ["web-0"]


@pytest.mark.parametrize(("taker", "victims"), [("vision", ["loud-0"]), ("speech", [])])
def test_inside_a_shared_queue_one_that_deserves_nothing_takes_nothing(
    taker: str, victims: list[str]
) -> None:
    lab = cluster().node("n1", cpu=100).queue("research", deserved={"cpu": 50})
    lab.queue("vision", parent="research", deserved={"cpu": 4}).queue("speech", parent="research")
    lab.queue("loud", parent="research", deserved={"cpu": 1})
    lab.job("loud", queue="loud", cpu=9, on="n1").job("job", queue=taker, cpu=1)
    session = lab.session(capacity(hierarchy=True, ancestorReclaimLevel=1))
    assert session.reclaimable(lab["job"], pod_of(lab, "job"), ["loud-0"]) == victims
