"""The state of allocation on one node, for one resource: calls, mounts, corrections (rules D2, D3).

Synchronous and without I/O: the pods come from a watch, the listing from kubelet's pod-resources API, time
and health as values. What must be written comes back as values.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from ringwise.device.allocation import (
    CONSUMED,
    AllocationError,
    first_placed,
    is_candidate,
    listed_chips,
    named_chips,
    preferred_ids,
    reported_ids,
    updated_map,
)
from ringwise.device.ledger import Claim, Ledger, Mount, Share
from ringwise.device.pods import DEFAULT_GRACE, NodePod
from ringwise.grammar import counted
from ringwise.records import dataclass
from ringwise.wellknown import ASCEND_REAL, KUBELET_DEVICES, PREDICATE_TIME

#: Nanoseconds within which kubelet may not list yet what it was just given.
LISTING_DELAY = 10 * 10**9
#: The same for listings that are read at any time, also while kubelet starts.
LISTING_TIMEOUT = 120 * 10**9

#: Seconds that a container may need to end after its grace period: kubelet kills it then. And at most so many
#: in all, however long the grace period: where it cannot be seen, chips are not withheld for ever.
KILL_TIME = 10
MAX_END = 3600

#: Of pods that an Allocate call passed over so many are named.
MAX_NAMED = 3

NOT_HERE = "is not on this node"

#: Pod (namespace/name) to the ids of each of its containers, as kubelet's pod-resources API lists them.
Listing = Mapping[str, Sequence[Sequence[str]]]


@dataclass(frozen=True, slots=True)
class AllocateResult:
    """The answer to one container's request, and what must be written to the pod first."""

    mount: Mount
    pod: NodePod | None
    annotations: Mapping[str, str]
    #: What the pod had after an earlier exchange.
    claim: Claim | None = None
    #: Why pods that were placed earlier were passed over.
    passed_over: tuple[str, ...] = ()

    @property
    def chips(self) -> tuple[str, ...]:
        return self.mount.chips


@dataclass(frozen=True, slots=True)
class Correction:
    """Annotations of a pod that disagree with what its container has; None removes one."""

    pod: NodePod
    annotations: Mapping[str, str | None]


#: The configuration annotation for a pod with these chips: key and value, or None where there is none.
RankTable = Callable[[NodePod, Sequence[str]], tuple[str, str] | None]
#: Whether two values of that annotation name the same devices.
SameRankTable = Callable[[str, str], bool]


#: Names of lists beside those of annotations: what kubelet lists, and what was reported before a restart.
_KUBELET, _REPORTED = "kubelet", "reported"


class UnconfirmedChips:
    """Chips of pods without a record of their mount (rule N8): from before this plugin, or of a lost file.

    Which chips such a container has, neither the pod's annotations say, which its owner can write, nor
    kubelet, which lists ids of its own. So all that they name is withheld until the pod ends. Each list of a
    pod counts as it was first read: a later edit neither frees nor takes chips.
    """

    def __init__(self, resource: str) -> None:
        self._resource = resource
        #: Other names of chips in lists that Huawei's scheduler wrote: on A5 it names logic ids.
        self.other_names: Mapping[str, str] = {}
        #: Pod uid to the name of a list and its chips.
        self._lists: dict[str, dict[str, tuple[str, ...]]] = {}

    def chips(self, pod: NodePod, ids: Sequence[str], mapped: Mapping[str, str], most: int) -> set[str]:
        """Return the chips that a pod may have, of each list at most so many.

        `ids` as kubelet lists them, `mapped` the chips behind known ids.
        """
        lists = self._lists.setdefault(pod.uid, {})
        if ids and _KUBELET not in lists:
            lists[_KUBELET] = tuple(mapped.get(one, one) for one in ids[:most])
        for key in (self._resource, ASCEND_REAL):
            named = listed_chips(pod.annotations.get(key), self._resource)[:most] if key not in lists else ()
            if named and key == self._resource:
                # Whose list it is, is unknown, so both meanings count.
                named += tuple(self.other_names[one] for one in named if one in self.other_names)
            if named:
                lists[key] = named
        return {chip for names in lists.values() for chip in names}

    def restore(self, reported: Mapping[str, Sequence[str]]) -> None:
        """What the node's report said before a restart."""
        for uid, chips in reported.items():
            self._lists.setdefault(uid, {}).setdefault(_REPORTED, tuple(chips))

    def forget(self, uids: Iterable[str]) -> None:
        for uid in uids:
            self._lists.pop(uid, None)

    def keep(self, uids: Collection[str]) -> None:
        """All other pods are gone."""
        self.forget([uid for uid in self._lists if uid not in uids])


