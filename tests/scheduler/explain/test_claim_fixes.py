"""Jobs that their claims keep from every node: what is told, what would help, and that nothing is changed."""

from __future__ import annotations

from typing import Any

import pytest

from ringwise.scheduler.explain.why import Explanation, explain, find_job
from ringwise.state.model import NodeTerm, Requirement
from ringwise.state.volumes import (
    CsiDriver,
    PersistentVolume,
    StorageCapacity,
    StorageClass,
)
from tests.builders.values import claim, node, pod
from tests.fingerprint import state_of
from tests.scheduler.rig import NOW, told

LOCAL = StorageClass("local", waits_for_pod=True)
NOW_CLASS = StorageClass("now", "disk.example.com")
FAST = (
    StorageClass("fast", "disk.example.com", waits_for_pod=True),
    CsiDriver("disk.example.com", publishes_capacity=True),
    StorageCapacity("kube-system", "all", "fast", (), 1 << 30),
)


def why(*events: object, chips: int = 8, **fields: Any) -> Explanation:
    fields.setdefault("claims", ("data",))
    view = told(node("node-1"), *events, pod("new", chips, **fields))
    table = state_of(view).volumes
    before = dict(table.claims), dict(table.volumes), list(table.claims)
    answer = explain(view, find_job(view, "new"), NOW)
    assert (dict(table.claims), dict(table.volumes), list(table.claims)) == before
    return answer


@pytest.mark.parametrize(
    ("code", "events"),
    [
        ("claim-missing", []),
        ("storage-class-missing", [claim("data", "gone")]),
        ("claim-not-bound", [NOW_CLASS, claim("data", "now")]),
        ("no-matching-volume", [LOCAL, claim("data", "local")]),
        ("insufficient-storage", [*FAST, claim("data", "fast", requested=2 << 30)]),
        ("claim-deleted", [claim("data", "", deleting=True)]),
        ("claim-lost", [claim("data", "", volume="gone", bound=True)]),
    ],
)
def test_what_is_wrong_with_a_claim_is_what_would_help(code: str, events: list[object]) -> None:
    answer = why(*events)
    assert answer.reason is not None
    assert answer.reason.code == code
    assert "default/data" in answer.sentence
    assert answer.fixes
    assert {fix.kind for fix in answer.fixes} == {"claim"}


def test_a_claim_of_an_ephemeral_volume_is_supposed_to_be_the_pods_own() -> None:
    answer = why(claims=("new-scratch",), ephemeral_claims=("new-scratch",))
    assert answer.reason is not None
    assert answer.reason.code == "ephemeral-claim-not-created"
    assert [fix.kind for fix in answer.fixes] == ["claim"]


def test_a_claim_is_no_fix_where_no_chips_are_free_either() -> None:
    answer = why(pod("old", 4, on="node-1", holds=range(4)))
    assert answer.reason is not None
    assert answer.reason.code == "claim-missing"
    assert not answer.fixes


def test_a_claim_for_one_pod_is_free_when_its_pod_has_ended() -> None:
    alone = claim("data", "", access_modes=("ReadWriteOncePod",), volume="disk", bound=True)
    user = pod("old", 1, on="node-1", holds=[0], claims=("data",))
    answer = why(PersistentVolume("disk"), alone, user, chips=1)
    assert answer.reason is not None
    assert answer.reason.code == "claim-in-use"
    assert "default/old" in answer.sentence
    assert [fix.kind for fix in answer.fixes] == ["job-ended"]


def test_where_a_volume_keeps_it_from_every_node_another_volume_would_help() -> None:
    elsewhere = PersistentVolume(
        "disk", node_terms=(NodeTerm(fields=(Requirement("metadata.name", "In", ("away",)),)),)
    )
    answer = why(elsewhere, claim("data", "", volume="disk", bound=True))
    assert [fix.text for fix in answer.fixes] == ["use a volume for default/data that every node can use"]
