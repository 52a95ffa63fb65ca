"""The outcome of a binding for every kind of response, and for none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from ringwise.kube.write.binder import BIND_DEADLINE, Binder
from ringwise.kube.write.context import WriteContext
from ringwise.kube.write.fence import Fence
from ringwise.kubeclient.client import MAX_CONFLICTS, MAX_RETRY_AFTER, Client
from ringwise.kubeclient.config import Access
from ringwise.messages.commands import Bind
from ringwise.messages.events import BindFailed
from ringwise.metrics.prometheus import Metrics
from tests.builders.values import CHIP
from tests.kube.fake_api_server import FakeApiServer
from tests.kube.harness import PODS, HeldCredentials, InstantClock, ManualClock, pod, server, until
from tests.metric_text import values_of


class Recording(Metrics):
    """Records the kinds of errors."""

    def __init__(self) -> None:
        super().__init__()
        self.failed: list[str] = []

    def bind_failed(self, kind: str) -> None:
        self.failed.append(kind)


class Trial:
    def __init__(self, api: FakeApiServer, client: Client, clock: InstantClock, in_flight: int = 64) -> None:
        self.api = api
        self.client = client
        self.clock = clock
        self.failures: list[BindFailed] = []
        self.bound: list[Bind] = []
        self.counting = Recording()
        self.fence = Fence(clock)
        self.fence.open_forever()
        self.binder = Binder(
            WriteContext(client, self.fence, clock, self.counting),
            on_failed=self.failures.append,
            on_bound=self.bound.append,
            in_flight=in_flight,
        )

    def bind(self, name: str, node: str = "node-1", **changed: Any) -> Bind:
        uid = changed.pop("uid", None) or self.api.get(PODS, f"default/{name}")["metadata"]["uid"]
        annotations = {CHIP: "Ascend910-0", "predicate-time": "1"}
        return Bind(uid, "default", name, node, (0,), annotations)

    async def submit(self, *binds: Bind) -> None:
        self.binder.submit(binds)
        await self.binder.idle.wait()


@asynccontextmanager
async def trial(in_flight: int = 64) -> AsyncIterator[Trial]:
    async with server() as (api, client):
        api.put(PODS, pod("train"))
        yield Trial(api, client, InstantClock(), in_flight)


def node_of(api: FakeApiServer, name: str = "train") -> str | None:
    found: str | None = api.get(PODS, f"default/{name}")["spec"].get("nodeName")
    return found


@pytest.mark.parametrize(
    ("fault", "retried"),
    [
        ({"status": 429, "retry_after": 7}, ["too-many-requests"]),
        ({"status": 500}, ["server-error"]),
        ({"status": 503}, ["server-error"]),
        ({"status": 500, "done": True}, ["server-error"]),
        ({"status": 409}, ["conflict"]),
        ({"drop": True}, ["unknown-outcome"]),
        ({"drop": True, "done": True}, ["unknown-outcome"]),
    ],
)
async def test_temporary_errors_are_retried_until_bound(fault: dict[str, Any], retried: list[str]) -> None:
    async with trial() as one:
        one.api.fault("POST /api/v1/namespaces/default/pods/train/binding", **fault)
        await one.submit(one.bind("train"))
        assert node_of(one.api) == "node-1"
        assert one.failures == []
        assert len(one.bound) == 1
        assert values_of(one.counting, "ringwise_bind_retries_total") == dict.fromkeys(retried, 1)
        if "retry_after" in fault:
            assert max(one.clock.slept) >= fault["retry_after"]
        # A request without a response is not repeated when it had taken effect.
        assert one.api.count("/binding") == (1 if fault.get("done") else 2)


async def test_bindings_do_not_wait_for_others_that_always_fail() -> None:
    """The API server answers 500 if the binding makes a large pod too large for its storage."""
    clock, names = ManualClock(), [f"large-{number}" for number in range(8)]
    async with server() as (api, client):
        one = Trial(api, client, clock, in_flight=4)
        for name in ("train", *names):
            api.put(PODS, pod(name))
        api.fault("POST /api/v1/namespaces/default/pods/large", status=500, times=10**6)
        one.binder.submit([one.bind(name) for name in (*names, "train")])
        await until(lambda: node_of(api) == "node-1")
        await until(lambda: clock.sleeping == len(names))
        await clock.pass_time(60)
        await one.binder.idle.wait()
        assert len(one.failures) == len(names)
        assert len(one.bound) == 1


@pytest.mark.parametrize("status", [400, 403, 404, 422])
async def test_a_refused_binding_fails_at_once(status: int) -> None:
    async with trial() as one:
        one.api.fault("/binding", status=status)
        bind = one.bind("train")
        await one.submit(bind)
        assert [failure.uid for failure in one.failures] == [bind.uid]
        assert str(status) in one.failures[0].why
        assert one.api.count("/binding") == 1
        assert one.bound == []


async def test_N8_a_pod_edited_since_its_binding_keeps_its_chips() -> None:
    """The answer was lost, and its user changed the annotation before the pod was read again."""
    async with trial() as one:
        one.api.fault("/binding", drop=True, done=True)

        def edited(method: str, path: str) -> bool:
            if method == "GET" and path.endswith("/pods/train"):
                found = one.api.get(PODS, "default/train")
                annotations = {**found["metadata"]["annotations"], CHIP: "Ascend910-7"}
                one.api.put(PODS, {**found, "metadata": {**found["metadata"], "annotations": annotations}})
            return False

        one.api.fault(edited)
        await one.submit(one.bind("train"))
        assert one.failures == []
        assert len(one.bound) == 1


@pytest.mark.parametrize(
    ("node", "chips", "expected"),
    [
        ("node-2", "Ascend910-0", "node-2"),
        ("node-1", "Ascend910-5", CHIP),
    ],
)
async def test_a_pod_bound_by_another_scheduler_fails(node: str, chips: str, expected: str) -> None:
    async with trial() as one:
        taken = pod("train", on=node, held=chips)
        one.api.put(PODS, taken)
        await one.submit(one.bind("train"))
        assert one.counting.failed == ["taken"]
        assert expected in one.failures[0].why


async def test_annotations_of_the_device_plugin_do_not_matter() -> None:
    async with trial() as one:

        async def started() -> None:
            found = one.api.get(PODS, "default/train")
            found["metadata"]["annotations"] |= {
                "predicate-time": "18446744073709551615",
                "huawei.com/AscendReal": "Ascend910-0",
            }

        hold = asyncio.Event()
        one.api.fault("/binding", done=True, drop=True)
        one.api.fault("GET /api/v1/namespaces/default/pods/train", until=hold)
        one.binder.submit([one.bind("train")])
        while not node_of(one.api):
            await asyncio.sleep(0)
        await started()
        hold.set()
        await one.binder.idle.wait()
        assert one.failures == []
        assert len(one.bound) == 1


async def test_another_pod_of_the_same_name_is_not_bound() -> None:
    async with trial() as one:
        await one.submit(one.bind("train", uid="uid-of-an-earlier-pod"))
        assert node_of(one.api) is None
        assert one.counting.failed == ["replaced"]


async def test_a_terminating_pod_fails() -> None:
    async with trial() as one:
        leaving = pod("train")
        leaving["metadata"]["deletionTimestamp"] = "2025-01-01T00:00:00Z"
        one.api.put(PODS, leaving)
        await one.submit(one.bind("train"))
        assert one.counting.failed == ["not-found"]


@pytest.mark.parametrize(("status", "most"), [(500, 60), (409, MAX_CONFLICTS)])
async def test_a_permanent_error_fails_after_the_deadline(status: int, most: int) -> None:
    async with trial() as one:
        one.api.fault("/binding", status=status, times=1000)
        began = one.clock.moment
        await one.submit(one.bind("train"))
        assert len(one.failures) == 1
        assert one.api.count("/binding") <= most
        assert one.clock.moment - began < 2 * BIND_DEADLINE


async def test_N6_chips_are_not_released_while_the_outcome_is_unknown() -> None:
    async with trial() as one:
        one.api.fault("/binding", done=True, drop=True)
        # Far longer than the deadline of bindings.
        one.api.fault("GET /api/v1/namespaces/default/pods/train", status=503, times=40)
        await one.submit(one.bind("train"))
        assert one.failures == []
        assert len(one.bound) == 1
        assert sum(one.clock.slept) > BIND_DEADLINE


async def test_nothing_is_sent_with_a_closed_fence() -> None:
    async with trial() as one:
        one.fence.close()
        await one.submit(one.bind("train"))
        assert one.api.count("/binding") == 0
        assert one.counting.failed == ["fenced"]


async def test_the_fence_is_checked_before_every_attempt() -> None:
    async with trial() as one:
        one.fence.open_until(one.clock.moment + 1)
        one.api.fault("/binding", status=429, retry_after=5)
        await one.submit(one.bind("train"))
        assert one.api.count("/binding") == 1
        assert one.counting.failed == ["fenced"]


async def test_concurrent_requests_are_limited() -> None:
    async with trial(in_flight=8) as one:
        at_once = most = 0
        gate = asyncio.Event()

        class Counted(FakeApiServer):
            async def _answer(self, *arguments: Any) -> Any:
                nonlocal at_once, most
                at_once += 1
                most = max(most, at_once)
                if at_once == 8:
                    gate.set()
                await gate.wait()
                at_once -= 1
                return await super()._answer(*arguments)

        one.api.__class__ = Counted
        for index in range(50):
            one.api.put(PODS, pod(f"pod-{index}"))
        await one.submit(*(one.bind(f"pod-{index}") for index in range(50)))
        assert most == 8
        assert len(one.bound) == 50


async def test_stopping_fails_bindings_that_were_not_sent() -> None:
    async with trial(in_flight=1) as one:
        hold = asyncio.Event()
        one.api.put(PODS, pod("other"))
        one.api.fault("/binding", until=hold)
        one.binder.submit([one.bind("train"), one.bind("other")])
        while not one.api.count("/binding"):
            await asyncio.sleep(0)
        stopping = asyncio.create_task(one.binder.stop())
        await asyncio.sleep(0)
        hold.set()
        await stopping
        assert node_of(one.api, "train") == "node-1"
        assert node_of(one.api, "other") is None
        assert len(one.failures) == 1


async def test_bindings_submitted_while_workers_end_are_executed() -> None:
    async with trial() as one:
        one.api.put(PODS, pod("other"))
        late = one.bind("other")

        def bound(bind: Bind) -> None:
            one.bound.append(bind)
            if bind is not late:
                # Like the core: it is called just after the worker has ended.
                asyncio.get_running_loop().call_soon(one.binder.submit, [late])

        context = WriteContext(one.client, one.fence, one.clock)
        one.binder = Binder(context, on_failed=one.failures.append, on_bound=bound, in_flight=1)
        one.binder.submit([one.bind("train")])
        await until(lambda: len(one.bound) == 2)
        await one.binder.idle.wait()
        assert node_of(one.api, "other") == "node-1"


def stray(one: Trial) -> Bind:
    """A binding of a pod whose manifest was copied from a running pod."""
    copied = pod("copied")
    copied["metadata"]["annotations"] = {"huawei.com/AscendReal": "Ascend910-7", CHIP: "x", "kept": "y"}
    one.api.put(PODS, copied)
    return replace(one.bind("copied"), remove=("huawei.com/AscendReal",))


async def test_N8_stray_annotations_are_removed_before_the_binding() -> None:
    async with trial() as one:
        await one.submit(stray(one))
        found = one.api.get(PODS, "default/copied")
        assert found["spec"]["nodeName"] == "node-1"
        assert found["metadata"]["annotations"] == {CHIP: "Ascend910-0", "predicate-time": "1", "kept": "y"}
        assert not one.failures


async def test_N8_without_the_removal_there_is_no_binding() -> None:
    async with trial() as one:
        bind = replace(stray(one), uid="another")
        await one.submit(bind)
        assert node_of(one.api, "copied") is None
        assert len(one.failures) == 1


async def test_N8_the_fence_is_checked_again_between_removal_and_binding() -> None:
    async with trial() as one:
        bind = stray(one)
        hold = asyncio.Event()
        one.api.fault("PATCH", until=hold)
        one.binder.submit([bind])
        await until(lambda: one.api.count("PATCH"))
        one.fence.close()
        hold.set()
        await one.binder.idle.wait()
        assert one.api.count("/binding") == 0
        assert one.counting.failed == ["fenced"]


async def test_N8_stray_annotations_are_not_touched_with_a_closed_fence() -> None:
    async with trial() as one:
        bind = stray(one)
        one.fence.close()
        await one.submit(bind)
        assert "huawei.com/AscendReal" in one.api.get(PODS, "default/copied")["metadata"]["annotations"]
        assert [request for request in one.api.requests if request[0] in ("PATCH", "POST")] == []


async def test_a_server_cannot_make_a_binding_wait_for_a_day() -> None:
    async with trial() as one:
        one.api.fault("/binding", status=429, retry_after=86400)
        await one.submit(one.bind("train"))
        assert node_of(one.api) == "node-1"
        assert max(one.clock.slept) == MAX_RETRY_AFTER


@pytest.mark.parametrize("rejected", [False, True])
async def test_no_binding_is_sent_when_credentials_come_after_the_fence_closed(rejected: bool) -> None:
    """Neither the first attempt, nor the one after a 401."""
    async with FakeApiServer() as api:
        api.put(PODS, pod("train"))
        credentials = HeldCredentials()
        async with Client(Access(api.url, credentials)) as client:
            one = Trial(api, client, InstantClock())
            one.fence.open_until(one.clock.moment + 10)
            hold = asyncio.Event()
            if rejected:
                api.fault("/binding", status=401, until=hold)
            else:
                credentials.available.clear()
            one.binder.submit([one.bind("train")])
            await until(lambda: api.requests if rejected else credentials.waiting)
            one.clock.moment += 11
            hold.set()
            credentials.available.set()
            await one.binder.idle.wait()
            assert api.count("/binding") == rejected
            assert node_of(api) is None
            assert one.counting.failed == ["fenced"]
