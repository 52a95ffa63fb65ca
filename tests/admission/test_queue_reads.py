"""Queues that the watch has not reported yet: they are read before a review is refused because of them."""

from __future__ import annotations

import asyncio

import pytest

from ringwise.apps.admission import queue_reads
from ringwise.apps.admission.queue_reads import READS_PER_SECOND, QueueLister
from ringwise.apps.admission.rules import ClusterFacts
from ringwise.apps.admission.webhook import Reviews
from ringwise.kubeclient.client import Client
from ringwise.manifests.settings.boards import shipped_catalog
from ringwise.state.model import Queue
from tests.admission.reviews import deletion, group, review, vcjob
from tests.builders.objects import queue
from tests.kube.harness import QUEUES, InstantClock, server, until


def known(*queues: Queue) -> ClusterFacts:
    """What the watch has reported."""
    return ClusterFacts(shipped_catalog(), queues={one.name: one for one in (Queue("default"), *queues)})


def reviews_of(client: Client, cluster: ClusterFacts, clock: InstantClock | None = None) -> Reviews:
    # The deadline is far away: the machine may be slow.
    return Reviews(cluster, QueueLister(client, clock or InstantClock()), max_wait=60)


async def decided(reviews: Reviews, body: bytes) -> tuple[bool, str]:
    answered = await reviews.answer(body)
    assert answered is not None
    response = answered["response"]
    return response["allowed"], response.get("status", {}).get("message", "")


@pytest.mark.parametrize(
    ("reported", "existing", "body", "refused_for"),
    [
        ([], ["dept", "team"], review(vcjob(8, queue="team")), ""),
        ([], ["dept", "team"], review(group("team")), ""),
        ([], ["dept"], review(queue("team", parent="dept")), ""),
        (["dept", "team"], ["dept"], deletion("Queue", "dept"), ""),
        (["dept", "team"], ["dept"], review(vcjob(8, queue="dept")), ""),
        (["closed"], ["opened"], review(vcjob(8, queue="closed")), ""),
        # It stays refused for what the API server has.
        ([], ["dept", "team"], review(vcjob(8, queue="teem")), "did you mean"),
        (["dept", "team"], ["dept", "team"], deletion("Queue", "dept"), "1 child queues"),
        ([], ["dept", "team"], review(vcjob(8, queue="dept")), "can only submit job to leaf queue"),
        (["closed"], ["closed"], review(vcjob(8, queue="closed")), "queue closed is Closed"),
    ],
)
async def test_a_review_is_refused_only_for_what_the_api_server_has(
    reported: list[str], existing: list[str], body: bytes, refused_for: str
) -> None:
    values = {
        "dept": Queue("dept"),
        "team": Queue("team", parent="dept"),
        "closed": Queue("closed", state="Closed"),
    }
    objects = {
        "dept": queue("dept"),
        "team": queue("team", parent="dept"),
        "closed": queue("closed", state="Closed"),
        "opened": queue("closed"),
    }
    async with server() as (api, client):
        for name in existing:
            api.put(QUEUES, objects[name])
        reviews = reviews_of(client, known(*(values[name] for name in reported)))
        allowed, message = await decided(reviews, body)
        assert allowed is not bool(refused_for), message
        assert refused_for in message
        assert api.count(f"GET {QUEUES}") == 1


async def test_what_queues_have_no_part_in_is_refused_without_a_read() -> None:
    async with server() as (api, client):
        reviews = reviews_of(client, known())
        allowed, message = await decided(reviews, review(vcjob(3)))
        assert (allowed, "910-x8 allows 1, 2, 4, 8 per pod" in message) == (False, True)
        assert (await decided(reviews, review(vcjob(8))))[0] is True
        assert api.requests == []


async def test_the_reads_of_a_namespace_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_reads, "READS_AT_ONCE", 9)
    async with server() as (api, client):
        clock = InstantClock()
        reviews = reviews_of(client, known(), clock)
        ours, theirs = review(vcjob(8, queue="team")), review(vcjob(8, queue="gone"))
        other = review(vcjob(8, queue="team", metadata={"namespace": "other"}))
        for _ in range(14):
            assert (await decided(reviews, theirs))[0] is False
        assert api.count(f"GET {QUEUES}") == 9
        api.put(QUEUES, queue("team"))
        # What the watch has reported decides, and other namespaces are not affected.
        assert (await decided(reviews, ours))[0] is False
        assert (await decided(reviews, other))[0] is True
        clock.moment += 1 / READS_PER_SECOND
        assert (await decided(reviews, ours))[0] is True


async def test_reviews_that_come_together_share_a_read_that_began_after_them() -> None:
    async with server() as (api, client):
        lister, answers = QueueLister(client, InstantClock()), asyncio.Event()
        api.fault(f"GET {QUEUES}", until=answers)
        first = asyncio.create_task(lister.updated(known(), "default"))
        await until(lambda: api.requests)
        later = asyncio.gather(*(lister.updated(known(), "default") for _ in range(20)))
        await asyncio.sleep(0)
        api.put(QUEUES, queue("team"))
        answers.set()
        for found in await later:
            assert found is not None
            assert "team" in (found.queues or {})
        await first
        assert api.count(f"GET {QUEUES}") == 2


@pytest.mark.parametrize("status", [403, 500])
async def test_without_an_answer_the_watch_decides(status: int) -> None:
    async with server() as (api, client):
        api.put(QUEUES, queue("team"))
        api.fault(f"GET {QUEUES}", status=status, times=100)
        reviews = reviews_of(client, known())
        allowed, message = await decided(reviews, review(vcjob(8, queue="team")))
        assert (allowed, "unable to find job queue" in message) == (False, True)


async def test_a_queue_that_cannot_be_read_counts_as_it_was_reported() -> None:
    async with server() as (api, client):
        api.put(QUEUES, queue("dept", weight={"not": "a number"}))
        reviews = reviews_of(client, known(Queue("dept"), Queue("team", parent="dept")))
        assert (await decided(reviews, review(vcjob(8, queue="dept"))))[0] is True
        assert (await decided(reviews, review(vcjob(8, queue="team"))))[0] is True
