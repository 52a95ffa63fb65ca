"""Tokens of an exposed dashboard: the API server says who calls and what he may read."""

from __future__ import annotations

import asyncio

import pytest

from ringwise.web.guard import Guard, RequestRefusedError
from ringwise.web.tokens import ALLOWED_FOR, MAX_TOKENS, REFUSED_FOR, SHOWN, ApiServerTokens
from tests.builders.values import node
from tests.web.reviews import GOOD, reviewing
from tests.web.rig import dashboard, events_of


async def refusal(tokens: ApiServerTokens, token: str) -> tuple[int, str]:
    with pytest.raises(RequestRefusedError) as raised:
        await tokens.check(token)
    return raised.value.status, raised.value.code


async def test_a_caller_who_may_list_everything_may_read() -> None:
    async with reviewing() as (reviews, tokens, _):
        await tokens.check(GOOD)
        access = [spec for kind, spec in reviews.asked if kind == "SubjectAccessReview"]
        assert len(access) == len(SHOWN)
        assert {spec["user"] for spec in access} == {"anna"}
        assert all(spec["groups"] == ["team"] and spec["extra"] == {"scopes": ["x"]} for spec in access)
        attributes = [spec["resourceAttributes"] for spec in access]
        assert {"verb": "list", "group": "", "resource": "nodes"} in attributes
        assert {"verb": "list", "group": "batch.volcano.sh", "resource": "jobs"} in attributes


@pytest.mark.parametrize("resource", [one.plural for one in SHOWN])
async def test_one_missing_permission_is_enough_to_refuse(resource: str) -> None:
    async with reviewing() as (reviews, tokens, _):
        reviews.forbidden.add(resource)
        assert await refusal(tokens, GOOD) == (403, "forbidden")


@pytest.mark.parametrize("token", ["bad", "a b", "x" * (1 << 20), "\u202e", "a\nb", "\x00"])
async def test_other_tokens_are_refused(token: str) -> None:
    async with reviewing() as (_, tokens, _clock):
        assert await refusal(tokens, token) == (401, "token-invalid")


async def test_answers_are_kept_for_a_short_time() -> None:
    async with reviewing() as (reviews, tokens, clock):
        await asyncio.gather(*(tokens.check(GOOD) for _ in range(20)))
        assert reviews.count("TokenReview") == 1
        await clock.pass_time(ALLOWED_FOR - 1)
        await tokens.check(GOOD)
        assert reviews.count("TokenReview") == 1
        # A right that is taken away ends soon.
        reviews.forbidden.add("pods")
        await clock.pass_time(2)
        assert await refusal(tokens, GOOD) == (403, "forbidden")
        reviews.forbidden.clear()
        assert await refusal(tokens, GOOD) == (403, "forbidden")
        await clock.pass_time(REFUSED_FOR + 1)
        await tokens.check(GOOD)


async def test_an_api_server_that_does_not_answer_refuses_and_is_asked_again() -> None:
    async with reviewing() as (reviews, tokens, _):
        reviews.status = 500
        assert await refusal(tokens, GOOD) == (503, "not-checked")
        reviews.status = 201
        await tokens.check(GOOD)


async def test_many_tokens_fill_no_memory() -> None:
    async with reviewing() as (_, tokens, _clock):
        for number in range(20):
            await refusal(tokens, f"bad-{number}")
        assert len(tokens._reviews) == 20
        assert len(tokens._reviews) <= MAX_TOKENS
        assert not any(b"bad" in digest for digest in tokens._reviews)


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (None, 401),
        ("", 401),
        ("Bearer", 401),
        ("Bearer ", 401),
        ("Basic Zm9v", 401),
        ("Bearer wrong", 401),
        (f"Bearer {GOOD}", 200),
        (f"bearer  {GOOD}", 200),
    ],
)
async def test_the_documents_of_an_exposed_dashboard_need_a_token(header: str | None, status: int) -> None:
    async with reviewing() as (_, tokens, _clock), dashboard(guard=Guard(tokens=tokens)) as at:
        headers = {} if header is None else {"Authorization": header}
        async with at.session.get(f"{at.url}api/v1/snapshot", headers=headers) as response:
            assert response.status == status
            assert ("WWW-Authenticate" in response.headers) == (status == 401)
        for path in (
            "api/v1/stream?since=0",
            "api/v1/series",
            "api/v1/jobs/a/b/why",
            "api/v1/report",
            "api/v1/none",
        ):
            async with at.session.get(f"{at.url}{path}") as response:
                assert response.status == 401
        # The page itself tells nothing: it asks for the token.
        async with at.session.get(at.url) as response:
            assert response.status == 200


async def test_an_open_stream_ends_with_the_rights_of_its_reader() -> None:
    async with (
        reviewing() as (reviews, tokens, clock),
        dashboard(guard=Guard(tokens=tokens), token_interval=0.0) as at,
    ):
        headers = {"Authorization": f"Bearer {GOOD}"}
        _, first = await at.get("api/v1/snapshot", headers=headers)
        path = f"{at.url}api/v1/stream?epoch={first['epoch']}&since={first['sequence']}"
        async with at.session.get(path, headers=headers) as response:
            events = events_of(response.content.iter_any())
            # A server that does not answer says nothing about the reader.
            await clock.pass_time(ALLOWED_FOR + 1)
            reviews.status = 500
            at.core.tell([node("n8")])
            assert (await anext(events))[0] == "change"
            reviews.status = 201
            reviews.forbidden.add("pods")
            at.core.tell([node("n9")])
            assert [name async for name, _ in events] == []
        status, refused = await at.get("api/v1/snapshot", headers=headers)
        assert (status, refused["error"]["code"]) == (403, "forbidden")
