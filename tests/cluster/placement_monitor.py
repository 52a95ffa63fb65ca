"""Reads all pods continuously, without the proxy, and checks what must hold at any time."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Sequence
from datetime import datetime

from tests.cluster.cluster import GROUPS, Cluster, Component, check_chips, is_live, node_of
from tests.cluster.objects import GROUP, Object

#: Seconds between two checks.
CHECK_INTERVAL = 0.2
#: A gang that is partly bound for longer than its bindings take was interrupted by a killed leader.
INTERRUPTED_AFTER = 2.0


class PlacementMonitor:
    """`limit`: seconds for which a gang may be partly bound while some leader decides.

    `first`: seconds that a new leader has for its first cycle and its effects, also when the limit has passed
    before that leader starts.
    """

    def __init__(self, cluster: Cluster, limit: float, first: float) -> None:
        self._cluster = cluster
        self._limit = limit
        self._first = first
        self._stop = threading.Event()
        self._partial_since: dict[str, float] = {}
        #: Seconds of that in which a leader decided: only a leader can repair it.
        self._partial_led: dict[str, float] = {}
        self._last_check = time.time()
        self._complete: set[str] = set()
        self._thread = threading.Thread(target=self._run, name="placement monitor", daemon=True)
        self.checks = 0
        #: Every pod that was ever bound, and every gang that was interrupted.
        self.bound: set[str] = set()
        self.interrupted: set[str] = set()
        self.longest_partial = self.longest_led = 0.0
        self.found: str | None = None

    def __enter__(self) -> PlacementMonitor:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(30)

    def _run(self) -> None:
        while not self._stop.wait(CHECK_INTERVAL) and self.found is None:
            try:
                self.check(self._cluster.pods(), self._cluster.api.items(GROUPS))
            except AssertionError as problem:
                self.found = f"{problem}\n{self._cluster.picture()}"
            self.checks += 1

    def check(self, pods: Sequence[Object], groups: Iterable[Object]) -> None:
        check_chips(pods)
        self.bound.update(one["metadata"]["uid"] for one in pods if node_of(one))
        now = time.time()
        passed, self._last_check = now - self._last_check, now
        for group in groups:
            key, name, needed = (
                group["metadata"]["uid"],
                group["metadata"]["name"],
                group["spec"]["minMember"],
            )
            bound = sum(_counts(one, name) for one in pods)
            if bound >= needed:
                self._complete.add(key)
            # A gang that was complete once and lost a pod is a running job.
            if 0 < bound < needed and key not in self._complete:
                self._check_partial(key, name, now, passed)
            else:
                self._partial_since.pop(key, None)
                self._partial_led.pop(key, None)

    def _check_partial(self, key: str, name: str, now: float, passed: float) -> None:
        since = self._partial_since.setdefault(key, now)
        self.longest_partial = max(self.longest_partial, now - since)
        if now - since > INTERRUPTED_AFTER:
            self.interrupted.add(key)
        decides = self._deciding_for(now)
        # A leader that was killed since the last check decided for a part of that time, which is not counted.
        led = self._partial_led.get(key, 0.0) + min(passed, decides, now - since)
        self._partial_led[key] = led
        self.longest_led = max(self.longest_led, led)
        assert led <= self._limit or decides <= self._first, (
            f"{name} is partly bound for {now - since:.0f} s, {led:.0f} s of them under leaders, "
            f"the last of which decides for {decides:.0f} s"
        )

    def _deciding_for(self, now: float) -> float:
        """Seconds for which the current leader has been deciding; 0 without a leader."""
        began = max((deciding_since(one) for one in self._schedulers()), default=0.0)
        return now - began if began else 0.0

    def _schedulers(self) -> list[Component]:
        """Running schedulers. The controller has a leader, too, but that cannot repair a gang."""
        return [one for one in list(self._cluster.components) if one.kind == "scheduler" and one.running]


def deciding_since(component: Component) -> float:
    """When a leading replica began to decide, by its log; 0 while it does not decide."""
    began = 0.0
    for line in component.log().splitlines():
        if "deciding" not in line and "leader" not in line:
            continue
        entry = json.loads(line)
        if entry["event"] == "deciding":
            began = datetime.fromisoformat(entry["timestamp"]).timestamp()
        elif entry["event"] == "no longer the leader":
            began = 0.0
    return began


def _counts(pod: Object, group: str) -> bool:
    meta = pod["metadata"]
    return (
        meta.get("annotations", {}).get(GROUP) == group and "deletionTimestamp" not in meta and is_live(pod)
    )
