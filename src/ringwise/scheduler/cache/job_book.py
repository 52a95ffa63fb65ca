"""All jobs: which pods belong together, and what their PodGroup, vcjob, queue and priority class specify."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from ringwise.durations import plain_duration
from ringwise.framework.gangs.visible_devices import refused_choice
from ringwise.framework.job import Job, differs_for_job, is_awaiting_pods, job_key, pod_order
from ringwise.framework.limits import LimitTable
from ringwise.framework.queue_heads import QueueHeads
from ringwise.framework.reasons import (
    MALFORMED_JOB,
    OTHER_SCHEDULER,
    QUEUE_NOT_A_LEAF,
    UNKNOWN_QUEUE,
    WAITING_LIMIT_REACHED,
)
from ringwise.framework.usage import ResourceUsage
from ringwise.framework.users import unknown_user, user_of
from ringwise.grammar import quoted
from ringwise.messages.containment import Containment, describe
from ringwise.messages.job_expansion import group_name, pods_of
from ringwise.messages.ordinary_groups import needs_group, queue_without_group
from ringwise.reasons import Reason, Stage
from ringwise.scheduler.cache.active_configuration import ActiveConfiguration
from ringwise.scheduler.cache.priority_rights import PriorityRights
from ringwise.scheduler.reasons import POD_GROUP_AWAITED, POD_GROUP_MISSING
from ringwise.state.cluster import ClusterState
from ringwise.state.model import (
    DEFAULT_QUEUE,
    EMPTY,
    SOFT,
    Pod,
    PodGroup,
    PriorityClass,
    Queue,
    ResourceQuota,
)
from ringwise.state.node_shapes import label_keys
from ringwise.state.part_requests import WHOLE_CHIPS, PartBinding, binding_of, requested, with_part
from ringwise.state.queue_rules import queues_below, queues_by_parent
from ringwise.state.vcjob import OVER, VcJob
from ringwise.topology.nearest import nearest
from ringwise.topology.numbers import INT32, whole_number
from ringwise.wellknown import (
    EXPECTED_DURATION,
    SCHEDULE_MIN_AVAILABLE,
    SYSTEM_CLUSTER_CRITICAL,
    SYSTEM_NODE_CRITICAL,
)


class JobBook:
    """Jobs by key. A pod without a PodGroup is a job of its own."""

    def __init__(
        self,
        state: ClusterState,
        configuration: ActiveConfiguration,
        scheduler_names: frozenset[str],
        containment: Containment,
        awaits_groups: bool = False,
    ) -> None:
        #: A controller creates the PodGroups of pods whose owner creates none; until then those pods wait.
        self.awaits_groups = awaits_groups
        self.containment = containment
        self._state = state
        self._configuration = configuration
        #: Of what is in use, by job and queue; it follows the pods of the book.
        self.usage = ResourceUsage()
        #: The jobs that others of their queue wait behind.
        self.heads = QueueHeads()
        #: What is set, and what counts for it.
        self.limits = LimitTable(self.usage)
        self.limits.is_waiting = self._is_waiting
        #: When the first job with a verified user was created, in nanoseconds: admission was there by then.
        self.users_since: int | None = None
        self.scheduler_names = scheduler_names
        self.jobs: dict[str, Job] = {}
        self.queues: dict[str, Queue] = {DEFAULT_QUEUE: Queue(DEFAULT_QUEUE)}
        #: The queues below each one; every job asks for them. None: a queue came, went or got another parent.
        self._children: dict[str, list[Queue]] | None = None
        #: By namespace and name.
        self.quotas: dict[str, dict[str, ResourceQuota]] = {}
        self.groups: dict[str, PodGroup] = {}
        self.vcjobs: dict[str, VcJob] = {}
        self._priorities: dict[str, PriorityClass] = {}
        self._job_of_pod: dict[str, str] = {}
        #: Job -> its vcjob, which is invalid: no controller makes a PodGroup for it.
        self._invalid: dict[str, str] = {}
        #: Jobs whose objects changed since they were read.
        self._unread: dict[str, None] = {}
        self._rights = PriorityRights()
        #: Jobs of which only what quotas count may have changed.
        self._uncounted: dict[str, None] = {}

    # -- pods -----------------------------------------------------------------------------

    def job_of(self, uid: str) -> Job | None:
        key = self._job_of_pod.get(uid)
        return None if key is None else self.jobs.get(key)

    def existing(self, keys: Iterable[str]) -> Iterator[Job]:
        """Yield the jobs with these keys that still exist."""
        return (self.jobs[key] for key in list(keys) if key in self.jobs)

    def name_of(self, key: str) -> str:
        """`namespace/name` of the job with this key; the key if the job does not exist."""
        job = self.jobs.get(key)
        return key if job is None else job.full_name

    def subject_of(self, uid: str, entry: object) -> str:
        """Return the key of the job that an entry of the leader record about a pod is about."""
        job = self.job_of(uid)
        return uid if job is None else job.key

    def is_ours(self, pod: Pod) -> bool:
        return pod.scheduler in self.scheduler_names

    def serves(self, job: Job) -> bool:
        """Whether the job is ours: one of its pods is, or will be. Jobs of others are only counted."""
        if job.pods:
            return any(map(self.is_ours, job.pods.values()))
        if job.prospective:
            return any(self.is_ours(pod) for pod in job.prospective)
        vcjob = self.vcjob_of(job)
        return vcjob is None or any(name in self.scheduler_names for name in vcjob.schedulers)

    def is_pending(self, pod: Pod) -> bool:
        """A pod of ours that has no node and may get one."""
        return not pod.gated and self._is_unplaced(pod)

    def _is_unplaced(self, pod: Pod) -> bool:
        return (
            pod.phase == "Pending"
            and not pod.deleting
            and self._state.pods[pod.uid].node < 0
            and self.is_ours(pod)
        )

    def has_pending(self, job: Job) -> bool:
        """The job has pods to place; or it can be admitted, and its pods are created or ungated then."""
        if job.group is None or job.inqueue:
            return any(map(self.is_pending, job.pods.values()))
        if job.pods:
            return any(map(self._is_unplaced, job.pods.values()))
        # The creator of the PodGroup creates its pods once it is Inqueue.
        vcjob = self.vcjob_of(job)
        return vcjob is None or not vcjob.over

    def refusal(self, job: Job) -> Reason | None:
        """What is wrong with a job before any plugin is asked."""
        if not self.serves(job):
            pod = next(iter(job.in_order), None)
            vcjob = self.vcjob_of(job)
            name = pod.scheduler if pod is not None else vcjob.schedulers[0] if vcjob is not None else ""
            return self.other_scheduler(name)
        if job.defects:
            return job.defects[0]
        if job.has_refusable_pods:
            reason = self._refused_pod(job)
            if reason is not None:
                return reason
        if job.queue not in self.queues:
            names = sorted(self.queues)
            close = nearest(job.queue, names)
            return UNKNOWN_QUEUE(queue=job.queue, known=names, nearest=close or names[0]).suggesting(close)
        refusal = self._refused_parent(job.queue)
        # Pods that run in it stay.
        return refusal if refusal is not None and self.has_pending(job) else None

    def _refused_parent(self, name: str) -> Reason | None:
        """Why jobs cannot run in a queue that has others below it, whatever plugins are in use."""
        if self._children is None:
            self._children = queues_by_parent(self.queues)
        children = self._children
        if name not in children:
            return None
        leaves = (one for one in queues_below(name, children) if one.name not in children)
        return QUEUE_NOT_A_LEAF(queue=name, children=_some(children[name]), leaves=_some(leaves))

    def _refused_pod(self, job: Job) -> Reason | None:
        """Why a pod still to be placed may not be. One that has its place keeps it."""
        for pod in job.in_order:
            if _is_refusable(pod) and (pod.uid not in self._state.pods or self._is_unplaced(pod)):
                if pod.problem:
                    return MALFORMED_JOB(problem=f"pod {pod.name}: {pod.problem}")
                setting = self._configuration.settings.visible_devices
                reason = refused_choice(pod.visible_devices, pod.name, setting)
                if reason is not None:
                    return reason
        return None

    def other_scheduler(self, name: str) -> Reason:
        served = sorted(self.scheduler_names)
        close = nearest(name, served)
        return OTHER_SCHEDULER(scheduler=name, served=served, nearest=close or served[-1]).suggesting(close)

    def awaits_group(self, pod: Pod) -> bool:
        """A controller is about to create its PodGroup, which says what the pod does not."""
        return pod.group is None and self.awaits_groups and needs_group(pod)

    def is_lone(self, job: Job) -> bool:
        """One pod that is a job of its own: there will be no PodGroup, or it changes nothing."""
        return job.group is None and any(
            pod.group is None and not self.awaits_group(pod) for pod in job.pods.values()
        )

    def with_part(self, pod: Pod) -> Pod:
        """The pod with its request for a share of a chip or a vNPU, which its PodGroup may specify (V2)."""
        if pod.cls.part is None and not pod.cls.chips:
            return pod
        group = self.groups.get(f"{pod.namespace}/{pod.group}") if pod.group is not None else None
        labels, annotations = (EMPTY, EMPTY) if group is None else (group.labels, group.annotations)
        state, bound = self._state, None
        number = state.node_id.get(pod.node) if pod.node is not None else None
        entry = state.pods.get(pod.uid)
        if number is not None and number in state.nodes_in_mode[SOFT]:
            bound = entry.binding if entry is not None and entry.node == number else None
            bound = bound or binding_of(pod) or PartBinding(())
        elif (
            entry is not None and number == entry.node and entry.chips.bit_count() >= entry.pod.cls.chips > 0
        ):
            # It was bound with whole chips, whatever was edited since (V4).
            bound = WHOLE_CHIPS
        memory = state.chip_memories.get(requested(pod.cls)[0] or "", 0)
        return with_part(pod, labels, annotations, memory, bound)

    def outdated(self, job: Job | None = None) -> list[Pod]:
        """Pods (of the job) whose requests for shares are others than when they were read."""
        uids = self._state.pods if job is None else job.pods
        result = []
        for uid in uids:
            pod = self._state.pods[uid].pod
            current = self.with_part(pod)
            if current is not pod:
                result.append(current)
        return result

    def put_pod(self, pod: Pod) -> Job | None:
        """The pod as the state has it now; None when it belongs to another scheduler."""
        job = self._job_of_placed(pod)
        if job is not None and self._state.stays(pod):
            # Node and chips are the same: state and usage need no update.
            self._replace(job, pod)
            return job
        entry = self._state.pods.get(pod.uid)
        was_placed = entry is not None and entry.node >= 0
        self._remove_usage(pod.uid)
        self._state.put_pod(self._with_nomination(pod))
        pod = self._state.pods[pod.uid].pod
        if not self.is_ours(pod) and pod.group is None:
            # Its uid may have been that of a pod of ours.
            self.forget_pod(pod.uid)
            self._add_usage(pod, None)
            self._state.changes.foreign_pod(pod.uid)
            return None
        if entry is None or entry.pod.cls is not pod.cls:
            self._state.watch_labels(label_keys(pod.cls))
        key = job_key(pod)
        before = self._job_of_pod.get(pod.uid)
        if before is not None and before != key:
            former = self.jobs.get(before)
            if former is not None and former.queue_is_known and was_placed:
                # It counts for the queue in which it was bound, even if it joins another job.
                self.usage.bound_in.setdefault(pod.uid, former.queue)
            self.forget_pod(pod.uid)
            # Its chips are held by another job now.
            self._state.changes.node(self._state.pods[pod.uid].node)
        job = self.jobs.get(key)
        if job is None:
            job = self._make(key, pod.namespace, pod.group or pod.name)
        self._job_of_pod[pod.uid] = key
        self._replace(job, pod)
        self._add_usage(pod, job)
        return job

    def _with_nomination(self, pod: Pod) -> Pod:
        """A pod for which another scheduler makes room on a node counts there already."""
        counts = pod.nominated in self._state.node_id and pod.group is None and not pod.cls.chips
        return replace(pod, node=pod.nominated) if counts and not self.is_ours(pod) else pod

    def _job_of_placed(self, pod: Pod) -> Job | None:
        """The job of a pod that is known, if that is the job it belongs to now."""
        job = self.job_of(pod.uid)
        old = job.pods.get(pod.uid) if job is not None else None
        return job if old is not None and old.group == pod.group and old.scheduler == pod.scheduler else None

    def _replace(self, job: Job, pod: Pod) -> None:
        old = job.pods.get(pod.uid)
        job.pods[pod.uid] = pod
        self._state.changes.job(job.key)
        # A backup pod takes over when the other one ends.
        ends = old and job.sources and (old.deleting, old.phase) != (pod.deleting, pod.phase)
        if old is None or ends or differs_for_job(old, pod):
            self._touch(job)
        elif (old.live, old.deleting) != (pod.live, pod.deleting) and self._rights.has_quotas(job.namespace):
            self._uncounted[job.key] = None

    def drop_pod(self, uid: str) -> Job | None:
        job = self.job_of(uid)
        if job is None:
            self._state.changes.foreign_pod(uid)
        self._remove_usage(uid)
        self.usage.end_placement(uid)
        self._state.drop_pod(uid)
        self.forget_pod(uid)
        return job

    def forget_pod(self, uid: str) -> None:
        key = self._job_of_pod.pop(uid, None)
        job = self.jobs.get(key) if key is not None else None
        if job is None:
            return
        job.pods.pop(uid, None)
        if not self._drop_if_empty(job):
            self._touch(job)

    def _drop_if_empty(self, job: Job) -> bool:
        """Forget a job of which no object is left."""
        if job.pods or job.group is not None or job.key in self._invalid:
            return False
        del self.jobs[job.key]
        self.usage.holdings.users.pop(job.key, None)
        self._rights.forget(job)
        self._state.changes.job(job.key)
        return True

    def counts_for(self, uid: str, job: Job | None) -> tuple[str, str]:
        """The keys of the job and of the queue for which a placed pod counts."""
        return (job.key, self.usage.queue_of(uid, job.queue)) if job is not None else ("", "")

    def _add_usage(self, pod: Pod, job: Job | None) -> None:
        if self._state.pods[pod.uid].node >= 0:
            self.usage.add_pod(*self.counts_for(pod.uid, job), pod.cls)
        else:
            self.usage.end_placement(pod.uid)

    def _remove_usage(self, uid: str) -> None:
        placement = self._state.pods.get(uid)
        if placement is not None and placement.node >= 0:
            key, queue = self.counts_for(uid, self.job_of(uid))
            self.usage.remove_pod(key, queue, placement.pod.cls)
            self._forget_usage(queue)

    def undo_binding(self, job: Job, uid: str) -> None:
        """Release what the pod used; it no longer has a node."""
        self.usage.remove_pod(*self.counts_for(uid, job), self._state.pods[uid].pod.cls)
        self.usage.end_placement(uid)
        self._state.release(uid)

    def bind_in(self, uid: str, queue: str) -> None:
        """Record the queue in which a running pod was bound, as written by the previous leader."""
        placement, job = self._state.pods.get(uid), self.job_of(uid)
        if placement is not None and placement.node >= 0 and job is not None:
            self._remove_usage(uid)
            self.usage.bound_in[uid] = queue
            self._add_usage(placement.pod, job)

    def _forget_usage(self, queue: str) -> None:
        """Of a queue that is gone and has no pods left."""
        if queue not in self.queues and not self.usage.used_by_queue(queue):
            self.usage.by_queue.pop(queue, None)
            if not self.usage.pods_by_queue.get(queue):
                self.usage.pods_by_queue.pop(queue, None)

    def revalidate(self) -> None:
        """Every job is checked again: the rules for it may be different."""
        for job in self.jobs.values():
            job.changed()

    def recount(self) -> None:
        """Compute the usage again from the pods, after an action failed in the middle of a transaction."""
        self.usage.by_job.clear()
        self.usage.by_queue.clear()
        self.usage.pods_by_queue.clear()
        self.usage.holdings.clear()
        self.usage.reserved.touch_all()
        for uid, placement in self._state.pods.items():
            self._add_usage(placement.pod, self.job_of(uid))

    # -- groups, vcjobs, priorities, queues -----------------------------------------------------

    def put_group(self, group: PodGroup) -> Job:
        self.groups[group.key] = group
        job = self.jobs.get(group.key) or self._make(group.key, group.namespace, group.name)
        job.group = group
        job.inqueue = job.inqueue or group.phase not in ("", "Pending")
        self._touch(job)
        return job

    def drop_group(self, key: str) -> Job | None:
        self.groups.pop(key, None)
        job = self.jobs.get(key)
        if job is None:
            return None
        job.group = None
        job.inqueue = False
        if not self._drop_if_empty(job):
            self._touch(job)
        return job

    def put_vcjob(self, vcjob: VcJob) -> Job | None:
        """A vcjob can be validated before its pods exist; an invalid one is a job without a PodGroup."""
        old = self.vcjobs.get(vcjob.key)
        if old is not None and old.uid != vcjob.uid:
            self.drop_vcjob(vcjob.key)
        self.vcjobs[vcjob.key] = vcjob
        key = f"{vcjob.namespace}/{group_name(vcjob)}"
        self._state.changes.vcjob(vcjob.key)
        job = self.jobs.get(key)
        if vcjob.problems and not vcjob.over:
            self._invalid[key] = vcjob.key
            job = job or self._make(key, vcjob.namespace, vcjob.name)
        elif self._invalid.pop(key, None) is not None and job is not None and self._drop_if_empty(job):
            return job
        if job is not None:
            self._touch(job)
        return job

    def drop_vcjob(self, key: str) -> Job | None:
        """Returns its job, where that was known by the vcjob alone."""
        vcjob = self.vcjobs.pop(key, None)
        if vcjob is None:
            return None
        group = f"{vcjob.namespace}/{group_name(vcjob)}"
        self._state.changes.vcjob(key)
        job = self.jobs.get(group)
        if self._invalid.pop(group, None) is None or job is None or not self._drop_if_empty(job):
            return None
        return job

    def put_priority_class(self, priority_class: PriorityClass | None, name: str) -> list[Job]:
        """Returns the jobs whose priority or preemption policy changed."""
        if priority_class is None:
            self._priorities.pop(name, None)
        else:
            self._priorities[name] = priority_class
        changed = []
        for job in self.jobs.values():
            before = job.priority, job.non_preempting
            self._weigh(job)
            if before != (job.priority, job.non_preempting):
                changed.append(job)
                self._state.changes.job(job.key)
        return changed

    @property
    def priority_classes(self) -> list[PriorityClass]:
        return list(self._priorities.values())

    def put_quota(self, quota: ResourceQuota) -> bool:
        """Returns whether its limits or its use changed."""
        quotas = self.quotas.setdefault(quota.namespace, {})
        previous = quotas.get(quota.name)
        quotas[quota.name] = quota
        self._count_anew(quota.namespace)
        return previous is None or replace(previous, origin=quota.origin) != quota

    def drop_quota(self, namespace: str, name: str) -> None:
        quotas = self.quotas.get(namespace, {})
        quotas.pop(name, None)
        if not quotas:
            self.quotas.pop(namespace, None)
        self._count_anew(namespace)

    def _count_anew(self, namespace: str) -> None:
        """A quota of the namespace came, changed or went."""
        if self._rights.put_quotas(namespace, self.quotas.get(namespace, {})):
            self._uncounted.update(
                (job.key, None) for job in self.jobs.values() if job.namespace == namespace
            )

    def review_priorities(self) -> list[Job]:
        """Called after `read_changed`. Returns jobs whose priority class is in force now, or no longer."""
        changed: dict[str, Job] = {}
        for job in self.existing(self._uncounted):
            before = job.refused_classes
            self._rights.put(job, over=self.is_over(job))
            if job.refused_classes != before:
                changed[job.key] = job
        self._uncounted.clear()
        changed.update((job.key, job) for job in self._rights.review(self.jobs))
        for job in changed.values():
            self._weigh(job)
            self._state.changes.job(job.key)
        return list(changed.values())

    def put_queue(self, queue: Queue) -> None:
        before = self.queues.get(queue.name)
        self.queues[queue.name] = queue
        if before is None or before.parent != queue.parent:
            self._children = None
        self._state.changes.some_queue()

    def drop_queue(self, name: str) -> None:
        self.queues.pop(name, None)
        self._children = None
        self._state.changes.some_queue()
        self._forget_usage(name)
        if name == DEFAULT_QUEUE:
            self.put_queue(Queue(name))

    # -- reading a job -------------------------------------------------------------------------------

    def _make(self, key: str, namespace: str, name: str) -> Job:
        job = self.jobs[key] = Job(key, namespace, name, group=self.groups.get(key))
        return job

    def _touch(self, job: Job) -> None:
        """One of the job's objects changed. The job is read once for all events of a batch."""
        job.changed()
        self._state.changes.job(job.key)
        self._unread[job.key] = None

    def read_changed(self) -> list[Job]:
        """Read the jobs whose objects changed, and return them; called once after a batch of events."""
        since = self.users_since
        jobs = list(self.existing(self._unread))
        for job in jobs:
            kind = "PodGroup" if job.group is not None else "Pod"
            try:
                self._read(job)
                self.containment.succeeded(kind, job.key, "read")
            except Exception as error:
                # A job that cannot be read is refused with the reason; the others are read as without it.
                self.containment.failed(kind, job.key, error, work="read")
                job.defects = (MALFORMED_JOB(problem=f"it cannot be read ({describe(error)})"),)
        self._unread.clear()
        if self.users_since != since:
            self.read_users()
        return jobs

    def _read(self, job: Job) -> None:
        group = job.group
        pods = list(job.pods.values())
        vcjob = self.vcjob_of(job)
        orders = vcjob if not pods else None
        previous = job.prospective_of
        if orders is None or previous is None or not orders.orders_same_pods(previous):
            # Not made again with every change of its status or its PodGroup.
            pods = [] if orders is None else sorted(pods_of(orders), key=pod_order)
            job.prospective = tuple(self.with_part(pod) for pod in pods)
            job.prospective_of = orders
        members = job.in_order
        job.has_refusable_pods = any(map(_is_refusable, members))
        job.has_claims = any(pod.claims for pod in members)
        job.ordered_chip_pods, job.ordered_other_pods = _ordered_pods(vcjob)
        first = members[0] if members else None
        # Labels and annotations are those of a pod with chips: a launcher without chips may lack them.
        chip_pod = next((pod for pod in members if pod.cls.chips), first)
        queue = job.queue
        # Values of the PodGroup win over values of the pod.
        job.labels = job.annotations = EMPTY
        for one in (chip_pod, group):
            if one is not None:
                # What one of them has alone is not copied: there are tens of thousands of jobs.
                job.labels = {**job.labels, **one.labels} if job.labels else one.labels
                job.annotations = (
                    {**job.annotations, **one.annotations} if job.annotations else one.annotations
                )
        job.defects = ()
        if group is not None:
            job.name = group.job_name
            job.queue = group.queue or DEFAULT_QUEUE
            job.created = group.created
            job.min_available = group.min_member
            job.min_per_task = group.min_task_member
            self._read_min_available(job)
            if group.problem:
                job.defects = (MALFORMED_JOB(problem=group.problem),)
            elif group.sub_groups and members and not job.sub_groups:
                job.defects = (MALFORMED_JOB(problem=_TOO_MANY_STEPS),)
        elif first is not None:
            owner = first.owner if first.group is not None else None
            job.name = owner.name if owner is not None and owner.is_vcjob else first.group or first.name
            job.queue = queue_without_group(job.annotations)
            job.created = min(pod.created for pod in members)
            job.min_available = 1
            job.inqueue = True
            if first.group is not None and any(pod.live and not pod.deleting for pod in members):
                # Pods that ended or are being deleted may outlive their PodGroup.
                job.defects = (POD_GROUP_MISSING(group=f"{job.namespace}/{first.group}"),)
            elif self.awaits_group(first):
                job.defects = (POD_GROUP_AWAITED(),)
        elif vcjob is not None:
            job.name, job.queue, job.created = vcjob.name, vcjob.queue, vcjob.created
            job.min_available = vcjob.min_available
            job.labels, job.annotations = vcjob.labels, vcjob.annotations
        if vcjob is not None and vcjob.problems:
            job.defects = tuple(MALFORMED_JOB(problem=problem) for problem in vcjob.problems)
        self._rights.put(job, over=self.is_over(job))
        self._weigh(job)
        job.expected = _expected(job, vcjob)
        if job.queue != queue:
            self._change_queue(job, queue)
        if group is not None or first is None or first.group is None:
            job.queue_is_known = True
        self._set_user(job)

    def _is_waiting(self, job: Job) -> bool:
        """Whether it was tried, or is admitted, and no pod of it has a node."""
        reason = job.reason
        if self.usage.holdings.runs(job.key) or not self.serves(job):
            return False
        if reason is None or reason.code == WAITING_LIMIT_REACHED.code or reason.kind.stage is Stage.VALIDATE:
            return is_awaiting_pods(job) and self._is_wanted(job)
        return self.has_pending(job) if job.pods or not job.inqueue else self._is_wanted(job)

    def _is_wanted(self, job: Job) -> bool:
        """Whether its owner, which creates its pods, has not ended."""
        vcjob = self.vcjob_of(job)
        return vcjob is None or not vcjob.over

    def read_users(self) -> None:
        """Of all jobs: another setting says who is believed."""
        for job in self.jobs.values():
            self._set_user(job)

    def _verified_user(self, job: Job) -> str:
        """Return the user for limits; once admission is installed, the unknown user for jobs without one."""
        settings, since = self._configuration.settings, self.users_since
        user = user_of(job, settings)
        if user.verified:
            if job.created and (since is None or job.created < since):
                self.users_since = job.created
            return user.name
        guarded = settings.user_annotation == "guarded"
        return unknown_user(job.namespace) if guarded and since is not None and job.created >= since else ""

    def _set_user(self, job: Job) -> None:
        user = self._verified_user(job)
        if user != self.usage.holdings.users.get(job.key, ""):
            queues = {self.usage.queue_of(uid, job.queue): None for uid in job.pods} or (job.queue,)
            self.usage.holdings.set_user(job.key, queues, user)

    def _change_queue(self, job: Job, before: str) -> None:
        """Keep counting running pods for the queue in which they were bound.

        If the PodGroup was not known before, that queue was not known, either: they count for its queue.
        """
        usage, bound_in = self.usage, self.usage.bound_in
        for uid, pod in job.pods.items():
            if self._state.pods[uid].node < 0:
                continue
            if uid in bound_in:
                if bound_in[uid] == job.queue and job.queue_is_known:
                    del bound_in[uid]
            elif job.queue_is_known:
                bound_in[uid] = before
            else:
                usage.remove_pod(job.key, before, pod.cls)
                usage.add_pod(job.key, job.queue, pod.cls)

    def _read_min_available(self, job: Job) -> None:
        text = job.annotations.get(SCHEDULE_MIN_AVAILABLE)
        if text is None:
            return
        number = whole_number(text, 0, INT32)
        if number is None:
            shown = quoted(text, 40)
            problem = (
                f"annotation {SCHEDULE_MIN_AVAILABLE} must be a whole number from 0 to {INT32}, got {shown}"
            )
            job.defects = (MALFORMED_JOB(problem=problem),)
        elif job.min_available <= 1:
            job.min_available = number

    def is_over(self, job: Job) -> bool:
        """Whether its vcjob has ended: nothing of it runs again, whatever becomes of its pods."""
        vcjob = self.vcjob_of(job) or self._vcjob_of_pods(job)
        return vcjob is not None and vcjob.phase in OVER

    def _vcjob_of_pods(self, job: Job) -> VcJob | None:
        """The vcjob whose ended pods outlive its PodGroup."""
        owner = next((pod.owner for pod in job.pods.values() if pod.owner is not None), None)
        if job.group is not None or owner is None or not owner.is_vcjob:
            return None
        vcjob = self.vcjobs.get(f"{job.namespace}/{owner.name}")
        return vcjob if vcjob is not None and vcjob.uid == owner.uid else None

    def vcjob_of(self, job: Job) -> VcJob | None:
        owner = job.group.owner if job.group is not None else None
        if owner is None or not owner.is_vcjob:
            return self.vcjobs.get(self._invalid.get(job.key, ""))
        vcjob = self.vcjobs.get(f"{job.namespace}/{owner.name}")
        # Not a later vcjob of the same name: its PodGroup is another one.
        return vcjob if vcjob is not None and owner.uid in ("", vcjob.uid) else None

    def _weigh(self, job: Job) -> None:
        """Its priority, and which of its pods never preempt others."""
        job.priority = self._priority(job)
        classes = {name for name, cls in self._priorities.items() if cls.never_preempts}
        default = self._default_class()
        if default is not None and default.never_preempts:
            # The class of pods that name none.
            classes.add("")
        job.non_preempting = (
            frozenset(
                pod.uid
                for pod in job.pods.values() or job.prospective
                if (pod.never_preempts if pod.never_preempts is not None else pod.priority_class in classes)
            )
            or _NO_PODS
        )

    def _priority(self, job: Job) -> int:
        group, refused = job.group, job.refused_classes
        if group is not None and group.priority_class and group.priority_class not in refused:
            return self._value(group.priority_class)
        values = [
            self._value(pod.priority_class) if pod.priority_class and not pod.priority else pod.priority
            for pod in job.in_order[:1]
            if pod.priority_class not in refused
        ]
        if value := max(values, default=0):
            return value
        default = self._default_class()
        return default.value if default is not None else 0

    def _value(self, name: str) -> int:
        cls = self._priorities.get(name)
        return cls.value if cls is not None else _SYSTEM_PRIORITIES.get(name, 0)

    def _default_class(self) -> PriorityClass | None:
        """The class of pods that name none: the one with the highest value, should there be several."""
        defaults = [cls for cls in self._priorities.values() if cls.default]
        return max(defaults, key=lambda cls: (cls.value, cls.name), default=None)


