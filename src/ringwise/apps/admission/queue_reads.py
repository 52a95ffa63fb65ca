"""Reads all queues from the API server before a review is rejected because of one.

The watch cache is some milliseconds old. If a job and its queue are created with one `kubectl apply`, the job
may be reviewed before the queue is in the cache; if a queue is deleted right after its child, the child may
still be in it.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from ringwise.apps.admission.rules import ClusterFacts
from ringwise.kube.watch.kinds import read_object
from ringwise.kube.watch.readers import ObservedQueue, QueueReader
from ringwise.kubeclient.client import API_ERRORS, PAGE_SIZE, Client
from ringwise.kubeclient.clock import Clock, RateLimit
from ringwise.kubeclient.list_watch import name_of
from ringwise.kubeclient.resources import QUEUES
from ringwise.log import Logger
from ringwise.manifests.text.errors import Findings
from ringwise.records import dataclass
from ringwise.state.model import Queue

_LOG = Logger()

#: Reads that reviews of one namespace may cause per second, and the burst. Queues, which are cluster-scoped,
#: share one limit.
READS_PER_SECOND = 4.0
READS_AT_ONCE = 100
#: Seconds for one read. A client can retry a review that was rejected without it.
READ_TIMEOUT = 1.0
#: Namespaces whose reads are counted. Above this number, counting starts again.
_MAX_NAMESPACES = 10_000


@dataclass(frozen=True, slots=True)
class _Queues:
    #: None if the queue is invalid: its last valid version is used.
    by_name: dict[str, Queue | None]
    observed: dict[str, ObservedQueue]


class QueueLister:
    """Lists the queues. At most one list request is in flight, regardless of how many reviews wait for it."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._limits: dict[str, RateLimit] = {}
        self._running: asyncio.Task[_Queues | None] | None = None
        self._waiting: asyncio.Task[_Queues | None] | None = None

    async def updated(self, cluster: ClusterFacts, namespace: str) -> ClusterFacts | None:
        """Return the cluster with the current queues.

        None if they cannot be read, or if reviews of the namespace have caused too many reads already.
        """
        if not self._limit(namespace).take():
            return None
        if self._waiting is None:
            self._waiting = asyncio.create_task(self._list_after(self._running))
        # A list request in flight began before this review arrived, so all reviews wait for the next one.
        read = await asyncio.shield(self._waiting)
        if read is None:
            return None
        before = cluster.queues or {}
        queues = {name: queue or before.get(name) for name, queue in read.by_name.items()}
        return replace(
            cluster,
            queues={name: queue for name, queue in queues.items() if queue is not None},
            observed=read.observed,
        )

    def _limit(self, namespace: str) -> RateLimit:
        if len(self._limits) >= _MAX_NAMESPACES:
            self._limits.clear()
        if namespace not in self._limits:
            self._limits[namespace] = RateLimit(READS_PER_SECOND, READS_AT_ONCE, self._clock)
        return self._limits[namespace]

    async def _list_after(self, running: asyncio.Task[_Queues | None] | None) -> _Queues | None:
        if running is not None:
            await asyncio.wait([running])
        self._running, self._waiting = self._waiting, None
        try:
            async with asyncio.timeout(READ_TIMEOUT):
                return await self._list()
        except (*API_ERRORS, TimeoutError) as error:
            _LOG.warning("queues not read", why=str(error) or "no response in time")
            return None

    async def _list(self) -> _Queues:
        result = _Queues({}, {})
        reader = QueueReader(result.observed)
        async for page in self._client.pages(QUEUES.path(), {}, PAGE_SIZE, reader.page):
            for item in page.items or ():
                named = name_of(item)
                name = (named.name if named is not None else None) or ""
                result.by_name[name] = None
                for key, queue in read_object(reader, item, Findings(f"queue {name}")) or ():
                    assert isinstance(queue, Queue)
                    result.by_name[key] = queue
        return result