class Allocator:
    """One resource of one node."""

    _DISAGREES = "the chip list and the request differ"

    def __init__(
        self,
        resource: str,
        chips: Sequence[str],
        ledger: Ledger,
        *,
        rank_table: RankTable = lambda pod, chips: None,
        same_rank_table: SameRankTable = str.__eq__,
        mounts_by_environment: bool = False,
        match_pods: bool = True,
    ) -> None:
        self.resource = resource
        #: Names of the node's chips in the order in which they were found.
        self.chips = tuple(chips)
        self.ledger = ledger
        self.pods: dict[str, NodePod] = {}
        #: Those of them that ask for chips; most pods of a node ask for none.
        self._asking: dict[str, NodePod] = {}
        #: Of these the ones that a call may serve, as they are: known when they come, since kubelet waits.
        self._eligible: set[str] = set()
        self._rank_table = rank_table
        self._same_rank_table = same_rank_table
        #: Ascend Docker Runtime: what a container reads from its pod's annotation wins over the answer.
        self._mounts_by_environment = mounts_by_environment
        #: Without it kubelet's ids are the chips, and pods are not looked at.
        self.match_pods = match_pods
        #: Pods that kubelet lists with ids of which there is no record: uid to these ids.
        self._unrecorded: dict[str, tuple[str, ...]] = {}
        self.doubts = UnconfirmedChips(resource)
        #: Pods that are gone and had chips, as they were last seen: whether they had ended.
        self._gone: dict[str, NodePod] = {}
        #: Uids of pods that had processes when the last listing was read; None where that cannot be seen.
        self._running: Collection[str] | None = None

    # -- pods ------------------------------------------------------------------------------------------

    def replace_pods(self, pods: Iterable[NodePod], now: int, version: int = 0) -> None:
        """After a list of that version: what is not in it is gone, unless the watch brought it since."""
        listed = {pod.uid: pod for pod in pods}
        for uid, pod in list(self.pods.items()):
            if uid not in listed and not (version and pod.version > version):
                self.drop_pod(uid, now)
        for pod in listed.values():
            self.put_pod(pod)
        self.doubts.keep(self.pods.keys())

    def put_pod(self, pod: NodePod) -> None:
        """Older versions are ignored: what we wrote is known here before the watch has it."""
        previous = self.pods.get(pod.uid)
        if previous is None or not pod.version or pod.version >= previous.version:
            self.pods[pod.uid] = pod
            self._asking.pop(pod.uid, None)
            self._eligible.discard(pod.uid)
            if pod.asks_for(self.resource):
                self._asking[pod.uid] = pod
                if self._is_eligible(pod):
                    self._eligible.add(pod.uid)

    def drop_pod(self, uid: str, now: int, last: NodePod | None = None) -> None:
        """A pod is gone; `last` is how it was then. Unless it had ended its containers may still run."""
        pod = last or self.pods.get(uid)
        if pod is not None:
            if uid in self._mounted_pods():
                self._gone[uid] = pod
            elif not pod.ended and self._is_doubtful(pod):
                chips = tuple(sorted(set(self._named(pod)).intersection(self.chips)))
                self._gone[uid] = pod
                self.ledger.add(self._left(Mount(self.resource, (), chips, uid, pod.key, at=now), now))
        self.pods.pop(uid, None)
        self._asking.pop(uid, None)
        self._eligible.discard(uid)
        self._unrecorded.pop(uid, None)
        self.doubts.forget([uid])

    def as_claimed(self, pod: NodePod) -> NodePod:
        """The pod with the chips and the place in the order that it has after an exchange."""
        claim = self.ledger.claims.get(pod.uid)
        if claim is None:
            return pod
        return pod.annotated(
            {self.resource: ",".join(claim.chips), PREDICATE_TIME: claim.time, ASCEND_REAL: None}
        )

    def waiting(self) -> list[NodePod]:
        """Pods that kubelet may still ask for. One with several containers that ask has no place among them:
        its list is for all of them, and each call is for one (rule D4). Nor has one with another number of
        chips in its list than it asks for: somebody changed the list, and no call of that number is its call.
        """
        served, claims = self._mounted_pods().union(self._unrecorded), self.ledger.claims
        result = [
            pod
            for uid, pod in self._asking.items()
            if uid in self._eligible and uid not in served and uid not in claims
        ]
        if claims:
            claimed = (self.as_claimed(self._asking[uid]) for uid in claims if uid in self._asking)
            result += [pod for pod in claimed if pod.uid not in served and self._is_eligible(pod)]
        return result

    def _is_eligible(self, pod: NodePod) -> bool:
        return (
            is_candidate(pod, self.resource)
            and pod.asking_containers(self.resource) == 1
            and self._agrees(pod)
        )

    def _agrees(self, pod: NodePod) -> bool:
        """Return whether the annotations name as much as the pod asks for."""
        chips = listed_chips(pod.annotations.get(self.resource), self.resource)
        return len(chips) == pod.asks_for(self.resource)

    def _unserved_pods(self) -> list[NodePod]:
        claimed = (self.as_claimed(pod) for pod in self._without_mount() if pod.uid not in self._unrecorded)
        return [pod for pod in claimed if is_candidate(pod, self.resource)]

    # -- calls -----------------------------------------------------------------------------------------

    def allocate(
        self, ids: Sequence[str], now: int, why_not: Callable[[str], str | None], *, fresh: bool = True
    ) -> AllocateResult:
        """Choose the pod and enter the mount into the book; `abort` takes it back (rule D2).

        `why_not` returns why a chip cannot be used, None for a healthy one. `fresh`: pods and mounts were
        just read. Otherwise a chip that looks held may be free by now, and no pod is passed over for it.
        """
        if not self.match_pods:
            mount = Mount(self.resource, tuple(ids), tuple(ids), "", at=now)
            for chip in mount.chips:
                problem = self._unusable(chip, "", why_not)
                if problem is not None:
                    raise AllocationError(problem)
            held = self._held_by_others("", ids, fresh)
            if chip := next((chip for chip in mount.chips if chip in held), ""):
                raise AllocationError(f"chip {chip} is held by {held[chip]}")
            self.ledger.add(mount)
            return AllocateResult(mount, None, {})
        pod, passed_over = self._served_next(len(ids), why_not, ids, fresh)
        if pod is None:
            raise AllocationError(self._failure(passed_over, len(ids)))
        mount = self._mount(pod, ids, now)
        annotations = self._annotations(self.pods[pod.uid], mount)
        annotations[PREDICATE_TIME] = CONSUMED
        claim = self.ledger.claims.get(pod.uid)
        for other in self._mounts():
            if not set(ids).isdisjoint(other.ids) and self._may_run(other, fresh):
                self.ledger.replace(other, self._left(other, now))
        self.ledger.add(mount)
        self.ledger.unclaim(pod.uid)
        return AllocateResult(mount, pod, annotations, claim, tuple(passed_over))

    def _mount(self, pod: NodePod, ids: Sequence[str], now: int) -> Mount:
        return Mount(
            self.resource,
            tuple(ids),
            listed_chips(pod.annotations.get(self.resource), self.resource),
            pod.uid,
            pod.key,
            time=pod.annotations.get(PREDICATE_TIME),
            at=now,
        )

    def _served_next(
        self, count: int, why_not: Callable[[str], str | None], ids: Sequence[str], fresh: bool
    ) -> tuple[NodePod | None, list[str]]:
        """The pod that a call for so many chips serves, and why those before it are passed over (rule D2)."""
        waiting, passed_over = self.waiting(), list[str]()
        while True:
            pod = first_placed([one for one in waiting if one.asks_for(self.resource) == count])
            if pod is None:
                break
            chips = listed_chips(pod.annotations.get(self.resource), self.resource)
            of_pod = f" of pod {pod.key}"
            problem = next(filter(None, (self._unusable(chip, of_pod, why_not) for chip in chips)), None)
            if problem is None:
                problem = self._occupied(pod, chips, ids, fresh)
                if problem is None:
                    break
                if not fresh:
                    raise AllocationError(problem)
            passed_over.append(problem)
            waiting = [one for one in waiting if one is not pod]
        return pod, passed_over

    def _occupied(self, pod: NodePod, chips: Sequence[str], ids: Sequence[str], fresh: bool) -> str | None:
        """Return why containers of other pods leave no room for the pod on its chips."""
        held = self._held_by_others(pod.uid, ids, fresh)
        chip = next((chip for chip in chips if chip in held), None)
        return None if chip is None else f"chip {chip} of pod {pod.key} is held by {held[chip]}"

    def commit(self, allocation: AllocateResult, patched: NodePod | None = None) -> None:
        """The pod was patched: the watch will show it later."""
        if allocation.pod is not None and (pod := self.pods.get(allocation.pod.uid)) is not None:
            self.put_pod(patched if patched is not None else pod.annotated(allocation.annotations))

    def abort(self, allocation: AllocateResult, *, maybe_patched: bool = False) -> None:
        """The pod could not be patched, so nothing was mounted.

        Where the server may have taken the patch all the same, the pod keeps its claim: kubelet may have
        meant another pod, and then it will still ask for this one.
        """
        self.ledger.remove(allocation.mount)
        claim = allocation.claim
        if maybe_patched:
            claim = Claim(allocation.mount.chips, allocation.mount.time)
        if allocation.pod is not None and claim is not None:
            self.ledger.claim(allocation.pod.uid, claim)

    def _unusable(self, chip: str, of_pod: str, why_not: Callable[[str], str | None]) -> str | None:
        if chip not in self.chips:
            return f"chip {chip}{of_pod} {NOT_HERE}"
        problem = why_not(chip)
        return None if problem is None else f"chip {chip}{of_pod} cannot be used: {problem}"

    def _held_by_others(self, uid: str, ids: Sequence[str], fresh: bool) -> dict[str, str]:
        """Chips in containers of other pods than this, and who has them. Pods that only wait hold nothing."""
        held: dict[str, str] = {}
        again = set(ids)
        for mount in self._mounts():
            # An id that kubelet hands out again was given back before, the chip perhaps not.
            if again.isdisjoint(mount.ids) or self._may_run(mount, fresh):
                held.update(dict.fromkeys(mount.chips, self._holder(mount)))
        for other in self._without_mount():
            if other.uid != uid and self._is_doubtful(other):
                held.update(dict.fromkeys(self._named(other), f"pod {other.key}"))
        return held

    def _holder(self, mount: Mount) -> str:
        owner = self.pods.get(mount.pod) or self._gone.get(mount.pod)
        name = owner.key if owner is not None else mount.chosen_key or mount.pod
        return f"pod {name}" + (", which is deleted and may still run" if mount.until else "")

    def _may_run(self, mount: Mount, fresh: bool = True) -> bool:
        """Whether the container of a mount may run though kubelet gave its ids away, or does not list them.

        `fresh`: it was just looked which pods have processes.
        """
        pod = self.pods.get(mount.pod) or self._gone.get(mount.pod)
        if pod is not None and pod.ended:
            return False
        if not mount.pod or not fresh:
            return bool(mount.pod)
        if self._running is not None:
            return mount.pod in self._running
        # A pod that is there and does not run yet was rejected.
        return mount.pod not in self.pods or self._runs(self.pods[mount.pod])

    def _is_left(self, mount: Mount) -> bool:
        """Its pod is gone without having been seen to end: kubelet gave the ids back, or will soon."""
        gone = self._gone.get(mount.pod)
        return bool(mount.until) or (gone is not None and not gone.ended)

    def _left(self, mount: Mount, now: int) -> Mount:
        """The mount of a container that may run and of which kubelet knows no more."""
        pod = self.pods.get(mount.pod) or self._gone.get(mount.pod)
        grace = pod.grace if pod is not None else DEFAULT_GRACE
        until = mount.until or now + min(grace + KILL_TIME, MAX_END) * 10**9
        return replace(mount, ids=(), owner=mount.pod, chosen=mount.pod, until=until)

    def _is_served(self, pod: NodePod) -> bool:
        return pod.uid not in self.ledger.claims and pod.annotations.get(PREDICATE_TIME) == CONSUMED

    def _is_doubtful(self, pod: NodePod) -> bool:
        """Whether a pod without a record has chips in its container all the same (rule N8)."""
        if not pod.live or not self.match_pods:
            return False
        return pod.uid in self._unrecorded or self._is_served(pod) or self._runs(pod)

    def _runs(self, pod: NodePod) -> bool:
        """Return whether the pod runs with chips; one that changed places with another waits for its own."""
        return pod.phase == "Running" and pod.uid not in self.ledger.claims

    def _named(self, pod: NodePod) -> Collection[str]:
        """The chips that count for a live pod without a record."""
        if not self._is_doubtful(pod):
            return self._limited(self.as_claimed(pod))
        ids, mapped = self._unrecorded.get(pod.uid, ()), self.ledger.mapped(self.resource)
        return self.doubts.chips(pod, ids, mapped, pod.asks_for(self.resource))

    def _failure(self, passed_over: Sequence[str], count: int) -> str:
        if not passed_over:
            return self._nothing_waits(count)
        others = len(passed_over) - MAX_NAMED
        return "; ".join(passed_over[:MAX_NAMED]) + (
            f"; and {counted(others, 'pod')} more" if others > 0 else ""
        )

    def _nothing_waits(self, count: int) -> str:
        others = sorted(
            f"{pod.key} ({len(listed_chips(pod.annotations.get(self.resource), self.resource))})"
            for pod in self.waiting()
        )
        waiting = f"; pods that wait, with their chips: {', '.join(others)}" if others else ""
        unserved = self._unserved_pods()
        refused = sorted(pod.key for pod in unserved if pod.asking_containers(self.resource) > 1)
        if refused:
            waiting += f"; one container of a pod may ask for chips, more do in {', '.join(refused)}"
        early = sorted(
            pod.key for pod in self.pods.values() if pod.live and pod.asks_before_start(self.resource)
        )
        if early:
            waiting += f"; only an init container asks for chips in {', '.join(early)}"
        uids = {pod.uid for pod in self.waiting()}
        changed = sorted(pod.key for pod in unserved if pod.uid not in uids and pod.key not in refused)
        if changed:
            waiting += f"; {self._DISAGREES} in {', '.join(changed)}"
        return f"no pod of this node waits for {counted(count, 'chip')} of {self.resource}{waiting}"

    # -- ids -------------------------------------------------------------------------------------------

    def device_ids(self) -> dict[str, tuple[str, ...]]:
        """Return the ids under which each chip is reported to kubelet."""
        return {chip: (identity,) for chip, identity in self.reported().items()}

    def reported(self) -> dict[str, str]:
        """Under which id each chip is reported to kubelet."""
        mapped: dict[str, str] = {}
        for uid, ids in self._unrecorded.items():
            # A guess, for kubelet's counts alone: as many free ids should be healthy as free chips are.
            chips = named_chips(self.pods[uid], self.resource) if uid in self.pods else ()
            mapped = updated_map(mapped, ids, chips)
        return reported_ids(self.chips, mapped | self.ledger.mapped(self.resource))

    def preferred(
        self,
        available: Sequence[str],
        must_include: Sequence[str],
        size: int,
        why_not: Callable[[str], str | None],
    ) -> list[str]:
        """Ids for the pod that D2 would serve next."""
        pod = self._served_next(size, why_not, (), fresh=True)[0] if self.match_pods else None
        chips = listed_chips(pod.annotations.get(self.resource), self.resource) if pod is not None else ()
        return preferred_ids(chips, set(available), must_include, size, self.reported())

    # -- what kubelet lists ------------------------------------------------------------------------------

    def listed(
        self,
        listing: Listing,
        now: int,
        *,
        during_call: bool = False,
        in_containers: Mapping[str, Sequence[str]] | None = None,
        running: Collection[str] | None = None,
    ) -> None:
        """Enter which pod has which ids; drop mounts that are gone (rule D2).

        `during_call`: the listing was read for an Allocate call, so kubelet has read its own records. After
        a start it lists nothing for a while. `in_containers`: pod uid to the chips of the device nodes that
        its containers have, as far as that was seen. `running`: those of `in_question` that have processes;
        None where that cannot be seen.
        """
        self._running = running
        owners = self._owners(listing)
        for mount in self._mounts():
            ids = frozenset(mount.ids)
            if ids not in owners:
                self._drop_unlisted(mount, now, during_call)
            elif self._is_stale(mount, owners[ids]):
                self._give_back(mount, now)
            else:
                self._attribute(mount, owners[ids])
        ids_of = {pod.uid: ids for ids, pod in self._without_record(owners)}
        # A kubelet that starts lists nothing yet.
        before = {} if during_call else self._unrecorded
        self._unrecorded = {}
        for uid, listed in (before | {uid: tuple(sorted(ids)) for uid, ids in ids_of.items()}).items():
            pod = self.pods.get(uid)
            if pod is None or not pod.live or uid in self._mounted_pods():
                continue
            if uid not in ids_of or not self._recover(listed, pod, in_containers or {}, now):
                self._unrecorded[uid] = listed
        self._settle()
        self.ledger.forget_claims(pod.uid for pod in self.pods.values() if pod.live)
        mounted = self._mounted_pods()
        self._gone = {uid: pod for uid, pod in self._gone.items() if uid in mounted}

    def unlisted(self) -> None:
        """Kubelet did not answer: which pods have processes was not looked at, either."""
        self._running = None

    def in_question(self, listing: Listing) -> set[str]:
        """Uids of pods that kubelet does not list with their mounts and that were not seen to end."""
        listed = {frozenset(ids) for lists in listing.values() for ids in lists}
        return {
            mount.pod
            for mount in self._mounts()
            if (frozenset(mount.ids) not in listed or mount.pod not in self.pods)
            and self._may_run(mount, fresh=False)
        }

    def left(self) -> dict[str, tuple[str, ...]]:
        """Pods of which kubelet knows no more and that may still run, as namespace/name, with their chips."""
        return {mount.chosen_key or mount.pod: mount.chips for mount in self._mounts() if mount.until}

    def _give_back(self, mount: Mount, now: int) -> None:
        """Kubelet has the ids back. The chips are free when the container has ended."""
        if self._may_run(mount) and not (self._running is None and mount.until and now >= mount.until):
            self.ledger.replace(mount, self._left(mount, now))
        else:
            self.ledger.remove(mount)

    def _drop_unlisted(self, mount: Mount, now: int, during_call: bool) -> None:
        pod = self.pods.get(mount.pod)
        live = pod is not None and pod.live
        if mount.owner:
            if not live:
                self._give_back(mount, now)
            return
        if now - mount.at < (LISTING_DELAY if during_call else LISTING_TIMEOUT):
            return
        if not live:
            self._give_back(mount, now)
        elif during_call:
            # Kubelet never took the answer, or the pod it was for is gone: the chosen one still waits.
            self.ledger.remove(mount)
            self.ledger.claim(mount.chosen, Claim(mount.chips, mount.time))

    def _is_stale(self, mount: Mount, pod: NodePod | None) -> bool:
        """Whether another plugin gave these ids to a pod since: the node had Huawei's for a while.

        A pod that was not served yet may only have the name of the one that is gone.
        """
        if not mount.owner or pod is None or pod.uid in self._mounted_pods():
            return False
        owner = self.pods.get(mount.owner)
        served = pod.phase == "Running" or self._is_served(pod)
        return served and (owner is None or not owner.live)

    def _attribute(self, mount: Mount, pod: NodePod | None) -> None:
        # A pod of the same name as one that was chosen earlier is not the one that kubelet lists.
        if pod is None or mount.owner or (mount.chosen_key == pod.key and mount.chosen != pod.uid):
            return
        chosen = self.pods.get(mount.chosen)
        owned = replace(mount, owner=pod.uid, chosen=mount.chosen or pod.uid)
        own = listed_chips(self.as_claimed(pod).annotations.get(self.resource), self.resource)
        by_environment = self._mounts_by_environment and self.resource in pod.visible_from
        if by_environment and mount.chosen != pod.uid and len(own) == len(mount.ids):
            # The container read its own annotation, so nothing was exchanged; only the mark is wrong.
            owned = replace(owned, chips=own, chosen=pod.uid)
            if chosen is not None and chosen.live:
                self.ledger.claim(chosen.uid, Claim(mount.chips, mount.time))
        self.ledger.replace(mount, owned)

    def without_record(self, listing: Listing) -> list[NodePod]:
        """Live pods that kubelet lists with ids of which there is no record."""
        return [pod for _, pod in self._without_record(self._owners(listing))] if self.match_pods else []

    def _owners(self, listing: Listing) -> dict[frozenset[str], NodePod | None]:
        by_key = {pod.key: pod for pod in self.pods.values()}
        return {frozenset(ids): by_key.get(key) for key, lists in listing.items() for ids in lists}

    def _without_record(
        self, owners: Mapping[frozenset[str], NodePod | None]
    ) -> list[tuple[frozenset[str], NodePod]]:
        mounted, recorded = {frozenset(mount.ids) for mount in self._mounts()}, self._mounted_pods()
        return [
            (ids, pod)
            for ids, pod in owners.items()
            if pod is not None and pod.live and ids and ids not in mounted and pod.uid not in recorded
        ]

    def _recover(
        self, ids: Sequence[str], pod: NodePod, in_containers: Mapping[str, Sequence[str]], now: int
    ) -> bool:
        """Enter a mount that another plugin made, or that was in a file now lost; False while it is doubtful.

        What its owner can write does not count: neither annotations nor what a container reads from them.
        """
        chips = tuple(in_containers.get(pod.uid, ()) if self.match_pods else ids)
        if len(chips) != len(ids) or not set(chips).union(ids) <= set(self.chips):
            return False
        taken = {chip for mount in self._mounts() for chip in mount.chips}
        if not taken.isdisjoint(chips):
            return False
        self.ledger.add(Mount(self.resource, tuple(ids), chips, pod.uid, pod.key, owner=pod.uid, at=now))
        self.doubts.forget([pod.uid])
        return True

    def _settle(self) -> None:
        if all(not mount.owner or mount.owner == mount.chosen for mount in self._mounts()):
            return
        free: dict[str, Claim] = {}
        for pod in self.pods.values():
            claimed = self.as_claimed(pod)
            time = claimed.annotations.get(PREDICATE_TIME)
            chips = listed_chips(claimed.annotations.get(self.resource), self.resource)
            if time != CONSUMED and chips:
                free[pod.uid] = Claim(chips, time)
        self.ledger.settle(free, [pod.uid for pod in self.pods.values() if pod.live])

    # -- what must be written --------------------------------------------------------------------------------

    def corrections(self) -> list[Correction]:
        """Annotations that disagree with what is mounted, or with the places after an exchange (D3)."""
        if not self.match_pods:
            return []
        result = []
        # A pod may have a mount and be chosen for another whose answer was lost: what kubelet lists counts.
        mounts = {mount.pod: mount for mount in sorted(self._mounts(), key=lambda mount: bool(mount.owner))}
        for pod in self.pods.values():
            if not pod.live:
                continue
            mount = mounts.get(pod.uid)
            claim = self.ledger.claims.get(pod.uid)
            changes: dict[str, str | None] = {}
            if mount is not None and mount.owner:
                changes = self._differences(pod, mount)
            elif mount is None and claim is not None:
                changes = self._unserved(pod, claim)
            if changes:
                result.append(Correction(pod, changes))
        return result

    def corrected(self, correction: Correction, patched: NodePod | None = None) -> None:
        """The correction was written: the watch will show it later."""
        pod = self.pods.get(correction.pod.uid)
        if pod is not None:
            self.put_pod(patched if patched is not None else pod.annotated(correction.annotations))

    def _differences(self, pod: NodePod, mount: Mount) -> dict[str, str | None]:
        changes: dict[str, str | None] = {}
        for key, value in self._annotations(pod, mount).items():
            present = pod.annotations.get(key)
            if present is None or not self._same(key, present, value):
                changes[key] = value
        if pod.annotations.get(PREDICATE_TIME) != CONSUMED:
            changes[PREDICATE_TIME] = CONSUMED
        return changes

    def _same(self, key: str, present: str, wanted: str) -> bool:
        if key in (self.resource, ASCEND_REAL, KUBELET_DEVICES):
            return {name.strip() for name in present.split(",")} == set(wanted.split(","))
        return self._same_rank_table(present, wanted)

    def _unserved(self, pod: NodePod, claim: Claim) -> dict[str, str | None]:
        """The pod still waits, with the chips of another one."""
        wanted: dict[str, str | None] = {
            self.resource: ",".join(claim.chips),
            PREDICATE_TIME: claim.time,
            ASCEND_REAL: None,
            KUBELET_DEVICES: None,
        }
        table = self._rank_table(pod, claim.chips)
        if table is not None:
            wanted[table[0]] = None
        return {key: value for key, value in wanted.items() if pod.annotations.get(key) != value}

    def _annotations(self, pod: NodePod, mount: Mount) -> dict[str, str]:
        """What names the mounted chips. The scheduler's list stays as it is where it names the same chips."""
        annotations = {
            ASCEND_REAL: ",".join(sorted(mount.chips)),
            KUBELET_DEVICES: ",".join(sorted(mount.ids)),
        }
        if set(listed_chips(pod.annotations.get(self.resource), self.resource)) != set(mount.chips):
            annotations[self.resource] = ",".join(mount.chips)
        table = self._rank_table(pod, mount.chips)
        if table is not None:
            annotations[table[0]] = table[1]
        return annotations

    # -- what others hear ------------------------------------------------------------------------------------

    def used(self) -> set[str]:
        """Chips that are not free: mounted, or named by a live pod (rule D2)."""
        used = {chip for mount in self._mounts() for chip in mount.chips}
        for pod in self._without_mount():
            if pod.live:
                used.update(self._named(pod))
        return used

    def chips_of_pods(self) -> dict[str, tuple[str, ...]]:
        """Pod uid to the chips that stand for it (rule N8): mounted, or its own after an exchange.

        A pod that waits is listed only after an exchange: its new chips would look free otherwise. For the
        same reason an exchange is reported only when all of it is known.
        """
        chips_of = {
            mount.owner: mount.chips
            for mount in self._mounts()
            if mount.owner == mount.chosen and (mount.owner in self.pods or self._is_left(mount))
        }
        for uid, claim in self.ledger.claims.items():
            if uid in self.pods and uid not in chips_of:
                chips_of[uid] = claim.chips
        return chips_of

    def shares_of_pods(self) -> dict[str, tuple[str, Share]] | None:
        """Return the shares of pods and their chips by uid; None if chips are not shared here."""
        return None

    def doubtful_chips(self) -> dict[str, tuple[str, ...]]:
        """Pod uid to the chips that it may have, of pods without a record (rule N8)."""
        unattributed = {len(mount.ids) for mount in self._mounts() if not mount.owner}
        return {
            pod.uid: tuple(sorted(chips.intersection(self.chips)))
            for pod in self._without_mount()
            if self._is_doubtful(pod)
            # One that waits may only have the name of the pod that kubelet means.
            and (self._is_served(pod) or self._runs(pod))
            # One of the mounts whose pod is not known yet may be its.
            and (pod.uid in self._unrecorded or pod.asks_for(self.resource) not in unattributed)
            and (chips := set(self._named(pod)))
        }

    def pod_of(self, chip: str) -> NodePod | None:
        """The live pod that uses a chip."""
        for mount in self._mounts():
            if chip in mount.chips:
                return self.pods.get(mount.pod)
        unmounted = (pod for pod in self._without_mount() if pod.live)
        return next((pod for pod in unmounted if chip in self._limited(self.as_claimed(pod))), None)

    def needs_listing(self, now: int) -> bool:
        """Whether a mount is there of which kubelet should have said by now whose it is.

        Younger ones can wait for the next report: which chips a call gets does not depend on their owners.
        """
        return any(not mount.owner and now - mount.at >= LISTING_DELAY for mount in self._mounts())

    def _without_mount(self) -> list[NodePod]:
        """Pods that ask for chips and of which there is no mount."""
        mounted = self._mounted_pods()
        return [pod for uid, pod in self._asking.items() if uid not in mounted]

    def _mounted_pods(self) -> set[str]:
        return {mount.pod for mount in self._mounts()}

    def _mounts(self) -> list[Mount]:
        return [mount for mount in self.ledger.mounts if mount.resource == self.resource]

    def _limited(self, pod: NodePod) -> tuple[str, ...]:
        return named_chips(pod, self.resource)[: pod.asks_for(self.resource)]
