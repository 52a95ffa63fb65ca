"""Answers about a live cluster, whose objects are listed once with the rights of a kubeconfig."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from ringwise.apps.live import (
    LiveCluster,
    NothingReadableError,
    read_cluster,
    read_namespace,
    with_submitted,
)
from ringwise.apps.live_history import read_histories, read_history
from ringwise.apps.place import place
from ringwise.apps.queries import examine
from ringwise.apps.scheduler_health import binding_findings, lease_findings, read_leases, token_findings
from ringwise.apps.sources.objects import Notify, ObjectAnswers
from ringwise.apps.sources.protocol import NotAnsweredError
from ringwise.framework.configuration import Configuration
from ringwise.framework.job import job_key
from ringwise.grammar import counted
from ringwise.kube.watch.kinds import WatchTarget
from ringwise.kube.write.disruption_budgets import read_budgets
from ringwise.kubeclient.client import ApiError, Client, IgnoredStatus, UnreachableError, run
from ringwise.kubeclient.config import Access
from ringwise.kubeclient.resources import CONFIG_MAPS
from ringwise.manifests.bundle import Bundle
from ringwise.manifests.text.wire import ConfigMapWire
from ringwise.messages.job_expansion import group_name
from ringwise.scheduler.cache.record_tables import read_tables
from ringwise.scheduler.defaults import default_configuration
from ringwise.scheduler.defragment.movable import DisruptionBudget
from ringwise.scheduler.explain.doctor import unread_finding
from ringwise.scheduler.explain.findings import ERROR, Finding
from ringwise.topology.boards import BoardCatalog
from ringwise.views.documents.explain import DoctorDocument, EventsDocument, HistoryDocument
from ringwise.views.documents.limits import LimitsDocument
from ringwise.views.documents.place import PlaceDocument
from ringwise.views.history import events_document, history_document
from ringwise.views.lists import EVERYTHING, Listing
from ringwise.views.names import qualified
from ringwise.views.place import place_document
from ringwise.wellknown import RECORD_CONFIG_MAPS, UNREAD_RECORD_CONFIG_MAP, VOLCANO_SYSTEM

_SHOWN_ERRORS = 3

#: Kind and number of the objects that were read.
Progress = Callable[[str, int], None]


class ClusterSource(ObjectAnswers):
    """Raises ApiError, UnreachableError, KubeConfigError and NothingReadableError."""

    def __init__(
        self,
        access: Access,
        catalog: BoardCatalog,
        board_files: tuple[Path, ...] = (),
        *,
        configuration: Configuration | None = None,
        now: int | None = None,
        notify: Notify = lambda line: None,
        progress: Progress = lambda kind, count: None,
        live: LiveCluster | None = None,
    ) -> None:
        """Without a configuration, that of the cluster's ConfigMap. `live`: objects that are read already."""
        super().__init__(catalog, board_files, notify, skip_bad_pods=True)
        self._access = access
        self._configuration = configuration
        self._progress = progress
        self._preloaded = live
        self._now = time.time_ns() if now is None else now

    @property
    def now(self) -> int:
        return self._now

    @cached_property
    def _live(self) -> LiveCluster:
        live = self._preloaded or read_live(self._access, self._progress)
        for line in live.missing:
            self._notify(f"note: {line}")
        return live

    @cached_property
    def bundle(self) -> Bundle:
        bundle = self._live.bundle
        for error in bundle.errors[:_SHOWN_ERRORS]:
            self._notify(f"ignored: {error}")
        if len(bundle.errors) > _SHOWN_ERRORS:
            more = counted(len(bundle.errors) - _SHOWN_ERRORS, "more object")
            self._notify(f"{more} cannot be read; kubectl ringwise doctor lists them")
        return bundle

    @property
    def configuration(self) -> Configuration:
        return self._configuration or self._live.configuration

    def doctor(self) -> DoctorDocument:
        """Objects that cannot be read are among the findings, and not reported besides."""
        live = self._live
        tokens = token_findings(live.server_minor, live.bundle.pods)
        unread = (unread_finding(*one) for one in live.unread_record.items())
        reported = (*self._health(_pending_jobs(live.bundle)), *tokens, *unread)
        return DoctorDocument.of(
            examine(live.bundle, self.configuration, self.catalog, now=self._now, reported=reported)
        )

    def limits(self) -> LimitsDocument:
        try:
            return super().limits()
        except NothingReadableError as error:
            problem = str(error)
        namespace = self._access.namespace
        live = run(self._access, lambda client: read_namespace(client, namespace))
        self._notify(
            f"note: {problem}; limits apply to namespace {namespace} only: the usage of queues and "
            "users includes only its jobs"
        )
        # Only limits that are accepted are written there. What is lent is not known.
        default = default_configuration()
        configuration = replace(default, settings=replace(default.settings, user_annotation="guarded"))
        own = ClusterSource(self._access, self.catalog, configuration=configuration, now=self._now, live=live)
        return msgspec.structs.replace(own.limits(), problems=[])

    def get(self, kind: str, listing: Listing = EVERYTHING) -> dict[str, Any]:
        if kind == "jobs":
            self._report_scheduler_problems()
        return super().get(kind, listing)

    def describe(self, kind: str, name: str, namespace: str | None = None) -> dict[str, Any]:
        if kind == "job":
            self._report_scheduler_problems()
        return super().describe(kind, name, namespace)

    def _report_scheduler_problems(self) -> None:
        """Warn that pending jobs stay pending, whatever is said of where they would be placed."""
        if pending := _pending_jobs(self.bundle):
            for one in self._health(pending):
                if one.severity == ERROR:
                    self._notify(f"warning: {one.object}: {one.message}")

    @property
    def _lease_findings(self) -> list[Finding]:
        live = self._live
        return [] if live.leases is None else lease_findings(live.leases, live.bundle.pods, self._now)

    def _scheduler_findings(self, job: str, name: str) -> list[Finding]:
        return self._health([(job, name)])

    def _health(self, jobs: Sequence[tuple[str, str]]) -> list[Finding]:
        """What prevents the scheduler from placing these jobs (keys and names)."""
        return [*self._lease_findings, *binding_findings(self._live.written, jobs)]

    def _disruption_budgets(self) -> tuple[Sequence[DisruptionBudget], Sequence[str]]:
        try:
            return run(self._access, read_budgets), ()
        except (ApiError, UnreachableError) as error:
            # The API server keeps them all the same when pods are evicted.
            return (), [f"disruption budgets: {error}"]

    def history(self, job: str, namespace: str | None = None) -> HistoryDocument:
        """From the Events of the cluster. Raises UnknownHistoryError."""
        name = qualified(job, namespace)
        recorded = run(self._access, lambda client: read_history(client, name, self._now))
        return history_document(recorded.history, recorded.until, recorded.notes)

    def events(self, namespace: str | None = None, limit: int = 0) -> EventsDocument:
        """Of the jobs that exist."""
        recorded = run(self._access, lambda client: read_histories(client, namespace, self._now))
        return events_document(recorded.histories, recorded.until, namespace, limit, recorded.notes)

    def place(self, manifests: Bundle, *, scores: bool = False, pictures: bool = False) -> PlaceDocument:
        """Where the jobs would be placed if they were submitted now. Raises AlreadyThereError.

        Pending jobs of the cluster are decided with them, in the cluster's order.
        """
        bundle = self.bundle
        submitted = with_submitted(bundle, manifests)
        if not submitted:
            raise NotAnsweredError("the files do not contain a job, PodGroup or pod to place")
        if missing := self._live.records_missing:
            self._notify(
                f"note: chips and quota that the scheduler holds for other jobs are not known; {missing}"
            )
        answer = place(bundle, self.configuration, self.catalog, now=self._now, scores=scores, only=submitted)
        self._check(answer.errors)
        return place_document(answer, pictures=pictures)


