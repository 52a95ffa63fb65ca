"""N7: the aggregate of ClusterD counts where it has a node; what happens while it is empty or gone."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import pytest

from ringwise.kube.watch.config_map_readers import ReportReader
from ringwise.kube.watch.objects import KeyedObjects, change_events
from ringwise.manifests.text.errors import Findings
from ringwise.messages import events as ev
from ringwise.placement.racks.levels import Level
from tests.builders.values import CHIP
from tests.cluster.objects import node_report
from tests.clusterd import ClusterD, Object, PublicFault
from tests.scheduler.faults.fault_rig import POD_LEVEL, running
from tests.scheduler.rig import Rig

ALL = tuple(range(8))


class Watched:
    """ConfigMaps on the way to a scheduler, read by the same code as on a cluster."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self._known: dict[str, KeyedObjects] = {}
        self._reader = ReportReader()

    def put(self, config_maps: Iterable[Object]) -> None:
        for one in config_maps:
            name = one["metadata"]["name"]
            found = Findings(name)
            objects = self._reader.read(msgspec.Raw(json.dumps(one).encode()), found)
            assert objects is not None, found.errors
            self._rig.tell(*change_events(self._known.get(name, ()), objects))
            self._known[name] = objects
        self._rig.step()


def reports(rig: Rig, **changed: Object) -> list[Object]:
    names = [node.name for node in rig.machine._state.nodes if node is not None]
    return [changed.get(name) or node_report(name, ALL) for name in names]


@pytest.mark.parametrize("chunk", [500, 800 * 1024], ids=["many ConfigMaps", "one ConfigMap"])
def test_N7_a_fault_that_only_the_aggregate_has_counts(chunk: int) -> None:
    rig = running(POD_LEVEL)
    clusterd, watched = ClusterD(chunk), Watched(rig)
    bad = rig.node_of("train-2")
    own = reports(rig)
    watched.put(own)
    clusterd.public_faults = [PublicFault(bad, "Ascend910-5", "110001020", "SeparateNPU")]
    made = clusterd.aggregates(own)
    assert sum(one["metadata"]["name"].startswith("cluster-info-device-") for one in made) == (
        6 if chunk == 500 else 1
    )
    watched.put(made)
    assert rig.deletions() == ["train-2"]


def test_N7_a_node_that_the_aggregate_does_not_have_is_known_by_its_own_report() -> None:
    """ClusterD takes no report with a wrong check code; the report counts here."""
    rig = running(POD_LEVEL)
    clusterd, watched = ClusterD(), Watched(rig)
    bad = rig.node_of("train-2")
    broken = node_report(bad, ALL[1:], unhealthy=[0])
    text = json.loads(broken["data"]["DeviceInfoCfg"])
    broken["data"]["DeviceInfoCfg"] = json.dumps({**text, "CheckCode": "0" * 64})
    own = reports(rig, **{bad: broken})
    watched.put(clusterd.aggregates(own))
    assert rig.deletions() == []
    watched.put(own)
    assert rig.deletions() == ["train-2"]


HOT_SWITCH = {"fault-scheduling": "force", "subHealthyStrategy": "hotSwitch"}


def waiting_for_clusterd() -> tuple[Rig, ClusterD, Watched, list[Object]]:
    """Two pods are on sub-healthy hardware, and wait for ClusterD."""
    rig = running(HOT_SWITCH)
    clusterd, watched = ClusterD(), Watched(rig)
    weak = (rig.node_of(name) for name in ("train-1", "train-3"))
    own = reports(rig, **{node: node_report(node, ALL, sub_healthy=[3]) for node in weak})
    watched.put([*clusterd.aggregates(own), *own])
    assert rig.deletions() == []
    return rig, clusterd, watched, own


def test_an_aggregate_that_is_empty_for_a_while_restarts_nobody() -> None:
    """ClusterD starts again: its job with hotSwitch is not handled as if there were none."""
    rig, clusterd, watched, own = waiting_for_clusterd()
    watched.put(clusterd.aggregates([]))
    rig.step(30)
    assert rig.deletions() == []
    watched.put(clusterd.aggregates(own))
    rig.step(300)
    assert rig.deletions() == []


def test_a_clusterd_that_is_gone_leaves_its_jobs_to_us() -> None:
    """All of them, also those on nodes that left the aggregate before the last one did."""
    rig, clusterd, watched, _ = waiting_for_clusterd()
    watched.put(clusterd.aggregates([]))
    rig.step(59)
    assert rig.deletions() == []
    rig.step(1)
    assert sorted(rig.deletions()) == ["train-1", "train-3"]


class NotWalked(dict[Any, Any]):
    def __iter__(self) -> Iterator[Any]:
        raise AssertionError("the reports of all nodes were walked over for one of them")


def test_a_report_that_goes_costs_no_walk_over_all_nodes() -> None:
    """An aggregate of thousands of nodes may go at once."""
    rig = running(POD_LEVEL)
    clusterd, watched = ClusterD(), Watched(rig)
    own = reports(rig)
    watched.put([*clusterd.aggregates(own), *own])
    state = rig.machine._state
    state.reports = NotWalked(state.reports)
    rig.tell(*(ev.ReportGone(one, aggregated=True) for one in ("n1", "n2")))
    rig.machine.handle(rig.events, rig.now)
    rig.events.clear()
    left = {key: list(found) for key, found in state.reports.items()}
    assert left["n1", CHIP] == [False]
    assert left["n3", CHIP] == [True, False]


def test_F2_a_label_that_was_pause_before_the_fault_resets_nothing() -> None:
    rig = running({**POD_LEVEL, "process-recover-enable": "pause"})
    rig.sick("n1", 1, aggregated=True)
    rig.step()
    assert len(rig.deletions()) == 4
    clock = rig.machine.view.jobs["default/train"].clock
    assert clock is not None
    assert clock.level is Level.JOB
