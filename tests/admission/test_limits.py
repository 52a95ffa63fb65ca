"""Limits of the webhook: reviews that take long. Its connections: tests/web/test_connections.py."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest

from ringwise.apps.admission import webhook
from ringwise.apps.admission.cost import MAX_OBJECT_BYTES, MAX_PODS, MAX_TASKS
from ringwise.apps.admission.rules import ALLOWED, ClusterFacts
from ringwise.apps.admission.webhook import Reviews
from ringwise.manifests.settings.boards import shipped_catalog
from tests.admission.reviews import answer, container, pod, review, vcjob


def cluster() -> ClusterFacts:
    return ClusterFacts(shipped_catalog())


def many_tasks(count: int) -> dict[str, Any]:
    template = {"spec": {"containers": [container(3)]}}
    tasks = [{"name": f"t{number}", "replicas": 1, "template": template} for number in range(count)]
    return vcjob(3, tasks=tasks)


@pytest.mark.parametrize(
    ("object", "why"),
    [
        (vcjob(3, replicas=MAX_PODS + 1), "pods"),
        (vcjob(3, replicas=10**18), "pods"),
        (many_tasks(MAX_TASKS + 1), "tasks"),
        (pod(3, annotations={"note": "x" * MAX_OBJECT_BYTES}), "bytes"),
    ],
    ids=["pods", "many pods", "tasks", "bytes"],
)
def test_a_review_above_the_cost_limit_is_allowed_with_a_warning(
    object: dict[str, Any], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def must_not_run(*_: Any) -> None:
        raise AssertionError("the check ran")

    monkeypatch.setattr(webhook, "_verdict", must_not_run)
    for body in (review(object), review(vcjob(8), "UPDATE", old=object)):
        answered = answer(body, cluster())
        assert answered is not None
        response = answered["response"]
        assert response["allowed"] is True
        (warning,) = response["warnings"]
        assert f"{why}, of at most" in warning


async def test_small_reviews_do_not_wait_for_a_large_one_and_large_ones_do_not_pile_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    release = threading.Event()

    def judge(raw: Any, known: ClusterFacts) -> Any:
        if len(bytes(raw)) > 100_000:
            release.wait()
        return ALLOWED

    monkeypatch.setitem(webhook._JUDGES, ("", "Pod"), judge)
    large, small = review(pod(8, annotations={"note": "x" * 200_000})), review(pod(8))
    reviews = Reviews(cluster(), max_wait=0.01)
    first = asyncio.create_task(reviews.answer(large))
    await asyncio.sleep(0)
    second = await reviews.answer(large)
    assert second is not None
    assert "not checked at submission" in second["response"]["warnings"][0]
    third = await reviews.answer(small)
    assert third is not None
    assert "warnings" not in third["response"]
    release.set()
    answered = await first
    assert answered is not None
    assert "warnings" not in answered["response"]


@pytest.mark.parametrize(
    "change",
    [
        {"apiVersion": "admission.k8s.io/v1beta1"},
        {"apiVersion": None},
        {"kind": "ConversionReview"},
        {"kind": ""},
    ],
    ids=str,
)
def test_only_a_review_of_the_right_version_and_kind_is_answered(change: dict[str, Any]) -> None:
    body = json.loads(review(vcjob(8)))
    assert answer(json.dumps(body).encode(), cluster()) is not None
    assert answer(json.dumps({**body, **change}).encode(), cluster()) is None
