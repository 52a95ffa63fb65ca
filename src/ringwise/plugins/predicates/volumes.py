"""What the claims of a pod's volumes ask of its node: where volumes are, and how many a node can attach.

A claim that is bound sends its pod to where its volume can be used. One of a class that waits for a pod
(`WaitForFirstConsumer`) gets, with the node, the smallest free volume there that fits, or one is made there.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Sequence
from functools import partial

from ringwise.durations import SECOND
from ringwise.framework.extension_points import NodeFilter, NodeSet, Vote
from ringwise.framework.job import Job
from ringwise.framework.selectors import written_terms
from ringwise.framework.session import Session
from ringwise.framework.volume_nodes import FittingVolumes, smallest
from ringwise.grammar import amount_text
from ringwise.plugins.predicates.reasons import (
    CLAIM_DELETED,
    CLAIM_IN_USE,
    CLAIM_LOST,
    CLAIM_MISSING,
    CLAIM_NOT_BOUND,
    CLAIM_OF_ANOTHER_POD,
    CLAIM_SHARED,
    EPHEMERAL_CLAIM_AWAITED,
    NO_STORAGE,
    NO_STORAGE_HERE,
    NO_VOLUME,
    NO_VOLUME_HERE,
    STORAGE_CLASS_MISSING,
    TOO_MANY_VOLUMES,
    VOLUME_ELSEWHERE,
    VOLUME_FOR_ANOTHER_NODE,
    VOLUME_IN_ANOTHER_ZONE,
)
from ringwise.reasons import Reason
from ringwise.state.model import Pod
from ringwise.state.volume_table import ClaimChoice, keys_of
from ringwise.state.volumes import (
    LOST,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from ringwise.wellknown import OLD_REGION, OLD_ZONE, REGION, ZONE

#: With so few nodes a volume is looked at by itself.
_FEW = 16


class PodVolumes:
    """Answers for one cycle; pods without claims are never asked about."""

    def __init__(self, session: Session, *, binding: bool, zones: bool, limits: bool, timeout: int) -> None:
        self._session = session
        self._state = session.state
        self._table = session.state.volumes
        self._nodes = session.topology.volume_nodes
        self._binding = binding
        self._zones = zones
        #: Whether nodes can attach only so many volumes of a driver.
        self._limits = limits and any(node.limits for node in self._table.csi_nodes.values())
        self.bind_timeout = timeout * SECOND
        #: By namespace, claims and owner of ephemeral claims.
        self._sets: dict[tuple[str, tuple[str, ...]], tuple[Hashable, Sequence[NodeSet]]] = {}

    # -- the pod ------------------------------------------------------------------------------------

    def refusal(self, pod: Pod) -> Reason | None:
        if not self._binding:
            return None
        for key in keys_of(pod):
            claim = self._table.claims.get(key)
            reason = _missing(pod, key) if claim is None else self._unusable(pod, claim)
            if reason is not None:
                return reason
        return None

    def enqueueable(self, job: Job) -> tuple[Vote, Reason | None]:
        """A job whose pods wait for claims is promised nothing that others could use meanwhile."""
        if not job.has_claims or not job.pods:
            return Vote.ABSTAIN, None
        pods = [pod for pod in job.in_order if pod.claims and self._session.is_pending(pod)]
        reasons = [reason for pod in pods if (reason := self.refusal(pod)) is not None]
        if len(job.pods) - len(reasons) >= max(1, job.min_available):
            return Vote.ABSTAIN, None
        return (Vote.REJECT, reasons[0]) if reasons else (Vote.ABSTAIN, None)

    def _unusable(self, pod: Pod, claim: PersistentVolumeClaim) -> Reason | None:
        key = claim.key
        if claim.name in pod.ephemeral_claims and claim.owner != pod.uid:
            return CLAIM_OF_ANOTHER_POD(claim=key, pod=pod.name)
        if claim.deleting:
            return CLAIM_DELETED(claim=key, pod=pod.name)
        if claim.for_one_pod:
            users = self._table.users.get(key, {})
            other = next((uid for uid in users if uid != pod.uid), None)
            if other is not None:
                user = self._state.pods[other].pod
                if self._start_together(pod, user):
                    return CLAIM_SHARED(claim=key, pod=pod.name, user=user.name)
                return CLAIM_IN_USE(claim=key, user=user.key)
        if claim.phase == LOST or (claim.bound and claim.volume not in self._table.volumes):
            return CLAIM_LOST(claim=key, pod=pod.name, volume=claim.volume)
        return None if claim.bound else self._unbound(pod, claim)

    def _start_together(self, pod: Pod, user: Pod) -> bool:
        """Whether both are of a gang that has not started: the end of one is not to be waited for."""
        if pod.group is None or pod.group != user.group or pod.namespace != user.namespace or user.node:
            return False
        job = self._session.jobs.get(f"{pod.namespace}/{pod.group}")
        return job is not None and job.min_available > 1

    def _unbound(self, pod: Pod, claim: PersistentVolumeClaim) -> Reason | None:
        name = claim.storage_class
        cls = self._table.classes.get(name)
        if cls is None and name and not claim.volume:
            return STORAGE_CLASS_MISSING(claim=claim.key, pod=pod.name, class_name=name)
        if cls is None or claim.volume or not cls.waits_for_pod:
            classed = f" of StorageClass {name}" if name else ""
            return CLAIM_NOT_BOUND(claim=claim.key, pod=pod.name, classed=classed)
        if self._table.reserved_volume(claim) is not None or self._selected(claim, cls) is not None:
            return None
        if self._with_room(claim, cls) if cls.provisions else self._fitting(claim):
            return None
        if not cls.provisions:
            return NO_VOLUME(
                claim=claim.key,
                pod=pod.name,
                class_name=name,
                size=_size(claim),
                modes=", ".join(claim.access_modes) or "any access mode",
            )
        capacities = self._table.capacities_of(cls)
        if capacities is None or self._fitting(claim):
            return None
        largest = _bytes(capacities.largest)
        return NO_STORAGE(claim=claim.key, pod=pod.name, class_name=name, size=_size(claim), largest=largest)

    # -- sets of nodes ------------------------------------------------------------------------------

    def node_sets(self, pod: Pod) -> tuple[Hashable, Sequence[NodeSet]]:
        key_of_claims = pod.namespace, pod.claims
        result = self._sets.get(key_of_claims)
        if result is None:
            parts = [part for claim in self._claims(pod) for part in self._of_claim(claim)]
            key = tuple(one for one, _ in parts) or None
            result = self._sets[key_of_claims] = key, [nodes for _, nodes in parts]
        return result

    def _claims(self, pod: Pod) -> list[PersistentVolumeClaim]:
        """Those that are known; while one is not, the pod is refused."""
        return [claim for key in keys_of(pod) if (claim := self._table.claims.get(key)) is not None]

    def _of_claim(self, claim: PersistentVolumeClaim) -> Iterator[tuple[Hashable, NodeSet]]:
        existing = self._state.labels.existing
        volume = self._table.volumes.get(claim.volume) if claim.bound else None
        if volume is not None:
            if self._binding and volume.node_terms:
                yield self._set_of_volume(claim, volume)
            places = self._nodes.of_places(self._state, volume) if self._zones else existing
            if places != existing:
                yield self._set_of_zone(claim, volume, places)
            return
        cls = self._delayed(claim)
        if cls is None:
            return
        reserved = self._table.reserved_volume(claim)
        selected = self._selected(claim, cls)
        if reserved is not None:
            if reserved.node_terms:
                yield self._set_of_volume(claim, reserved)
        elif selected is not None:
            reason = VOLUME_FOR_ANOTHER_NODE(claim=claim.key, selected=claim.selected_node)
            yield claim.key, NodeSet(1 << selected, VOLUME_FOR_ANOTHER_NODE, lambda node: reason)
        else:
            asks = (claim.storage_class, claim.requested, claim.access_modes, claim.selector, claim.block)
            fitting, made = self._fitting(claim), self._made_for(claim, cls)
            nodes = fitting | made
            if nodes != existing:
                part = NodeSet(nodes, NO_VOLUME_HERE, lambda node: self._no_volume(claim, node))
                # Pods with equal claims share what is found; avoided nodes are the claim's own.
                yield (asks if claim.key not in self._table.refused else claim.key), part
            room = self._with_room(claim, cls)
            if made & ~room:
                few = (fitting | made & room).bit_count() <= _FEW
                what = f"the claim {claim.key}" if few else "a claim of the pod"
                key = (claim.key if few else "", NO_STORAGE_HERE.code, asks)
                refuse = partial(self._no_storage, claim, cls, what)
                yield key, NodeSet(fitting | room, NO_STORAGE_HERE, refuse)

    def _set_of_volume(
        self, claim: PersistentVolumeClaim, volume: PersistentVolume
    ) -> tuple[Hashable, NodeSet]:
        nodes, terms = self._of(volume), volume.node_terms
        what, key = _named(claim, volume, nodes)

        def refuse(node: int) -> Reason:
            return VOLUME_ELSEWHERE(what=what, node=self._state.names[node], wanted=written_terms(terms))

        return (key, terms), NodeSet(nodes, VOLUME_ELSEWHERE, refuse)

    def _set_of_zone(
        self, claim: PersistentVolumeClaim, volume: PersistentVolume, nodes: int
    ) -> tuple[Hashable, NodeSet]:
        keys = (ZONE, REGION, OLD_ZONE, OLD_REGION)
        places = ", ".join(f"{key}={volume.labels[key]}" for key in keys if key in volume.labels)
        what, key = _named(claim, volume, nodes)

        def refuse(node: int) -> Reason:
            return VOLUME_IN_ANOTHER_ZONE(what=what, node=self._state.names[node], places=places)

        return (key, places), NodeSet(nodes, VOLUME_IN_ANOTHER_ZONE, refuse)

    def _delayed(self, claim: PersistentVolumeClaim) -> StorageClass | None:
        """The class of a claim that gets its volume with the node of its pod; None: it does not."""
        if not self._binding or claim.bound or claim.volume:
            return None
        cls = self._table.classes.get(claim.storage_class)
        return cls if cls is not None and cls.waits_for_pod else None

    def _selected(self, claim: PersistentVolumeClaim, cls: StorageClass) -> int | None:
        """The node for which its volume is being made, while that exists.

        Pods on other nodes may use a volume that is shared: where it can be used shows when it is there.
        """
        if not claim.selected_node or claim.is_shared or not cls.provisions:
            return None
        number = self._state.node_id.get(claim.selected_node)
        return number if number is not None and self._state.nodes[number] is not None else None

    def _made_for(self, claim: PersistentVolumeClaim, cls: StorageClass) -> int:
        """The nodes for which a volume of the claim can be made."""
        if not cls.provisions:
            return 0
        nodes = self._nodes.of_terms(self._state, cls.allowed_topologies)
        for name in self._table.refused.get(claim.key, ()):
            number = self._state.node_id.get(name)
            if number is not None:
                nodes &= ~(1 << number)
        return nodes

    def _with_room(self, claim: PersistentVolumeClaim, cls: StorageClass) -> int:
        return self._nodes.with_room(self._state, claim, cls, self._session.budget)

    def _no_storage(self, claim: PersistentVolumeClaim, cls: StorageClass, what: str, node: int) -> Reason:
        capacities, info = self._table.capacities_of(cls), self._state.nodes[node]
        labels = {} if info is None else info.labels
        largest = 0 if capacities is None else capacities.largest_for(self._state.labels, node, labels)
        return NO_STORAGE_HERE(
            what=what,
            node=self._state.names[node],
            class_name=cls.name,
            size=_size(claim),
            largest=_bytes(largest),
        )

    def _no_volume(self, claim: PersistentVolumeClaim, node: int) -> Reason:
        name = self._state.names[node]
        cls = self._table.classes.get(claim.storage_class)
        if name in self._table.refused.get(claim.key, ()):
            why = ": its provisioner refused to, not long ago"
        elif cls is not None and cls.provisions:
            why = " (allowedTopologies)"
        else:
            why = ""
        return NO_VOLUME_HERE(node=name, class_name=claim.storage_class, size=_size(claim), why=why)

    # -- one node -----------------------------------------------------------------------------------

    def filter(self, _job: Job, pod: Pod) -> NodeFilter | None:
        if not pod.claims:
            return None
        refused = self.refusal(pod)
        if refused is not None:
            # Who asks about single nodes gets the reason of the pod.
            return lambda node: refused
        delayed = any(self._delayed(claim) is not None for claim in self._claims(pod))
        if not delayed and not self._limits:
            return None

        def check(node: int) -> Reason | None:
            chosen = self.choose(pod, node)
            return chosen if isinstance(chosen, Reason) else None

        return check

    def choose(self, pod: Pod, node: int) -> tuple[ClaimChoice, ...] | Reason:
        choices: list[ClaimChoice] = []
        claims = self._claims(pod)
        # As kube-scheduler does: the claim that asks for least takes the smallest volume.
        chosen: dict[str, None] = {}
        for claim in sorted(claims, key=lambda claim: (claim.requested, claim.key)):
            cls = self._delayed(claim)
            if cls is not None:
                self._session.budget.spend(1)
                choice = self._choose(pod, claim, cls, node, chosen)
                if isinstance(choice, Reason):
                    return choice
                choices.append(choice)
                chosen[choice.volume] = None
        if self._limits:
            reason = self._too_many(claims, choices, node)
            if reason is not None:
                return reason
        return tuple(choices)

    def _choose(
        self,
        pod: Pod,
        claim: PersistentVolumeClaim,
        cls: StorageClass,
        node: int,
        excluded: Collection[str],
    ) -> ClaimChoice | Reason:
        chosen = self._table.chosen.get(claim.key, {})
        # Thousands of pods may share a claim: the first of them tells.
        other = next((one for uid, one in chosen.items() if uid != pod.uid), None)
        reserved = self._table.reserved_volume(claim)
        if other is not None:
            # Another pod uses the claim, and was placed before this one.
            there, name = other
            volume = self._table.volumes.get(name)
            usable = volume is None or bool(self._of(volume) >> node & 1)
            if node != there and (not usable or (volume is None and not claim.is_shared)):
                selected = self._state.names[there]
                return VOLUME_FOR_ANOTHER_NODE(claim=claim.key, selected=selected)
            return ClaimChoice(claim.key, name)
        if reserved is not None:
            if self._of(reserved) >> node & 1:
                return ClaimChoice(claim.key, reserved.name)
            return self._set_of_volume(claim, reserved)[1].refuse(node)
        selected_node = self._selected(claim, cls)
        if selected_node is not None:
            if selected_node != node:
                return VOLUME_FOR_ANOTHER_NODE(claim=claim.key, selected=claim.selected_node)
            return ClaimChoice(claim.key)
        volumes, budget = self._volumes(claim), self._session.budget
        name = smallest(self._state, volumes, node, claim, excluded, budget) or ""
        if name:
            return ClaimChoice(claim.key, name)
        if not self._made_for(claim, cls) >> node & 1:
            return self._no_volume(claim, node)
        if not self._with_room(claim, cls) >> node & 1:
            return self._no_storage(claim, cls, f"the claim {claim.key}", node)
        return ClaimChoice(claim.key)

    def _fitting(self, claim: PersistentVolumeClaim) -> int:
        """The nodes that can use a free volume which the claim could take."""
        return self._volumes(claim).nodes(claim.requested)

    def _volumes(self, claim: PersistentVolumeClaim) -> FittingVolumes:
        return self._nodes.fitting(self._state, claim, self._session.budget)

    def _of(self, volume: PersistentVolume) -> int:
        return self._nodes.of_terms(self._state, volume.node_terms)

    def _too_many(
        self, claims: Sequence[PersistentVolumeClaim], choices: Sequence[ClaimChoice], node: int
    ) -> Reason | None:
        """The driver of which the node would have to attach more volumes than it can."""
        name = self._state.names[node]
        limits = self._table.csi_nodes[name].limits if name in self._table.csi_nodes else {}
        if not limits:
            return None
        volumes = dict(choices)
        wanted = {handle for claim in claims if (handle := self._attached(claim, volumes.get(claim.key)))}
        drivers = {driver for driver, _ in wanted if driver in limits}
        if not drivers:
            return None
        there = self._table.on_node.get(node, {})
        self._session.budget.spend(1 + len(there))
        present = {
            handle
            for key in there
            if (claim := self._table.claims.get(key)) is not None and (handle := self._attached(claim, None))
        }
        for driver in sorted(drivers):
            used = sum(one == driver for one, _ in present)
            more = sum(one == driver for one, _ in wanted - present)
            if more and used + more > limits[driver]:
                return TOO_MANY_VOLUMES(node=name, driver=driver, used=used, limit=limits[driver], more=more)
        return None

    def _attached(self, claim: PersistentVolumeClaim, chosen: str | None) -> tuple[str, str] | None:
        """Driver and handle of its volume, or of the one that it will have; None: nothing is attached."""
        if chosen is None:
            chosen = next((name for _, name in self._table.chosen.get(claim.key, {}).values()), "")
        volume = self._table.volumes.get(claim.volume or chosen)
        if volume is not None:
            return (volume.driver, volume.handle or volume.name) if volume.driver else None
        cls = self._table.classes.get(claim.storage_class)
        return (cls.provisioner, claim.key) if cls is not None and cls.provisions else None


def _named(claim: PersistentVolumeClaim, volume: PersistentVolume, nodes: int) -> tuple[str, str]:
    """The volume in a sentence, and the key of pods that may share what is found for it.

    Where many nodes can use volumes, to look for the best of them once for each claim would take long: pods
    whose volumes are in one zone share that.
    """
    if nodes.bit_count() > _FEW:
        return "a volume of the pod", ""
    return f"the volume {volume.name} of claim {claim.key}", claim.key


def _missing(pod: Pod, key: str) -> Reason:
    name = key.partition("/")[2]
    kind = EPHEMERAL_CLAIM_AWAITED if name in pod.ephemeral_claims else CLAIM_MISSING
    return kind(claim=key, pod=pod.name)


def _size(claim: PersistentVolumeClaim) -> str:
    return _bytes(claim.requested)


def _bytes(amount: int) -> str:
    return amount_text("memory", amount)
