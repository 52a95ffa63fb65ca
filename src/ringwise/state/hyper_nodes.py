"""HyperNodes as trees of network domains, each a set of nodes.

A problem of a HyperNode is reported for it and affects no other. Two domains that are not below each other
share no node; the tier of a domain is above those of all domains below it. If HyperNodes exclude each other,
the first in natural order of names counts: the result does not depend on the order in which they were seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from itertools import accumulate
from types import MappingProxyType
from typing import NamedTuple, Protocol

from ringwise.grammar import agrees, counted, listed
from ringwise.records import dataclass
from ringwise.state.model import HyperNode, HyperNodeMember, NetworkTopology
from ringwise.state.node_labels import NodeLabels, members_of, node_set
from ringwise.state.storage_capacities import selected_nodes
from ringwise.topology.natural import natural_key

#: Characters of all different regular expressions together. To compile the worst of them takes seconds.
MAX_CHARACTERS = 131_072
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


#: The HyperNode is not a domain.
IGNORED = frozenset({ProblemKind.OVERLAP, ProblemKind.EXPRESSION})
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
        names = []
        domain = self.domains.get(name)
        while domain is not None and domain.parent:
            domain = self.domains[domain.parent]
            names.append(domain)
        return tuple(names)

    def domains_below(self, name: str) -> Iterator[Domain]:
        """Every domain above its children; those of one domain in natural order."""
        domain = self.domains.get(name)
        todo = list(reversed(domain.children)) if domain is not None else []
        while todo:
            below = self.domains[todo.pop()]
            yield below
            todo += reversed(below.children)

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


class Expressions(Protocol):
    """Regular expressions that were compiled together."""

    @property
    def errors(self) -> Mapping[str, str]:
        """By expression that cannot be used: why."""

    def matching(self, name: str) -> Sequence[str]:
        """The expressions that match anywhere in the name."""


#: Compiles regular expressions: the library is not part of the core.
CompileExpressions = Callable[[Sequence[str]], Expressions]


class _ExpressionMatches:
    """The names in which each expression is found. A name is searched once until the expressions change."""

    def __init__(self, compile_expressions: CompileExpressions | None) -> None:
        self._compile = compile_expressions
        self._texts: Sequence[str] = ()
        self._expressions: Expressions | None = None
        #: By name: the expressions that are found in it.
        self._names_of: dict[str, Sequence[str]] = {}

    def read(self, texts: Sequence[str], names: Iterable[str]) -> Mapping[str, list[str]]:
        if texts != self._texts:
            self._texts = texts
            self._names_of = {}
            self._expressions = self._compile(texts) if texts and self._compile is not None else None
        if self._expressions is None:
            return {}
        previous, search = self._names_of, self._expressions.matching
        self._names_of = {name: previous[name] if name in previous else search(name) for name in names}
        matches: dict[str, list[str]] = {}
        for name, of_name in self._names_of.items():
            for text in of_name:
                matches.setdefault(text, []).append(name)
        return matches

    def error(self, text: str) -> str:
        """Why the expression does not count; empty if it does."""
        if self._expressions is None:
            return "this program cannot search for regular expressions"
        return self._expressions.errors.get(text, "")


class HyperNodes:
    """The objects, as they were seen last, and their trees, which are built when they are asked for."""

    def __init__(self, compile_expressions: CompileExpressions | None = None) -> None:
        self._objects: dict[str, HyperNode] = {}
        self._matches = _ExpressionMatches(compile_expressions)
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
        existed = self._objects.pop(name, None) is not None
        self.version += existed
        return existed

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
            objects = {name: self._objects[name] for name in sorted(self._objects, key=natural_key)}
            self._forest = _Builder(objects, node_id, labels, self._matches).build()
            self._forest_of = (self.version, labels.followed_version)
        return self._forest


def _described(one: HyperNode) -> tuple[int, str, tuple[HyperNodeMember, ...]]:
    return one.tier, one.tier_name, one.members


@dataclass(slots=True, eq=False)
class _Builder:
    #: In natural order of their names.
    _objects: Mapping[str, HyperNode]
    _node_id: Mapping[str, int]
    _labels: NodeLabels
    _matches: _ExpressionMatches
    #: Expressions: as many as are allowed, in the order of the HyperNodes; and the nodes that each matches.
    _allowed: set[str] = field(init=False)
    _matching: dict[str, int] = field(init=False)
    _problems: dict[str, dict[ProblemKind, list[str]]] = field(default_factory=dict)
    #: Nodes that a HyperNode names itself, and the HyperNode above it.
    _own: dict[str, int] = field(default_factory=dict)
    _parent: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        texts = dict.fromkeys(
            member.pattern
            for one in self._objects.values()
            for member in one.members
            if member.pattern and not member.hyper_node
        )
        characters = accumulate(map(len, texts))
        self._allowed = {text for text, used in zip(texts, characters, strict=True) if used <= MAX_CHARACTERS}
        node_id, existing = self._node_id, self._labels.existing
        names = (name for name, number in node_id.items() if existing >> number & 1)
        matches = self._matches.read([text for text in texts if text in self._allowed], names)
        self._matching = {text: node_set(node_id[name] for name in hits) for text, hits in matches.items()}

    def build(self) -> Forest:
        for one in self._objects.values():
            self._own[one.name] = self._own_nodes(one)
        self._choose_parents(self._links())
        skipped = {name for name, by_kind in self._problems.items() if ProblemKind.EXPRESSION in by_kind}
        skipped |= self._overlapping(skipped)
        domains = self._domains(skipped)
        self._check_tier_names(domains)
        return Forest(
            MappingProxyType(domains),
            MappingProxyType(
                {
                    name: tuple(Problem(kind, text) for kind in ProblemKind for text in by_kind.get(kind, ()))
                    for name in self._objects
                    if (by_kind := self._problems.get(name))
                }
            ),
        )

    def _add_problem(self, name: str, kind: ProblemKind, text: str) -> None:
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
                if number is not None and self._labels.existing >> number & 1:
                    exact.append(number)
                else:
                    missing.append(member.name)
            elif member.pattern:
                self._check_expression(one.name, member.pattern)
                nodes |= self._matching.get(member.pattern, 0)
            elif member.selector:
                nodes |= selected_nodes(self._labels, member.selector)
            else:
                empty = True
        if empty:
            self._add_problem(one.name, ProblemKind.EMPTY_SELECTOR, "an empty labelMatch selects no node")
        if missing:
            what = f"{counted(missing, 'member node')} {agrees(len(missing), 'does', 'do')} not exist"
            self._add_problem(one.name, ProblemKind.MISSING_NODE, f"{what}: {listed(missing, _SHOWN)}")
        return nodes | node_set(exact)

    def _check_expression(self, name: str, text: str) -> None:
        if text not in self._allowed:
            error = f"all HyperNodes together have more than {MAX_CHARACTERS:,} characters of expressions"
        elif not (error := self._matches.error(text)):
            return
        self._add_problem(name, ProblemKind.EXPRESSION, f"regexMatch {_cut(text)}: {error}")

    def _links(self) -> dict[str, list[str]]:
        """By HyperNode: the members that are HyperNodes and exist."""
        links: dict[str, list[str]] = {}
        for one in self._objects.values():
            named = dict.fromkeys(member.name for member in one.members if member.hyper_node and member.name)
            if any(member.hyper_node and not member.name for member in one.members):
                self._add_problem(
                    one.name,
                    ProblemKind.MEMBER_SELECTOR,
                    "members of type HyperNode can be selected by exactMatch only: their "
                    "regexMatch and labelMatch match nothing",
                )
            missing = [name for name in named if name not in self._objects]
            if missing:
                what = f"{counted(missing, 'member')} {agrees(len(missing), 'does', 'do')} not exist"
                self._add_problem(
                    one.name, ProblemKind.MISSING_MEMBER, f"{what}: HyperNode {listed(missing, _SHOWN)}"
                )
            links[one.name] = sorted((name for name in named if name in self._objects), key=natural_key)
        return links

    # -- trees ------------------------------------------------------------------------------

    def _choose_parents(self, links: Mapping[str, Sequence[str]]) -> None:
        """Of several parents the first in natural order is kept. Tiers ascend, so none is above itself."""
        refused: list[tuple[str, str]] = []
        for parent, members in links.items():
            for member in members:
                if self._objects[member].tier >= self._objects[parent].tier:
                    refused.append((parent, member))
                elif member in self._parent:
                    first = self._parent[member]
                    self._add_problem(
                        parent,
                        ProblemKind.TWO_PARENTS,
                        f"its member {member} is ignored: it is already a member of {first}",
                    )
                    self._add_problem(
                        member,
                        ProblemKind.TWO_PARENTS,
                        f"is a member of both {first} and {parent}, and is counted only in {first}",
                    )
                else:
                    self._parent[member] = parent
        for parent, member in refused:
            low, high = self._objects[member].tier, self._objects[parent].tier
            if member == parent:
                kind, why = ProblemKind.CIRCLE, "it is the HyperNode itself"
            elif member in self._above(parent):
                kind, why = ProblemKind.CIRCLE, f"{parent} is below {member}"
            else:
                kind, why = ProblemKind.TIER_ORDER, f"its tier {low} is not below tier {high}"
            self._add_problem(parent, kind, f"its member {member} is ignored: {why}")

    def _overlapping(self, skipped: set[str]) -> set[str]:
        """Those that share nodes with one before them in natural order, neither above nor below them."""
        result: set[str] = set()
        taken = 0
        #: By node: the lowest of those that have it. All others that have it are above that one.
        lowest: dict[int, str] = {}
        for name in self._objects:
            if name in skipped:
                continue
            own = self._own[name]
            other = self._first_unrelated(name, own & taken, lowest)
            if other:
                result.add(name)
                shared = (own & self._own[other]).bit_count()
                self._add_problem(name, ProblemKind.OVERLAP, f"shares {counted(shared, 'node')} with {other}")
                continue
            free_or_above = {"", *self._above(name)}
            lowest |= {node: name for node in members_of(own) if lowest.get(node, "") in free_or_above}
            taken |= own
        return result

    def _first_unrelated(self, name: str, nodes: int, lowest: Mapping[int, str]) -> str:
        """The first of those that have the nodes which is neither above nor below; empty if there is none."""
        related = set(self._above(name))
        while nodes:
            other = lowest[(nodes & -nodes).bit_length() - 1]
            if other not in related:
                if name not in self._above(other):
                    return other
                related.add(other)
            nodes &= nodes - 1
        return ""

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
                self._add_problem(name, ProblemKind.NO_NODES, "none of its nodes exist")
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
                self._add_problem(
                    domain.name,
                    ProblemKind.TIER_NAME,
                    f"its tierName {domain.tier_name} is that of tier {first.tier} in the same tree "
                    f"({first.name}), too; the name refers to tier {first.tier}",
                )


def _cut(pattern: str) -> str:
    return pattern if len(pattern) <= 64 else f"{pattern[:64]}..."
