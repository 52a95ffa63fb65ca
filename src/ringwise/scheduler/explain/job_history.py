"""The life of jobs, from the turns of a journal: submitted, waited for, placed, faults, what moved and why.

Only events and commands are read, never a scheduler: a history can be built from a journal alone, also for
jobs that are gone, and continues in the journal of the next scheduler.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from itertools import takewhile
from typing import Any

from ringwise.grammar import agrees, counted, listed
from ringwise.messages import events as ev
from ringwise.messages.event_reasons import EventReason
from ringwise.records import dataclass
from ringwise.state import vcjob as vcjob_rules
from ringwise.state.model import ENDED, Pod, PodGroup
from ringwise.state.node_health import STATUSES, SWITCH
from ringwise.state.vcjob import VcJob
from ringwise.topology.natural import natural_key
from ringwise.topology.numbers import INT32, whole_number
from ringwise.wellknown import RANK_INDEX

# What an entry is about.
SUBMITTED, FOUND, WAITS, PLACED, RUNS = "submitted", "found", "pending", "scheduled", "running"
FAULT, RESTART, BLOCKED, RECOVERED = "fault", "restart", "blocked", "recovered"
DRAIN, MOVE, PREEMPT = "drain", "move", "preempted"
DELETED, GONE, FAILED = "deleted", "gone", "failed"
ENDED_WELL, ENDED_BADLY, REMOVED, SCHEDULER = "completed", "ended", "removed", "scheduler"
SUSPENDED = "suspended"

#: Pods and nodes that one sentence names.
_NAMED = 3
_NODES = 4
#: What the words of events on PodGroups stand for; those of other words are faults.
_KINDS_OF_EVENTS = {
    "Rescheduling": RESTART,
    "ReschedulingEscalated": RESTART,
    "GracePeriodExceeded": RESTART,
    "EvictionBlocked": RESTART,
    "ReschedulingBlocked": BLOCKED,
    "Recovered": RECOVERED,
    "Drained": DRAIN,
    "Moving": MOVE,
    "Moved": MOVE,
    "FailedMove": BLOCKED,
    EventReason.PREEMPTED: PREEMPT,
}
#: Events that a history is made of; a reader of journals may leave out all others.
EVENTS = (
    ev.VcJobSeen,
    ev.VcJobGone,
    ev.PodGroupSeen,
    ev.PodGroupGone,
    ev.PodSeen,
    ev.PodGone,
    ev.BindFailed,
    ev.NodeReportSeen,
    ev.NodeReportGone,
)
#: Codes of entries that are faults of hardware: found by the handling of faults, or reported by nodes if the
#: job asks for no handling.
_FAULT_FOUND, _REPORTED = "FaultDetected", "Reported"
_HEALTHY = "Healthy"
#: Phases in which a vcjob is over, or suspended.
OVER = {"Completed": ENDED_WELL, "Failed": ENDED_BADLY, "Aborted": SUSPENDED, "Terminated": ENDED_BADLY}


@dataclass(frozen=True, slots=True)
class PodStep:
    """Where one pod came from and went to; None: nowhere."""

    pod: str
    rank: int | None
    before: str | None
    after: str | None
    chips: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    #: Nanoseconds since 1970.
    at: int
    kind: str
    text: str
    #: Nanoseconds that what ends here took: the wait before a placement, the run before an end.
    took: int | None = None
    pods: tuple[PodStep, ...] = ()
    #: The word of the event on the PodGroup, or the code of the reason to wait.
    code: str = ""


@dataclass(slots=True)
class _PodState:
    pod: str
    rank: int | None
    node: str | None = None
    phase: str = "Pending"
    leaving: bool = False
    #: Whether it is known to exist since the last start of a scheduler.
    seen: bool = True


@dataclass(slots=True)
class JobHistory:
    """One job by the name that its users know."""

    namespace: str
    name: str
    entries: list[HistoryEntry] = field(default_factory=list)
    uid: str = ""
    #: By uid.
    pods: dict[str, _PodState] = field(default_factory=dict)
    #: By pod name: the last node.
    last_nodes: dict[str, str] = field(default_factory=dict)
    phase: str = ""
    reason: str = ""
    waiting_since: int | None = None
    leaving_since: int | None = None
    placed_at: int | None = None
    running_since: int | None = None
    removed: bool = False
    #: Whether all its pods ran since the last placement.
    runs: bool = False

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def faults(self) -> int:
        return sum(entry.kind == FAULT and entry.code in (_FAULT_FOUND, _REPORTED) for entry in self.entries)

    @property
    def moved(self) -> int:
        """How often a pod went to another node than before."""
        return sum(_is_moved(step) for entry in self.entries for step in entry.pods)

    def time_in(self, kind: str) -> int:
        return sum(entry.took or 0 for entry in self.entries if entry.kind == kind)

    def add(
        self,
        at: int,
        kind: str,
        text: str,
        took: int | None = None,
        pods: Iterable[PodStep] = (),
        code: str = "",
    ) -> None:
        self.entries.append(HistoryEntry(at, kind, text, took, tuple(pods), code))


@dataclass(slots=True)
class _Turn:
    """What one turn tells about one job: pods of a kind are one entry."""

    bound: list[PodStep] = field(default_factory=list)
    prior: list[PodStep] = field(default_factory=list)
    deleted: dict[str, list[PodStep]] = field(default_factory=dict)
    gone: int = 0


class HistoryBook:
    """Reads turns in their order and keeps the histories of all jobs in them."""

    def __init__(self) -> None:
        self.jobs: dict[str, JobHistory] = {}
        #: Key of a PodGroup, and uid of a pod, to the key of their job.
        self._groups: dict[str, str] = {}
        self._pods: dict[str, str] = {}
        self._turns = 0
        self._all_unseen = False
        #: (node, source, whether it is aggregated) -> the status that is reported, where it is not healthy.
        self._reports: dict[tuple[str, str, bool], str] = {}

    def find(self, name: str) -> list[JobHistory]:
        """By `namespace/name`, or by the name alone."""
        return [history for history in self.jobs.values() if name in (history.key, history.name)]

    def groups(self) -> dict[str, list[str]]:
        """Keys of the PodGroups of each job, by its key."""
        result: dict[str, list[str]] = {}
        for group, key in self._groups.items():
            result.setdefault(key, []).append(group)
        return result

    def adopt(self, history: JobHistory, group: str) -> None:
        """A job and its PodGroup that no event showed."""
        self.jobs[history.key] = history
        self._groups[group] = history.key

    def scheduler_started(self, now: int) -> None:
        """The turns that follow are those of a new scheduler: it sees all objects once more."""
        for history in self.jobs.values():
            if self._turns and any(pod.phase not in ENDED for pod in history.pods.values()):
                history.add(now, SCHEDULER, "the scheduler started again")
        self.turns_missing()

    def turns_missing(self) -> None:
        """The next turns show all objects once more: pods that are not among them went unseen."""
        self._all_unseen = bool(self._turns)
        for history in self.jobs.values():
            for pod in history.pods.values():
                pod.seen = False

    def turn(
        self,
        now: int,
        events: Iterable[ev.Event],
        commands: Iterable[Mapping[str, Any]],
        *,
        decided: bool = True,
    ) -> None:
        """One turn; commands as the journal writes them. `decided`: all objects were known."""
        turns: dict[str, _Turn] = {}
        #: (source, status) -> nodes of which it is news.
        reported: dict[tuple[str, str], set[str]] = {}
        for event in events:
            match event:
                case ev.NodeReportSeen(report):
                    about = report.node, report.source, report.aggregated
                    self._report(about, report.status, reported)
                case ev.NodeReportGone(node, source, aggregated):
                    self._report((node, source, aggregated), _HEALTHY, reported)
                case _:
                    self._event(event, now, turns)
        if decided and self._all_unseen:
            self._all_unseen = False
            for history in self.jobs.values():
                for uid in [uid for uid, pod in history.pods.items() if not pod.seen]:
                    self._pod_gone(uid, now, turns)
        for command in commands:
            self._command(command, now, turns)
        for key, turn in turns.items():
            self._close(self.jobs[key], turn, now)
        if reported:
            for history in self.jobs.values():
                _add_reports(history, reported, now)
        self._turns += 1

    def _report(
        self, about: tuple[str, str, bool], status: str, reported: dict[tuple[str, str], set[str]]
    ) -> None:
        """Remember the report of a node or of its switches, and whether it says something new."""
        node, source, _ = about
        before = self._reports.get(about, _HEALTHY)
        status = status if status in STATUSES else _HEALTHY
        if status == before:
            return
        if status == _HEALTHY:
            del self._reports[about]
        else:
            self._reports[about] = status
        reported.setdefault((source, status), set()).add(node)

    # -- events ------------------------------------------------------------------------------------

    def _event(self, event: ev.Event, now: int, turns: dict[str, _Turn]) -> None:
        match event:
            case ev.VcJobSeen(job):
                self._vcjob(job, now)
            case ev.VcJobGone(key):
                if key in self.jobs:
                    self._removed(self.jobs[key], now)
            case ev.PodGroupSeen(group):
                self._group(group, now)
            case ev.PodGroupGone(key):
                history = self.jobs.get(self._groups.pop(key, ""))
                if history is not None and history.key == key:
                    self._removed(history, now)
            case ev.PodSeen(pod):
                self._pod(pod, now, turns)
            case ev.PodGone(uid):
                self._pod_gone(uid, now, turns)
            case ev.BindFailed(uid, why):
                history = self.jobs.get(self._pods.get(uid, ""))
                if history is not None and uid in history.pods:
                    state = history.pods[uid]
                    history.add(now, FAILED, f"the binding of {state.pod} to {state.node} failed: {why}")
                    state.node = None
                    history.waiting_since = now

    def _history(self, namespace: str, name: str, uid: str, created: int, now: int) -> JobHistory:
        key = f"{namespace}/{name}"
        history = self.jobs.get(key)
        if history is None:
            history = self.jobs[key] = JobHistory(namespace, name)
            _submitted(history, created, now)
        elif uid and history.uid and history.uid != uid:
            # Another job of the same name.
            history.pods.clear()
            history.last_nodes.clear()
            history.phase = ""
            _submitted(history, created, now)
        history.uid = uid or history.uid
        return history

    def _vcjob(self, job: VcJob, now: int) -> None:
        history = self._history(job.namespace, job.name, job.uid, job.created, now)
        if job.phase == history.phase:
            return
        before, history.phase = history.phase, job.phase
        why = "".join(f": {part}" for part in (job.reason, job.message) if part)
        if job.suspended:
            # It waits for nothing until it is resumed.
            history.waiting_since = None
        elif before in vcjob_rules.SUSPENDED:
            history.waiting_since = now
        if job.phase in OVER:
            ran = None if history.running_since is None else now - history.running_since
            history.add(now, OVER[job.phase], job.phase + why, ran)
            history.running_since = None
        elif job.phase == "Restarting" and before:
            history.add(now, RESTART, f"its pods are created again when it is admitted{why}")

    def _group(self, group: PodGroup, now: int) -> None:
        owner = group.owner
        of_vcjob = owner is not None and owner.is_vcjob
        name = owner.name if of_vcjob and owner is not None else group.name
        uid = "" if of_vcjob else group.uid
        self._groups[group.key] = self._history(group.namespace, name, uid, group.created, now).key

    def _pod(self, pod: Pod, now: int, turns: dict[str, _Turn]) -> None:
        key = self._pods.get(pod.uid)
        history = self.jobs[key] if key is not None else self._history_of(pod, now)
        self._pods[pod.uid] = history.key
        turn = turns.setdefault(history.key, _Turn())
        state = history.pods.get(pod.uid)
        rank = pod.rank if pod.rank is not None else _rank(pod.annotations)
        if state is None:
            for uid in [uid for uid, other in history.pods.items() if other.pod == pod.name]:
                del history.pods[uid]
            state = history.pods[pod.uid] = _PodState(pod.name, rank)
            if pod.node is not None and pod.live:
                turn.prior.append(PodStep(pod.name, rank, None, pod.node, pod.named_chips))
                history.last_nodes[pod.name] = pod.node
                state.node, state.phase = pod.node, pod.phase
                history.runs = True
                history.running_since = history.running_since or now
                return
        state.seen = True
        state.rank = rank if rank is not None else state.rank
        if pod.node is not None:
            state.node = pod.node
        if pod.deleting and not state.leaving:
            state.leaving = True
            step = PodStep(state.pod, state.rank, state.node, None)
            turn.deleted.setdefault("deleted by the owner or a user", []).append(step)
        if pod.phase != state.phase:
            state.phase = pod.phase
            # One that was deleted did not fail: kubelet says how its containers ended on the signal.
            if pod.phase == "Failed" and not state.leaving:
                code = "" if pod.exit_code is None else f" with exit code {pod.exit_code}"
                history.add(now, FAILED, f"{pod.name} on {pod.node or 'no node'} failed{code}")

    def _history_of(self, pod: Pod, now: int) -> JobHistory:
        if pod.group is None:
            return self._history(pod.namespace, pod.name, pod.uid, pod.created, now)
        key = self._groups.get(f"{pod.namespace}/{pod.group}")
        if key is not None:
            return self.jobs[key]
        owner = pod.owner
        name = owner.name if owner is not None and owner.is_vcjob else pod.group
        return self._history(pod.namespace, name, "", pod.created, now)

    def _pod_gone(self, uid: str, now: int, turns: dict[str, _Turn]) -> None:
        history = self.jobs.get(self._pods.pop(uid, ""))
        if history is None or uid not in history.pods:
            return
        state = history.pods.pop(uid)
        turns.setdefault(history.key, _Turn()).gone += state.leaving
        if state.node is not None and not history.removed and history.phase not in vcjob_rules.SUSPENDED:
            history.waiting_since = now

    def _removed(self, history: JobHistory, now: int) -> None:
        if not history.removed:
            history.add(now, REMOVED, "deleted")
        history.removed = True
        history.waiting_since = None

    # -- commands ----------------------------------------------------------------------------------

    def _command(self, command: Mapping[str, Any], now: int, turns: dict[str, _Turn]) -> None:
        match command.get("type"):
            case "Bind":
                self._bind(command, turns)
            case "SetGroupStatus" if command.get("reason"):
                self._waits(self.jobs.get(self._groups.get(command["key"], "")), command["reason"], now)
            case "SetPodCondition":
                history = self.jobs.get(self._pods.get(command["uid"], ""))
                alone = history is not None and history.name == command["pod"]
                self._waits(history if alone else None, command["reason"], now)
            case "RecordJobEvent":
                key = self._pods.get(command["pod"]) or self._groups.get(command["key"], "")
                if key in self.jobs:
                    kind = _KINDS_OF_EVENTS.get(command["reason"], FAULT)
                    self.jobs[key].add(now, kind, command["message"], code=command["reason"])
            case "DeletePod" | "Evict":
                self._delete(command, turns)

    def _bind(self, command: Mapping[str, Any], turns: dict[str, _Turn]) -> None:
        history = self.jobs.get(self._pods.get(command["uid"], ""))
        if history is None:
            return
        name, node = command["pod"], command["node"]
        state = history.pods.get(command["uid"])
        rank = _rank(command.get("annotations") or {})
        if state is not None:
            rank = state.rank if rank is None else rank
            state.node, state.rank = node, rank
        step = PodStep(name, rank, history.last_nodes.get(name), node, tuple(command.get("chips") or ()))
        turns.setdefault(history.key, _Turn()).bound.append(step)
        history.last_nodes[name] = node

    def _waits(self, history: JobHistory | None, reason: Mapping[str, Any], now: int) -> None:
        if history is not None and reason["code"] != history.reason:
            history.reason = reason["code"]
            history.add(now, WAITS, reason["message"], code=reason["code"])

    def _delete(self, command: Mapping[str, Any], turns: dict[str, _Turn]) -> None:
        history = self.jobs.get(self._pods.get(command["uid"], ""))
        if history is None or command["uid"] not in history.pods:
            return
        state = history.pods[command["uid"]]
        if state.leaving:
            return
        state.leaving = True
        step = PodStep(state.pod, state.rank, state.node, None)
        turns.setdefault(history.key, _Turn()).deleted.setdefault(command["why"], []).append(step)

    # -- the end of a turn ---------------------------------------------------------------------------

    def _close(self, history: JobHistory, turn: _Turn, now: int) -> None:
        if turn.prior:
            where = _nodes(step.after for step in turn.prior)
            history.add(now, FOUND, f"{_pods(turn.prior)} on {where} when the journal began", pods=turn.prior)
            history.waiting_since = None
        for why, steps in turn.deleted.items():
            history.add(
                now, DELETED, f"{_pods(steps)} on {_nodes(step.before for step in steps)}: {why}", pods=steps
            )
            if history.leaving_since is None:
                history.leaving_since = now
        if turn.gone and not any(pod.leaving for pod in history.pods.values()):
            took = None if history.leaving_since is None else now - history.leaving_since
            history.add(
                now, GONE, f"{agrees(turn.gone, 'the deleted pod is', 'the deleted pods are')} gone", took
            )
            history.leaving_since = None
        if turn.bound:
            took = None if history.waiting_since is None else now - history.waiting_since
            while history.entries and history.entries[-1].kind == WAITS and history.entries[-1].at == now:
                # It waited for what the same moment brought.
                history.entries.pop()
            history.add(now, PLACED, _placement(turn.bound), took, turn.bound)
            history.waiting_since = None
            history.reason = ""
            history.placed_at = now
            history.runs = False
        live = [pod for pod in history.pods.values() if pod.phase not in ENDED and not pod.leaving]
        running = [pod for pod in live if pod.phase == "Running"]
        if not history.runs and live and len(running) == len(live) and history.placed_at is not None:
            history.runs = True
            history.running_since = now
            history.add(now, RUNS, f"{counted(live, 'pod runs', 'pods run')}", now - history.placed_at)
        elif history.phase == "" and history.runs and history.pods and not live and not _leaving(history):
            # A job without a vcjob: its pods say when it is over.
            good = all(pod.phase == "Succeeded" for pod in history.pods.values())
            ran = None if history.running_since is None else now - history.running_since
            history.runs = False
            history.add(now, ENDED_WELL if good else ENDED_BADLY, "all its pods have ended", ran)


def _add_reports(history: JobHistory, reported: Mapping[tuple[str, str], set[str]], now: int) -> None:
    """Add faults of the nodes of its pods, unless fault handling has already added them."""
    of_turn = takewhile(lambda entry: entry.at == now, reversed(history.entries))
    if any(entry.code == _FAULT_FOUND for entry in of_turn):
        return
    nodes = {pod.node for pod in history.pods.values() if pod.node is not None and pod.phase not in ENDED}
    for (source, status), changed in sorted(reported.items()):
        own = nodes & changed
        if own:
            what = f"the switches of {_nodes(own)}" if source == SWITCH else _nodes(own)
            verb = "are" if source == SWITCH or len(own) > 1 else "is"
            word, kind = (
                ("healthy again", RECOVERED) if status == _HEALTHY else (f"reported as {status}", FAULT)
            )
            history.add(now, kind, f"{what} {verb} {word}", code=_REPORTED)


def _submitted(history: JobHistory, created: int, now: int) -> None:
    at = created if 0 < created <= now else now
    history.add(at, SUBMITTED, "submitted")
    history.waiting_since = at
    history.reason = ""
    history.placed_at = history.running_since = history.leaving_since = None
    history.runs = history.removed = False


def _is_moved(step: PodStep) -> bool:
    return step.before is not None and step.after is not None and step.before != step.after


def _leaving(history: JobHistory) -> bool:
    return any(pod.leaving for pod in history.pods.values())


def _rank(annotations: Mapping[str, str]) -> int | None:
    return whole_number(annotations.get(RANK_INDEX, ""), 0, INT32)


def _placement(steps: list[PodStep]) -> str:
    """Which pods are new, which are back on their nodes, and which moved."""
    new = [step for step in steps if step.before is None]
    back = [step for step in steps if step.before == step.after]
    moved = [step for step in steps if _is_moved(step)]
    parts = []
    if new:
        parts.append(f"{_pods(new)} on {_nodes(step.after for step in new)}")
    if moved:
        named = [f"{step.pod} from {step.before} to {step.after}" for step in _ordered(moved)]
        parts.append("moved: " + listed(named, _NAMED))
    if back:
        own = agrees(len(back), "its node", "their nodes")
        parts.append(f"back on {own}: {_pods(back)} ({_nodes(step.after for step in back)})")
    return "; ".join(parts)


def _ordered(steps: Iterable[PodStep]) -> list[PodStep]:
    return sorted(steps, key=lambda step: natural_key(step.pod))


def _pods(steps: list[PodStep]) -> str:
    if len(steps) > _NAMED:
        return counted(steps, "pod")
    return ", ".join(step.pod for step in _ordered(steps))


def _nodes(names: Iterable[str | None]) -> str:
    ordered = sorted({name for name in names if name}, key=natural_key)
    return listed(ordered, _NAMED + 1)
