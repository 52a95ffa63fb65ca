"""The cluster as the dashboard shows it: one row for each node, job and queue, kept while they change.

`DashboardRows` belongs to the thread of the scheduler that it reads. It is filled in steps, so that the
scheduler decides in between, and then follows what the scheduler records as changed: its cost depends on the
number of changes, not on the size of the cluster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial

from ringwise.framework.amounts import as_number, plain
from ringwise.framework.job import job_key
from ringwise.manifests.text.quantities import rfc3339
from ringwise.messages.job_expansion import group_name
from ringwise.reasons import Reason
from ringwise.scheduler.affected_jobs import AffectedJobs
from ringwise.scheduler.node_faults import NodeFault, node_faults
from ringwise.scheduler.view import SchedulerView
from ringwise.state.changes import Changes
from ringwise.state.model import ROOT_QUEUE
from ringwise.state.vcjob import VcJob
from ringwise.topology.natural import natural_key
from ringwise.views.cluster import (
    JobView,
    QueueShares,
    has_podgroup,
    reason_message,
    vcjob_view,
    view_of_foreign,
    view_of_job,
)
from ringwise.views.dashboard_nodes import (
    CountsByResource,
    NodeRowReader,
    add_counts,
    totals,
)
from ringwise.views.documents import dashboard as doc
from ringwise.views.written_reasons import WrittenReasons


class DashboardRows:
    """Not for other threads than the scheduler's own."""

    def __init__(self, view: SchedulerView, changes: Changes, written: WrittenReasons | None = None) -> None:
        """`changes` is what the scheduler records into from now on.

        `written` are the reasons in conditions of the cluster, where the scheduler of `view` decides nothing.
        """
        self._view = view
        self._written = written
        self._changes = changes
        self._reader = NodeRowReader(view, self._id)
        self._nodes: dict[int, doc.DashboardNode] = {}
        self._node_counts: dict[int, CountsByResource] = {}
        #: Nodes with faults: jobs on them are affected.
        self._faults: dict[int, tuple[NodeFault, ...]] = {}
        #: Nodes with a drain or a reservation ahead -> when it begins.
        self._drains: dict[int, int] = {}
        self._jobs: dict[str, doc.DashboardJob] = {}
        self._ids: dict[str, int] = {}
        self._next_id = 0
        self._totals: CountsByResource = {}
        #: Outcome -> jobs, of the cluster and of each queue.
        self._outcomes: Counter[str] = Counter()
        self._outcomes_of: dict[str, Counter[str]] = {}
        self._queues: list[doc.DashboardQueue] = []
        #: vcjob -> key of its row; uid -> key of the row, of pods of other schedulers.
        self._vcjob_rows: dict[str, str] = {}
        self._row_vcjobs: dict[str, str] = {}
        self._foreign: dict[str, str] = {}
        #: The last reason of each job and its message.
        self._messages: dict[str, tuple[Reason, str]] = {}
        self._to_fill: Iterator[None] | None = self._filling()

    # -- reading -----------------------------------------------------------------------------

    @property
    def boards(self) -> list[doc.DashboardBoard]:
        return self._reader.boards

    def nodes(self) -> list[doc.DashboardNode]:
        """In natural order."""
        return [row for number in self._view.cluster.existing_nodes() if (row := self._nodes.get(number))]

    def jobs(self) -> list[doc.DashboardJob]:
        return list(self._jobs.values())

    def queues(self) -> list[doc.DashboardQueue]:
        return self._queues

    def totals(self) -> doc.DashboardTotals:
        result = totals(self._totals, self._outcomes)
        if throttled := self._view.history.throttled:
            result["throttled"] = {name: round(used / 1e9, 1) for name, used in throttled.items()}
        return result

    def node_row(self, name: str) -> doc.DashboardNode | None:
        number = self._view.cluster.node_id.get(name)
        return None if number is None else self._nodes.get(number)

    def job_row(self, key: str) -> doc.DashboardJob | None:
        return self._jobs.get(key)

    def find_job(self, namespace: str, name: str) -> str | None:
        """The key of the job that is shown with this name; of several the one that is not over."""
        keys = [
            (row["state"] == "finished", key)
            for key, row in self._jobs.items()
            if row["name"] == name and row["namespace"] == namespace
        ]
        return min(keys)[1] if keys else None

    # -- filling and following ------------------------------------------------------------------

    def fill(self, steps: int) -> bool:
        """Read the next nodes and jobs, at most so many; whether all are read."""
        if self._to_fill is None:
            return True
        for _ in range(steps):
            if next(self._to_fill, _END) is _END:
                self._to_fill = None
                self._queues = self._queue_rows()
                return True
        return False

    def _filling(self) -> Iterator[None]:
        view = self._view
        for number in range(len(view.cluster.names)):
            self._read_node(number, view.history.now)
            self._read_faults(number)
            yield
        for key in list(view.jobs):
            self._read_job(key)
            yield
        for key in list(view.vcjobs):
            self._read_vcjob(key)
            yield
        for uid in list(view.cluster.pods):
            if view.job_of(uid) is None:
                self._read_foreign(uid)
                yield

    def follow(self, sequence: int, now: int, *, always: bool = False) -> doc.DashboardChangeDocument | None:
        """Read again what changed. Raises BoardsChangedError.

        None where the rows are still the same; with `always` a document that tells the time.
        """
        changed = self._changes.take()
        nodes: dict[str, doc.DashboardNode] = {}
        removed: set[str] = set()
        if changed.topology:
            self._reader.read_switches()
            changed.nodes.update(self._nodes)
        # No object changes when the time of a drain has come.
        if self._drains and min(self._drains.values()) <= now:
            changed.nodes.update(number for number, start in self._drains.items() if start <= now)
        # A pod without a node.
        changed.nodes.discard(-1)
        for number in changed.nodes:
            if self._read_faults(number):
                self._faults_changed(number, changed)
            before = self._nodes.get(number)
            row = self._read_node(number, now)
            if row is before or row == before:
                continue
            if before is not None and (row is None or row["name"] != before["name"]):
                removed.add(before["name"])
            if row is not None:
                nodes[row["name"]] = row
        jobs, removed_jobs = self._follow_jobs(changed)
        queues: list[doc.DashboardQueue] = []
        if nodes or removed or jobs or removed_jobs or changed.queues:
            rows = self._queue_rows()
            if rows != self._queues:
                queues = self._queues = rows
        if not (nodes or removed or jobs or removed_jobs or queues or always):
            return None
        return {
            "schema": "ringwise.io/dashboard-change/v1",
            "sequence": sequence,
            "time": rfc3339(now),
            "nodes": list(nodes.values()),
            "removed_nodes": sorted(removed),
            "jobs": jobs,
            "removed_jobs": removed_jobs,
            "queues": queues,
            "totals": self.totals(),
        }

    def _follow_jobs(self, changed: Changes) -> tuple[list[doc.DashboardJob], list[int]]:
        before: dict[str, doc.DashboardJob | None] = {}

        def note(key: str | None) -> None:
            if key is not None and key not in before:
                before[key] = self._jobs.get(key)

        for name in changed.vcjobs:
            note(self._vcjob_rows.get(name))
            # The job of a PodGroup with the name of the vcjob.
            note(name)
            vcjob = self._view.vcjobs.get(name)
            note(None if vcjob is None else _vcjob_row(vcjob))
            self._read_vcjob(name)
        for uid in changed.foreign_pods:
            note(self._foreign.get(uid))
            placement = self._view.cluster.pods.get(uid)
            note(None if placement is None else job_key(placement.pod))
            self._read_foreign(uid)
        if self._written is not None:
            # One that is not known yet is read with its condition as soon as it is.
            changed.jobs.update(self._written.take_changed() & self._view.jobs.keys())
        for key in changed.jobs:
            note(key)
            self._read_job(key)
            # If it is the PodGroup of the vcjob of that name, the vcjob has no row of its own.
            if (row_key := self._vcjob_rows.get(key)) is not None:
                note(row_key)
                self._read_job(row_key)
        rows = [row for key, old in before.items() if (row := self._jobs.get(key)) is not None and row != old]
        ids = {row["id"] for key in before if (row := self._jobs.get(key)) is not None}
        gone = [old["id"] for old in before.values() if old is not None and old["id"] not in ids]
        return rows, gone

    # -- nodes ---------------------------------------------------------------------------------

    def _read_node(self, number: int, now: int) -> doc.DashboardNode | None:
        state = self._view.cluster
        self._drains.pop(number, None)
        node = state.nodes[number] if number < len(state.nodes) else None
        before = self._node_counts.pop(number, None)
        if before is not None:
            add_counts(self._totals, before, -1)
        if node is None:
            self._nodes.pop(number, None)
            return None
        row, counts = self._reader.row(node, now)
        previous = self._nodes.get(number)
        if previous == row:
            # The same object: nothing is sent, and nothing is kept twice.
            row = previous
        self._nodes[number] = row
        self._node_counts[number] = counts
        add_counts(self._totals, counts, 1)
        for one in row["states"]:
            if one["start"] is not None and now < one["start"]:
                self._drains[number] = min(one["start"], self._drains.get(number, one["start"]))
        return row

    def _read_faults(self, number: int) -> bool:
        """Whether they changed. A node that is gone has one as long as pods are on it."""
        cluster = self._view.cluster
        exists = number < len(cluster.nodes)
        faults = node_faults(cluster, number) if exists and cluster.pods_on[number] else ()
        before = self._faults.pop(number, ())
        if faults:
            self._faults[number] = faults
        return faults != before

    def _faults_changed(self, number: int, changed: Changes) -> None:
        for uid in self._view.cluster.pods_on[number]:
            job = self._view.job_of(uid)
            if job is not None:
                changed.jobs.add(job.key)
            else:
                changed.foreign_pods.add(uid)

    # -- jobs ----------------------------------------------------------------------------------

    def _id(self, key: str) -> int:
        result = self._ids.get(key)
        if result is None:
            result = self._ids[key] = self._next_id
            self._next_id += 1
        return result

    def _read_job(self, key: str) -> None:
        job = self._view.jobs.get(key)
        if job is None:
            vcjob = self._view.vcjobs.get(self._row_vcjobs.get(key, ""))
            missing = vcjob is not None and not has_podgroup(self._view, vcjob)
            self._put(key, vcjob_view(self._view, vcjob, None, []) if vcjob is not None and missing else None)
        else:
            self._put(key, view_of_job(self._view, job))

    def _read_vcjob(self, name: str) -> None:
        vcjob = self._view.vcjobs.get(name)
        key = None if vcjob is None else _vcjob_row(vcjob)
        old = self._vcjob_rows.pop(name, None)
        if old is not None:
            self._row_vcjobs.pop(old, None)
        if key is not None:
            self._vcjob_rows[name] = key
            self._row_vcjobs[key] = name
        keys = {old, key, name if name in self._view.jobs else None}
        for one in keys - {None}:
            assert one is not None
            self._read_job(one)

    def _read_foreign(self, uid: str) -> None:
        placement = self._view.cluster.pods.get(uid)
        old = self._foreign.pop(uid, None)
        if placement is None or self._view.job_of(uid) is not None:
            if old is not None:
                self._read_job(old)
            return
        view = view_of_foreign(self._view, placement.pod)
        if view is None:
            if old is not None:
                self._put(old, None)
            return
        key = self._foreign[uid] = job_key(placement.pod)
        if old is not None and old != key:
            self._put(old, None)
        self._put(key, view)

    def _put(self, key: str, view: JobView | None) -> None:
        before = self._jobs.get(key)
        if before is not None:
            self._count(before, -1)
        if view is None:
            self._jobs.pop(key, None)
            self._ids.pop(key, None)
            self._messages.pop(key, None)
            return
        row = self._job_row(key, view)
        self._jobs[key] = before if before == row else row
        self._count(row, 1)

    def _count(self, row: doc.DashboardJob, sign: int) -> None:
        outcome, queue = row["state"], row["queue"]
        self._outcomes[outcome] += sign
        of_queue = self._outcomes_of.setdefault(queue, Counter())
        of_queue[outcome] += sign
        if not any(of_queue.values()):
            # A tenant may name any number of queues that do not exist.
            del self._outcomes_of[queue]

    def _job_row(self, key: str, view: JobView) -> doc.DashboardJob:
        view.faults = AffectedJobs(self._view).of_pods(pod.uid for pod in view.pods)
        view.written = None if self._written is None else self._written.of(key)
        if view.job is not None and view.outcome == "pending":
            view.start = self._view.expected_start(view.job.key)
        return {**view.row(partial(self._message, key)), "id": self._id(key)}

    def _message(self, key: str, reason: Reason) -> str:
        cached = self._messages.get(key)
        if cached is not None and cached[0] is reason:
            return cached[1]
        text = reason_message(reason)
        self._messages[key] = reason, text
        return text

    # -- queues --------------------------------------------------------------------------------

    def _queue_rows(self) -> list[doc.DashboardQueue]:
        view = self._view
        named = [queue for queue in view.queues.values() if queue.name != ROOT_QUEUE]
        chips = {resource: counts[0] for resource, counts in self._totals.items()}
        shares = QueueShares(named, chips)
        rows: list[doc.DashboardQueue] = []
        for queue in sorted(named, key=lambda queue: natural_key(queue.name)):
            used, limit = view.usage.used_by_queue(queue.name), view.limits.of_queue(queue.name)
            outcomes = self._outcomes_of.get(queue.name, _NO_JOBS)
            rows.append(
                {
                    "name": queue.name,
                    "parent": queue.parent,
                    "state": queue.state,
                    "weight": queue.weight,
                    "fair_share": plain(shares.of(queue.name)),
                    "capability": {
                        name: queue.capability[name] for name in chips if name in queue.capability
                    },
                    "limit": {name: as_number(limit[name]) for name in chips if name in limit},
                    "used": {name: as_number(used.get(name, 0)) for name in chips},
                    "pending": outcomes["pending"],
                    "rejected": outcomes["rejected"],
                    "running": outcomes["scheduled"],
                }
            )
        return rows


_END = object()
_NO_JOBS: Counter[str] = Counter()


def _vcjob_row(vcjob: VcJob) -> str:
    return f"{vcjob.namespace}/{group_name(vcjob)}"
