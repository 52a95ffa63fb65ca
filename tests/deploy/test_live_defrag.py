"""`kubectl ringwise defrag --plan` and `why` on a stand-in for a cluster: disruption budgets are kept."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from ringwise.kubeclient.resources import CONFIG_MAPS, DISRUPTION_BUDGETS
from ringwise.messages.move_plan import FAILED, MovePlan, PlannedMove, PlannedPod
from ringwise.scheduler.cache.entries import plain
from ringwise.scheduler.defragment.live_plan import (
    EndedPlan,
    LivePlan,
    MovingJob,
    MovingPod,
    place_of,
)
from ringwise.state.loads import NO_LOAD
from ringwise.wellknown import RESCHEDULING_CONFIG_MAP, VOLCANO_SYSTEM
from tests.builders.records import with_entries
from tests.deploy.test_live_drain import on_cluster, owned
from tests.kube.fake_api_server import FakeApiServer
from tests.kube.harness import NODES, PODS, QUEUES, node, pod

BUDGETS = DISRUPTION_BUDGETS.path()


def holes(api: FakeApiServer) -> None:
    """A pod of one chip on each of two nodes; a pod of eight waits."""
    api.put(QUEUES, {"metadata": {"name": "default"}})
    for number in (1, 2):
        api.put(NODES, node(f"node-{number}"))
        made = owned(pod(f"eval-{number}", 1, on=f"node-{number}", held="Ascend910-0"), "ReplicaSet", "eval")
        made["metadata"]["labels"] = {"app": "eval"}
        api.put(PODS, made)
    api.put(PODS, pod("train", 8))


def guarded(api: FakeApiServer, allowed: int) -> None:
    holes(api)
    api.put(
        BUDGETS,
        {
            "metadata": {"name": "guard", "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": "eval"}}},
            "status": {"disruptionsAllowed": allowed},
        },
    )


def asked(tmp_path: Path, prepare: Any) -> Any:
    (result,), _ = on_cluster(tmp_path, prepare, "defrag --plan --for train -o json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_a_cluster_shows_the_moves(tmp_path: Path) -> None:
    document = asked(tmp_path, holes)
    (plan,) = document["plans"]
    assert [move["name"] for move in plan["moves"]] == ["eval-1"]


def test_a_disruption_budget_forbids_the_move(tmp_path: Path) -> None:
    document = asked(tmp_path, lambda api: guarded(api, 0))
    assert document["plans"] == []
    (job,) = document["without_plan"]
    assert "PodDisruptionBudget guard allows 0 evictions, 1 required" in job["reason"]["message"]


def test_a_disruption_budget_allows_the_move(tmp_path: Path) -> None:
    assert len(asked(tmp_path, lambda api: guarded(api, 1))["plans"]) == 1


def why(tmp_path: Path, prepare: Any) -> Any:
    tmp_path.mkdir(exist_ok=True)
    (result,), _ = on_cluster(tmp_path, prepare, "why train -o json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def fixes(document: Any) -> list[str]:
    return [fix["kind"] for fix in document["fixes"]]


def test_why_names_only_moves_that_budgets_allow(tmp_path: Path) -> None:
    assert "moves" in fixes(why(tmp_path / "1", lambda api: guarded(api, 1)))
    forbidden = why(tmp_path / "2", lambda api: guarded(api, 0))
    assert "moves" not in fixes(forbidden)
    assert "omitted" not in forbidden


def test_why_says_that_budgets_cannot_be_read(tmp_path: Path) -> None:
    def prepare(api: FakeApiServer) -> None:
        guarded(api, 0)
        api.fault(f"GET {BUDGETS}", status=403, times=9)

    document = why(tmp_path, prepare)
    assert "moves" in fixes(document)
    (line,) = document["omitted"]
    assert line.startswith("disruption budgets: ")


def test_why_reads_the_record_of_moves(tmp_path: Path) -> None:
    """Plans that are carried out, and how the last one ended, as the scheduler wrote them."""
    old = PlannedPod("before", "default/eval-1", "node-1", (0,))
    move = PlannedMove("default/pod:eval-1", (replace(old, node="node-2", chips=(1,)),), (old,), 1)
    plan = MovePlan("p", "default/pod:train", (), (move,), 1)
    going = MovingJob("default/pod:eval-1", "default/pod:eval-1", "huawei.com/Ascend910")
    going.pods["before"] = MovingPod(place_of(move.pods[0]), place_of(old), NO_LOAD)
    live = LivePlan(plan, time.time_ns(), "huawei.com/Ascend910", [going])
    failed = EndedPlan("q", "default/pod:train", ("default/pod:eval-2",), FAILED, "eval-2 was not evicted", 5)

    def prepare(api: FakeApiServer, table: str, key: str, entry: object) -> None:
        holes(api)
        data = with_entries({}, table, {key: plain(entry)})
        meta = {"namespace": VOLCANO_SYSTEM, "name": RESCHEDULING_CONFIG_MAP}
        api.put(CONFIG_MAPS.path(), {"metadata": meta, "data": data})

    told = why(tmp_path, lambda api: prepare(api, "ended-moves", "q", failed))["notes"]
    assert told == ["the last moves that it was a part of came to nothing: eval-2 was not evicted"]
    told = why(tmp_path, lambda api: prepare(api, "moves", "p", live))["notes"]
    assert told == ["jobs are moved so that it can start: default/eval-1; 1 of 1 pod gone"]
