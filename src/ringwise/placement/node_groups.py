"""Pods that differ on nodes in groups (switches or rows), every group with its number of pods (S13).

Some assignment that gives every group its number is kept while pod after pod gets its node for good. A pod
may have a node if the others can change theirs so that every group keeps its number: the pod that has the
node, or a pod of the same group if no pod has it, moves to the node of another pod, and so on, until one
takes the node that the first pod had before. Such a chain is searched backwards from the pod, over classes of
pods as bit masks, so that one step looks at all of them. Nodes of one group with the same mask are alike,
and make a slot.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import field

from ringwise.placement.matching import PodClasses, Spend, first_class, uncounted, useful_nodes
from ringwise.records import dataclass
from ringwise.topology.chips import mask_of, union_of
from ringwise.topology.superpods import NodeId


@dataclass(frozen=True, slots=True)
class PickGroup:
    """Nodes in pick order, by the mask of classes each can take, and how many of them get a pod."""

    masks: Sequence[int]
    pods: int


def assign_in_groups(
    pods: Sequence[int], groups: Sequence[PickGroup], spend: Spend = uncounted
) -> list[tuple[int, int] | None] | None:
    """(group, position) of each pod's node; None for pods that are left out, where there are fewer places.

    Pod by pod it is the first node in pick order from which the rest can be completed with every
    group keeping its number of pods (S13). None where the groups cannot have their numbers.
    """
    if sum(group.pods for group in groups) > len(pods) or any(
        group.pods > len(group.masks) for group in groups
    ):
        return None
    assignment = _Assignment(pods, groups, spend)
    if not assignment.complete(pods):
        return None
    return assignment.fix(pods)


def first_matching(pods: Sequence[int], nodes: Sequence[int], spend: Spend = uncounted) -> list[int] | None:
    """The position of each pod's node, or None where not all pods can have one.

    Pod by pod it is the first node from which the remaining pods can be completed.
    """
    if mask_of(pods) & ~union_of(nodes):
        return None
    chosen = assign_in_groups(pods, [PickGroup(nodes, len(pods))], spend)
    return None if chosen is None else [place[1] for place in chosen if place is not None]


def matched_nodes(
    classes: PodClasses | None, ranks: Sequence[int], nodes: Sequence[NodeId]
) -> list[NodeId] | None:
    """A node for each rank out of these, first ones first; None where not all can have one."""
    if classes is None:
        return list(nodes[: len(ranks)]) if len(nodes) >= len(ranks) else None
    chosen = first_matching(classes.of_ranks(ranks), classes.masks(nodes), classes.spend)
    return None if chosen is None else [nodes[position] for position in chosen]


def useful_matched_nodes(
    classes: PodClasses | None, ranks: Sequence[int], nodes: Sequence[NodeId]
) -> list[NodeId] | None:
    """The same out of many nodes: the first nodes that help are used, later ones are left alone."""
    if classes is not None:
        useful = useful_nodes(classes.of_ranks(ranks), classes.masks(nodes), classes.spend)
        nodes = [nodes[position] for position in useful]
    return matched_nodes(classes, ranks, nodes)


@dataclass(slots=True, eq=False)
class _Slot:
    """Nodes of one group with the same mask."""

    number: int
    group: int
    mask: int
    #: Positions of its nodes in pick order; the first ones are given for good.
    places: list[int] = field(default_factory=list)
    fixed: int = 0
    #: How many of the others have a pod now, and of which classes.
    used: int = 0
    owners: int = 0

    @property
    def spare(self) -> int:
        return len(self.places) - self.fixed - self.used


class _FirstOf:
    """The first place in pick order that a class can take, by unions of masks over halves, quarters, ..."""

    __slots__ = ("_size", "_unions")

    def __init__(self, places: int) -> None:
        self._size = 1 << max(0, places - 1).bit_length()
        self._unions = [0] * (2 * self._size)

    def put(self, masks: Iterator[tuple[int, int]]) -> None:
        """The first masks, (place, mask)."""
        unions = self._unions
        for place, mask in masks:
            unions[self._size + place] = mask
        for number in range(self._size - 1, 0, -1):
            unions[number] = unions[2 * number] | unions[2 * number + 1]

    def change(self, place: int, mask: int) -> None:
        unions = self._unions
        number = self._size + place
        unions[number] = mask
        number >>= 1
        while number:
            union = unions[2 * number] | unions[2 * number + 1]
            if union == unions[number]:
                break
            unions[number] = union
            number >>= 1

    def find(self, cls: int, start: int) -> int | None:
        """The first place from `start` on."""
        unions = self._unions
        if start >= self._size:
            return None
        number = self._size + start
        while not unions[number] >> cls & 1:
            # Up while it is a right half, then to the half beside it.
            while number & 1:
                number >>= 1
            if not number:
                return None
            number += 1
        while number < self._size:
            number *= 2
            if not unions[number] >> cls & 1:
                number += 1
        return number - self._size


class _Chains:
    """Classes from which a chain leads to a goal, nearest first."""

    __slots__ = ("_layers", "_next", "_waiting", "reached")

    def __init__(self, classes: int, goal: int) -> None:
        self.reached = classes
        #: Classes, and the class whose node each of them can take over (for the first ones: the goal).
        self._layers: list[tuple[int, int]] = [(classes, goal)]
        self._next = 0
        self._waiting = classes

    def next_class(self) -> int | None:
        """The next class that was reached, to search on from it."""
        while not self._waiting:
            self._next += 1
            if self._next >= len(self._layers):
                return None
            self._waiting = self._layers[self._next][0]
        cls = first_class(self._waiting)
        self._waiting &= self._waiting - 1
        return cls

    def add(self, classes: int, following: int) -> None:
        new = classes & ~self.reached
        if new:
            self.reached |= new
            self._layers.append((new, following))

    def nearest(self, classes: int) -> int:
        """One of these classes with the shortest chain."""
        return next(first_class(layer & classes) for layer, _ in self._layers if layer & classes)

    def following(self, cls: int) -> int:
        return next(following for layer, following in self._layers if layer >> cls & 1)


#: So many slots are looked at in the time of a step.
_SLOTS_A_STEP = 8
#: The goal of a chain that ends with one more pod in a group that lacks some.
_ONE_MORE = -1


class _Assignment:
    def __init__(self, pods: Sequence[int], groups: Sequence[PickGroup], spend: Spend) -> None:
        self._spend = spend
        #: Pods of each class without a node, and the classes that have such pods.
        self._unmet = Counter(pods)
        self._open = mask_of(self._unmet)
        #: By class: how many nodes of each slot its pods have, by the number of the slot.
        self._held: dict[int, dict[int, int]] = {cls: {} for cls in self._unmet}
        self._slots: list[_Slot] = []
        self._slots_in: list[list[_Slot]] = []
        #: By group: how many nodes the pods of each class have there, those classes, and how many it lacks.
        self._pods_in: list[Counter[int]] = [Counter() for _ in groups]
        self._owners_in = [0] * len(groups)
        self._missing = [group.pods for group in groups]
        #: By group: the union of the masks of slots with spare nodes; None where it is to be found again.
        self._spare: list[int | None] = [None] * len(groups)
        #: By place, counted through all groups; and the first place of each group.
        self._slot_at: list[_Slot] = []
        self._first_place: list[int] = []
        for number, group in enumerate(groups):
            self._first_place.append(len(self._slot_at))
            slot_of: dict[int, _Slot] = {}
            for mask in group.masks:
                slot = slot_of.get(mask)
                if slot is None:
                    slot = slot_of[mask] = _Slot(len(self._slots), number, mask)
                    self._slots.append(slot)
                slot.places.append(len(self._slot_at))
                self._slot_at.append(slot)
            self._slots_in.append(list(slot_of.values()))
        spend(len(self._slot_at) + len(pods))

    # -- some assignment ------------------------------------------------------------------------

    def complete(self, pods: Sequence[int]) -> bool:
        """Give every group its number of pods: each pod the first node that is left, the others by chains."""
        places = _FirstOf(len(self._slot_at))
        places.put((slot.places[0], slot.mask) for slot in self._slots if self._missing[slot.group])
        for cls in pods:
            place = places.find(cls, 0)
            if place is None:
                continue
            slot = self._slot_at[place]
            self._move(cls, slot, 1)
            places.change(place, 0)
            if not self._missing[slot.group]:
                for other in self._slots_in[slot.group]:
                    if other.spare:
                        places.change(other.places[other.used], 0)
            elif slot.spare:
                places.change(slot.places[slot.used], slot.mask)
        while any(self._missing):
            if not self._one_more():
                return False
        return True

    def _one_more(self) -> bool:
        """Give one more pod a node, in a group that lacks some."""
        classes = 0
        for group, missing in enumerate(self._missing):
            if missing:
                classes |= self._spare_in(group)
        chains = _Chains(classes, _ONE_MORE)
        while not chains.reached & self._open:
            if not self._search_on(chains):
                return False
        self._follow(chains, chains.nearest(self._open), _ONE_MORE)
        return True

    # -- the first assignment ----------------------------------------------------------------------

    def fix(self, pods: Sequence[int]) -> list[tuple[int, int] | None]:
        """(group, position) of each pod, None for those that are left out."""
        places = _FirstOf(len(self._slot_at))
        places.put((slot.places[0], slot.mask) for slot in self._slots)
        #: By class: before this place there is no slot that it can have.
        start: dict[int, int] = {}
        useless: set[tuple[int, int]] = set()
        chosen: list[tuple[int, int] | None] = []
        for cls in pods:
            chains = _Chains(1 << cls, cls)
            place = places.find(cls, start.get(cls, 0))
            while place is not None:
                wanted = self._slot_at[place]
                if (cls, wanted.number) not in useless:
                    if self._take(cls, wanted, chains):
                        break
                    # Pods that follow leave less freedom, never more.
                    useless.add((cls, wanted.number))
                self._spend(1)
                place = places.find(cls, place + 1)
            if place is None:
                start[cls] = len(self._slot_at)
                self._unmet[cls] -= 1
                self._mark_open(cls)
                chosen.append(None)
                continue
            start[cls] = place
            slot = self._slot_at[place]
            self._settle(cls, slot)
            places.change(place, 0)
            if slot.fixed < len(slot.places):
                places.change(slot.places[slot.fixed], slot.mask)
            chosen.append((slot.group, place - self._first_place[slot.group]))
        return chosen

    def _take(self, cls: int, slot: _Slot, chains: _Chains) -> bool:
        """Let a pod of the class have a node of the slot, if every group can keep its number."""
        if slot.owners >> cls & 1:
            return True
        #: Classes of which one pod would have to go.
        givers = slot.owners | self._owners_in[slot.group] if slot.spare else slot.owners
        # A pod can also be left out, where another one gets no node anyway.
        while givers and not chains.reached & (givers | self._open):
            if not self._search_on(chains):
                return False
        if not givers:
            return False
        near = givers & chains.reached
        if near:
            giver = following = chains.nearest(near)
        else:
            giver, following = first_class(givers), chains.nearest(self._open & chains.reached)
        self._replace(cls, slot, giver)
        self._follow(chains, following, cls, slot)
        return True

    def _settle(self, cls: int, slot: _Slot, amount: int = 1) -> None:
        """The first node of the slot is given to a pod of the class for good, or no longer for good."""
        slot.fixed += amount
        slot.used -= amount
        self._count(cls, slot, -amount)

    # -- chains ---------------------------------------------------------------------------------------

    def _search_on(self, chains: _Chains) -> bool:
        """Add the classes that can take over a node of one that was reached; False: there is none left."""
        cls = chains.next_class()
        if cls is None:
            return False
        held = self._held.get(cls, {})
        classes, groups = 0, set()
        for number in held:
            slot = self._slots[number]
            classes |= slot.mask
            groups.add(slot.group)
        for group in groups:
            classes |= self._spare_in(group)
        chains.add(classes, cls)
        self._spend(1 + len(held))
        return True

    def _follow(self, chains: _Chains, cls: int, goal: int, fixed: _Slot | None = None) -> None:
        """A pod of the class has no node: it takes over the node of the next one, and so on to the goal.

        The node of `fixed` that the goal has just got stays with it.
        """
        while cls != goal:
            following = chains.following(cls)
            if following == _ONE_MORE:
                slots = (
                    slot
                    for group, missing in enumerate(self._missing)
                    if missing
                    for slot in self._slots_in[group]
                )
                self._move(cls, next(slot for slot in slots if slot.spare and slot.mask >> cls & 1), 1)
                return
            self._take_over(cls, following, fixed if following == goal else None)
            cls = following

    def _take_over(self, cls: int, giver: int, fixed: _Slot | None) -> None:
        """A pod of the class gets a node instead of one of another class, in the same group."""
        held = [one for number in self._held[giver] if (one := self._slots[number]) is not fixed]
        slot = released = next((one for one in held if one.mask >> cls & 1), None)
        if slot is None or released is None:
            groups = dict.fromkeys(one.group for one in held)
            beside = [one for group in groups for one in self._slots_in[group]]
            self._spend(len(beside) // _SLOTS_A_STEP)
            slot = next(one for one in beside if one.spare and one.mask >> cls & 1)
            released = next(one for one in held if one.group == slot.group)
        self._move(giver, released, -1)
        self._move(cls, slot, 1)

    def _replace(self, cls: int, slot: _Slot, giver: int) -> None:
        """A pod of the class gets a node of the slot; one of `giver` gives up that or one of its group."""
        released = slot
        if not slot.owners >> giver & 1:
            held = (self._slots[number] for number in self._held[giver])
            released = next(one for one in held if one.group == slot.group)
        self._move(giver, released, -1)
        self._move(cls, slot, 1)

    def _move(self, cls: int, slot: _Slot, amount: int) -> None:
        """A pod of the class gets a node of the slot, or gives it up."""
        had_spare = slot.spare > 0
        slot.used += amount
        if had_spare != (slot.spare > 0):
            self._spare[slot.group] = None
        self._missing[slot.group] -= amount
        self._unmet[cls] -= amount
        self._mark_open(cls)
        self._count(cls, slot, amount)

    def _count(self, cls: int, slot: _Slot, amount: int) -> None:
        held, pods = self._held[cls], self._pods_in[slot.group]
        pods[cls] += amount
        owners = self._owners_in[slot.group]
        self._owners_in[slot.group] = owners | 1 << cls if pods[cls] else owners & ~(1 << cls)
        now = held.get(slot.number, 0) + amount
        if now:
            held[slot.number] = now
            slot.owners |= 1 << cls
        else:
            del held[slot.number]
            slot.owners &= ~(1 << cls)

    def _mark_open(self, cls: int) -> None:
        self._open = self._open | 1 << cls if self._unmet[cls] > 0 else self._open & ~(1 << cls)

    def _spare_in(self, group: int) -> int:
        spare = self._spare[group]
        if spare is None:
            spare = union_of(slot.mask for slot in self._slots_in[group] if slot.spare)
            self._spare[group] = spare
            self._spend(len(self._slots_in[group]) // _SLOTS_A_STEP)
        return spare


class Completion(_Assignment):
    """Pods with a node each, while some of them are given nodes for good and the others can be completed."""

    def __init__(self, pods: Sequence[int], nodes: Sequence[int], spend: Spend = uncounted) -> None:
        super().__init__(pods, [PickGroup(nodes, len(pods))], spend)
        self.possible = len(pods) <= len(nodes) and self.complete(pods)
        self._slot_of = {slot.mask: slot for slot in self._slots}

    def give(self, pods: Sequence[int], nodes: Sequence[int]) -> bool:
        """Give each of these pods its node, unless others could not have one then."""
        moved: list[tuple[int, _Slot]] = []
        for cls, mask in zip(pods, nodes, strict=True):
            slot = self._slot_of[mask]
            if not self._take(cls, slot, _Chains(1 << cls, cls)):
                for earlier, place in moved:
                    self._settle(earlier, place, -1)
                return False
            self._settle(cls, slot)
            moved.append((cls, slot))
        return True