def _pending_jobs(bundle: Bundle) -> list[tuple[str, str]]:
    """Keys and names of jobs with pods that have no node."""
    names = {f"{vcjob.namespace}/{group_name(vcjob)}": vcjob.key for vcjob in bundle.vcjobs}
    keys = dict.fromkeys(job_key(pod) for pod in bundle.pods if pod.node is None and pod.live)
    # A pod of its own is a job with its name.
    return [(key, names.get(key, key.replace("/pod:", "/"))) for key in keys]


def read_live(access: Access, progress: Progress = lambda kind, count: None) -> LiveCluster:
    return run(access, lambda client: read_all(client, progress))


async def read_all(client: Client, progress: Progress = lambda kind, count: None) -> LiveCluster:
    live = await read_cluster(client, progress=progress)
    await read_records(client, live)
    live.server_minor = await server_minor_version(client)
    live.leases = await read_leases(client)
    return live


async def read_records(client: Client, live: LiveCluster) -> None:
    """What the scheduler remembers; who may not read it has the events of the jobs."""
    live.records_missing = WatchTarget(CONFIG_MAPS, VOLCANO_SYSTEM).permission("get")
    with IgnoredStatus(403):
        written: dict[str, str] = {}
        for name in RECORD_CONFIG_MAPS:
            wire = await client.find(CONFIG_MAPS, VOLCANO_SYSTEM, name, ConfigMapWire)
            if wire is None:
                break
            written |= {key: text for key, text in (wire.data or {}).items() if text}
        live.bundle.written = written
        _, problems = read_tables(written)
        live.records_missing = "; ".join(f"{key}: {problem}" for key, problem in sorted(problems.items()))
        copied = await client.find(CONFIG_MAPS, VOLCANO_SYSTEM, UNREAD_RECORD_CONFIG_MAP, ConfigMapWire)
        if copied is not None:
            _, live.unread_record = read_tables(
                {key: text or "" for key, text in (copied.data or {}).items()}
            )


class _ServerVersion(msgspec.Struct):
    minor: str = ""


async def server_minor_version(client: Client) -> int | None:
    """Return the second number of the version, 30 for Kubernetes 1.30; None if it is not known."""
    try:
        answer = await client.request("GET", "/version")
        minor = msgspec.json.decode(answer, type=_ServerVersion).minor
    except (ApiError, msgspec.MsgspecError):
        return None
    # Distributions write 30+.
    digits = "".join(character for character in minor if character in "0123456789")
    return int(digits[:6]) if digits else None
