"""The device plugin is killed at random moments: no chip is in two containers, and none is lost."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Sequence

import pytest

from tests.cluster.cluster import PODS, Cluster, requested_chips
from tests.cluster.objects import Object, pod
from tests.node.machine import Machine
from tests.node.test_stories import Machines, in_container, no_chip_in_two_containers, settled

pytestmark = [pytest.mark.cluster, pytest.mark.node, pytest.mark.chaos]

SEED = int(os.environ.get("RINGWISE_CHAOS_SEED", "1"))
KILLS = int(os.environ.get("RINGWISE_CHAOS_KILLS", "3"))
#: Chips of the pods that run together: all of the node.
SIZES = (4, 2, 1, 1)


class Owner:
    """Creates pods again that kubelet rejected, each under a new name."""

    def __init__(self, cluster: Cluster, node: Machine) -> None:
        self._cluster = cluster
        self._node = node
        self._created = 0

    def complete(self, sizes: Sequence[int]) -> list[Object] | None:
        """The pods if all run with their chips; those that are missing are created."""
        pods = self._cluster.pods()
        self.check(pods)
        missing = Counter(sizes)
        for one in pods:
            if one["status"].get("phase") != "Failed":
                missing[requested_chips(one)] -= 1
            elif "deletionTimestamp" not in one["metadata"]:
                self._cluster.api.delete(f"{PODS}/{one['metadata']['name']}")
        for chips in missing.elements():
            self._created += 1
            self._cluster.api.create(PODS, pod(f"train-{self._created}", chips))
        return settled(self._cluster, "", len(sizes), self._node)

    def check(self, pods: Sequence[Object]) -> None:
        """No chip is in two containers that run.

        After an exchange the plugin corrects one pod after the other, so annotations are compared at the end.
        """
        running = self._node.running()
        no_chip_in_two_containers([one for one in pods if one["metadata"]["uid"] in running], self._node)

    def delete_all(self) -> None:
        for one in self._cluster.pods():
            self._cluster.api.delete(f"{PODS}/{one['metadata']['name']}")

    def none_left(self) -> bool:
        pods = self._cluster.pods()
        self.check(pods)
        return not pods


def test_N6_the_plugin_is_killed_while_pods_start_and_end(machines: Machines) -> None:
    cluster, start = machines
    node = start("node-1")
    cluster.run("scheduler")
    rng = random.Random(SEED)
    owner = Owner(cluster, node)
    kills = 0
    while kills < KILLS:
        owner.complete(SIZES)
        # From before the first Allocate until after the last report.
        time.sleep(rng.uniform(0.0, 3.0))
        restart_plugin(cluster, node)
        pods = cluster.wait(lambda: owner.complete(SIZES), "all pods run with their chips")
        assert sorted(chip for one in pods for chip in in_container(node, one)) == list(range(8))
        owner.delete_all()
        time.sleep(rng.uniform(0.0, 1.0))
        restart_plugin(cluster, node)
        cluster.wait(owner.none_left, "the pods are gone")
        kills += 2


def restart_plugin(cluster: Cluster, node: Machine) -> None:
    node.plugin.kill()
    node.start_plugin()
    cluster.wait(node.registrations, "the plugin registers again")
    cluster.wait(lambda: node.allocatable() == 8, "kubelet has the chips again")
