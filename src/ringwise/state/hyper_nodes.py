"""HyperNodes as trees of network domains, each a set of nodes.

What is wrong with a HyperNode is told of it and hurts no other. Two domains that are not below each other
share no node; the tier of a domain is above those of all domains below it. Where HyperNodes exclude each
other the natural order of names decides: the result does not depend on the order in which they were seen.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from ringwise.grammar import agrees, counted
from ringwise.state.model import HyperNode, HyperNodeMember, NetworkTopology
from ringwise.state.name_patterns import MAX_WORK, BadPattern, NamePattern, PatternTooCostly, SearchableNames
from ringwise.state.node_labels import NodeLabels, members_of, node_set
from ringwise.topology.natural import natural_key

#: Different regular expressions of all HyperNodes together.
MAX_PATTERNS = 4_096
#: What they may cost together: characters of names, and states of their automata. A few seconds.
MAX_COST = 10_000_000
_TOO_COSTLY = (
    "takes too long to match, by itself or with those before it: write it without repetitions inside each "
    "other, and with a part that few names contain"
)
#: An expression that was too costly is tried again when one name of so many is gone.
_FEWER = 10
#: As a limit: no domain of a tree is allowed, for another tree has the tier's name.
NO_TIER = -1
#: A problem names so many things.
_SHOWN = 5


class Domain(NamedTuple):
    """A HyperNode that is usable: the nodes below it, and its place in its tree."""

    name: str
    tier: int
    tier_name: str
    #: As bits by node id: those that exist, of all domains below it too.
    nodes: int
    #: Names of the domain above it, empty for the top of a tree, and of that top.
    parent: str
    top: str
    children: tuple[str, ...] = ()


class ProblemKind(StrEnum):
    CIRCLE = "circle"
    TWO_PARENTS = "two-parents"
    MISSING_MEMBER = "missing-member"
    MEMBER_SELECTOR = "member-selector"
    TIER_ORDER = "tier-order"
    OVERLAP = "overlapping-nodes"
    EXPRESSION = "bad-expression"
    EMPTY_SELECTOR = "empty-selector"
    TIER_NAME = "tier-name"
    MISSING_NODE = "missing-node"
    NO_NODES = "no-nodes"


#: The HyperNode is no domain.
IGNORED = frozenset({ProblemKind.CIRCLE, ProblemKind.OVERLAP, ProblemKind.EXPRESSION})
#: Nothing is wrong with the object: nodes that are named may come.
MILD = frozenset({ProblemKind.MISSING_NODE, ProblemKind.NO_NODES})


class Problem(NamedTuple):
    kind: ProblemKind
    #: After the name of the HyperNode: what is wrong, and what of it does not count.
    text: str

    @property
    def ignored(self) -> bool:
        return self.kind in IGNORED

    @property
    def sentence(self) -> str:
        return f"{self.text}; it is ignored" if self.ignored else self.text

    @property
    def mild(self) -> bool:
        return self.kind in MILD


class Forest:
    """The domains of all HyperNodes that are usable, and what is wrong with the others."""

    def __init__(self, domains: Mapping[str, Domain], problems: Mapping[str, tuple[Problem, ...]]) -> None:
        #: By name, in natural order.
        self.domains = domains
        self.problems = problems
        self.tops = tuple(domain for domain in domains.values() if not domain.parent)
        by_tier: dict[int, list[Domain]] = {}
        for domain in domains.values():
            by_tier.setdefault(domain.tier, []).append(domain)
        #: Ascending; inside a tier in natural order.
        self.by_tier = {tier: tuple(by_tier[tier]) for tier in sorted(by_tier)}
        self._leaves: dict[int, Domain] = {}
        seen = 0
        for same_tier in self.by_tier.values():
            for domain in same_tier:
                self._leaves.update(dict.fromkeys(members_of(domain.nodes & ~seen), domain))
                seen |= domain.nodes
        #: By top and tier name: the lowest tier that has it.
        self._tier_names: dict[tuple[str, str], int] = {}
        for tier, same_tier in self.by_tier.items():
            for domain in same_tier:
                if domain.tier_name:
                    self._tier_names.setdefault((domain.top, domain.tier_name), tier)
        #: Names that tiers have in any tree.
        self.tier_names = frozenset(name for _, name in self._tier_names)

    def leaf_of(self, node: int) -> Domain | None:
        """The lowest domain that has this node."""
        return self._leaves.get(node)

    def holding(self, nodes: int) -> Domain | None:
        """The lowest domain that has all these nodes."""
        domain = self.leaf_of((nodes & -nodes).bit_length() - 1)
        while domain is not None and nodes & ~domain.nodes:
            domain = self.domains.get(domain.parent)
        return domain

    def ancestors(self, name: str) -> tuple[Domain, ...]:
        """The domains above it, nearest first."""
        found = []
        domain = self.domains.get(name)
        while domain is not None and domain.parent:
            domain = self.domains[domain.parent]
            found.append(domain)
        return tuple(found)

    def domains_below(self, name: str) -> Iterator[Domain]:
        """Every domain above its children; those of one domain in natural order."""
        domain = self.domains.get(name)
        todo = list(reversed(domain.children)) if domain is not None else []
        while todo:
            found = self.domains[todo.pop()]
            yield found
            todo += reversed(found.children)

    def highest_tier(self, topology: NetworkTopology, top: str) -> int | None:
        """The highest tier that hard mode allows in the tree of this top; None: any, for there is no limit or
        no HyperNode has the tier's name; NO_TIER: none, for only other trees have it.
        """
        name = topology.highest_tier_name
        if topology.highest_tier is not None or not name:
            return topology.highest_tier
        if name not in self.tier_names:
            return None
        return self._tier_names.get((top, name), NO_TIER)

    def limits(self, topology: NetworkTopology) -> bool:
        """Whether hard mode restricts anything: not without a tier, or with a name that no tier has."""
        return topology.highest_tier is not None or topology.highest_tier_name in self.tier_names


class _Matches:
    """An expression, and the names of nodes that it matches."""

    def __init__(self, text: str) -> None:
        #: Of the expression itself; empty: it is good.
        self.wrong = ""
        self.names: set[str] = set()
        self._pattern: NamePattern | None = None
        #: Where it was too costly: what it was allowed to cost, for how many names, and how many are gone.
        self._allowed = self._known = self._gone = 0
        try:
            self._pattern = NamePattern(text)
        except BadPattern as error:
            self.wrong = str(error)

    @property
    def cost(self) -> int:
        return 0 if self._pattern is None else self._pattern.work

    def read(self, names: SearchableNames, most: int) -> None:
        """Unless it costs more than that."""
        self.names = set()
        if self._pattern is None:
            return
        self.wrong = ""
        try:
            self.names = self._pattern.found_in_all(names, min(most, MAX_WORK))
        except PatternTooCostly:
            self.wrong = _TOO_COSTLY
            self._allowed, self._known, self._gone = min(most, MAX_WORK), len(names.names), 0

    def change(self, added: Iterable[str], gone: Collection[str], most: int) -> bool:
        """Returns whether that was possible; otherwise it has to be read."""
        if self._pattern is None:
            return True
        if self.wrong:
            # More names do not make it cheaper. To find that out takes longest of all.
            self._gone += len(gone)
            return min(most, MAX_WORK) <= self._allowed and self._gone * _FEWER < self._known
        self.names.difference_update(gone)
        try:
            self.names.update(name for name in added if self._pattern.found_in(name))
        except PatternTooCostly:
            return False
        return True


class _Patterns:
    """What expressions match: a node that comes is held against each once."""

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._matches: dict[str, _Matches] = {}

    def read(self, wanted: Sequence[str], names: set[str]) -> Mapping[str, _Matches]:
        """In their order, as far as all of them together cost not too much."""
        added, gone = names - self._names, self._names - names
        searchable = SearchableNames(names if wanted else ())
        found: dict[str, _Matches] = {}
        left = MAX_COST
        for text in wanted:
            known = self._matches.get(text)
            matches = found[text] = known or _Matches(text)
            if known is None or not matches.change(added, gone, left):
                matches.read(searchable, left)
            left -= matches.cost
        self._names, self._matches = names, found
        return found


class HyperNodes:
    """The objects, as they were seen last, and their trees, which are built when they are asked for."""

    def __init__(self) -> None:
        self._objects: dict[str, HyperNode] = {}
        self._patterns = _Patterns()
        #: Grows when trees may differ.
        self.version = 0
        self._forest = Forest({}, {})
        self._forest_of = (0, -1)

    def put(self, hyper_node: HyperNode) -> bool:
        """Returns whether trees may differ."""
        before = self._objects.get(hyper_node.name)
        self._objects[hyper_node.name] = hyper_node
        changed = before is None or _described(before) != _described(hyper_node)
        self.version += changed
        return changed

    def drop(self, name: str) -> bool:
        known = self._objects.pop(name, None) is not None
        self.version += known
        return known

    def get(self, name: str) -> HyperNode | None:
        return self._objects.get(name)

    def __iter__(self) -> Iterator[HyperNode]:
        return iter(self._objects.values())

    def __len__(self) -> int:
        return len(self._objects)

    def forest(self, node_id: Mapping[str, int], labels: NodeLabels) -> Forest:
        """Built again only when a HyperNode changed, a node came or went, or a label that is selected by."""
        if not self._objects and not self._forest.problems and not self._forest.domains:
            return self._forest
        if self._forest_of != (self.version, labels.followed_version):
            labels.followed = frozenset(
                requirement.key
                for one in self._objects.values()
                for member in one.members
                if not member.hyper_node
                for requirement in member.selector or ()
            )
            self._forest = _Builder(self._objects, node_id, labels, self._patterns).build()
            self._forest_of = (self.version, labels.followed_version)
        return self._forest


def _described(one: HyperNode) -> tuple[int, str, tuple[HyperNodeMember, ...]]:
    return one.tier, one.tier_name, one.members


class _Builder:
    def __init__(
        self,
        objects: Mapping[str, HyperNode],
        node_id: Mapping[str, int],
        labels: NodeLabels,
        patterns: _Patterns,
    ) -> None:
        self._objects = {name: objects[name] for name in sorted(objects, key=natural_key)}
        self._node_id = node_id
        self._labels = labels
        wanted = dict.fromkeys(
            member.pattern
            for one in self._objects.values()
            for member in one.members
            if member.pattern and not member.hyper_node
        )
        known = labels.known
        names = {name for name, number in node_id.items() if known >> number & 1} if wanted else set()
        self._matches = patterns.read(list(wanted)[:MAX_PATTERNS], names)
        #: By expression: the nodes that it matches.
        self._found: dict[str, int] = {}
        self._problems: dict[str, dict[ProblemKind, list[str]]] = {}
        #: Nodes that a HyperNode names itself, and the HyperNode above it.
        self._own: dict[str, int] = {}
        self._parent: dict[str, str] = {}

    def build(self) -> Forest:
        for one in self._objects.values():
            self._own[one.name] = self._own_nodes(one)
        links = self._links()
        circles = self._circles(links)
        self._choose_parents(links, circles)
        skipped = circles | {
            name for name, found in self._problems.items() if ProblemKind.EXPRESSION in found
        }
        skipped |= self._overlapping(skipped)
        domains = self._domains(skipped)
        self._check_tier_names(domains)
        return Forest(
            MappingProxyType(domains),
            MappingProxyType(
                {
                    name: tuple(Problem(kind, text) for kind in ProblemKind for text in found.get(kind, ()))
                    for name in self._objects
                    if (found := self._problems.get(name))
                }
            ),
        )

    def _tell(self, name: str, kind: ProblemKind, text: str) -> None:
        self._problems.setdefault(name, {}).setdefault(kind, []).append(text)

    # -- members ----------------------------------------------------------------------------

    def _own_nodes(self, one: HyperNode) -> int:
        nodes, exact, missing = 0, [], []
        empty = False
        for member in one.members:
            if member.hyper_node:
                continue
            if member.name:
                number = self._node_id.get(member.name)
                if number is not None and self._labels.known >> number & 1:
                    exact.append(number)
                else:
                    missing.append(member.name)
            elif member.pattern:
                nodes |= self._matching(one.name, member.pattern)
            elif member.selector:
                nodes |= self._selected(member)
            else:
                empty = True
        if empty:
            self._tell(one.name, ProblemKind.EMPTY_SELECTOR, "an empty labelMatch selects no node")
        if missing:
            what = f"{counted(missing, 'node')} that it names {agrees(len(missing), 'does', 'do')} not exist"
            self._tell(one.name, ProblemKind.MISSING_NODE, f"{what}: {_several(missing)}")
        return nodes | node_set(exact)

    def _matching(self, name: str, pattern: str) -> int:
        matches = self._matches.get(pattern)
        if matches is None:
            self._tell(
                name,
                ProblemKind.EXPRESSION,
                f"regexMatch {_cut(pattern)} does not count: all HyperNodes together have more than "
                f"{MAX_PATTERNS:,} different expressions",
            )
            return 0
        if matches.wrong:
            self._tell(name, ProblemKind.EXPRESSION, f"regexMatch {_cut(pattern)}: {matches.wrong}")
        if pattern not in self._found:
            self._found[pattern] = node_set(self._node_id[one] for one in matches.names)
        return self._found[pattern]

    def _selected(self, member: HyperNodeMember) -> int:
        nodes = self._labels.known
        for requirement in member.selector or ():
            nodes &= self._labels.holding(requirement)
        return nodes

    def _links(self) -> dict[str, list[str]]:
        """By HyperNode: the members that are HyperNodes and exist."""
        links: dict[str, list[str]] = {}
        for one in self._objects.values():
            named = dict.fromkeys(member.name for member in one.members if member.hyper_node and member.name)
            if any(member.hyper_node and not member.name for member in one.members):
                self._tell(
                    one.name,
                    ProblemKind.MEMBER_SELECTOR,
                    "members that are HyperNodes are found by exactMatch only: regexMatch and labelMatch of "
                    "them match nothing",
                )
            missing = [name for name in named if name not in self._objects]
            if missing:
                what = f"{counted(missing, 'member')} {agrees(len(missing), 'does', 'do')} not exist"
                self._tell(one.name, ProblemKind.MISSING_MEMBER, f"{what}: HyperNode {_several(missing)}")
            links[one.name] = sorted((name for name in named if name in self._objects), key=natural_key)
        return links

    # -- trees ------------------------------------------------------------------------------

    def _circles(self, links: Mapping[str, Sequence[str]]) -> set[str]:
        """Those that are below themselves."""
        found: set[str] = set()
        for component in _components(links):
            if len(component) == 1 and component[0] not in links[component[0]]:
                continue
            found.update(component)
            for name in component:
                others = [other for other in component if other != name]
                self._tell(
                    name,
                    ProblemKind.CIRCLE,
                    f"is below itself, by way of {_several(others)}" if others else "is a member of itself",
                )
        return found

    def _choose_parents(self, links: Mapping[str, Sequence[str]], circles: set[str]) -> None:
        """Of several parents the first in natural order is kept."""
        for parent, members in links.items():
            if parent in circles:
                continue
            for member in members:
                if member in circles:
                    continue
                low, high = self._objects[member].tier, self._objects[parent].tier
                if low >= high:
                    self._tell(
                        parent,
                        ProblemKind.TIER_ORDER,
                        f"its member {member} does not count: its tier {low} is not below tier {high}",
                    )
                elif member in self._parent:
                    first = self._parent[member]
                    self._tell(
                        parent,
                        ProblemKind.TWO_PARENTS,
                        f"its member {member} does not count: it is a member of {first} already",
                    )
                    self._tell(
                        member,
                        ProblemKind.TWO_PARENTS,
                        f"is a member of {first} and of {parent}, and counts in {first} only",
                    )
                else:
                    self._parent[member] = parent

    def _overlapping(self, skipped: set[str]) -> set[str]:
        """Of those that share nodes and are not above each other: the one that shares with most others goes
        first, the last in natural order of equal ones, until no two are left.
        """
        once = twice = 0
        names = [name for name in self._objects if name not in skipped]
        for name in names:
            twice |= once & self._own[name]
            once |= self._own[name]
        if not twice:
            return set()
        sharing = [name for name in names if self._own[name] & twice]
        conflicts = self._conflicts(sharing, [self._own[name] & twice for name in sharing])
        found: set[str] = set()
        while conflicts:
            worst = max(conflicts, key=lambda number: (conflicts[number].bit_count(), number))
            others = conflicts.pop(worst)
            found.add(sharing[worst])
            for other in members_of(others):
                conflicts[other] &= ~(1 << worst)
                if not conflicts[other]:
                    del conflicts[other]
            self._tell_overlap(sharing[worst], [sharing[other] for other in members_of(others)])
        return found

    def _conflicts(self, names: Sequence[str], nodes: Sequence[int]) -> dict[int, int]:
        """By position of a name: those of the names that it excludes."""
        position = {name: number for number, name in enumerate(names)}
        related = [0] * len(names)
        for number, name in enumerate(names):
            for above in (position[one] for one in self._above(name) if one in position):
                related[number] |= 1 << above
                related[above] |= 1 << number
        conflicts: dict[int, int] = {}
        for number, mine in enumerate(nodes):
            sharing = node_set(other for other in range(number) if mine & nodes[other])
            for other in members_of(sharing & ~related[number]):
                conflicts[number] = conflicts.get(number, 0) | 1 << other
                conflicts[other] = conflicts.get(other, 0) | 1 << number
        return conflicts

    def _tell_overlap(self, name: str, others: Sequence[str]) -> None:
        theirs = 0
        for other in others:
            theirs |= self._own[other]
        count = (self._own[name] & theirs).bit_count()
        self._tell(name, ProblemKind.OVERLAP, f"shares {counted(count, 'node')} with {_several(others)}")

    def _above(self, name: str) -> Iterator[str]:
        while name := self._parent.get(name, ""):
            yield name

    def _domains(self, skipped: set[str]) -> dict[str, Domain]:
        """What is below a HyperNode that is ignored counts as below the one above that."""
        parents = {
            name: next((one for one in self._above(name) if one not in skipped), "")
            for name in self._objects
            if name not in skipped
        }
        nodes = {name: self._own[name] for name in parents}
        children: dict[str, list[str]] = {}
        ascending = sorted(parents, key=lambda name: self._objects[name].tier)
        for name in ascending:
            if parent := parents[name]:
                nodes[parent] |= nodes[name]
        for name, parent in parents.items():
            if parent:
                children.setdefault(parent, []).append(name)
        tops: dict[str, str] = {}
        for name in reversed(ascending):
            tops[name] = tops[parents[name]] if parents[name] else name
        for name in parents:
            if not nodes[name] and name not in self._problems:
                self._tell(name, ProblemKind.NO_NODES, "has no node that exists")
        return {
            name: Domain(
                name,
                self._objects[name].tier,
                self._objects[name].tier_name,
                nodes[name],
                parent,
                tops[name],
                tuple(children.get(name, ())),
            )
            for name, parent in parents.items()
        }

    def _check_tier_names(self, domains: Mapping[str, Domain]) -> None:
        lowest: dict[tuple[str, str], Domain] = {}
        for domain in sorted(domains.values(), key=lambda one: one.tier):
            if not domain.tier_name:
                continue
            first = lowest.setdefault((domain.top, domain.tier_name), domain)
            if first.tier != domain.tier:
                self._tell(
                    domain.name,
                    ProblemKind.TIER_NAME,
                    f"its tierName {domain.tier_name} is that of tier {first.tier} in the same tree "
                    f"({first.name}), too: the name stands for tier {first.tier}",
                )


def _components(links: Mapping[str, Sequence[str]]) -> Iterator[list[str]]:
    """Sets of names that all lead to each other (Tarjan's algorithm), each in natural order."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    on_stack: set[str] = set()
    for root in links:
        if root in number:
            continue
        todo = [(root, iter(links[root]))]
        number[root] = low[root] = len(number)
        stack.append(root)
        on_stack.add(root)
        while todo:
            name, following = todo[-1]
            for other in following:
                if other not in number:
                    number[other] = low[other] = len(number)
                    stack.append(other)
                    on_stack.add(other)
                    todo.append((other, iter(links[other])))
                    break
                if other in on_stack:
                    low[name] = min(low[name], number[other])
            else:
                todo.pop()
                if todo:
                    low[todo[-1][0]] = min(low[todo[-1][0]], low[name])
                if low[name] == number[name]:
                    component = [stack.pop()]
                    while component[-1] != name:
                        component.append(stack.pop())
                    on_stack.difference_update(component)
                    yield sorted(component, key=natural_key)


def _several(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN:,} more"


def _cut(pattern: str) -> str:
    return pattern if len(pattern) <= 64 else f"{pattern[:64]}..."
