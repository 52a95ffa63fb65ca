"""overcommit: used, promised and asked stay within factor x allocatable."""

from __future__ import annotations

import pytest

from ringwise.framework.arguments import InvalidArgument
from ringwise.framework.configuration import PluginOption
from ringwise.plugins.overcommit import FACTOR
from tests.builders.session_lab import cluster
from tests.builders.values import CHIP


def overcommit(factor: float = 1.2) -> PluginOption:
    return PluginOption.of("overcommit", arguments={"overcommit-factor": factor})


@pytest.mark.parametrize(
    ("factor", "asked", "admitted"),
    [
        (1.2, {"cpu": 12_000}, True),
        (1.2, {"cpu": 12_001}, False),
        (1.0, {"cpu": 10_000}, True),
        (1.0, {"cpu": 10_001}, False),
        (2.5, {"cpu": 25_000}, True),
        (1.2, {}, True),  # without minResources the plugin permits
        (1.2, {"cpu": 1, CHIP: 8}, True),
        (1.2, {"cpu": 1, CHIP: 10}, False),  # 9.6 chips
        (1.2, {"example.com/none": 1}, False),  # nobody offers it
        (1.2, {"pods": 500, "count/pods": 500, "requests.cpu": 99_999}, True),  # names for quotas only
    ],
)
def test_a_job_is_let_in_up_to_the_factor(factor: float, asked: dict[str, int], admitted: bool) -> None:
    lab = cluster().node("n1", cpu=10_000, chips=8).job("job", min_resources=asked, cpu=1)
    session = lab.session(overcommit(factor))
    may, reason = session.job_enqueueable(lab["job"])
    assert may is admitted
    assert (reason is None) is admitted


def test_used_and_promised_count_and_the_message_is_volcanos() -> None:
    lab = cluster().node("n1", cpu=10_000)
    lab.job("runs", cpu=3_000, on="n1", inqueue=True, min_resources={"cpu": 3_000})
    lab.job("promised", cpu=4_000, inqueue=True, min_resources={"cpu": 4_000})
    lab.job("five", min_resources={"cpu": 5_000}, cpu=5_000)
    lab.job("six", min_resources={"cpu": 5_001}, cpu=5_001)
    session = lab.session(overcommit())
    assert session.job_enqueueable(lab["five"]) == (True, None)
    may, reason = session.job_enqueueable(lab["six"])
    assert not may
    assert reason is not None
    assert reason.message.startswith(
        "resource in cluster is overused: overused cpu; cpu: 3 used, 4 admitted, 5.001 requested"
    )
    assert reason.code == "cluster-overcommitted"


def test_a_job_that_is_let_in_counts_for_the_next_one_of_the_cycle() -> None:
    lab = cluster().node("n1", cpu=10_000)
    for name in ("first", "second"):
        lab.job(name, min_resources={"cpu": 7_000}, cpu=7_000)
    session = lab.session(overcommit())
    assert session.job_enqueueable(lab["first"])[0]
    assert session.job_enqueueable(lab["second"])[0]
    lab["first"].inqueue = True
    session.job_enqueued(lab["first"])
    assert not session.job_enqueueable(lab["second"])[0]


def test_gated_pods_cannot_use_a_promise_yet() -> None:
    lab = cluster().node("n1", cpu=10_000)
    lab.job("gated", pods=2, cpu=6_000, inqueue=True, min_resources={"cpu": 12_000})
    lab.job("next", cpu=6_000, min_resources={"cpu": 6_000})
    assert not lab.session(overcommit()).job_enqueueable(lab["next"])[0]
    lab.change("gated-0", gated=True)
    assert lab.session(overcommit()).job_enqueueable(lab["next"])[0]


@pytest.mark.parametrize("written", ["0.9", "0", "-1", "much", "1.2x"])
def test_a_factor_below_one_is_refused(written: str) -> None:
    with pytest.raises(InvalidArgument, match="allowed: a number, 1 or more"):
        FACTOR.read(written)
