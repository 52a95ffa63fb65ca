"""F4: what is left of a drained job is evicted together, or not at all: disruption budgets decide."""

from __future__ import annotations

from typing import Any

import pytest

from ringwise.messages.commands import DeletePod, Evict
from tests.kube.fake_api_server import Object
from tests.kube.harness import PODS, pod
from tests.kube.write.executing import Executing, executing

BUDGETS = "/apis/policy/v1/poddisruptionbudgets"


def budget(
    name: str, allowed: int | None, selector: dict[str, Any] | None, namespace: str = "default"
) -> Object:
    status = {} if allowed is None else {"disruptionsAllowed": allowed}
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {} if selector is None else {"selector": selector},
        "status": status,
    }


def of_job(one: Executing, count: int) -> list[DeletePod]:
    made = []
    for number in range(count):
        labels = {"job": "train", "rank": str(number)}
        uid = one.api.put(PODS, pod(f"train-{number}"))["metadata"]["uid"]
        made.append(
            DeletePod(
                uid, "default", f"train-{number}", "why", fault=True, together="default/train", labels=labels
            )
        )
    return made


ALL = {"matchLabels": {"job": "train"}}


@pytest.mark.parametrize(
    ("budgets", "problem"),
    [
        ([], ""),
        ([budget("enough", 3, ALL)], ""),
        ([budget("few", 2, ALL)], "disruption budget few allows 2 evictions, and 3 would be needed"),
        ([budget("new", None, ALL)], "disruption budget new allows 0 evictions, and 3 would be needed"),
        ([budget("every", 1, {})], "disruption budget every allows 1 eviction, and 3 would be needed"),
        ([budget("nothing", 0, None)], ""),
        ([budget("elsewhere", 0, {}, namespace="other")], ""),
        ([budget("others", 0, {"matchLabels": {"job": "serve"}})], ""),
        (
            [
                budget("enough", 3, ALL),
                budget("one", 0, {"matchExpressions": [{"key": "rank", "operator": "In", "values": ["2"]}]}),
            ],
            "disruption budget one allows 0 evictions, and 1 would be needed",
        ),
    ],
)
async def test_F4_every_budget_has_to_allow_all_its_evictions(budgets: list[Object], problem: str) -> None:
    async with executing() as one:
        for each in budgets:
            one.api.put(BUDGETS, each)
        commands = of_job(one, 3)
        await one.do(*commands)
        evictions = [write for write in one.writes() if write == "POST eviction"]
        assert len(evictions) == (0 if problem else 3), one.writes()
        assert not any(write.startswith("DELETE") for write in one.writes())
        assert {failure.why for failure in one.failed} == ({problem} if problem else set())
        assert [failure.uid for failure in one.failed] == [command.uid for command in commands if problem]


async def test_F4_budgets_that_cannot_be_read_hold_back() -> None:
    async with executing() as one:
        one.api.fault("poddisruptionbudgets", status=403, times=20)
        await one.do(*of_job(one, 2))
        assert len(one.failed) == 2
        assert one.failed[0].why.startswith("disruption budgets cannot be read: ")
        assert "POST eviction" not in one.writes()


async def test_F4_an_eviction_that_the_server_refuses_all_the_same_is_reported_with_its_reason() -> None:
    async with executing() as one:
        one.api.fault("train-1/eviction", status=429, times=20)
        commands = of_job(one, 2)
        await one.do(*commands)
        assert [failure.uid for failure in one.failed] == [commands[1].uid]
        assert one.failed[0].why


@pytest.mark.parametrize(
    ("budgets", "refused"),
    [
        ([], {}),
        ([budget("enough", 2, ALL)], {}),
        # Of the gang one pod might go: neither does, nor the other job that makes room with it.
        (
            [budget("few", 1, ALL)],
            dict.fromkeys(
                ("train-0", "train-1"), "disruption budget few allows 1 eviction, and 2 would be needed"
            ),
        ),
        (
            [budget("all", 2, {})],
            dict.fromkeys(
                ("train-0", "train-1", "alone"),
                "disruption budget all allows 2 evictions, and 3 would be needed",
            ),
        ),
    ],
)
async def test_what_makes_room_for_one_job_is_evicted_as_a_whole(
    budgets: list[Object], refused: dict[str, str]
) -> None:
    async with executing() as one:
        for each in budgets:
            one.api.put(BUDGETS, each)
        labels = {"train-0": {"job": "train"}, "train-1": {"job": "train"}, "alone": {"job": "alone"}}
        uids = {}
        for name, own in labels.items():
            made = pod(name)
            made["metadata"]["labels"] = own
            uids[name] = one.api.put(PODS, made)["metadata"]["uid"]
        await one.do(*(Evict(uids[name], "default", name, "preempt", by="default/urgent") for name in labels))
        assert len(one.api.all(PODS)) == (3 if refused else 0)
        names = {uid: name for name, uid in uids.items()}
        told = {names[failure.uid]: (failure.why, failure.in_vain) for failure in one.failed}
        in_vain = {name: ("", True) for name in labels if refused}
        assert told == {**in_vain, **{name: (why, False) for name, why in refused.items()}}


async def test_jobs_of_several_namespaces_make_room_together_or_not_at_all() -> None:
    """A budget of any of them counts, with the number of its own pods."""
    async with executing() as one:
        uids = {}
        for namespace, name in (("default", "a"), ("team", "b"), ("team", "c")):
            made = pod(name)
            made["metadata"] |= {"namespace": namespace, "labels": {"job": "train"}}
            uids[name] = one.api.put(PODS, made)["metadata"]["uid"], namespace
        guard = budget("few", 1, ALL)
        guard["metadata"]["namespace"] = "team"
        one.api.put(BUDGETS, guard)
        await one.do(
            *(Evict(uid, where, name, "preempt", by="x/urgent") for name, (uid, where) in uids.items())
        )
        assert len(one.api.all(PODS)) == 3
        why = "disruption budget few allows 1 eviction, and 2 would be needed"
        told = {failure.uid: (failure.why, failure.in_vain) for failure in one.failed}
        assert [told[uids[name][0]] for name in "abc"] == [("", True), (why, False), (why, False)]
