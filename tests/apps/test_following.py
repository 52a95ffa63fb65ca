"""A cluster that is followed: listed once, then watched; what a watch cannot tell is listed again."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from ringwise.apps.following import FollowedCluster, FollowedKind
from ringwise.apps.live import NothingReadableError
from ringwise.kubeclient.config import find_access
from ringwise.kubeclient.retry import Backoff
from tests.device.test_commands import kubeconfig
from tests.event_loop import run
from tests.kube.fake_api_server import FakeApiServer
from tests.kube.harness import NODES, QUEUES, node


def following(
    tmp_path: Path,
    prepare: Callable[[FakeApiServer], object],
    use: Callable[[FollowedCluster, Callable[..., None]], None],
) -> None:
    """`use` runs in a thread, as a command does; its second argument changes something in the server."""

    async def test() -> None:
        async with FakeApiServer() as api:
            loop = asyncio.get_running_loop()
            for number in range(2):
                api.put(NODES, node(f"node-{number}"))
            prepare(api)

            def change(what: Callable[[FakeApiServer], object]) -> None:
                asyncio.run_coroutine_threadsafe(_do(what, api), loop).result()

            def work() -> None:
                with FollowedCluster(find_access(str(kubeconfig(tmp_path, api.url)), None)) as followed:
                    use(followed, change)

            await asyncio.to_thread(work)

    run(test())


async def _do(what: Callable[[FakeApiServer], object], api: FakeApiServer) -> None:
    what(api)


def names(followed: FollowedCluster) -> list[str]:
    return [one.name for one in followed.look().bundle.nodes]


def test_a_watch_that_is_too_old_is_followed_by_a_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed, read = threading.Semaphore(0), FollowedKind.read

    async def counting(kind: FollowedKind) -> str:
        version = await read(kind)
        if kind._path == NODES:
            listed.release()
        return version

    def use(followed: FollowedCluster, change: Callable[..., None]) -> None:
        assert listed.acquire(timeout=60)
        assert names(followed) == ["node-0", "node-1"]
        # Nothing changed: what was read is not read again.
        assert followed.look() is followed.look()

        def meanwhile(api: FakeApiServer) -> None:
            api.cut_watches()
            api.remove(NODES, "node-0")
            api.put(NODES, node("node-2"))
            api.forget_history()

        change(meanwhile)
        assert listed.acquire(timeout=60)
        assert names(followed) == ["node-1", "node-2"]

    monkeypatch.setattr(FollowedKind, "read", counting)
    monkeypatch.setattr(Backoff, "pause", lambda _: 0.0)
    following(tmp_path, lambda api: None, use)


def test_what_may_not_be_listed_is_left_out_and_named(tmp_path: Path) -> None:
    def use(followed: FollowedCluster, change: Callable[..., None]) -> None:
        assert names(followed) == ["node-0", "node-1"]
        assert [line.partition(":")[0] for line in followed.look().missing] == ["queues"]

    following(tmp_path, lambda api: api.fault(f"GET {QUEUES}", status=403, times=100), use)


def test_without_nodes_nothing_is_followed(tmp_path: Path) -> None:
    with pytest.raises(NothingReadableError, match="nodes: not allowed"):
        following(tmp_path, lambda api: api.fault(f"GET {NODES}", status=403, times=100), lambda *_: None)
    assert [thread for thread in threading.enumerate() if thread.name == "watches"] == []
