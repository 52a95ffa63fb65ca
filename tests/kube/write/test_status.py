"""Status updates and conditions: only changes, only the newest, and bindings have precedence."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from ringwise.kube.watch.readers import GroupReader, GroupStatus, Observed, ObservedGroup
from ringwise.kube.write.context import WriteContext
from ringwise.kube.write.fence import Fence
from ringwise.kube.write.status import StatusWriter
from ringwise.kube.write.status_queue import MAX_STATUS_WAIT, Precedence
from ringwise.kube.write.tenant_text import reason_message
from ringwise.manifests.text.errors import Findings
from ringwise.manifests.text.quantities import rfc3339
from ringwise.messages.commands import Bind, RecordJobEvent, SetGroupStatus, SetPodCondition
from ringwise.messages.event_reasons import EventReason
from ringwise.reasons import Reason, ReasonKind, Stage
from tests.kube.fake_api_server import FakeApiServer
from tests.kube.harness import EVENTS, GROUPS, PODS, InstantClock, ManualClock, group, pod, server, until

FULL = ReasonKind("full", Stage.GANG, "{free} of {asked} chips are free", ("wait for {asked} chips",))


class WriterSetup:
    def __init__(self, api: FakeApiServer, writer: StatusWriter, idle: asyncio.Event, fence: Fence) -> None:
        self.api = api
        self.writer = writer
        self.idle = idle
        self.fence = fence

    def groups(self, name: str = "gang") -> Any:
        return self.api.get(GROUPS, f"default/{name}")["status"]


@asynccontextmanager
async def writer_setup(
    clock: InstantClock | None = None, **known: ObservedGroup
) -> AsyncIterator[WriterSetup]:
    async with server() as (api, client):
        clock = clock or InstantClock()
        fence, idle = Fence(clock), asyncio.Event()
        fence.open_forever()
        idle.set()
        api.put(GROUPS, group("gang", 2))
        api.put(PODS, pod("train"))
        observed = Observed({f"default/{name}": group for name, group in known.items()})
        precedence = Precedence(clock, (idle,))
        writer = StatusWriter(WriteContext(client, fence, clock), observed, precedence)
        yield WriterSetup(api, writer, idle, fence)
        await writer.finish()


def reason(free: int = 1) -> Reason:
    return FULL(free=free, asked=8)


def events(api: FakeApiServer) -> list[tuple[str, str, str]]:
    return [(one["involvedObject"]["kind"], one["reason"], one["message"]) for one in api.all(EVENTS)]


def test_the_text_of_a_reason_has_only_fixes_that_were_tried() -> None:
    assert reason().fixes == ("wait for 8 chips",)
    assert reason_message(reason(), "default") == "1 of 8 chips are free"
    tried = reason().with_fixes(["with 1 chip it would start"]).with_hints(["the node is old"])
    assert reason_message(tried, "default") == (
        "1 of 8 chips are free; the node is old. What would help now: with 1 chip it would start"
    )
    assert rfc3339(1_700_000_000_500_000_000) == "2023-11-14T22:13:20Z"


async def test_the_reason_of_a_pending_group_is_on_the_group_and_its_job() -> None:
    raw = group("gang", 2)
    raw["metadata"] |= {"uid": "g1", "ownerReferences": [{"kind": "Job", "name": "train", "uid": "j1"}]}
    observed: dict[str, ObservedGroup] = {}
    GroupReader(observed).read(msgspec.Raw(msgspec.json.encode(raw)), Findings("x"))
    async with writer_setup(gang=observed["default/gang"]) as one:
        one.writer.group(SetGroupStatus("default/gang", "Inqueue", reason()))
        await one.writer.finish()
        condition = one.groups()["conditions"][0]
        assert condition["reason"] == "NotEnoughResources"
        assert condition["message"] == reason_message(reason(), "default")
        assert {(kind, reason_) for kind, reason_, _ in events(one.api)} == {
            ("PodGroup", "Unschedulable"),
            ("Job", "PodGroupPending"),
        }
        assert {event["involvedObject"]["uid"] for event in one.api.all(EVENTS)} == {"g1", "j1"}


async def test_a_group_that_was_created_again_gets_an_event_of_its_own() -> None:
    """`kubectl describe` shows only the Events with the uid of the object."""
    observed: dict[str, ObservedGroup] = {}
    reader, clock = GroupReader(observed), InstantClock()
    async with writer_setup(clock) as one:
        one.writer._observed.groups = observed
        for uid in ("g1", "g1", "g2", "g2"):
            raw = group("gang", 2)
            raw["metadata"]["uid"] = uid
            reader.read(msgspec.Raw(msgspec.json.encode(raw)), Findings("x"))
            one.writer.group(SetGroupStatus("default/gang", "Inqueue", reason()))
            await one.writer.finish()
            clock.moment += 1
        assert [event["involvedObject"]["uid"] for event in one.api.all(EVENTS)] == ["g1", "g2"]


async def test_when_a_job_starts_is_in_its_condition_and_no_event() -> None:
    """Also for the next leader, who has no estimate yet: it writes nothing that is there."""

    def told(start: str = "") -> SetGroupStatus:
        return SetGroupStatus("default/gang", "Inqueue", reason(), start=start)

    async with writer_setup() as one:
        for start in ("", "2026-01-01T00:00:00Z"):
            one.writer.group(told(start))
            await one.writer.finish()
        condition = one.groups()["conditions"][0]
        assert condition["message"] == "1 of 8 chips are free. Expected start: 2026-01-01T00:00:00Z"
        assert one.api.count("/events") == 1
        observed: dict[str, ObservedGroup] = {}
        written = msgspec.Raw(msgspec.json.encode(one.api.get(GROUPS, "default/gang")))
        GroupReader(observed).read(written, Findings("x"))
    async with writer_setup(gang=observed["default/gang"]) as one:
        one.writer.group(told())
        await one.writer.finish()
        assert one.api.count("gang/status") == 0
        one.writer.group(told("2026-01-02T00:00:00Z"))
        await one.writer.finish()
        assert one.api.count("gang/status") == 1


async def test_the_newest_status_replaces_one_that_was_not_written_yet() -> None:
    async with writer_setup() as one:
        hold = asyncio.Event()
        one.api.fault("PATCH", until=hold, times=8)
        for name in range(8):
            one.api.put(GROUPS, group(f"other-{name}", 1))
            one.writer.group(SetGroupStatus(f"default/other-{name}", "Running"))
        for free in range(5):
            one.writer.group(SetGroupStatus("default/gang", "Inqueue", reason(free)))
        hold.set()
        await one.writer.finish()
        assert "4 of 8" in one.groups()["conditions"][0]["message"]
        assert one.api.count("podgroups/gang/status") == 1
        assert sum(kind == "PodGroup" for kind, _, _ in events(one.api)) == 1


async def test_a_retried_status_does_not_overtake_a_newer_one() -> None:
    async with writer_setup() as one:
        hold = asyncio.Event()
        one.api.fault("gang/status", until=hold, status=503)
        one.writer.group(SetGroupStatus("default/gang", "Running"))
        await until(lambda: one.api.count("gang/status"))
        one.writer.group(SetGroupStatus("default/gang", "Completed"))
        for _ in range(20):
            await asyncio.sleep(0)
        assert one.api.count("gang/status") == 1
        hold.set()
        await one.writer.finish()
        assert one.groups()["phase"] == "Completed"


async def test_a_group_that_returns_to_its_first_status_is_written() -> None:
    before = ObservedGroup("g1", None, GroupStatus(phase="Inqueue"))
    async with writer_setup(gang=before) as one:
        one.writer.group(SetGroupStatus("default/gang", "Inqueue"))
        await one.writer.finish()
        assert one.api.count("gang/status") == 0
        for phase in ("Running", "Inqueue"):
            one.writer.group(SetGroupStatus("default/gang", phase))
            await one.writer.finish()
        assert one.groups()["phase"] == "Inqueue"


async def test_without_a_status_subresource_the_object_is_patched() -> None:
    async with writer_setup() as one:
        one.api.without_status.add("podgroups")
        one.writer.group(SetGroupStatus("default/gang", "Running", running=2))
        await one.writer.finish()
        assert one.groups()["running"] == 2
        one.writer.group(SetGroupStatus("default/gang", "Completed", succeeded=2))
        await one.writer.finish()
        assert one.groups()["phase"] == "Completed"
        assert one.api.count("gang/status") == 1


async def test_bindings_come_before_all_status_but_that_which_controllers_wait_for() -> None:
    admitted = ObservedGroup("g", None, GroupStatus(phase="Inqueue"))
    async with writer_setup(ManualClock(), gang=admitted) as one:
        one.idle.clear()
        # Its controller has seen that it may create pods.
        one.writer.group(SetGroupStatus("default/gang", "Inqueue", running=1))
        uid = one.api.get(PODS, "default/train")["metadata"]["uid"]
        for name in ("full", "runs", "starts"):
            one.api.put(GROUPS, group(name, 1, phase="Pending"))
        one.writer.pod(SetPodCondition(uid, "default", "train", reason()))
        one.writer.group(SetGroupStatus("default/full", "Pending", reason()))
        one.writer.group(SetGroupStatus("default/runs", "Running"))
        one.writer.group(SetGroupStatus("default/starts", "Inqueue"))
        await until(lambda: one.groups("starts")["phase"] == "Inqueue")
        for _ in range(50):
            await asyncio.sleep(0)
        assert [
            path.rpartition("podgroups/")[2] for method, path in one.api.requests if method == "PATCH"
        ] == ["starts/status"]
        assert one.api.count("POST") == 0
        one.idle.set()
        await one.writer.finish()
        assert one.groups("runs")["phase"] == "Running"
        assert one.groups("full")["conditions"]
        conditions = one.api.get(PODS, "default/train")["status"]["conditions"]
        assert conditions[0]["type"] == "PodScheduled"
        assert conditions[0]["status"] == "False"
        assert ("Pod", "FailedScheduling", reason_message(reason(), "default")) in events(one.api)


async def test_bindings_that_never_end_delay_status_for_a_limited_time() -> None:
    clock = ManualClock()
    async with writer_setup(clock) as one:
        one.idle.clear()
        one.writer.group(SetGroupStatus("default/gang", "Running"))
        await until(lambda: clock.sleeping)
        await clock.pass_time(MAX_STATUS_WAIT / 2)
        # Replaced by a newer one it does not wait anew.
        one.writer.group(SetGroupStatus("default/gang", "Running", running=1))
        await clock.pass_time(MAX_STATUS_WAIT / 2 - 0.1)
        for _ in range(50):
            await asyncio.sleep(0)
        assert one.api.count("PATCH") == 0
        await clock.pass_time(0.2)
        await until(lambda: one.groups().get("running") == 1)
        assert one.api.count("PATCH") == 1


async def test_a_status_that_others_wait_for_is_not_overtaken_by_the_next_one() -> None:
    async with writer_setup(ManualClock()) as one:
        one.idle.clear()
        hold = asyncio.Event()
        one.api.fault("gang/status", until=hold)
        one.writer.group(SetGroupStatus("default/gang", "Inqueue"))
        await until(lambda: one.api.count("gang/status"))
        one.writer.group(SetGroupStatus("default/gang", "Running"))
        one.idle.set()
        for _ in range(50):
            await asyncio.sleep(0)
        assert one.api.count("gang/status") == 1
        hold.set()
        await until(lambda: one.groups()["phase"] == "Running")
        await one.writer.finish()


async def test_a_nomination_is_written_kept_and_removed() -> None:
    async with writer_setup() as one:
        uid = one.api.get(PODS, "default/train")["metadata"]["uid"]
        for nominated, written in (("node-1", "node-1"), (None, "node-1"), ("", None)):
            one.writer.pod(SetPodCondition(uid, "default", "train", reason(), nominated))
            await one.writer.finish()
            status = one.api.get(PODS, "default/train")["status"]
            assert status.get("nominatedNodeName") == written


async def test_a_condition_is_not_written_on_another_pod_of_the_same_name() -> None:
    async with writer_setup() as one:
        one.writer.pod(SetPodCondition("earlier", "default", "train", reason()))
        await one.writer.finish()
        assert "conditions" not in one.api.get(PODS, "default/train")["status"]


async def test_a_condition_that_overtakes_the_binding_is_corrected() -> None:
    """It was being written when the pod was bound, and came after the binding."""
    async with writer_setup() as one:
        uid = one.api.get(PODS, "default/train")["metadata"]["uid"]
        bind = Bind(uid, "default", "train", "node-1")
        hold = asyncio.Event()
        one.api.fault("pods/train/status", until=hold)
        one.writer.pod(SetPodCondition(uid, "default", "train", reason()))
        await until(lambda: one.api.count("pods/train/status"))
        one.writer.binding([bind])
        one.writer.bound(bind)
        hold.set()
        await one.writer.finish()
        (condition,) = one.api.get(PODS, "default/train")["status"]["conditions"]
        assert (condition["type"], condition["status"]) == ("PodScheduled", "True")
        assert condition.get("reason") is None
        # Without such an overlap nothing is written: the API server does it with the binding.
        one.writer.binding([bind])
        one.writer.bound(bind)
        await one.writer.finish()
        assert one.api.count("pods/train/status") == 2


async def test_what_a_fault_did_is_an_event_on_the_pod_group_or_on_a_pod_without_one() -> None:
    async with writer_setup() as one:
        uid = one.api.get(PODS, "default/train")["metadata"]["uid"]
        one.writer.job(
            RecordJobEvent("default/gang", EventReason.FAULT_FOUND, "node n1 is not Ready", warning=True)
        )
        one.writer.job(
            RecordJobEvent("default/train", EventReason.RECOVERED, "1 pod has a node again", pod=uid)
        )
        await one.writer.finish()
        assert ("PodGroup", EventReason.FAULT_FOUND, "node n1 is not Ready") in events(one.api)
        assert ("Pod", EventReason.RECOVERED, "1 pod has a node again") in events(one.api)


async def test_a_status_update_is_retried_until_the_server_is_back() -> None:
    async with writer_setup() as one:
        one.api.fault("podgroups/gang/status", status=503, times=30)
        one.writer.group(SetGroupStatus("default/gang", "Running"))
        await one.writer.finish()
        assert one.groups()["phase"] == "Running"
        one.api.fault("podgroups/gang/status", status=403)
        one.writer.group(SetGroupStatus("default/gang", "Completed"))
        await one.writer.finish()
        assert one.groups()["phase"] == "Running"


async def test_a_newer_status_replaces_one_that_is_retried() -> None:
    async with writer_setup() as one:
        hold = asyncio.Event()
        one.api.fault("podgroups/gang/status", status=503, times=4)
        one.api.fault("podgroups/gang/status", status=503, until=hold)
        one.writer.group(SetGroupStatus("default/gang", "Running"))
        await until(lambda: one.api.count("gang/status") == 5)
        one.writer.group(SetGroupStatus("default/gang", "Completed"))
        hold.set()
        await one.writer.finish()
        assert one.groups()["phase"] == "Completed"
        assert one.api.count("gang/status") == 6


async def test_a_condition_is_dropped_when_the_server_is_away_for_long() -> None:
    async with writer_setup() as one:
        one.api.fault("pods/train/status", status=503, times=30)
        uid = one.api.get(PODS, "default/train")["metadata"]["uid"]
        one.writer.pod(SetPodCondition(uid, "default", "train", reason()))
        await one.writer.finish()
        assert "conditions" not in one.api.get(PODS, "default/train")["status"]


async def test_nothing_is_written_with_a_closed_fence() -> None:
    async with writer_setup() as one:
        one.fence.close()
        one.writer.group(SetGroupStatus("default/gang", "Running"))
        await one.writer.finish()
        assert one.api.count("PATCH") == 0
