"""Gangs that have their nodes and wait for the volumes of their claims.

The wait is not part of a cycle. The pods hold their chips as if they were bound, so that nothing is given
twice; their bindings are sent when all claims of all of them are bound. After a time limit, or when something
breaks off, everything is given back: the volumes that are there by then decide where the next try may be.

Nothing of a wait is written down. After a restart the pods are pending, and what the scheduler before wrote
to claims and volumes pins them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, replace
from itertools import count

from ringwise.durations import SECOND, ExponentialBackoff
from ringwise.framework.gangs.gang_count import GangCount, is_placed
from ringwise.framework.job import Job
from ringwise.framework.reasons import VOLUME_BINDING_FAILED, VOLUMES_AWAITED, VOLUMES_TIMED_OUT
from ringwise.framework.selectors import CORDON, tolerates
from ringwise.framework.statement import Allocation
from ringwise.messages import events as ev
from ringwise.messages.commands import Bind, BindVolume, Command, SelectNode
from ringwise.reasons import Reason
from ringwise.records import dataclass
from ringwise.scheduler import internal_events as ie
from ringwise.scheduler.cache.component import Component, Context, on, on_job
from ringwise.scheduler.cache.job_queue import BackoffCause
from ringwise.state.cluster import PodRecord
from ringwise.state.model import Pod
from ringwise.state.nested import discard
from ringwise.state.volume_table import keys_of
from ringwise.state.volumes import LOST, PersistentVolumeClaim
from ringwise.wellknown import PREDICATE_TIME

#: A job that gave its nodes back waits, so that others are tried first.
BACKOFF = ExponentialBackoff(initial=1, limit=60)
#: So many seconds a claim avoids a node for which its provisioner made no volume.
REFUSED_SECONDS = 300


@dataclass(slots=True)
class _PendingClaim:
    """A claim that is to be bound."""

    uid: str
    #: The node that is selected for it, and the volume that it is given; empty: one is made.
    node: str
    volume: str
    #: The node that it named before; and whether it was seen to name the present one.
    before: str
    confirmed: bool = False
    #: The pods that use it.
    pods: list[str] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class _Batch:
    """Pods of a job that were placed together: a gang, or one pod beyond it."""

    binds: dict[str, Bind]
    claims: dict[str, _PendingClaim]
    #: Claims that have no volume yet, in the order of the pods.
    waiting: dict[str, None]
    limit: int
    until: int


class VolumeWaits(Component):
    name = "volumes"

    def __init__(self, context: Context, undo: Callable[[Job, str], None]) -> None:
        super().__init__(context)
        self._nodes = context.topology.volume_nodes
        #: Takes the placement of a pod back.
        self._undo = undo
        #: By job; when the time of the first of them is over; and jobs of which one waits for no claim.
        self._batches: dict[str, list[_Batch]] = {}
        self._ends = context.deadlines.table()
        self._ready: dict[str, None] = {}
        self._job_of: dict[str, str] = {}
        #: Jobs to be looked at, each with the claims that changed; None: with its pods and nodes.
        self._changed: dict[str, dict[str | None, None]] = {}
        #: Jobs with a claim, or with a pod on a node.
        self._by_claim: dict[str, dict[str, None]] = {}
        self._by_node: dict[int, dict[str, None]] = {}
        #: What jobs have to give back, and why.
        self._broken: dict[str, list[tuple[_Batch, str]]] = {}
        #: Pods that use a claim, whether they wait or not; and the claims of pods.
        self._users: dict[str, dict[str, None]] = {}
        self._claims_of: dict[str, tuple[str, ...]] = {}
        #: How often in a row a job gave its nodes back.
        self._failures: dict[str, int] = context.job_tables.add({})
        #: Claims, and when the first of the nodes that they avoid is tried again.
        self._refusals = context.deadlines.table()
        #: What was chosen since the last report, by claim.
        self._commands: dict[str, SelectNode | BindVolume] = {}

    # -- what happens -------------------------------------------------------------------------------

    @on(ie.ClaimChanged)
    def _claim_seen(self, event: ie.ClaimChanged, now: int) -> None:
        self._claim_changed(event.key)

    def _claim_changed(self, key: str) -> None:
        for job in self._by_claim.get(key, ()):
            self._look_at(job, key)
        # Thousands of pods may share a claim; their jobs are few.
        users = map(self._book.job_of, self._users.get(key, ()))
        jobs = {user.key: user for user in users if user is not None}
        for user in jobs.values():
            user.may_not_evict = False
            if self._book.has_pending(user):
                self._job_queue.end_backoff(user.key, BackoffCause.VOLUMES)
                self._job_queue.activate(user.key)

    def _wake_users(self, uid: str) -> None:
        """The pod has its node no more: others may use a claim that is for one pod alone."""
        for key in self._claims_of.get(uid, ()):
            claim = self._state.volumes.claims.get(key)
            if claim is not None and claim.for_one_pod:
                self._claim_changed(key)

    @on(ev.ClaimFailed)
    def _claim_failed(self, event: ev.ClaimFailed, now: int) -> None:
        for job in self._by_claim.get(event.key, ()):
            self._break_off(job, f"the claim {event.key} could not be bound: {event.why}", event.key)

    @on(ie.NodeChanged)
    def _node_changed(self, event: ie.NodeChanged, now: int) -> None:
        if self._by_node:
            number = self._state.node_id.get(event.name, -1)
            for job in self._by_node.get(number, ()):
                self._look_at(job)

    @on(ie.PodChanged)
    def _pod_changed(self, event: ie.PodChanged, now: int) -> None:
        pod = event.pod
        if pod.claims:
            if pod.uid not in self._claims_of:
                self._claims_of[pod.uid] = tuple(keys_of(pod))
                for key in self._claims_of[pod.uid]:
                    self._users.setdefault(key, {})[pod.uid] = None
            if event.lost:
                self._wake_users(pod.uid)
        if event.lost and pod.uid in self._job_of:
            self._look_at(self._job_of[pod.uid])

    @on(ie.PodRemoved)
    def _pod_removed(self, event: ie.PodRemoved, now: int) -> None:
        self._wake_users(event.uid)
        for key in self._claims_of.pop(event.uid, ()):
            discard(self._users, key, event.uid)
        if event.uid in self._job_of:
            self._look_at(self._job_of[event.uid])

    def _look_at(self, job: str, claim: str | None = None) -> None:
        if job in self._batches:
            self._changed.setdefault(job, {})[claim] = None

    @on(ev.IsolationSeen, ev.IsolationGone)
    def _look_at_all(self, event: object, now: int) -> None:
        for job in self._batches:
            self._look_at(job)

    @on_job(ie.BindingFailed)
    def _binding_failed(self, job: Job, now: int) -> None:
        self._look_at(job.key)

    @on(ev.PodGroupGone)
    def _group_gone(self, event: ev.PodGroupGone, now: int) -> None:
        self._break_off(event.key, "its PodGroup was deleted")

    def make_room(self, uid: str, other: str, now: int) -> None:
        """The pod is not bound yet: it and those that were placed with it give back what they have."""
        key = self._job_of.get(uid, "")
        for batch in self._batches.get(key, ()):
            if uid in batch.binds:
                why = f"{other or 'another job'} needs what it had"
                self._broken.setdefault(key, []).append((batch, why))
        self._end_broken(now)

    def _break_off(self, job: str, why: str, claim: str = "") -> None:
        """All of it, or what waits for the claim, is given back."""
        for batch in self._batches.get(job, ()):
            if not claim or claim in batch.claims:
                self._broken.setdefault(job, []).append((batch, why))

    @on_job(ie.JobSettled)
    def _job_settled(self, job: Job, now: int) -> None:
        if job.key in self._batches:
            job.reason = self._reason(job.key)

    @on_job(ie.JobGone)
    def _job_gone(self, job: Job, now: int) -> None:
        self._take(job.key, list(self._batches.get(job.key, ())))
        self._broken.pop(job.key, None)
        self._changed.pop(job.key, None)

    # -- the wait -----------------------------------------------------------------------------------

    def waits(self, key: str) -> bool:
        """Whether pods of the job have their nodes and wait for their claims."""
        return key in self._batches

    def hold(
        self, job: Job, allocations: Sequence[Allocation], binds: Sequence[Bind], timeout: int, now: int
    ) -> None:
        """These pods were placed, and are bound when their claims are."""
        claims: dict[str, _PendingClaim] = {}
        for allocation in allocations:
            self._state.pods[allocation.pod.uid].reserved = True
            for key, volume in allocation.volumes:
                awaited = claims.get(key)
                if awaited is None:
                    awaited = claims[key] = self._select(key, self._state.names[allocation.node], volume)
                awaited.pods.append(allocation.pod.uid)
        batch = _Batch(
            {bind.uid: bind for bind in binds}, claims, dict.fromkeys(claims), timeout, now + timeout
        )
        self._batches.setdefault(job.key, []).append(batch)
        # Pods that are not a gang are held one by one: those that wait already are not looked at again.
        before = self._ends.of(job.key)
        self._ends.put(job.key, batch.until if before is None else min(before, batch.until))
        if not batch.waiting:
            self._ready[job.key] = None
        for key in claims:
            self._by_claim.setdefault(key, {})[job.key] = None
        for allocation in allocations:
            self._job_of[allocation.pod.uid] = job.key
            self._by_node.setdefault(allocation.node, {})[job.key] = None

    def _note_batches(self, key: str) -> None:
        """The job waits for more, or for less."""
        batches = self._batches.get(key, ())
        if batches:
            self._ends.put(key, min(batch.until for batch in batches))
        else:
            self._ends.pop(key)
        if any(not batch.waiting for batch in batches):
            self._ready[key] = None
        else:
            self._ready.pop(key, None)

    def _select(self, key: str, node: str, volume: str) -> _PendingClaim:
        """Write what was chosen for a claim, unless it is written already."""
        claim = self._state.volumes.claims[key]
        awaits = key in self._by_claim
        if volume:
            volume_object = self._state.volumes.volumes.get(volume)
            if not awaits and volume_object is not None and volume_object.claim is None:
                self._commands[key] = BindVolume(volume, claim.namespace, claim.name, claim.uid)
            return _PendingClaim(claim.uid, node, volume, claim.selected_node)
        number = self._state.node_id.get(claim.selected_node, -1)
        if claim.selected_node and number >= 0 and self._state.nodes[number] is not None:
            return _PendingClaim(claim.uid, claim.selected_node, "", claim.selected_node, confirmed=True)
        if not awaits:
            self._commands[key] = SelectNode(claim.namespace, claim.name, claim.uid, node)
            return _PendingClaim(claim.uid, node, "", claim.selected_node)
        # Another job selected a node for it in this turn or shortly before.
        others = (batch.claims.get(key) for job in self._by_claim[key] for batch in self._batches[job])
        first = next(awaited for awaited in others if awaited is not None)
        return _PendingClaim(claim.uid, first.node, "", first.before)

    def settle_at_once(self, key: str) -> None:
        """Count the pods of the job as bound: in a what-if on manifests no pod waits for its volumes."""
        batches = list(self._batches.get(key, ()))
        for batch in batches:
            for uid in batch.binds:
                self._state.pods[uid].reserved = False
        self._take(key, batches)

    def report(self, now: int) -> list[Command]:
        """Return what was chosen for claims, and not given up in a later action or cycle."""
        chosen, self._commands = self._commands, {}
        return list(chosen.values())

    def _reason(self, key: str) -> Reason:
        batches = self._batches[key]
        batch = next((one for one in batches if one.waiting), batches[0])
        claim, node = _first(batch)
        return VOLUMES_AWAITED(
            pods=sum(len(one.binds) for one in batches),
            claims=sum(len(one.claims) for one in batches),
            claim=claim,
            node=node,
            seconds=batch.limit // SECOND,
        )

    def review(self, now: int) -> None:
        changed, self._changed = self._changed, {}
        for key, claims in changed.items():
            for batch in self._batches.get(key, ()):
                self._check(key, batch, claims, now)
            self._note_batches(key)
            self._update_reason(key, now)
        self._end_broken(now)
        for key in self._ends.due(now):
            late = [batch for batch in self._batches[key] if batch.until <= now]
            self._give_back(key, late, now, _timed_out(late[0]))
        self._end_refusals(now)

    def _end_broken(self, now: int) -> None:
        broken, self._broken = self._broken, {}
        for key, parts in broken.items():
            waiting = self._batches.get(key, ())
            lost = {batch: why for batch, why in reversed(parts) if batch in waiting}
            if lost:
                self._give_back(key, list(lost), now, _broke_off(parts[0][1]))

    def _update_reason(self, key: str, now: int) -> None:
        """Another claim may be the first that the job waits for."""
        job = self._book.jobs.get(key)
        if job is not None and key in self._batches and job.reason != (reason := self._reason(key)):
            job.reason = reason
            self._notify(ie.JobChanged(job), now)

    def _end_refusals(self, now: int) -> None:
        refused = self._state.volumes.refused
        for key in self._refusals.take(now):
            nodes = refused.pop(key, {})
            left = {node: until for node, until in nodes.items() if until > now}
            if left:
                refused[key] = left
                self._refusals.put(key, min(left.values()))
            if len(left) < len(nodes):
                self._claim_changed(key)

    # -- whether to keep waiting --------------------------------------------------------------------

    def _check(self, key: str, batch: _Batch, claims: dict[str | None, None], now: int) -> None:
        waits = [self._lost(batch)] if None in claims else []
        waits += [self._check_claim(claim, batch, now) for claim in claims if claim and claim in batch.claims]
        why = next(filter(None, waits), None)
        if why is not None:
            self._broken.setdefault(key, []).append((batch, why))

    def _lost(self, batch: _Batch) -> str:
        """What its pods have lost; empty: nothing."""
        for uid, bind in batch.binds.items():
            record = self._state.pods.get(uid)
            if record is None or not record.reserved:
                return f"pod {bind.pod} lost its node"
            why = self._closed(record) or self._broken_chip(record)
            if why:
                return why
        return ""

    def _closed(self, record: PodRecord) -> str:
        """Why its node no longer accepts new pods; empty if it does."""
        node, name = self._state.nodes[record.node], self._state.names[record.node]
        if node is None or not node.ready:
            return f"node {name} is {'gone' if node is None else 'not ready'}"
        if node.unschedulable and not tolerates(record.pod.cls.tolerations, CORDON):
            return f"node {name} is cordoned"
        return ""

    def _broken_chip(self, record: PodRecord) -> str:
        """Why a pod must no longer get its chips; empty: it may."""
        resource = record.pod.cls.resource
        if not record.chips or resource is None:
            return ""
        fleet, node = self._state.fleets[resource], record.node
        closed = fleet.closed[node]
        if closed is not None:
            return closed.message
        if fleet.unhealthy[node] & record.chips:
            return f"a chip of pod {record.pod.name} on {self._state.names[node]} is faulty"
        if record.chips & ~fleet.free_if_empty(node):
            return f"a chip of pod {record.pod.name} on {self._state.names[node]} is out of use"
        return ""

    def _check_claim(self, key: str, batch: _Batch, now: int) -> str:
        """Why the claim will not be bound as it was chosen; empty: it is, or it may still be."""
        table, awaited = self._state.volumes, batch.claims[key]
        claim = table.claims.get(key)
        if claim is None or claim.deleting or claim.uid != awaited.uid:
            return f"the claim {key} was deleted"
        if claim.phase == LOST:
            return f"the claim {key} has lost its volume"
        batch.waiting[key] = None
        if claim.bound:
            return self._check_volume(claim, batch)
        if awaited.volume:
            volume = table.volumes.get(awaited.volume)
            if volume is None:
                return f"the volume {awaited.volume}, which was given to the claim {key}, is gone"
            if volume.claim is not None and volume.claim.key != key:
                return f"the volume {awaited.volume} was given to the claim {volume.claim.key}, not to {key}"
            return ""
        if claim.selected_node == awaited.node:
            awaited.confirmed = True
        elif awaited.confirmed and not claim.selected_node:
            refused = table.refused.setdefault(key, {})
            refused[awaited.node] = now + REFUSED_SECONDS * SECOND
            self._refusals.put(key, min(refused.values()))
            return f"the provisioner made no volume of the claim {key} for {awaited.node}"
        elif claim.selected_node not in ("", awaited.before):
            return f"the volume of the claim {key} is made for {claim.selected_node}, not for {awaited.node}"
        return ""

    def _check_volume(self, claim: PersistentVolumeClaim, batch: _Batch) -> str:
        """The claim is bound: whether all its pods can use the volume where they are."""
        volume = self._state.volumes.volumes.get(claim.volume)
        if volume is None:
            # It is seen in a moment.
            return ""
        usable = self._nodes.of_terms(self._state, volume.node_terms)
        usable &= self._nodes.of_places(self._state, volume)
        for uid in batch.claims[claim.key].pods:
            record = self._state.pods.get(uid)
            if record is not None and record.node >= 0 and not usable >> record.node & 1:
                node = self._state.names[record.node]
                return f"the claim {claim.key} was bound to the volume {volume.name}, which {node} cannot use"
        batch.waiting.pop(claim.key, None)
        return ""

    # -- how it ends --------------------------------------------------------------------------------

    def act(self, now: int) -> Iterator[Bind]:
        """The bindings of those whose claims are all bound."""
        sent = count()
        for job in self._book.existing(self._ready):
            yield from self._send(job, now, sent)

    def _send(self, job: Job, now: int, sent: Iterator[int]) -> Iterator[Bind]:
        batches = self._batches[job.key]
        ready = [batch for batch in batches if not batch.waiting]
        if not ready or not self._is_gang(job, ready):
            return
        left = self._take(job.key, ready)
        for batch in ready:
            for bind in batch.binds.values():
                self._state.pods[bind.uid].reserved = False
                time = str(now + next(sent))
                if PREDICATE_TIME in bind.annotations:
                    # By it the device plugin orders the pods of a node: others may have been bound meanwhile.
                    bind = replace(bind, annotations={**bind.annotations, PREDICATE_TIME: time})
                self._notify(ie.PodBound(job, bind.node, bind.chips), now)
                yield bind
        self._failures.pop(job.key, None)
        job.may_not_evict = False
        if self._book.has_pending(job):
            self._job_queue.activate(job.key)
        elif not left:
            job.reason = job.waiting_since = None
        self._notify(ie.JobChanged(job), now)

    def _is_gang(self, job: Job, batches: Sequence[_Batch]) -> bool:
        """Whether the job has its minimums with these: without its gang no pod of it is bound."""
        held = {uid for batch in batches for uid in batch.binds}
        backups = job.backups
        started = [
            pod for uid, pod in job.pods.items() if uid not in backups and (uid in held or self._counts(pod))
        ]
        gang = GangCount(job, started)
        return gang.is_enough and not gang.short_tasks

    def _counts(self, pod: Pod) -> bool:
        """Whether the pod counts for its gang: it is placed, or waits and requests nothing."""
        record = self._state.pods[pod.uid]
        if record.node >= 0 or pod.phase == "Succeeded":
            return not record.reserved and is_placed(self._state, pod)
        return pod.cls.best_effort and pod.phase == "Pending" and not pod.deleting and not pod.gated

    def _give_back(self, key: str, lost: Sequence[_Batch], now: int, reason: Callable[[int], Reason]) -> None:
        """Pods that cannot start without these give back what they have, too."""
        job = self._book.jobs.get(key)
        left = self._take(key, lost)
        if job is None or (left and not self._is_gang(job, left)):
            lost = [*lost, *left]
            self._take(key, left)
        for batch in lost:
            for claim in batch.claims:
                if claim not in self._by_claim:
                    self._commands.pop(claim, None)
        if job is None:
            return
        for batch in lost:
            for uid in batch.binds:
                record = self._state.pods.get(uid)
                if record is not None and record.reserved:
                    self._undo(job, uid)
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        pause = self._job_queue.back_off(key, BackoffCause.VOLUMES, now, BACKOFF.seconds(failures))
        job.reason = reason(pause)
        job.may_not_evict = job.reason.kind is VOLUMES_TIMED_OUT
        self._job_queue.activate(key)
        self._notify(ie.JobChanged(job), now)

    def _take(self, key: str, batches: Sequence[_Batch]) -> list[_Batch]:
        """These wait no more. Returns those of the job that still do."""
        left = [batch for batch in self._batches.get(key, ()) if batch not in batches]
        if left:
            self._batches[key] = left
        else:
            self._batches.pop(key, None)
        self._note_batches(key)
        claims = {claim for batch in left for claim in batch.claims}
        nodes = {bind.node for batch in left for bind in batch.binds.values()}
        for claim in {claim for batch in batches for claim in batch.claims} - claims:
            discard(self._by_claim, claim, key)
        for batch in batches:
            for uid, bind in batch.binds.items():
                self._job_of.pop(uid, None)
                if bind.node not in nodes:
                    discard(self._by_node, self._state.node_id.get(bind.node, -1), key)
        return left


def _broke_off(why: str) -> Callable[[int], Reason]:
    return lambda seconds: VOLUME_BINDING_FAILED(why=why, seconds=seconds)


def _first(batch: _Batch) -> tuple[str, str]:
    """The first claim that it waits for, and its node."""
    claim = next(iter(batch.waiting or batch.claims), "")
    return claim, batch.claims[claim].node if claim else ""


def _timed_out(batch: _Batch) -> Callable[[int], Reason]:
    claim, node = _first(batch)
    return lambda seconds: VOLUMES_TIMED_OUT(
        waiting=len(batch.waiting),
        claims=len(batch.claims),
        claim=claim,
        node=node,
        limit=batch.limit // SECOND,
        seconds=seconds,
    )
