"""Maintenance of nodes: which jobs would move, where each would go, which would wait and for how long.

The answer is tried: a copy of the cluster is drained job by job in virtual time, with the real scheduler and
the real job controller. Nothing of the cluster itself is changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from ringwise.apps.lab.lab import LabSettings, LiveLab, copy_of
from ringwise.apps.targets import Target
from ringwise.durations import SECOND, time_text
from ringwise.embed.objects import ObjectTable
from ringwise.framework.configuration import Configuration
from ringwise.grammar import agrees, counted
from ringwise.messages.job_expansion import group_name
from ringwise.records import dataclass
from ringwise.scheduler.faults.policy import read_fault_policy
from ringwise.state.model import EMPTY, Isolation, Pod, PodGroup
from ringwise.state.owned_annotations import without_stray
from ringwise.state.vcjob import VcJob
from ringwise.topology.natural import natural_key
from ringwise.views.cluster import ClusterObjects, JobView, job_views, views_of_pods
from ringwise.views.documents.maintenance import DrainedJobFields, DrainPlanDocument, MovedPodFields

#: How long a job may take to be placed again before the next one is asked to go.
TIMEOUT = 5 * 60 * SECOND
#: How far the plan looks ahead.
HORIZON = 30 * 86400 * SECOND
#: A job that has its nodes again after this time did not wait.
SOON = 30 * SECOND
#: Events, jobs and attempts to place one that a plan may take, and so many more for each job that has to go.
PLAN_STEPS, JOB_STEPS = 20_000, 500
#: With more jobs that wait they are left out: whenever chips become free all of them are tried.
MAX_WAITING = 200
#: A job that cannot be complete again costs a copy of the state: after so many no further job is tried.
MAX_COPIES = 8
NOT_TRIED = "it was not tried: other jobs have used what may be tried for one drain; drain fewer nodes"

MOVES, WAITS, NOT_RESTARTED, STAYS = "moves", "pending", "not-restarted", "not-evicted"


Goes = Callable[[Pod], bool]


def goes_in_lab(pod: Pod) -> bool:
    """Whether a drain evicts the pod: the nodes of a lab are cordoned, and no pod stays."""
    return pod.live


def goes_in_cluster(pod: Pod) -> bool:
    """Whether a drain of a real cluster evicts the pod.

    Its nodes are isolated, which keeps pods with chips off. Others would come back at once, as pods of
    DaemonSets and static pods do in any case.
    """
    stays = pod.owner is not None and pod.owner.kind in ("DaemonSet", "Node")
    return pod.live and pod.cls.chips > 0 and not stays


def affected_jobs(objects: ClusterObjects, nodes: Iterable[str], goes: Goes = goes_in_lab) -> list[JobView]:
    """The jobs with pods on these nodes that have to go, in the order in which they are asked to."""
    wanted = set(nodes)
    views = views_of_pods(objects, (pod for pod in objects.pods if pod.node in wanted and goes(pod)))
    return sorted(views, key=lambda view: (-view.priority, view.created, natural_key(view.key)))


def plan_drain(
    copy: LiveLab,
    target: Target,
    *,
    at: int | None = None,
    of_cluster: bool = False,
    without: int = 0,
    force: bool = False,
) -> DrainPlanDocument:
    """What draining the nodes of a target would do, tried on a copy of a lab, or of a real cluster.

    `at`: when they are drained; until then they take no job that would not end before. `of_cluster`: nodes
    are isolated, not cordoned, and pods of owners that the copy does not know are created again by them.
    `without`: how many jobs that wait the copy does not have. `force`: all jobs are evicted (F4).
    """
    nodes = target.nodes
    if at is not None:
        copy.isolate(*(Isolation(node, start=at) for node in nodes))
        copy.advance(at - copy.now)
    table, now = _table_of(copy), copy.now
    plan = _Planner(copy, nodes, of_cluster).plan(target)
    if not force and any(job.result != MOVES for job in plan.jobs):
        configuration = copy.view.configuration
        left = left_by_drain(table, now, copy.settings, nodes, configuration, of_cluster=of_cluster)
        with copy_of(table, now, copy.settings, configuration) as again:
            plan = _Planner(again, nodes, of_cluster).plan(target, left)
    plan.start = at
    if without:
        plan.omitted.insert(
            0,
            f"{counted(without, 'job')} that {agrees(without, 'waits', 'wait')} "
            f"{agrees(without, 'is', 'are')} left out: what is free now may be theirs",
        )
    return plan


def without_many_waiting(table: ObjectTable) -> tuple[ObjectTable, int]:
    """The same objects; without the jobs that wait, and their number, where these are very many."""
    pods = [pod for pod in table.kind("Pod") if isinstance(pod, Pod)]
    started = {f"{pod.namespace}/{pod.group}" for pod in pods if pod.group and pod.node is not None}
    gone: dict[str, set[str]] = {"VcJob": set(), "PodGroup": set(), "Pod": set()}
    for job in table.kind("VcJob"):
        if isinstance(job, VcJob) and not job.over and f"{job.namespace}/{group_name(job)}" not in started:
            gone["VcJob"].add(job.key)
    for group in table.kind("PodGroup"):
        if isinstance(group, PodGroup) and group.key not in started:
            gone["PodGroup"].add(group.key)
    jobs = len(gone["VcJob"]) + sum(
        1
        for group in table.kind("PodGroup")
        if isinstance(group, PodGroup)
        and group.key in gone["PodGroup"]
        and not (group.owner is not None and group.owner.is_vcjob)
    )
    for pod in pods:
        if pod.node is None and (not pod.group or f"{pod.namespace}/{pod.group}" not in started):
            gone["Pod"].add(pod.key)
            jobs += not pod.group
    if jobs <= MAX_WAITING:
        return table, 0
    fewer = ObjectTable()
    fewer.restore(table.version, (one for one in table.all() if one.key not in gone.get(one.kind, ())))
    return fewer, jobs


def left_by_drain(
    table: ObjectTable,
    now: int,
    settings: LabSettings,
    nodes: Sequence[str],
    configuration: Configuration | None = None,
    *,
    of_cluster: bool = False,
) -> dict[str, str]:
    """F4: the jobs that a drain of these nodes leaves unless it is forced, each with the reason.

    They would not be complete again. Jobs are tried in the order of the drain, and one that is left stays
    where it is when the next one is tried. A job for which the clock of F2 runs is never left.
    """
    left: dict[str, str] = {}
    tried: set[str] = set()
    table, _ = without_many_waiting(table)
    steps: int | None = None
    affected: list[JobView] = []
    for _ in range(MAX_COPIES):
        with copy_of(table, now, settings, configuration) as copy:
            trial = _Planner(copy, tuple(nodes), of_cluster, steps)
            affected = trial.close()
            steps = trial.steps_left
            for view in affected:
                if view.key in left or view.key in tried:
                    continue
                table, now = _table_of(copy), copy.now
                why = trial.why_incomplete(view)
                steps = trial.steps_left
                if why:
                    left[view.key] = why
                    break
                tried.add(view.key)
            else:
                return left
    left |= {view.key: NOT_TRIED for view in affected if view.key not in left and view.key not in tried}
    return left


def _table_of(copy: LiveLab) -> ObjectTable:
    table = ObjectTable(history=0)
    table.restore(copy.cluster.table.version, copy.cluster.table.all())
    return table


def _drained(view: JobView, result: str, reason: str | None = None) -> DrainedJobFields:
    return DrainedJobFields(
        namespace=view.namespace,
        name=view.name,
        kind=view.kind,
        result=result,
        pending_seconds=None,
        reason=reason,
        pods=[],
        restarted=[],
    )


def _escalates(view: JobView) -> bool:
    job = view.job
    return job is not None and read_fault_policy(job.labels, job.annotations).escalates


@dataclass(slots=True)
class _EvictedJob:
    """A job that was asked to go."""

    job: DrainedJobFields
    #: Its pods with nodes before, by key.
    before: dict[str, Pod]
    began: int
    #: Nanoseconds from there until all its pods have nodes; None: not yet.
    waits: int | None = None

    @property
    def settled(self) -> bool:
        return self.waits is not None or self.job.result == NOT_RESTARTED


class _Planner:
    def __init__(
        self, copy: LiveLab, nodes: tuple[str, ...], of_cluster: bool, steps: int | None = None
    ) -> None:
        """`steps`: what an earlier trial of the same question has left."""
        self._copy = copy
        self._nodes = nodes
        self._on_nodes = frozenset(nodes)
        self._of_cluster = of_cluster
        self._goes: Goes = goes_in_cluster if of_cluster else goes_in_lab
        self._is_first = steps is None
        self.steps_left = PLAN_STEPS if steps is None else steps

    def close(self) -> list[JobView]:
        """Let nothing new onto the nodes; the jobs that have pods there."""
        copy = self._copy
        affected = affected_jobs(copy.objects, self._nodes, self._goes)
        copy.scheduler.on_progress(self._step)
        if self._is_first:
            self.steps_left += JOB_STEPS * len(affected)
        if self._of_cluster:
            copy.isolate(*(Isolation(node) for node in self._nodes))
        else:
            copy.cordon(self._nodes)
        return affected

    def why_incomplete(self, view: JobView) -> str:
        """Evict a job; why fewer of its pods than it needs have nodes soon after they are gone."""
        evicted = self._ask(view)
        if evicted.job.result == NOT_RESTARTED:
            return "nothing starts its pods again"
        cluster, needed = self._copy.cluster, min(max(1, view.needed), len(evicted.before))

        def gone() -> bool:
            now = (cluster.get(Pod, key) for key in evicted.before)
            return ended() or not any(pod is not None and pod.deleting for pod in now)

        def complete() -> bool:
            self._look([evicted])
            now = (cluster.get(Pod, key) for key in evicted.before)
            return sum(pod is not None and self._is_back(pod) for pod in now) >= needed

        def ended() -> bool:
            self._step()
            return complete() or self.steps_left <= 0

        self._copy.advance_until(gone, self._copy.now + TIMEOUT)
        self._copy.advance_until(ended, self._copy.now + SOON)
        if complete() or _escalates(view):
            return ""
        if self.steps_left <= 0:
            return NOT_TRIED
        reasons = {one.key: one.reason for one in job_views(self._copy.objects)}
        reason = reasons.get(view.key)
        return "it would not be started again" if reason is None else reason.message

    def plan(self, target: Target, left: Mapping[str, str] = EMPTY) -> DrainPlanDocument:
        """`left`: the jobs that are not evicted, by key, with the reason."""
        copy = self._copy
        evicted: list[_EvictedJob] = []
        stay: list[DrainedJobFields] = []
        for view in self.close():
            if view.key in left:
                stay.append(_drained(view, STAYS, left[view.key]))
                continue
            evicted.append(self._ask(view))
            self._advance(evicted, evicted[-1:], TIMEOUT)
        self._advance(evicted, evicted, HORIZON)
        for one in evicted:
            self._finish(one)
        waiting = [one.job for one in evicted if one.job.result == WAITS and one.waits is None]
        reasons = {view.key: view.reason for view in job_views(copy.objects)} if waiting else {}
        for job in waiting:
            reason = reasons.get(f"{job.namespace}/{job.name}")
            if reason is not None:
                job.reason = reason.message
        jobs = [*(one.job for one in evicted), *stay]
        plan = DrainPlanDocument(target=target.name, kind=target.kind, nodes=list(target.nodes), jobs=jobs)
        if self.steps_left <= 0 and waiting:
            plan.omitted.append(
                f"what happens after {time_text(copy.now)}: the plan has used its steps; a job that waits "
                "may start later"
            )
        return plan

    def _step(self) -> None:
        self.steps_left -= 1

    def _advance(self, evicted: list[_EvictedJob], wanted: list[_EvictedJob], span: int) -> None:
        """Let time pass until the wanted jobs are settled."""

        def done() -> bool:
            self._look(evicted)
            self.steps_left -= 1
            return self.steps_left <= 0 or all(one.settled for one in wanted)

        self._copy.advance_until(done, self._copy.now + span)

    def _ask(self, view: JobView) -> _EvictedJob:
        before = {pod.key: pod for pod in view.pods if pod.node is not None and pod.live}
        job = _drained(view, MOVES)
        leaving = {key: pod for key, pod in before.items() if self._has_to_go(pod)}
        alone = any(pod.owner is None for pod in leaving.values())
        if view.vcjob is None and (alone or not self._of_cluster):
            job.result = NOT_RESTARTED
        self._copy.evict(leaving)
        return _EvictedJob(job, before, self._copy.now)

    def _look(self, evicted: list[_EvictedJob]) -> None:
        """Note which jobs are complete again."""
        cluster = self._copy.cluster
        for one in evicted:
            if one.settled:
                continue
            now = [cluster.get(Pod, key) for key in one.before]
            # The controller of the copy creates the pods of vcjobs.
            if self._of_cluster and one.job.kind != "vcjob" and any(pod is None for pod in now):
                self._create_again(one)
            elif all(pod is not None and self._is_back(pod) for pod in now):
                one.waits = self._copy.now - one.began

    def _has_to_go(self, pod: Pod) -> bool:
        return pod.node in self._on_nodes and self._goes(pod)

    def _is_back(self, pod: Pod) -> bool:
        """It has a node that stays, or ended meanwhile."""
        return not pod.live or (pod.node is not None and not pod.deleting and not self._has_to_go(pod))

    def _create_again(self, one: _EvictedJob) -> None:
        """What owners do that the copy does not know."""
        for key, pod in one.before.items():
            if pod.owner is not None and self._copy.cluster.get(Pod, key) is None:
                again = replace(
                    pod, uid="", node=None, phase="Pending", created=0, holds=(), mounted=(), deleting=False
                )
                self._copy.cluster.submit(without_stray(again))
        self._copy.turn()

    def _finish(self, one: _EvictedJob) -> None:
        cluster = self._copy.cluster
        for key, pod in sorted(one.before.items(), key=lambda entry: natural_key(entry[0])):
            now = cluster.get(Pod, key)
            after = now.node if now is not None and not now.deleting else None
            moved = MovedPodFields(name=pod.name, source=pod.node or "", to=after)
            if self._has_to_go(pod):
                one.job.pods.append(moved)
            elif now is None or now.uid != pod.uid:
                one.job.restarted.append(moved)
        # It takes some seconds to end and to start in any case.
        if one.job.result == MOVES and (one.waits is None or one.waits > SOON):
            one.job.result = WAITS
        one.job.pending_seconds = None if one.waits is None else round(one.waits / SECOND, 3)
