"""The bucket index: the best node for a request without looking at the nodes.

Nodes with the same signature (what the board's score depends on) and the same
shape (what everything else depends on) are interchangeable, so they form one
group. For each request size the signatures have a fixed order of preference,
by their score (rules N3, N4); one integer has a bit for each level of that order that
holds a node, and its lowest set bit is the best one. Inside a group the node first in
natural order is on top of a heap.

    request 2:   level 0   level 1   level 2            occupied = 0b101
                 score 262 score 261 score 260
                 bucket(0,2)         bucket(2,2)
                   shape 7: node-3, node-9
                   shape 8: node-4

A node that moves leaves its heap entry behind; entries are checked when they
reach the top, and a heap with too many stale ones is rebuilt.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import field
from heapq import heapify, heappop, heappush
from math import inf
from typing import Protocol

from ringwise.records import dataclass
from ringwise.state.node_labels import node_set
from ringwise.state.node_shapes import NodeShape

#: So many nodes in natural order are looked at one by one to find the first of a set.
_STRETCH = 16


class Scorer(Protocol):
    """The part of a board's chip rule that the index needs."""

    def signature(self, usable: int, allocatable: int, faulty: int) -> Hashable: ...

    def score(self, signature: Hashable, request: int, multi_pod: bool) -> int | None: ...


class ExtraScores(Protocol):
    """Extra scores of single nodes."""

    def most(self) -> float:
        """No node has a higher one."""

    def best(self, nodes: int, rating: float, limit: float) -> tuple[float, int] | None:
        """Of these nodes the lowest negative sum of rating and extra score, and those that have it.

        None where all are above the limit.
        """


class Group:
    """Interchangeable nodes: one signature, one shape."""

    __slots__ = ("bucket", "count", "heap", "nodes", "shape")

    def __init__(self, bucket: Bucket, shape: NodeShape) -> None:
        self.bucket = bucket
        self.shape = shape
        self.heap: list[int] = []
        self.count = 0
        #: Its nodes as a set, from the first time on that it is asked for.
        self.nodes: int | None = None


@dataclass(slots=True, eq=False)
class Bucket:
    """All groups of one signature."""

    number: int
    signature: Hashable
    groups: dict[int, Group] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class RequestOrder:
    """For one request size: the score levels in order, and which of them hold nodes."""

    scores: list[int] = field(default_factory=list)
    levels: list[list[Bucket]] = field(default_factory=list)
    level_of: list[int] = field(default_factory=list)
    #: Buckets that hold nodes, by level, and the levels where that is not zero, as bits.
    counts: list[int] = field(default_factory=list)
    occupied: int = 0

    def count(self, level: int, by: int) -> None:
        """One more bucket of the level holds nodes (1), or one less (-1)."""
        self.counts[level] += by
        bit = 1 << level
        self.occupied = self.occupied | bit if self.counts[level] else self.occupied & ~bit


