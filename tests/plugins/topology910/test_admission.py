"""Which jobs are valid, and which are admitted: those for which the cluster has enough free chips."""

from __future__ import annotations

import pytest

from ringwise.framework.configuration import Settings
from ringwise.wellknown import SP_BLOCK, TOR_AFFINITY
from tests.builders.session_lab import cluster
from tests.builders.values import CHIP, pod_class

#: More cpu than the cluster has: a plugin of the next tier rejects it, if it is asked.
CPU = {"cpu": 99_000}


@pytest.mark.parametrize(
    ("resources", "force", "reason"),
    [
        ({CHIP: 8}, False, None),
        ({CHIP: 8, **CPU}, False, "cluster-overcommitted"),
        # The next tier is not asked.
        ({CHIP: 8, **CPU}, True, None),
        ({CHIP: 9}, True, "too-few-free-chips"),
        ({CHIP: 17}, True, "cluster-too-small"),
        # The job asks for no chips.
        ({CHIP: 0, **CPU}, True, "cluster-overcommitted"),
        (CPU, True, "cluster-overcommitted"),
    ],
)
def test_jobs_whose_pods_are_not_created_yet_are_admitted_by_what_their_group_says(
    resources: dict[str, int], force: bool, reason: str | None
) -> None:
    lab = cluster().nodes(2, chips=8, cpu=1_000)
    lab.job("old", chips=8, on="n1").job("new", pods=0, min_resources=resources)
    session = lab.session(["topology910"], ["overcommit"], settings=Settings(force_enqueue=force))
    may, refusal = session.job_enqueueable(lab["new"])
    assert (may, refusal and refusal.code) == (reason is None, reason)


@pytest.mark.parametrize(("where", "key"), [("labels", TOR_AFFINITY), ("annotations", SP_BLOCK)])
def test_what_a_job_says_counts_though_an_equal_pod_of_another_job_was_valid(where: str, key: str) -> None:
    shared = pod_class(chips=1)
    lab = cluster().nodes(1, chips=8).job("plain", cls=shared).job("told", cls=shared)
    setattr(lab["told"], where, {key: "no such value"})
    session = lab.session("topology910")
    assert session.job_valid(lab["plain"]) is None
    assert session.job_valid(lab["told"]) is not None
