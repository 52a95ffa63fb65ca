"""HyperNodes from the labels of nodes, as Volcano's controller makes them.

A topology type names labels of nodes, one for each tier. The nodes with one value of the label of tier 1 are
a HyperNode; those HyperNodes of tier 1 whose nodes have one value of the next label are one of tier 2, and so
on. A node belongs to the tiers up to the first label that it lacks.

A HyperNode of ours has the label `ringwise.io/topology-type`, beside those that Volcano's controller writes.
By its labels it is found again, so its name stays for as long as a node has the value. One without that label
is never changed. Where Volcano's controller has made HyperNodes of a type, none of that type are made here:
two HyperNodes of one tier with the same nodes would both be wrong.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from functools import partial
from typing import NamedTuple, TypeVar

from ringwise.controller.job_record import RETRY_AFTER
from ringwise.grammar import counted
from ringwise.messages import events as ev
from ringwise.messages.commands import Command, DeleteHyperNode, PutHyperNode, RecordHyperNodeEvent
from ringwise.messages.containment import Containment
from ringwise.messages.event_reasons import EventReason
from ringwise.state.model import EMPTY, HyperNode, HyperNodeMember
from ringwise.state.topology_discovery import LABEL_SOURCE, NO_DISCOVERY, TopologyDiscovery, TopologyType
from ringwise.wellknown import TOPOLOGY_SOURCE, TOPOLOGY_TYPE

#: A request that has no effect, because the kind is not installed for example, is repeated ever more seldom.
LONGEST_RETRY = 30 * RETRY_AFTER
#: Letters and digits of the ends of names: those that Kubernetes takes, which form no words.
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX = 8
#: A name that Volcano's controller gives, too, without its prefix.
_TIER_AND_SUFFIX = re.compile(r"(.+-tier)[0-9]+-[a-z0-9]+", re.ASCII)


Key = TypeVar("Key")


class LabelDomain(NamedTuple):
    """Nodes with one value of the label of a tier."""

    type: str
    tier: int
    value: str


class _Request(NamedTuple):
    """What was sent and is not seen yet; None: a deletion."""

    wanted: HyperNode | None
    at: int
    wait: int

    @property
    def due(self) -> int:
        return self.at + self.wait


class TypeTree:
    """The domains of one type, counted node by node: a node that changes costs as much as there are tiers."""

    def __init__(self, kind: TopologyType) -> None:
        self.kind = kind
        self._values: dict[str, tuple[str, ...]] = {}
        #: The members of each domain, nodes or values of the tier below, each with its number of nodes.
        self._members: dict[LabelDomain, dict[str, int]] = {}
        #: The other way round: the values of the tier above.
        self._above: dict[LabelDomain, dict[str, int]] = {}
        #: Domains whose members changed.
        self.changed: dict[LabelDomain, None] = {}

    def put(self, node: str, labels: Mapping[str, str]) -> None:
        values = self._values_of(labels)
        before = self._values.pop(node, ())
        if values:
            self._values[node] = values
        if values != before:
            self._count(node, before, -1)
            self._count(node, values, 1)

    def _values_of(self, labels: Mapping[str, str]) -> tuple[str, ...]:
        values: list[str] = []
        for key in self.kind.labels:
            value = labels.get(key)
            if value is None:
                break
            values.append(value)
        return tuple(values)

    def _count(self, node: str, values: tuple[str, ...], by: int) -> None:
        member, below = node, None
        for tier, value in enumerate(values, 1):
            domain = LabelDomain(self.kind.name, tier, value)
            if _add(self._members, domain, member, by):
                self.changed[domain] = None
            if below is not None:
                _add(self._above, below, value, by)
            member, below = value, domain

    @property
    def domains(self) -> Iterable[LabelDomain]:
        return self._members

    def members(self, domain: LabelDomain) -> Iterable[str]:
        return self._members.get(domain, ())

    def parents(self, domain: LabelDomain) -> list[LabelDomain]:
        return [LabelDomain(domain.type, domain.tier + 1, value) for value in self._above.get(domain, ())]


def _add(table: dict[LabelDomain, dict[str, int]], domain: LabelDomain, member: str, by: int) -> bool:
    """Whether the member came or went."""
    counts = table.setdefault(domain, {})
    count = counts.get(member, 0) + by
    if count:
        counts[member] = count
    else:
        del counts[member]
        if not counts:
            del table[domain]
    return count == (1 if by > 0 else 0)


class HyperNodeController:
    """Part of the controller: it gets each event, and is asked for its commands after them."""

    def __init__(self) -> None:
        self._discovery: TopologyDiscovery = NO_DISCOVERY
        #: The labels of all nodes.
        self._nodes: dict[str, Mapping[str, str]] = {}
        self._seen: dict[str, HyperNode] = {}
        self._trees: dict[str, TypeTree] = {}
        self._type_of_prefix: dict[str, str] = {}
        #: Names of ours by domain; those that no domain has; those of Volcano's controller, by type.
        self._ours: dict[LabelDomain, dict[str, None]] = {}
        self._left_over: dict[str, None] = {}
        self._others: dict[str, dict[str, None]] = {}
        #: Names of HyperNodes that are not seen yet.
        self._names: dict[LabelDomain, str] = {}
        self._taken: dict[str, LabelDomain] = {}
        self._requested: dict[str, _Request] = {}
        self._changed: dict[LabelDomain, None] = {}
        #: Types whose HyperNodes others make, as reported last.
        self._reported: dict[str, str] = {}

    # -- events --------------------------------------------------------------------------

    def apply(self, event: ev.Event) -> None:
        match event:
            case ev.NodeSeen():
                self._put_node(event.node.name, event.node.labels)
            case ev.NodeGone():
                self._put_node(event.name, None)
            case ev.HyperNodeSeen():
                self._put(event.hyper_node.name, event.hyper_node)
            case ev.HyperNodeGone():
                self._put(event.name, None)
            case ev.TopologyDiscoverySeen():
                self._set(event.discovery)

    def _put_node(self, name: str, labels: Mapping[str, str] | None) -> None:
        if labels is None:
            self._nodes.pop(name, None)
        else:
            self._nodes[name] = labels
        for tree in self._trees.values():
            tree.put(name, labels or EMPTY)

    def _put(self, name: str, hyper_node: HyperNode | None) -> None:
        sent = self._requested.get(name)
        if sent is not None and _is_done(hyper_node, sent.wanted):
            del self._requested[name]
        before = self._seen.pop(name, None)
        if before is not None:
            self._sort(before, exists=False)
        if hyper_node is not None:
            self._seen[name] = hyper_node
            self._sort(hyper_node, exists=True)
        taken = self._taken.get(name)
        if taken is not None:
            # Its name may be another one now.
            self._touch(taken)

    def _set(self, discovery: TopologyDiscovery) -> None:
        if discovery == self._discovery:
            return
        self._discovery = discovery
        types = discovery.types if discovery.enabled else ()
        self._trees = {kind.name: TypeTree(kind) for kind in types}
        self._type_of_prefix = {kind.prefix: kind.name for kind in types}
        self._ours, self._left_over, self._others, self._reported = {}, {}, {}, {}
        self._names, self._taken, self._changed = {}, {}, {}
        for name, labels in self._nodes.items():
            for tree in self._trees.values():
                tree.put(name, labels)
        for hyper_node in self._seen.values():
            self._sort(hyper_node, exists=True)

    def _sort(self, hyper_node: HyperNode, *, exists: bool) -> None:
        """Enter it where it belongs, or remove it from there."""
        name, labels = hyper_node.name, hyper_node.labels
        if TOPOLOGY_TYPE not in labels:
            if labels.get(TOPOLOGY_SOURCE) == LABEL_SOURCE and (kind := self._type_in(name)) is not None:
                _enter(self._others, kind, name, exists)
                if kind not in self._others:
                    self._touch_all(kind)
            return
        if not self._discovery.enabled or labels[TOPOLOGY_TYPE] in self._discovery.skipped:
            return
        domain = self._domain_of(hyper_node)
        if domain is not None:
            _enter(self._ours, domain, name, exists)
            self._touch(domain)
        elif exists:
            self._left_over[name] = None
        else:
            self._left_over.pop(name, None)

    def _type_in(self, name: str) -> str | None:
        match = _TIER_AND_SUFFIX.fullmatch(name)
        return None if match is None else self._type_of_prefix.get(match[1])

    def _domain_of(self, hyper_node: HyperNode) -> LabelDomain | None:
        tree = self._trees.get(hyper_node.labels.get(TOPOLOGY_TYPE, ""))
        if tree is None:
            return None
        for tier, key in enumerate(tree.kind.labels, 1):
            value = hyper_node.labels.get(key)
            if value is not None and hyper_node.name.startswith(f"{tree.kind.prefix}{tier}-"):
                return LabelDomain(tree.kind.name, tier, value)
        return None

    def _touch(self, domain: LabelDomain) -> None:
        """It is compared with what is there; so are those above it, which have its name."""
        self._changed[domain] = None
        tree = self._trees.get(domain.type)
        if tree is not None:
            self._changed.update(dict.fromkeys(tree.parents(domain)))

    def _touch_all(self, kind: str) -> None:
        self._changed.update(dict.fromkeys(self._trees[kind].domains))
        self._changed.update(dict.fromkeys(domain for domain in self._ours if domain.type == kind))

    # -- commands ------------------------------------------------------------------------

    def sync(self, now: int, containment: Containment) -> list[Command]:
        """What follows from the events since the last call. A HyperNode that raises affects no other one."""
        commands: list[Command] = []
        if not self._discovery.enabled:
            self._requested.clear()
            return commands
        self._report_others(commands)
        for tree in self._trees.values():
            self._changed.update(tree.changed)
            tree.changed.clear()
        self._take_overdue(now)
        for name in list(self._left_over):
            self._delete(name, commands, now)
        for domain in self._changed:
            if domain.type in self._trees and domain.type not in self._others:
                what = f"{domain.type}/{domain.tier}/{domain.value}"
                containment.attempt("HyperNode", what, partial(self._follow, domain, commands, now))
        self._changed.clear()
        # What was not sent again is no longer wanted.
        self._requested = {name: sent for name, sent in self._requested.items() if sent.due > now}
        return commands

    def next_deadline(self) -> int | None:
        return min((sent.due for sent in self._requested.values()), default=None)

    def _take_overdue(self, now: int) -> None:
        """What had no effect is compared, and sent, again."""
        for name, sent in self._requested.items():
            if sent.due <= now:
                current = sent.wanted or self._seen.get(name)
                domain = None if current is None else self._domain_of(current)
                if domain is not None:
                    self._changed[domain] = None

    def _report_others(self, commands: list[Command]) -> None:
        reported = {kind: next(iter(names)) for kind, names in self._others.items()}
        for kind, name in reported.items():
            if kind not in self._reported:
                message = (
                    f"{counted(self._others[kind], 'HyperNode')} of topology type {kind} made by Volcano's "
                    "controller: none of this type are made here. Let only one of both discover it; where "
                    "Volcano's no longer runs, delete its HyperNodes or give them the label "
                    f"{TOPOLOGY_TYPE}={kind}"
                )
                commands.append(
                    RecordHyperNodeEvent(name, EventReason.DISCOVERED_BY_OTHERS, message, warning=True)
                )
        self._reported = reported

    def _follow(self, domain: LabelDomain, commands: list[Command], now: int) -> None:
        """What follows for one domain from its nodes, and from the HyperNodes that are there for it."""
        tree = self._trees[domain.type]
        members = tree.members(domain)
        names = sorted(self._ours.get(domain, ()))
        if members:
            name = self._name(domain)
            # Until what was sent is seen, nothing else is: a label that changes all the time costs little.
            if not self._is_under_way(name, now):
                wanted = self._wanted(name, domain, tree, members)
                if not _is_done(self._seen.get(name), wanted):
                    self._request(name, wanted, now)
                    commands.append(PutHyperNode(wanted))
            names = [other for other in names if other != name]
        else:
            self._taken.pop(self._names.pop(domain, ""), None)
        for name in names:
            self._delete(name, commands, now)

    def _wanted(self, name: str, domain: LabelDomain, tree: TypeTree, members: Iterable[str]) -> HyperNode:
        above = domain.tier > 1
        if above:
            members = [self._name(LabelDomain(domain.type, domain.tier - 1, value)) for value in members]
        key = tree.kind.labels[domain.tier - 1]
        return HyperNode(
            name,
            domain.tier,
            tuple(HyperNodeMember(above, member) for member in sorted(members)),
            tier_name=key,
            labels={key: domain.value, TOPOLOGY_SOURCE: LABEL_SOURCE, TOPOLOGY_TYPE: domain.type},
        )

    def _name(self, domain: LabelDomain) -> str:
        """Of several that are there for it the first counts. One that is not there yet has a name by its
        labels, unless another object has that name."""
        ours = self._ours.get(domain)
        if ours:
            return min(ours)
        name = self._names.get(domain)
        if name is not None and name not in self._seen:
            return name
        self._taken.pop(name or "", None)
        prefix = self._trees[domain.type].kind.prefix
        attempt = 0
        while True:
            name = f"{prefix}{domain.tier}-{_suffix(*map(str, domain), str(attempt))}"
            if name not in self._seen and name not in self._taken:
                break
            attempt += 1
        self._names[domain], self._taken[name] = name, domain
        return name

    def _delete(self, name: str, commands: list[Command], now: int) -> None:
        if not self._is_under_way(name, now):
            self._request(name, None, now)
            commands.append(DeleteHyperNode(name))

    def _is_under_way(self, name: str, now: int) -> bool:
        sent = self._requested.get(name)
        return sent is not None and sent.due > now

    def _request(self, name: str, wanted: HyperNode | None, now: int) -> None:
        """What had no effect is sent ever more seldom."""
        sent = self._requested.get(name)
        wait = RETRY_AFTER if sent is None else min(2 * sent.wait, LONGEST_RETRY)
        self._requested[name] = _Request(wanted, now, wait)


def _enter(table: dict[Key, dict[str, None]], key: Key, name: str, exists: bool) -> None:
    names = table.setdefault(key, {})
    if exists:
        names[name] = None
    else:
        names.pop(name, None)
    if not names:
        del table[key]


def _is_done(seen: HyperNode | None, wanted: HyperNode | None) -> bool:
    """Whatever else others wrote into it stays, and so does its status."""
    if seen is None or wanted is None:
        return seen is wanted
    return (
        (seen.tier, seen.tier_name) == (wanted.tier, wanted.tier_name)
        and len(seen.members) == len(wanted.members)
        and frozenset(seen.members) == frozenset(wanted.members)
        and wanted.labels.items() <= seen.labels.items()
    )


def _suffix(*parts: str) -> str:
    number = int.from_bytes(hashlib.sha256("\0".join(parts).encode()).digest())
    letters = []
    for _ in range(_SUFFIX):
        number, letter = divmod(number, len(_LETTERS))
        letters.append(_LETTERS[letter])
    return "".join(letters)
