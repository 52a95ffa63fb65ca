"""Kubernetes Events about faults of chips, on the plugin's own pod, or on the Node where there is none."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ringwise.device.cards import Chip
from ringwise.device.health.configuration import FaultConfiguration
from ringwise.device.health.levels import Assertion
from ringwise.device.health.tracker import FaultChange
from ringwise.kubeclient.client import API_ERRORS, Client
from ringwise.kubeclient.clock import Clock
from ringwise.kubeclient.resources import EVENTS
from ringwise.log import Logger
from ringwise.manifests.text.quantities import rfc3339

_LOG = Logger()

COMPONENT = "ringwise-device-plugin"
#: Events within so many seconds at most; a chip may report faults by the thousand.
MAX_EVENTS = 10
WINDOW = 60.0
#: Events that wait. More are dropped, the oldest first: the report has the state.
MAX_WAITING = 100
_REASONS = {Assertion.OCCURRED: "Occur", Assertion.RECOVERED: "Recovery"}
_NOTICE = "Notice"


class FaultEvents:
    """Writes one event for each fault that occurred or went away, at most ten a minute."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        node: str,
        pod: str,
        names: Mapping[int, str],
        chips: Sequence[Chip],
    ) -> None:
        self._client = client
        self._clock = clock
        self._node = node
        #: Namespace and name of our own pod; empty where we run outside of one.
        self._namespace, _, self._pod = pod.partition("/")
        self.watch(names, chips)
        self._waiting: deque[Mapping[str, Any]] = deque(maxlen=MAX_WAITING)
        self._news = asyncio.Event()
        self._written: deque[float] = deque(maxlen=MAX_EVENTS)
        self._last = 0

    def watch(self, names: Mapping[int, str], chips: Sequence[Chip]) -> None:
        """The chips of the node."""
        self._chips = {names[chip.physical]: chip for chip in chips}

    def add(self, changes: Iterable[FaultChange], configuration: FaultConfiguration) -> None:
        for change in changes:
            self._waiting.append(self._body(change, configuration))
            self._news.set()

    def _body(self, change: FaultChange, configuration: FaultConfiguration) -> Mapping[str, Any]:
        chip = self._chips[change.chip]
        reason = _REASONS.get(change.assertion, _NOTICE)
        level = configuration.level_of(change.code, change.severity)
        # Two faults of one millisecond are two events.
        self._last = max(self._last + 1, change.at)
        time = rfc3339(change.at * 1_000_000)
        about = {"apiVersion": "v1", "kind": "Node", "name": self._node}
        if self._pod:
            about = {"apiVersion": "v1", "kind": "Pod", "name": self._pod, "namespace": self._namespace}
        return {
            "metadata": {
                "name": f"{about['name'][:200].rstrip('-.')}.{self._last}{chip.logic}",
                "namespace": self._namespace or "default",
            },
            "involvedObject": about,
            "type": "Normal" if change.assertion == Assertion.RECOVERED else "Warning",
            "reason": reason,
            "action": level,
            "message": (
                f"device fault, nodeName:{self._node}, assertion:{reason}, cardID:{chip.card}, "
                f"deviceID:{chip.device}, faultCodes:{configuration.written(change.code)}, "
                f"faultLevelName:{level}, alarmRaisedTime:{time}"
            ),
            "source": {"component": COMPONENT, "host": self._node},
            "reportingComponent": COMPONENT,
            "reportingInstance": self._pod or self._node,
            "firstTimestamp": time,
            "lastTimestamp": time,
            "count": 1,
        }

    async def run(self) -> None:
        """Until it is canceled. An event that cannot be written is dropped."""
        while True:
            await self._news.wait()
            if len(self._written) == MAX_EVENTS:
                await self._clock.sleep(max(0.0, self._written[0] + WINDOW - self._clock.monotonic()))
            if not self._waiting:
                self._news.clear()
                continue
            body = self._waiting.popleft()
            self._written.append(self._clock.monotonic())
            try:
                await self._client.create(EVENTS, body["metadata"]["namespace"], body)
            except API_ERRORS as error:
                _LOG.warning("event not written", why=str(error), message=body["message"])
