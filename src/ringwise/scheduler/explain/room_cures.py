"""Cures that make room: chips, other jobs, nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations

from ringwise.plugins.reasons import NODE_CORDONED, UNTOLERATED_TAINT
from ringwise.scheduler.explain.cure_search import STARTS, Cure, Suppose, Trying, joined, together
from ringwise.scheduler.explain.near_misses import NearMiss
from ringwise.scheduler.explain.what_if import chips_free, gone, node_is
from ringwise.state.fleet import NODE_NOT_READY
from ringwise.state.model import Node
from ringwise.wellknown import UNSCHEDULABLE_TAINT

_MOST_SINGLE_JOBS = 3
_MOST_TOGETHER = 8
_PAIRED = 12


class RoomCures(Trying):
    def _chips(self) -> Iterator[Cure]:
        """The nearest nodes: one alone, else several, of one switch or SuperPoD where that matters."""
        policy = self._job.policy
        if policy is None:
            return
        lacking = [miss for miss in self._misses if miss.chips and miss.missing]
        single = 0
        for miss in lacking[:5]:
            text = f"if {_chips_text(policy.board.ring_word, [miss])} were free"
            found = list(self._try("chips", text, self._freed(miss)))
            yield from found
            single += len(found)
            if single >= 2:
                return
        if single:
            return
        for region in self._regions(lacking)[:6]:
            parts = [self._freed(miss) for miss in region[:16]]
            taken = self._fewest(parts)
            if taken:
                text = f"if {_chips_text(policy.board.ring_word, [region[n] for n in taken])} were free"
                yield self._cure("chips", text, together(parts, taken))
                return

    def _freed(self, miss: NearMiss) -> Suppose:
        policy = self._job.policy
        resource = policy.resource if policy is not None else ""
        return partial(chips_free, self._scheduler, resource, miss.number, miss.chips)

    def _regions(self, misses: list[NearMiss]) -> list[list[NearMiss]]:
        """Nodes that can serve the job together, the region that lacks least first."""
        policy, scheduler = self._job.policy, self._scheduler
        if policy is not None and policy.switch_class is not None:
            resolved = scheduler.world.switches(scheduler.state)
            switch_of = resolved.switch_of if resolved is not None else {}
            region: dict[str, object] = {miss.node: switch_of.get(miss.node) for miss in misses}
        elif policy is not None and policy.block_nodes is not None:
            size = scheduler.configuration.settings.super_pod_size
            superpod_of = scheduler.world.superpods(scheduler.state, size).superpod_of
            region = {miss.node: superpod_of.get(miss.number) for miss in misses}
        else:
            return [misses] if misses else []
        grouped: dict[object, list[NearMiss]] = {}
        for miss in misses:
            if region[miss.node] is not None:
                grouped.setdefault(region[miss.node], []).append(miss)
        rows = sorted(grouped.values(), key=lambda row: sum(miss.missing for miss in row))
        return [*rows, misses] if len(rows) > 1 else rows

    def _ended(self) -> Iterator[Cure]:
        """One running job, else two, else a handful."""
        candidates = self._candidates()
        helpful: list[tuple[float, int]] = []
        found = 0
        for position, (names, uids) in enumerate(candidates):
            progress = self._progress(self._released(uids), len(uids))
            helpful.append((-progress, position))
            if progress == STARTS:
                yield self._cure("job-ended", f"if {names} ended", self._released(uids))
                found += 1
                if found == _MOST_SINGLE_JOBS:
                    return
        if found:
            return
        # Those that brought the job furthest alone come first.
        candidates = [candidates[position] for _, position in sorted(helpful)]
        for (first, some), (second, more) in combinations(candidates[:_PAIRED], 2):
            uids = [*some, *more]
            if self._holds(self._released(uids), len(uids)):
                yield self._cure("job-ended", f"if {first} and {second} ended", self._released(uids))
                return
        parts = [self._released(uids) for _, uids in candidates[:_MOST_TOGETHER]]
        taken = self._fewest(parts, 8)
        if taken:
            names = joined([candidates[position][0] for position in taken])
            yield self._cure("job-ended", f"if {names} ended", together(parts, taken))

    def _candidates(self) -> list[tuple[str, list[str]]]:
        """Running jobs that hold what this one needs: those on near misses first, then the smallest."""
        scheduler, job = self._scheduler, self._job
        resource = job.policy.resource if job.policy is not None else None
        near = {miss.number for miss in self._misses[:16]}
        grouped: dict[str, list[str]] = {}
        chips: dict[str, int] = {}
        close: set[str] = set()
        for uid, placement in scheduler.state.pods.items():
            cls = placement.pod.cls
            if placement.node < 0 or uid in job.pods or (resource is not None and cls.resource != resource):
                continue
            owner = scheduler.book.job_of(uid)
            name = f"job {owner.namespace}/{owner.name}" if owner else f"pod {placement.pod.key}"
            grouped.setdefault(name, []).append(uid)
            chips[name] = chips.get(name, 0) + cls.chips
            if placement.node in near:
                close.add(name)
        ordered = sorted(grouped, key=lambda name: (name not in close, chips[name], name))
        return [(name, grouped[name]) for name in ordered]

    def _released(self, uids: Iterable[str]) -> Suppose:
        scheduler, job, now = self._scheduler, self._job, self._now
        held = list(uids)
        return lambda: gone(scheduler, scheduler.open_session(now), held, job)

    def _nodes(self) -> Iterator[Cure]:
        mendable = [(miss, mended) for miss in self._misses if (mended := self._mended(miss)) is not None]
        found = 0
        for miss, (node, words) in mendable[:5]:
            cures = list(self._try("node", f"if {words.format(miss.node)}", self._as(node)))
            yield from cures
            found += len(cures)
            if found == 2:
                return
        if found or len(mendable) < 2:
            return
        parts = [self._as(node) for _, (node, _) in mendable[:16]]
        taken = self._fewest(parts)
        if taken:
            words = joined([mendable[n][1][1].format(mendable[n][0].node) for n in taken])
            yield self._cure("node", f"if {words}", together(parts, taken))

    def _mended(self, miss: NearMiss) -> tuple[Node, str] | None:
        node = self._scheduler.state.nodes[miss.number]
        if node is None:
            return None
        if miss.reason.code == NODE_CORDONED.code:
            taints = tuple(taint for taint in node.taints if taint.key != UNSCHEDULABLE_TAINT)
            return replace(node, unschedulable=False, taints=taints), "{} were uncordoned"
        if miss.reason.code == NODE_NOT_READY.code:
            return replace(node, ready=True), "{} were Ready"
        if miss.reason.code == UNTOLERATED_TAINT.code:
            taint = miss.reason.details["taint"]
            return replace(node, taints=()), "{} had no taint " + str(taint)
        return None

    def _as(self, node: Node) -> Suppose:
        return partial(node_is, self._scheduler, node)


def _chips_text(ring_word: str, misses: Sequence[NearMiss]) -> str:
    """`2 chips of ring 0 on node-17`"""
    words = []
    for miss in misses:
        count = f"{miss.missing} chip" + ("s" if miss.missing > 1 else "")
        where = f" of {ring_word} {miss.ring}" if miss.ring is not None else ""
        words.append(f"{count}{where} on {miss.node}")
    return joined(words)
