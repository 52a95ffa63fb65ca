"""Looks at all pods all the time, without the proxy, and judges what it sees."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Sequence
from datetime import datetime

from tests.cluster.cluster import GROUPS, Cluster, Component, check_chips, is_live, node_of
from tests.cluster.objects import GROUP, Object

#: Seconds between two looks.
EVERY = 0.2
#: A gang that is half bound for longer than its bindings take was cut by a killed leader.
CUT = 2.0


class Watchman:
    """`limit`: seconds for which a gang may be half bound while anybody decides, one leader after the other.

    `first`: seconds that a new leader has for its first cycle and what follows from it, also when the limit
    is over before it begins.
    """

    def __init__(self, cluster: Cluster, limit: float, first: float) -> None:
        self._cluster = cluster
        self._limit = limit
        self._first = first
        self._stop = threading.Event()
        self._half_since: dict[str, float] = {}
        #: Seconds of that in which somebody decided: only who leads can mend it.
        self._half_led: dict[str, float] = {}
        self._last_look = time.time()
        self._whole: set[str] = set()
        self._thread = threading.Thread(target=self._run, name="watchman", daemon=True)
        self.looks = 0
        #: Every pod that ever had a node, and every gang that was cut in half.
        self.bound: set[str] = set()
        self.cut: set[str] = set()
        self.longest_half = self.longest_led = 0.0
        self.found: str | None = None

    def __enter__(self) -> Watchman:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(30)

    def _run(self) -> None:
        while not self._stop.wait(EVERY) and self.found is None:
            try:
                self.look(self._cluster.pods(), self._cluster.api.items(GROUPS))
            except AssertionError as problem:
                self.found = f"{problem}\n{self._cluster.picture()}"
            self.looks += 1

    def look(self, pods: Sequence[Object], groups: Iterable[Object]) -> None:
        check_chips(pods)
        self.bound.update(one["metadata"]["uid"] for one in pods if node_of(one))
        now = time.time()
        passed, self._last_look = now - self._last_look, now
        for group in groups:
            key, name, needed = (
                group["metadata"]["uid"],
                group["metadata"]["name"],
                group["spec"]["minMember"],
            )
            bound = sum(_counts(one, name) for one in pods)
            if bound >= needed:
                self._whole.add(key)
            # A gang that was whole once and lost a pod is a job that goes on.
            if 0 < bound < needed and key not in self._whole:
                self._judge(key, name, now, passed)
            else:
                self._half_since.pop(key, None)
                self._half_led.pop(key, None)

    def _judge(self, key: str, name: str, now: float, passed: float) -> None:
        since = self._half_since.setdefault(key, now)
        self.longest_half = max(self.longest_half, now - since)
        if now - since > CUT:
            self.cut.add(key)
        decides = self._deciding_for(now)
        # Whoever was killed since the last look decided for a part of that time, which is not counted.
        led = self._half_led.get(key, 0.0) + min(passed, decides, now - since)
        self._half_led[key] = led
        self.longest_led = max(self.longest_led, led)
        assert led <= self._limit or decides <= self._first, (
            f"{name} is half bound for {now - since:.0f} s, {led:.0f} s of them under leaders, "
            f"the last of which decides for {decides:.0f} s"
        )

    def _deciding_for(self, now: float) -> float:
        """For how long the leader of now has been deciding; 0 when nobody leads."""
        began = max((decides_since(one) for one in self._schedulers()), default=0.0)
        return now - began if began else 0.0

    def _schedulers(self) -> list[Component]:
        """Those that live. The controller leads, too, but can mend nothing."""
        return [one for one in list(self._cluster.components) if one.kind == "scheduler" and one.running]


def decides_since(component: Component) -> float:
    """When a replica that leads began to decide by its own words; 0 while it does not."""
    began = 0.0
    for line in component.log().splitlines():
        if "deciding" not in line and "leading" not in line:
            continue
        told = json.loads(line)
        if told["event"] == "deciding":
            began = datetime.fromisoformat(told["timestamp"]).timestamp()
        elif told["event"] == "not leading any more":
            began = 0.0
    return began


def _counts(pod: Object, group: str) -> bool:
    meta = pod["metadata"]
    return (
        meta.get("annotations", {}).get(GROUP) == group and "deletionTimestamp" not in meta and is_live(pod)
    )
