"""Shadow mode: decide beside the active scheduler, bind nothing, and report the differences.

Each decision is compared with the node that the active scheduler binds the pod to. Where the two differ, both
nodes are scored by Ringwise's rules on the state of that moment, so that the report gives the reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from ringwise.kube.run.core_thread import Deliver, SchedulerAdapter
from ringwise.manifests.text.quantities import rfc3339
from ringwise.messages import events as ev
from ringwise.messages.commands import Bind, Command
from ringwise.metrics.prometheus import Metrics
from ringwise.records import dataclass
from ringwise.scheduler.core.machine import Scheduler
from ringwise.scheduler.explain.what_if import NodeAssessment
from ringwise.state.model import Pod

SAME, OTHER_CHIPS, OTHER_NODE = "same", "other-chips", "other-node"
ONLY_THEIRS, ONLY_OURS = "only-theirs", "only-ours"

Report = Callable[[dict[str, Any]], None]


@dataclass(frozen=True, slots=True)
class _NodeAssessment:
    score: int | None
    why_not: str | None
    splits_node: bool = False

    def as_json(self, node: str, chips: Sequence[int]) -> dict[str, Any]:
        return {
            "node": node,
            "chips": list(chips),
            "score": self.score,
            "reason": self.why_not,
            "splits_node": self.splits_node,
        }


class ShadowAdapter(SchedulerAdapter):
    """A scheduler whose bindings are not executed.

    They hold until the real binding is seen, or the pod is deleted.
    """

    def __init__(self, scheduler: Scheduler, report: Report, observer: Metrics | None = None) -> None:
        self._observer = observer or Metrics()
        super().__init__(scheduler, self._observer.volcano)
        self._report = report
        #: Decisions with their times, by the pods' uids.
        self._decided: dict[str, tuple[Bind, int]] = {}
        #: Pods from before are not compared by how long they waited.
        self._started: int | None = None
        self._now = 0
        self.outcomes: Counter[str] = Counter()

    def send_early(self, deliver: Deliver, yield_to_loop: Callable[[], object]) -> None:
        """Nothing is sent."""

    def decide(self, events: Sequence[ev.Event], now: int) -> list[Command]:
        self._now = now
        self._started = now if self._started is None else self._started
        released: list[ev.Event] = []
        for event in events:
            if isinstance(event, ev.PodSeen) and event.pod.node is not None:
                if self._compare(event.pod, event.pod.node, now):
                    released.append(ev.BindFailed(event.pod.uid, "bound by another scheduler"))
            elif isinstance(event, ev.PodGone):
                self._deleted(event.uid, now)
        for command in super().decide([*released, *events], now):
            if isinstance(command, Bind):
                self._decided[command.uid] = command, now
        return []

    def summary(self) -> dict[str, Any]:
        """Counts of equal and different decisions."""
        compared = sum(self.outcomes[outcome] for outcome in (SAME, OTHER_CHIPS, OTHER_NODE))
        return {
            "event": "summary",
            "compared": compared,
            "outcomes": dict(sorted(self.outcomes.items())),
            "same_share": round(self.outcomes[SAME] / compared, 4) if compared else None,
            "still_only_ours": len(self._decided),
        }

    def _compare(self, pod: Pod, node: str, now: int) -> bool:
        """Another scheduler bound this pod.

        Whether it was decided differently here, so that its chips are released.
        """
        ours, decided = self._decided.pop(pod.uid, (None, None))
        waited = self._waited(pod, decided, now)
        if ours is None:
            record = self.scheduler.view.cluster.pods.get(pod.uid)
            if record is not None and record.node < 0 and self.scheduler.view.is_ours(pod):
                self._only_theirs(pod, node, now, waited)
            return False
        if ours.node == node and tuple(sorted(ours.chips)) == tuple(sorted(pod.named_chips)):
            self._record(SAME, pod.key, ours.uid, now, waited=waited)
            return False
        outcome = OTHER_CHIPS if ours.node == node else OTHER_NODE
        mine, other = self._verdicts(ours.uid, ours.node, node)
        self._record(
            outcome,
            pod.key,
            pod.uid,
            now,
            ours=mine.as_json(ours.node, ours.chips),
            theirs=other.as_json(node, pod.named_chips),
            why=_why(outcome, mine, other),
            waited=waited,
        )
        return True

    def _waited(self, pod: Pod, decided: int | None, now: int) -> dict[str, float | None]:
        """Return seconds from the creation of the pod to our decision, and to the binding of the other."""
        if not pod.created or self._started is None or pod.created < self._started:
            return {"ours": None, "theirs": None}
        return {
            "ours": None if decided is None else round((decided - pod.created) / 1e9, 1),
            "theirs": round((now - pod.created) / 1e9, 1),
        }

    def _only_theirs(self, pod: Pod, node: str, now: int, waited: dict[str, float | None]) -> None:
        job = self.scheduler.view.job_of(pod.uid)
        reason = job.reason if job is not None else None
        self._record(
            ONLY_THEIRS,
            pod.key,
            pod.uid,
            now,
            ours=None,
            theirs={"node": node, "chips": list(pod.named_chips)},
            why=reason.message if reason is not None else "it was bound before a decision was made here",
            waited=waited,
        )

    def _deleted(self, uid: str, now: int) -> None:
        ours, _ = self._decided.pop(uid, (None, None))
        if ours is not None:
            self._record(
                ONLY_OURS,
                f"{ours.namespace}/{ours.pod}",
                uid,
                now,
                ours={"node": ours.node, "chips": list(ours.chips)},
                theirs=None,
                why="it was deleted before the other scheduler bound it",
            )

    def _verdicts(self, uid: str, our_node: str, their_node: str) -> tuple[_NodeAssessment, _NodeAssessment]:
        """Score of both nodes, as if the pod had not been placed yet."""
        view = self.scheduler.view
        job = view.job_of(uid)
        if job is not None and job.policy is None and view.cluster.pods[uid].pod.cls.chips:
            changed = _NodeAssessment(None, "the job changed meanwhile")
            return changed, changed
        ours, theirs = view.what_if.node_verdicts(uid, (our_node, their_node), self._now)
        return _verdict(ours), _verdict(theirs)

    def _record(self, outcome: str, pod: str, uid: str, now: int, **more: Any) -> None:
        self.outcomes[outcome] += 1
        self._observer.shadow.inc(outcome)
        job = self.scheduler.view.job_of(uid)
        self._report(
            {
                "event": "placed",
                "time": rfc3339(now),
                "outcome": outcome,
                "pod": pod,
                "job": job.full_name if job is not None else None,
                **more,
            }
        )


def _verdict(verdict: NodeAssessment | None) -> _NodeAssessment:
    if verdict is None:
        return _NodeAssessment(None, "the node is not known")
    reason = verdict.reason
    return _NodeAssessment(verdict.score, None if reason is None else reason.message, verdict.splits_node)


def _why(outcome: str, ours: _NodeAssessment, theirs: _NodeAssessment) -> str:
    if theirs.why_not is not None:
        return f"by the rules of Ringwise the pod cannot run there: {theirs.why_not}"
    if outcome == OTHER_CHIPS:
        return "the same node, with other chips"
    if ours.score is not None and theirs.score is not None and ours.score != theirs.score:
        if ours.score > theirs.score:
            return "Ringwise's node has the higher score"
        return "the other node has the higher score for this pod alone"
    return "both nodes are equal by the rules of Ringwise; node order, or the rest of the gang, decided"
