"""Whether an expectation holds, and what is different where it does not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

from ringwise.apps.drill.file import ALL, Expect
from ringwise.apps.lab.lab import LiveLab
from ringwise.records import dataclass
from ringwise.scheduler.explain.job_history import HistoryBook
from ringwise.state.model import Pod
from ringwise.topology.natural import natural_key
from ringwise.topology.nearest import did_you_mean
from ringwise.topology.numbers import INT32, whole_number
from ringwise.views.cluster import JobView, job_views
from ringwise.wellknown import RANK_INDEX


class NotSubmittedError(LookupError):
    """The drill names a job that was not submitted."""


@dataclass(frozen=True, slots=True)
class PlacedRank:
    """A pod of a rank: which one, and where."""

    uid: str
    name: str
    node: str
    chips: tuple[int, ...]
    going: bool


@dataclass(slots=True)
class Before:
    """What was there before the last fault: by job and rank; and how long the histories were."""

    places: dict[str, dict[int, PlacedRank]] = field(default_factory=dict)
    entry_counts: dict[str, int] = field(default_factory=dict)

    def remember(self, live: LiveLab, book: HistoryBook) -> None:
        for view in job_views(live.objects):
            places = self.places.setdefault(view.key, {})
            places.update({rank: pod for rank, pod in ranks_of(view).items() if pod.node and not pod.going})
        self.entry_counts = {key: len(history.entries) for key, history in book.jobs.items()}


def ranks_of(view: JobView) -> dict[int, PlacedRank]:
    """The pods of a job by rank; pods without one by the order of their names."""
    result: dict[int, PlacedRank] = {}
    for position, pod in enumerate(sorted(view.pods, key=lambda pod: natural_key(pod.name))):
        result[_rank(pod, position)] = PlacedRank(
            pod.uid, pod.name, (pod.node or "") if pod.live else "", pod.named_chips, pod.deleting
        )
    return result


def _rank(pod: Pod, position: int) -> int:
    written = whole_number(pod.annotations.get(RANK_INDEX, ""), 0, INT32)
    if written is not None:
        return written
    return position if pod.rank is None else pod.rank


def job_named(live: LiveLab, name: str) -> JobView:
    """Raises NotSubmittedError."""
    views = job_views(live.objects)
    for view in views:
        if name in (view.key, view.name):
            return view
    names = [view.name for view in views]
    raise NotSubmittedError(f'job "{name}" not found{did_you_mean(name, names)}')


def places_of(live: LiveLab, name: str) -> dict[int, PlacedRank]:
    return ranks_of(job_named(live, name))


def problems_of(live: LiveLab, step: Expect, before: Before, book: HistoryBook) -> Iterator[str]:
    """What is not as expected, one sentence each."""
    view = job_named(live, step.job)
    if step.phase is not None and view.shown_phase != step.phase:
        yield f"it is {view.shown_phase}"
    placed = sum(1 for pod in view.pods if pod.node is not None and pod.live and not pod.deleting)
    if step.placed is not None and placed != step.placed:
        yield f"{placed} placed"
    running = sum(1 for pod in view.pods if pod.phase == "Running" and not pod.deleting)
    if step.running is not None and running != step.running:
        yield f"{running} running"
    now = ranks_of(view)
    old = before.places.get(view.key, {})
    for word, ranks in (
        ("untouched", step.untouched),
        ("returned", step.returned),
        ("moved", step.moved),
    ):
        for rank in (old or now) if ranks == ALL else ranks or ():
            fate = _fate(old.get(rank), now.get(rank))
            if fate != word:
                yield f"rank {rank} {_words(fate, old.get(rank), now.get(rank))}"
    for rank, node in step.nodes.items():
        here = now[rank].node if rank in now else ""
        if here != node:
            yield f"rank {rank} is on {here or 'no node'}"
    for rank, pod in now.items():
        if pod.node in step.avoids and not pod.going:
            yield f"rank {rank} is on {pod.node}"
    if step.reason is not None:
        code = view.reason.code if view.reason is not None else "no reason"
        if code != step.reason:
            yield f"it waits for {code}" if view.reason is not None else "it does not wait"
    if step.history:
        history = book.jobs.get(view.key)
        entries = [] if history is None else history.entries[before.entry_counts.get(view.key, 0) :]
        for text in step.history:
            if not any(text in entry.text or text == entry.code for entry in entries):
                yield f'nothing says "{text}"'


def _fate(old: PlacedRank | None, now: PlacedRank | None) -> str:
    if old is None:
        return "new"
    if now is None or now.going or not now.node:
        return "gone"
    if now.node != old.node:
        return "moved"
    return "untouched" if now.uid == old.uid else "returned"


def _words(fate: str, old: PlacedRank | None, now: PlacedRank | None) -> str:
    match fate:
        case "new":
            return "had no node before"
        case "gone":
            return "has no node"
        case "moved":
            assert old is not None
            assert now is not None
            return f"moved from {old.node} to {now.node}"
        case "returned":
            return "was restarted on its node"
    return "was not touched"
