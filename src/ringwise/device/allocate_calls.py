"""Allocate calls and corrections: the allocator's decisions, carried out against kubelet and API server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

import msgspec

from ringwise.device.allocation import AllocationError
from ringwise.device.allocator import AllocateResult, Allocator, Listing
from ringwise.device.host_containers import ContainerSpecs, ControlGroups
from ringwise.device.ledger_file import LedgerFile
from ringwise.device.pods import NodePod
from ringwise.device.rpc import KubeletError, PodResources
from ringwise.device.soft_shares import ShareFiles
from ringwise.kubeclient.client import API_ERRORS, ApiError, Client, UnreachableError
from ringwise.kubeclient.clock import Clock
from ringwise.kubeclient.list_watch import name_of, version_number
from ringwise.kubeclient.resources import PODS
from ringwise.log import Logger
from ringwise.metrics.families import HistogramFamily, MetricSet, counter
from ringwise.records import dataclass

_LOG = Logger()

#: A patch that Allocate needs is tried so often, so many seconds apart.
PATCH_ATTEMPTS = 3
PATCH_PAUSE = 0.2
PATCH_TIMEOUT = 5.0
#: Seconds after which a request is on its way, and after which an answer has been sent.
AFTER_SENDING, AFTER_ANSWER = 0.0005, 0.01
#: The longest pause that the server may ask for while kubelet waits.
MAX_PAUSE = 2.0
#: How often another pod is tried when the chosen one is gone.
CHOICES = 5
#: Upper bounds of the duration of a call.
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class CallMetrics(MetricSet):
    """Figures about what the plugin does."""

    def __init__(self) -> None:
        self.allocate = HistogramFamily(
            "ringwise_device_allocate_duration_seconds", "Duration of Allocate calls", _SECONDS
        )
        self.failures = counter("ringwise_device_allocate_failures", "Allocate calls that failed")
        self.corrections = counter("ringwise_device_corrections", "Pods whose annotations were corrected")
        self.reports = counter("ringwise_device_reports", "Writes to the node's ConfigMap")
        self.api_errors = counter(
            "ringwise_device_api_errors", "Requests to the API server that failed", "operation"
        )


@dataclass(slots=True, eq=False)
class AllocateCalls:
    """One resource of one node. Calls are served one after the other, as kubelet makes them."""

    allocator: Allocator
    file: LedgerFile
    client: Client
    pod_resources: PodResources
    clock: Clock
    observer: CallMetrics
    why_not: Callable[[str], str | None]
    read_pods: Callable[[], Any]
    groups: ControlGroups
    shares: ShareFiles | None = None
    containers: ContainerSpecs | None = None
    #: What kubelet listed last; None: it did not answer.
    listing: Listing | None = None
    serving: asyncio.Lock = field(default_factory=asyncio.Lock)
    #: Uids of pods that could not be corrected: the others come before them.
    refused: set[str] = field(default_factory=set)

    async def allocate(self, requests: Sequence[Sequence[str]]) -> list[AllocateResult]:
        """One allocation for each container of a call (rule D2). Raises AllocationError."""
        began = self.clock.monotonic()
        try:
            async with self.serving:
                served = [await self._serve(ids) for ids in requests]
        except AllocationError:
            self.observer.failures.inc()
            raise
        self.observer.allocate.observe(self.clock.monotonic() - began)
        return served

    async def _serve(self, ids: Sequence[str]) -> AllocateResult:
        for _ in range(CHOICES):
            allocation = await self._chosen(ids)
            if await self._confirmed(allocation):
                return allocation
        raise AllocationError("pending pods are replaced faster than they can be served")

    async def _chosen(self, ids: Sequence[str]) -> AllocateResult:
        if self.allocator.needs_listing(self.clock.now()):
            await self.read_listing(during_call=True)
        try:
            return self._choose(ids, fresh=False)
        except AllocationError as problem:
            _LOG.info("pods and mounts are read again", why=str(problem))
        # Never fail for a pod that the watch has not brought yet.
        remark = ""
        try:
            await self.read_pods()
        except API_ERRORS as error:
            self.observer.api_errors.inc("pods")
            remark = f" (the API server could not be asked: {error})"
        await self.read_listing(during_call=True)
        try:
            return self._choose(ids, fresh=True)
        except AllocationError as problem:
            raise AllocationError(f"{problem}{remark}") from None

    def _choose(self, ids: Sequence[str], *, fresh: bool) -> AllocateResult:
        return self.allocator.allocate(ids, self.clock.now(), self.why_not, fresh=fresh)

    async def _confirmed(self, allocation: AllocateResult) -> bool:
        """Write the mark and the mount; False when the pod is gone. Raises AllocationError."""
        pod = allocation.pod
        if pod is None:
            self.save()
            return True
        self._prepare(allocation)
        # The file is written while the server works; kubelet gets the answer when both have it.
        loop = asyncio.get_running_loop()
        writing = loop.call_later(AFTER_SENDING, self.save)
        try:
            patched = await self._mark(pod, allocation.annotations)
        except API_ERRORS as error:
            gone = _is_gone(error)
            maybe = isinstance(error, UnreachableError) and error.maybe_done
            self.allocator.abort(allocation, maybe_patched=maybe)
            if gone:
                self.allocator.drop_pod(pod.uid, self.clock.now())
            self.save()
            if gone:
                return False
            self.observer.api_errors.inc("mark")
            raise AllocationError(f"pod {pod.key} could not be marked as served: {error}") from None
        except asyncio.CancelledError:
            # Kubelet gave up, or we end: whether the server took the patch is unknown.
            self.allocator.abort(allocation, maybe_patched=True)
            raise
        finally:
            writing.cancel()
        self.save()
        self.allocator.commit(allocation, patched)
        # Kubelet waits: the line is written when the answer is sent.
        loop.call_later(AFTER_ANSWER, _log_allocation, allocation)
        return True

    def _prepare(self, allocation: AllocateResult) -> None:
        """Record a share and write its files before the pod is marked (rule V19). Raises AllocationError."""
        if self.shares is None:
            return
        problem = ""
        if not self.save():
            problem = "the record was not written"
        else:
            try:
                self.shares.write(allocation.mount)
            except OSError as error:
                problem = str(error)
        if problem:
            self.allocator.abort(allocation)
            self.save()
            raise AllocationError(
                f"the share of pod {allocation.mount.chosen_key} was not created: {problem}"
            )

    async def _mark(self, pod: NodePod, annotations: Mapping[str, str]) -> NodePod | None:
        unknown: UnreachableError | None = None
        for attempt in range(1, PATCH_ATTEMPTS + 1):
            pause = PATCH_PAUSE
            try:
                return await self._patch(pod, annotations)
            except ApiError as error:
                if _is_gone(error):
                    raise
                may_pass = error.status in (409, 429) or error.status >= 500
                if attempt == PATCH_ATTEMPTS or not may_pass:
                    # An earlier try may have reached the server.
                    raise (unknown or error) from None
                pause = min(max(PATCH_PAUSE, error.retry_after or 0.0), MAX_PAUSE)
            except UnreachableError as error:
                unknown = error if unknown is None or error.maybe_done else unknown
                if attempt == PATCH_ATTEMPTS:
                    raise unknown from None
            await self.clock.sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    async def _patch(self, pod: NodePod, annotations: Mapping[str, str | None]) -> NodePod | None:
        """Change annotations of this very pod, not of one that took its name."""
        body = {"metadata": {"uid": pod.uid, "annotations": dict(annotations)}}
        answer = await self.client.patch(PODS, pod.namespace, pod.name, body, timeout=PATCH_TIMEOUT)
        version = _version_in(answer)
        return replace(pod.annotated(annotations), version=version) if version else None

    def save(self) -> bool:
        """Write the records; return whether the file has all of them."""
        # Files of shares are removed first, so that none outlives its record.
        if self.shares is not None:
            self.shares.keep(self.allocator.ledger.mounts)
        return self.file.save(self.allocator.ledger)

    async def read_listing(self, *, during_call: bool = False) -> bool:
        """Compare the mounts with kubelet's pod-resources API; whether it answered."""
        try:
            listing = await self.pod_resources.list()
        except KubeletError as error:
            _LOG.info("mounts not compared with kubelet", why=str(error))
            self.listing = None
            self.allocator.unlisted()
            return False
        self.listing = listing
        in_containers: Mapping[str, Sequence[str]] = {}
        if self.containers is not None and (unknown := self.allocator.without_record(listing)):
            in_containers = await asyncio.to_thread(self.containers.chips_of, [pod.uid for pod in unknown])
        running: Collection[str] | None = ()
        if in_question := self.allocator.in_question(listing):
            running = await asyncio.to_thread(self.groups.running, in_question)
        before = self.allocator.left()
        self.allocator.listed(
            listing,
            self.clock.now(),
            during_call=during_call,
            in_containers=in_containers,
            running=running,
        )
        left = self.allocator.left()
        for pod in sorted(left.keys() - before.keys()):
            seen = "has processes" if running is not None else "cannot be seen (--cgroup-root)"
            _LOG.warning("chips of a deleted pod are reserved", pod=pod, chips=",".join(left[pod]), why=seen)
        for pod in sorted(before.keys() - left.keys()):
            _LOG.info("chips of a deleted pod are free", pod=pod, chips=",".join(before[pod]))
        return True

    async def correct(self) -> None:
        """Make the pods' annotations name what their containers have (rule D3)."""
        corrections = self.allocator.corrections()
        self.refused.intersection_update(one.pod.uid for one in corrections)
        for correction in sorted(corrections, key=lambda one: one.pod.uid in self.refused):
            pod = correction.pod
            try:
                patched = await self._patch(pod, correction.annotations)
            except API_ERRORS as error:
                if _is_gone(error):
                    self.allocator.drop_pod(pod.uid, self.clock.now())
                    continue
                self.refused.add(pod.uid)
                self.observer.api_errors.inc("correction")
                _LOG.warning("annotations not corrected", pod=pod.key, why=str(error))
                if isinstance(error, ApiError):
                    # It may be the policy of one namespace that refuses it.
                    continue
                return
            self.allocator.corrected(correction, patched)
            self.observer.corrections.inc()
            _LOG.info("annotations corrected", pod=pod.key, keys=sorted(correction.annotations))


def _log_allocation(allocation: AllocateResult) -> None:
    mount = allocation.mount
    for problem in allocation.passed_over:
        _LOG.warning("pod skipped", why=problem)
    _LOG.info("allocated", pod=mount.chosen_key, chips=",".join(mount.chips), ids=",".join(mount.ids))


def _version_in(answer: bytes) -> int:
    """The version of the object in an answer; 0 where it cannot be read."""
    meta = name_of(msgspec.Raw(answer))
    return version_number(meta.resource_version) if meta is not None else 0


def _is_gone(error: Exception) -> bool:
    """Whether the pod is gone, or another one has its name."""
    return isinstance(error, ApiError) and (
        error.status == 404 or (error.status == 409 and "uid" in error.message.lower())
    )
