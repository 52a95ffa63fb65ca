"""Answers of the dashboard about one job or one manifest: the documents that the command line prints."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ringwise.apps.journal.format import JournalError
from ringwise.apps.place import place
from ringwise.apps.queries import explain_job
from ringwise.apps.source import Source
from ringwise.apps.story import UnknownStoryError, story_of
from ringwise.framework.configuration import Configuration
from ringwise.grammar import counted
from ringwise.manifests.bundle import Bundle, read_text
from ringwise.messages import events as ev
from ringwise.records import dataclass
from ringwise.scheduler.explain.why import UnknownJobError
from ringwise.topology.boards import BoardCatalog
from ringwise.views.cluster import vcjob_view
from ringwise.views.documents.explain import WhyDocument
from ringwise.views.explain import ended_document, ended_sentence, explanation_document
from ringwise.views.place import place_document
from ringwise.views.story import story_document
from ringwise.web.core import Core, WatchedScheduler
from ringwise.web.guard import RequestRefusedError

#: Pods of one manifest in a what-if.
MAX_PODS = 20_000
#: Questions that may wait for their turn; each takes up to some seconds.
MAX_WAITING = 8


@dataclass(frozen=True, slots=True)
class _Known:
    """What a what-if starts from, taken from the scheduler at one moment."""

    events: list[ev.Event]
    configuration: Configuration
    catalog: BoardCatalog
    scheduler_names: frozenset[str]
    now: int

    @classmethod
    def of(cls, scheduler: WatchedScheduler, now: int) -> _Known:
        view = scheduler.view
        return cls(view.known_events(), view.configuration, view.catalog, view.scheduler_names, now)


class SchedulerAnswers:
    """One question at a time: they take processor time that the scheduler needs."""

    def __init__(self, core: Core, journals: Callable[[], Sequence[Path]] | None = None) -> None:
        """`journals` are the files with the story of the cluster, oldest first; None: there are none."""
        self._core = core
        self._journals = journals
        self._turn = asyncio.Lock()
        self._waiting = 0

    async def why(self, namespace: str, name: str) -> Mapping[str, Any]:
        async with _Turn(self):
            return await self._core.call(lambda scheduler, now: _why(scheduler, now, namespace, name))

    async def story(self, namespace: str, name: str) -> Mapping[str, Any]:
        journals = [] if self._journals is None else [path for path in self._journals() if path.exists()]
        if not journals:
            raise RequestRefusedError(
                404, "no-journal", "there is no journal that could tell the story of the job"
            )
        async with _Turn(self):
            try:
                told = await asyncio.to_thread(story_of, f"{namespace}/{name}", journals)
            except (UnknownStoryError, JournalError) as error:
                raise RequestRefusedError(404, "not-found", str(error)) from None
        return story_document(told.story, told.until)

    async def what_if(self, text: bytes) -> Mapping[str, Any]:
        submitted = await asyncio.to_thread(_read, text)
        async with _Turn(self):
            known = await self._core.call(_Known.of)
            return await asyncio.to_thread(_what_if, known, submitted)


class _Turn:
    """Waits until no other question is answered; refuses when many wait already."""

    def __init__(self, answers: SchedulerAnswers) -> None:
        self._answers = answers

    async def __aenter__(self) -> None:
        if self._answers._waiting >= MAX_WAITING:
            raise RequestRefusedError(503, "busy", "too many questions at once; ask again in some seconds")
        self._answers._waiting += 1
        try:
            await self._answers._turn.acquire()
        finally:
            self._answers._waiting -= 1

    async def __aexit__(self, *_error: object) -> None:
        self._answers._turn.release()


def _why(scheduler: WatchedScheduler, now: int, namespace: str, name: str) -> WhyDocument:
    view = scheduler.view
    try:
        return explanation_document(explain_job(Source(view, now), f"{namespace}/{name}"))
    except UnknownJobError as error:
        vcjob = view.vcjobs.get(f"{namespace}/{name}")
        if vcjob is None:
            raise RequestRefusedError(404, "not-found", str(error)) from None
        found = vcjob_view(view, vcjob, None, [])
        return ended_document(found, ended_sentence(found))


def _read(text: bytes) -> Bundle:
    """Raises RequestRefusedError."""
    bundle = read_text(text, "manifest")
    if bundle.errors:
        raise RequestRefusedError(400, "bad-manifest", "\n".join(str(error) for error in bundle.errors[:50]))
    if not (bundle.vcjobs or bundle.pod_groups or bundle.pods):
        raise RequestRefusedError(400, "bad-manifest", "the manifest holds no job, PodGroup or pod to place")
    pods = len(bundle.pods) + sum(vcjob.replicas for vcjob in bundle.vcjobs)
    if pods > MAX_PODS:
        raise RequestRefusedError(
            400, "bad-manifest", f"the manifest has {counted(pods, 'pod')}; a what-if takes {MAX_PODS}"
        )
    return bundle


def _what_if(known: _Known, submitted: Bundle) -> Mapping[str, Any]:
    """Raises RequestRefusedError. For any thread: a scheduler of its own decides, with shared objects."""
    for kind, there, more in (
        (
            "Job",
            {event.job.key for event in known.events if isinstance(event, ev.VcJobSeen)},
            submitted.vcjobs,
        ),
        (
            "PodGroup",
            {event.group.key for event in known.events if isinstance(event, ev.PodGroupSeen)},
            submitted.pod_groups,
        ),
        ("Pod", {event.pod.key for event in known.events if isinstance(event, ev.PodSeen)}, submitted.pods),
    ):
        for one in more:
            if one.key in there:
                raise RequestRefusedError(
                    400,
                    "already-there",
                    f"{one.origin}: {kind} {one.key} exists; use another name for a what-if",
                )
    asked = {
        *((job.namespace, job.name) for job in submitted.vcjobs),
        *((group.namespace, group.name) for group in submitted.pod_groups),
        *((pod.namespace, pod.group or pod.name) for pod in submitted.pods),
    }
    jobs = Bundle(pods=submitted.pods, pod_groups=submitted.pod_groups, vcjobs=submitted.vcjobs)
    answer = place(
        jobs,
        known.configuration,
        known.catalog,
        now=known.now,
        known=known.events,
        scheduler_names=known.scheduler_names,
    )
    answer.jobs = [job for job in answer.jobs if (job.namespace, job.name) in asked]
    return place_document(answer)