#: One object for all jobs: since Python 3.10 each call of `frozenset` creates another one.
_NO_PODS: frozenset[str] = frozenset()
_TOO_MANY_STEPS = (
    "spec.subGroupPolicy of its PodGroup costs too much to apply to its pods: name fewer labels and values, "
    "or one label with one value in each labelSelector"
)
_SYSTEM_PRIORITIES = {SYSTEM_CLUSTER_CRITICAL: 2_000_000_000, SYSTEM_NODE_CRITICAL: 2_000_001_000}


def _is_refusable(pod: Pod) -> bool:
    return bool(pod.problem) or pod.visible_devices is not None


def _ordered_pods(vcjob: VcJob | None) -> tuple[int, int]:
    """Rule S1: the replicas of tasks with chips and of tasks without."""
    if vcjob is None or vcjob.problems:
        return 0, 0
    with_chips = sum(task.replicas for task in vcjob.tasks if task.template.cls.chips)
    return with_chips, sum(task.replicas for task in vcjob.tasks) - with_chips


def _expected(job: Job, vcjob: VcJob | None) -> int | None:
    """The expected duration of the job in nanoseconds, where its objects state one."""
    if vcjob is not None and vcjob.running_estimate is not None:
        return vcjob.running_estimate
    text = job.annotations.get(EXPECTED_DURATION, "")
    return plain_duration(text)


#: Queues that a message names.
_MAX_NAMES = 10


def _some(queues: Iterable[Queue]) -> list[str]:
    names = sorted(queue.name for queue in queues)
    rest = len(names) - _MAX_NAMES
    return [*names[:_MAX_NAMES], f"{rest} more"] if rest > 0 else names
