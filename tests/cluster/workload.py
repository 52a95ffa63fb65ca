"""Jobs of many sizes that come, run and end, drawn from a seed; and what became of each of them."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from ringwise.apps.bench.control_plane import ApiAnswer
from tests.cluster.cluster import GROUPS, JOBS, PODS, Cluster
from tests.cluster.objects import ENDS, STARTS_AFTER, Object, pod, pod_group, vcjob

#: Pods and chips of each. All fit on three nodes.
SIZES = ((1, 1), (1, 2), (1, 4), (2, 4), (2, 8), (3, 8), (4, 2), (6, 1))


@dataclass
class Ordered:
    """One job that somebody wants to run."""

    kind: str
    pods: int
    chips: int
    habits: dict[str, str]
    #: Seconds that its pods work together; None works until the end of the story.
    works: float | None
    ordered: float
    began: float | None = None
    state: str = "waits"


class Work:
    """Besides ordering jobs it is the program inside them: pods end when all have run together for a while.

    And it is the operator that made pods with a PodGroup: a pod that was evicted is made again.
    """

    def __init__(self, cluster: Cluster, rng: random.Random, chips: int, forever: int) -> None:
        """`chips` of the whole cluster; `forever` whole nodes are taken by jobs that do not end."""
        self._cluster = cluster
        self._rng = rng
        self._chips = chips
        self._forever = forever
        self.orders: dict[str, Ordered] = {}

    def states(self) -> Counter[str]:
        return Counter(order.state for order in self.orders.values())

    def unsettled(self) -> list[str]:
        return [name for name, order in self.orders.items() if order.state == "waits"]

    def step(self) -> None:
        """One job more, unless they ask for half as much again as there is; now and then one less."""
        open_orders = [name for name, order in self.orders.items() if order.state in ("waits", "runs")]
        asked = sum(self.orders[name].pods * self.orders[name].chips for name in open_orders)
        # Only what is new is withdrawn: a job that was lost would be seen in the end.
        new = [name for name in open_orders if time.monotonic() - self.orders[name].ordered < 4.0]
        if new and self._rng.random() < 0.1:
            self._withdraw(self._rng.choice(new))
        elif asked <= self._chips * 1.5:
            self._order()

    def order(self, pods: int, chips: int, kind: str, works: float | None) -> str:
        name = f"work{len(self.orders) + 1}"
        habits = {STARTS_AFTER: "4s"} if self._rng.random() < 0.2 else {}
        order = self.orders[name] = Ordered(kind, pods, chips, habits, works, time.monotonic())
        if kind == "job":
            self._cluster.api.create(JOBS, vcjob(name, pods, chips, pod_annotations=habits))
        else:
            self._cluster.api.create(GROUPS, pod_group(name, pods))
            for number in range(pods):
                self._make_pod(name, order, number)
        return name

    def _order(self) -> None:
        kind = self._rng.choice(("job", "group"))
        if self._forever and self._rng.random() < 0.1:
            # Whole nodes: what is left has room for every other job in the end.
            self._forever -= 1
            self.order(1, 8, kind, None)
            return
        pods, chips = self._rng.choice(SIZES)
        self.order(pods, chips, kind, self._rng.uniform(0.5, 3.0))

    def _make_pod(self, name: str, order: Ordered, number: int) -> None:
        made = pod(f"{name}-{number}", order.chips, group=name, annotations=order.habits)
        self._cluster.api.create(PODS, made)

    def _withdraw(self, name: str) -> None:
        """Its owner changed his mind. Nothing is asked of it any more, except that its chips come back."""
        order = self.orders[name]
        order.state = "withdrawn"
        if order.works is None:
            self._forever += 1
        if order.kind == "job":
            self._cluster.api.delete(f"{JOBS}/{name}")
            return
        for one in self._cluster.pods(name):
            self._delete_pod(one["metadata"]["name"])
        self._cluster.api.delete(f"{GROUPS}/{name}")

    def _delete_pod(self, name: str) -> None:
        try:
            self._cluster.api.delete(f"{PODS}/{name}")
        except ApiAnswer as answer:
            if answer.status != 404:
                raise

    def tend(self) -> None:
        """Look at every job: pods end, evicted ones are made again, and the state of each is noted."""
        by_job: dict[str, list[Object]] = {name: [] for name in self.orders}
        for one in self._cluster.pods():
            by_job[one["metadata"]["name"].split("-")[0]].append(one)
        ended = {
            one["metadata"]["name"]
            for one in self._cluster.api.items(JOBS)
            if one.get("status", {}).get("state", {}).get("phase") == "Completed"
        }
        for name, order in self.orders.items():
            if order.state in ("waits", "runs"):
                self._look_at(name, order, by_job[name], name in ended)

    def _look_at(self, name: str, order: Ordered, pods: list[Object], completed: bool) -> None:
        phases = Counter(one["status"].get("phase") for one in pods)
        if phases["Succeeded"] == order.pods == len(pods) and (completed or order.kind == "group"):
            order.state = "finished"
            return
        if order.kind == "group":
            there = {one["metadata"]["name"] for one in pods}
            for number in range(order.pods):
                if f"{name}-{number}" not in there:
                    self._make_pod(name, order, number)
        if phases["Running"] == order.pods == len(pods):
            now = time.monotonic()
            order.began = order.began or now
            order.state = "runs" if order.works is None else "waits"
            if order.works is not None and now - order.began >= order.works:
                self._end(pods)
        elif order.state == "runs":
            order.state = "waits"

    def _end(self, pods: Iterable[Object]) -> None:
        for one in pods:
            if ENDS not in one["metadata"].get("annotations", {}):
                path = f"{PODS}/{one['metadata']['name']}"
                self._cluster.api.patch(path, {"metadata": {"annotations": {ENDS: "succeeds"}}})
