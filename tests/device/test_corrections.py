"""Corrections of annotations (rule D3): one pod that cannot be corrected keeps no other one waiting."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ringwise.device.allocate_calls import AllocateCalls, CallMetrics
from ringwise.device.allocator import Allocator
from ringwise.device.ledger import Ledger
from ringwise.device.ledger_file import LedgerFile
from ringwise.kubeclient.client import ApiError, Client, UnreachableError
from ringwise.kubeclient.config import direct
from tests.builders.values import CHIP
from tests.device.cases import chips
from tests.device.test_allocation import healthy, waiting_pod
from tests.kube.harness import InstantClock


class OnePodFails(Client):
    """Patches every pod but `a`."""

    def __init__(self, error: Exception) -> None:
        super().__init__(direct("http://127.0.0.1:1"))
        self.error = error
        self.asked: list[str] = []

    async def patch(self, resource: Any, namespace: Any, name: str, *_: Any, **__: Any) -> bytes:
        self.asked.append(name)
        if name == "a":
            raise self.error
        return b"{}"


@pytest.mark.parametrize(
    ("error", "first", "second"),
    [
        (ApiError(404, "NotFound", "gone"), ["a", "b", "c"], []),
        (ApiError(403, "Forbidden", "admission webhook denied the request"), ["a", "b", "c"], ["a"]),
        (ApiError(500, "InternalError", "failed calling webhook"), ["a", "b", "c"], ["a"]),
        # The server may be away; if only this pod hangs, the others come first the next time.
        (UnreachableError("no response within 5s", maybe_done=True), ["a"], ["b", "c", "a"]),
    ],
)
async def test_other_pods_are_corrected(
    tmp_path: Path, error: Exception, first: list[str], second: list[str]
) -> None:
    machine = Allocator(CHIP, chips(8), Ledger())
    for number, name in enumerate("abc"):
        chip = f"Ascend910-{number}"
        machine.put_pod(waiting_pod(name, chip, str(number)))
        machine.commit(machine.allocate([chip], 0, healthy))
    machine.listed({f"default/{name}": [[f"Ascend910-{number}"]] for number, name in enumerate("abc")}, 1)
    for pod in list(machine.pods.values()):
        machine.put_pod(replace(pod, annotations={}))
    client, unused = OnePodFails(error), object()
    parts: tuple[Any, ...] = (unused, InstantClock(), CallMetrics(), healthy, unused, unused)
    calls = AllocateCalls(machine, LedgerFile(tmp_path / "mounts"), client, *parts)
    for expected in (first, second):
        client.asked.clear()
        await calls.correct()
        assert client.asked == expected
    assert [one.pod.name for one in machine.corrections()] == ([] if second == [] else ["a"])
