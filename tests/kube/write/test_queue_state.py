"""The state of a queue that a user asked for: a write that fails is told on the queue."""

from __future__ import annotations

import pytest

from ringwise.kube.watch.readers import Observed
from ringwise.kube.write.binder import Binder
from ringwise.kube.write.context import WriteContext
from ringwise.kube.write.executor import Executor
from ringwise.kube.write.fence import Fence
from ringwise.kube.write.status import StatusWriter
from ringwise.kubeclient.retry import Retrier
from ringwise.messages.commands import UpdateQueue
from tests.kube.harness import EVENTS, QUEUES, InstantClock, server


@pytest.mark.parametrize(
    ("status", "events"),
    [
        (403, ["The state Closed could not be written and is tried again: "]),
        (503, ["The state Closed could not be written and is tried again: "]),
        (404, []),
        (None, []),
    ],
)
async def test_a_state_that_cannot_be_written_is_an_event_on_the_queue(
    status: int | None, events: list[str]
) -> None:
    async with server() as (api, client):
        clock = InstantClock()
        fence = Fence(clock)
        fence.open_forever()
        context = WriteContext(client, fence, clock)
        writer = StatusWriter(context, Observed())
        binder = Binder(context, on_failed=lambda failure: None)
        executor = Executor(context, binder, writer, {}, Retrier(clock), lambda failure: None)
        api.put(QUEUES, {"metadata": {"name": "blue", "uid": "q1"}, "spec": {}})
        if status is not None:
            api.fault("queues/blue", status=status, times=100)
        executor.execute([UpdateQueue("blue", "Closed", uid="q1")])
        await executor.finish()
        await executor.stop()
        written = [one for one in api.all(EVENTS) if one["involvedObject"]["name"] == "blue"]
        assert [one["message"][: len(text)] for one, text in zip(written, events, strict=True)] == events
        assert {(one["type"], one["reason"]) for one in written} <= {("Warning", "QueueError")}