@dataclass(slots=True, eq=False)
class View:
    """The nodes of one fleet, ordered by one chip rule."""

    _rule: Scorer
    _multi_pod: bool
    _buckets: list[Bucket] = field(default_factory=list)
    _by_signature: dict[Hashable, Bucket] = field(default_factory=dict)
    _orders: dict[int, RequestOrder] = field(default_factory=dict)
    _group_of: list[Group | None] = field(default_factory=list)
    _rank_of: list[int] = field(default_factory=list)
    _node_at: list[int] = field(default_factory=list)
    _suspended: set[int] = field(default_factory=set)
    #: The nodes from one rank up to another, as sets.
    _stretches: dict[tuple[int, int], int] = field(default_factory=dict)

    # -- updates ---------------------------------------------------------------

    def renumber(self, rank_of: list[int], node_at: list[int]) -> None:
        """Start over with a new natural order of nodes; every node must be set again."""
        self._rank_of = rank_of
        self._node_at = node_at
        self._group_of = [None] * len(rank_of)
        self._buckets.clear()
        self._by_signature.clear()
        self._orders.clear()
        self._suspended.clear()
        self._stretches.clear()

    def put(self, node: int, usable: int, allocatable: int, faulty: int, shape: NodeShape) -> None:
        """The node's chips or shape changed: move it to the group it belongs to now."""
        if node in self._suspended:
            return
        signature = self._rule.signature(usable, allocatable, faulty)
        bucket = self._by_signature.get(signature)
        if bucket is None:
            bucket = self._new_bucket(signature)
        old = self._group_of[node]
        if old is not None:
            if old.bucket is bucket and old.shape is shape:
                return
            self._leave(old, node)
        group = bucket.groups.get(shape.number)
        if group is None:
            group = Group(bucket, shape)
            if not bucket.groups:
                self._count(bucket, 1)
            bucket.groups[shape.number] = group
        group.count += 1
        if group.nodes is not None:
            group.nodes |= 1 << node
        heappush(group.heap, self._rank_of[node])
        self._group_of[node] = group
        if len(group.heap) > 2 * group.count + 64:
            self._rebuild_heap(group)

    def drop(self, node: int) -> None:
        """Remove the node from the index."""
        group = self._group_of[node]
        if group is not None:
            self._group_of[node] = None
            self._leave(group, node)

    def suspend(self, node: int) -> None:
        """Hide a node until `resume`: it stays hidden whatever happens to its chips."""
        self._suspended.add(node)
        self.drop(node)

    def resume(self, node: int) -> None:
        """End a suspension; the caller puts the node again."""
        self._suspended.discard(node)

    def _leave(self, group: Group, node: int) -> None:
        group.count -= 1
        if group.nodes is not None:
            group.nodes ^= 1 << node
        if group.count == 0:
            # An empty group is dropped at once: shapes change with the usage.
            bucket = group.bucket
            del bucket.groups[group.shape.number]
            if not bucket.groups:
                self._count(bucket, -1)

    def _rebuild_heap(self, group: Group) -> None:
        group_of, node_at = self._group_of, self._node_at
        group.heap = [rank for rank in set(group.heap) if group_of[node_at[rank]] is group]
        heapify(group.heap)

    # -- buckets and their order -------------------------------------------------

    def _new_bucket(self, signature: Hashable) -> Bucket:
        bucket = Bucket(len(self._buckets), signature)
        self._buckets.append(bucket)
        self._by_signature[signature] = bucket
        for request in list(self._orders):
            self._orders[request] = self._make_order(request)
        return bucket

    def _make_order(self, request: int) -> RequestOrder:
        by_score: dict[int, list[Bucket]] = {}
        for bucket in self._buckets:
            score = self._rule.score(bucket.signature, request, self._multi_pod)
            if score is not None:
                by_score.setdefault(score, []).append(bucket)
        order = RequestOrder()
        order.scores = sorted(by_score, reverse=True)
        order.level_of = [-1] * len(self._buckets)
        order.counts = [0] * len(order.scores)
        for level, score in enumerate(order.scores):
            order.levels.append(by_score[score])
            for bucket in by_score[score]:
                order.level_of[bucket.number] = level
                if bucket.groups:
                    order.count(level, 1)
        return order

    def _count(self, bucket: Bucket, by: int) -> None:
        for order in self._orders.values():
            level = order.level_of[bucket.number]
            if level >= 0:
                order.count(level, by)

    # -- queries -------------------------------------------------------------------

    def order(self, request: int) -> RequestOrder:
        order = self._orders.get(request)
        if order is None:
            order = self._orders[request] = self._make_order(request)
        return order

    def first(self, group: Group) -> int:
        """The group's node that comes first in natural order."""
        heap, group_of, node_at = group.heap, self._group_of, self._node_at
        while True:
            node = node_at[heap[0]]
            if group_of[node] is group:
                return node
            heappop(heap)

    def best(
        self,
        request: int,
        admits: Callable[[NodeShape], bool],
        rate: Callable[[NodeShape], float] | None = None,
    ) -> tuple[int, int] | None:
        """The best node and its score, or None.

        Rule N3a: the board's score decides; among equals the highest rating, then natural order.
        """
        order = self._orders.get(request)
        if order is None:
            order = self.order(request)
        occupied = order.occupied
        while occupied:
            low = occupied & -occupied
            level = low.bit_length() - 1
            best = self._best_in(order.levels[level], admits, rate)
            if best >= 0:
                return best, order.scores[level]
            occupied ^= low
        return None

    def _best_in(
        self,
        buckets: list[Bucket],
        admits: Callable[[NodeShape], bool],
        rate: Callable[[NodeShape], float] | None,
    ) -> int:
        best_node, best_rating, best_rank = -1, 0.0, -1
        for bucket in buckets:
            for group in bucket.groups.values():
                shape = group.shape
                if not admits(shape):
                    continue
                rating = rate(shape) if rate is not None else 0.0
                if best_node >= 0 and rating < best_rating:
                    continue
                node = self.first(group)
                rank = self._rank_of[node]
                if best_node < 0 or rating > best_rating or rank < best_rank:
                    best_node, best_rating, best_rank = node, rating, rank
        return best_node

    def best_sum(
        self,
        request: int,
        admits: Callable[[NodeShape], bool],
        rate: Callable[[NodeShape], float],
        weight: int,
    ) -> tuple[int, int] | None:
        """Rule N3a, `score-combination: sum`: `weight` times the board's score plus the rating."""
        best_node, best_total, best_rank, best_score = -1, 0.0, -1, 0
        for score, group in self.fitting(request):
            if not admits(group.shape):
                continue
            value = weight * score + rate(group.shape)
            if best_node >= 0 and value < best_total:
                continue
            node = self.first(group)
            rank = self._rank_of[node]
            if best_node < 0 or value > best_total or rank < best_rank:
                best_node, best_total, best_rank, best_score = node, value, rank, score
        return None if best_node < 0 else (best_node, best_score)

    def best_preferred(
        self,
        request: int,
        admits: Callable[[NodeShape], bool],
        rate: Callable[[NodeShape], float],
        extras: ExtraScores,
        *,
        weight: int | None,
        within: int | None,
    ) -> tuple[int, int] | None:
        """The same with ratings of single nodes, added to those of their shapes; only nodes `within` count.

        Without a weight the board's score decides first; with one, it times the board's score is added.
        """
        most, order = extras.most(), self.order(request)
        levels = (
            [(score, group) for bucket in order.levels[level] for group in bucket.groups.values()]
            for level, score in enumerate(order.scores)
            if order.counts[level]
        )
        for groups in levels if weight is None else [[one for level in levels for one in level]]:
            # Groups with the same rating are looked at together.
            rated: dict[tuple[float, int], list[Group]] = {}
            for score, group in groups:
                if admits(group.shape):
                    rating = (weight or 0) * score + rate(group.shape)
                    rated.setdefault((rating, score), []).append(group)
            best_node, best_score, best_key, best_rank = -1, 0, inf, -1
            for rating, score in sorted(rated, reverse=True):
                if -rating - most > best_key:
                    # No node of these groups is better, nor of any that follow.
                    break
                nodes = self.nodes_of(rated[rating, score])
                if within is not None:
                    nodes &= within
                best = extras.best(nodes, rating, best_key) if nodes else None
                if best is not None:
                    rank = self._first_rank(best[1])
                    if (best[0], rank) < (best_key, best_rank):
                        best_node, best_score, best_key, best_rank = self._node_at[rank], score, best[0], rank
            if best_node >= 0:
                return best_node, best_score
        return None

    def nodes_of(self, groups: Iterable[Group]) -> int:
        """The nodes of all these groups, as a set."""
        nodes = 0
        single: list[int] = []
        for group in groups:
            if group.count == 1:
                single.append(self.first(group))
                continue
            if group.nodes is None:
                group.nodes = node_set(self.members(group))
            nodes |= group.nodes
        return nodes | node_set(single)

    def _first_rank(self, nodes: int) -> int:
        """The rank of the node of this set (at least one) that comes first in natural order."""
        if not nodes & nodes - 1:
            return self._rank_of[nodes.bit_length() - 1]
        node_at, stretches = self._node_at, self._stretches
        start, end = 0, len(node_at)
        while end - start > _STRETCH:
            middle = (start + end) // 2
            half = stretches.get((start, middle))
            if half is None:
                half = stretches[start, middle] = node_set(node_at[start:middle])
            if nodes & half:
                end = middle
            else:
                start = middle
        return next(rank for rank in range(start, end) if nodes >> node_at[rank] & 1)

    def fitting(self, request: int) -> Iterator[tuple[int, Group]]:
        """All groups on which the request fits, best score first."""
        order = self.order(request)
        for score, buckets in zip(order.scores, order.levels, strict=True):
            for bucket in buckets:
                for group in bucket.groups.values():
                    yield score, group

    def members(self, group: Group) -> list[int]:
        """The nodes of a group in natural order."""
        group_of, node_at = self._group_of, self._node_at
        ranks = {rank for rank in group.heap if group_of[node_at[rank]] is group}
        return [node_at[rank] for rank in sorted(ranks)]

    def groups(self) -> Iterator[Group]:
        for bucket in self._buckets:
            yield from bucket.groups.values()

    def group_of(self, node: int) -> Group | None:
        return self._group_of[node]
