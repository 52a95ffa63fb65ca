"""Rule V1: nodes that offer shares of chips take no pod that asks for chips."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ringwise.apps.extensions import new_scheduler
from ringwise.apps.queries import examine
from ringwise.manifests.bundle import read_bundle
from ringwise.manifests.settings.boards import shipped_catalog
from ringwise.messages.commands import Bind
from ringwise.scheduler.defaults import default_configuration
from tests.builders import values
from tests.builders.objects import node, node_report, pod, pod_spec, report
from tests.builders.values import CHIP, seen
from tests.place.asking import Plain, as_bytes, ask, job_of
from tests.scheduler.rig import bound_pods

SOFT = {"huawei.com/scheduler.chip1softsharedev.enable": "true"}


def offering(capacities: dict[str, int], devices: int | None, labels: dict[str, str]) -> Plain:
    made = node("n-0", chips=None, devices=None if devices is None else range(devices), labels=labels)
    for amounts in (made["status"]["capacity"], made["status"]["allocatable"]):
        amounts.update({resource: str(count) for resource, count in capacities.items()})
    return made


@pytest.mark.parametrize(
    ("capacities", "devices", "labels", "code"),
    [
        ({CHIP: 800}, 8, SOFT, "chip-memory-missing"),
        ({CHIP: 8}, 8, SOFT, "soft-capacity-differs"),
        ({CHIP: 800}, None, {}, "shares-without-soft-label"),
        ({CHIP: 65}, None, {}, "shares-without-soft-label"),
        ({CHIP: 16}, 8, {}, "shares-without-soft-label"),
        ({CHIP: 24}, 8, {}, "shares-without-soft-label"),
        ({CHIP: 8, "huawei.com/npu": 8}, 8, {}, "shares-without-soft-label"),
        ({CHIP: 800}, 8, {next(iter(SOFT)): "True"}, "shares-without-soft-label"),
        ({CHIP: 64}, None, {}, None),
        ({CHIP: 8}, 8, {next(iter(SOFT)): "false"}, None),
        ({CHIP: 12}, 8, {}, None),
        # Neither counts chips.
        ({CHIP: 8, "huawei.com/Ascend310P-2c": 96, "huawei.com/rdma": 1000}, 8, {}, None),
    ],
)
def test_a_node_that_offers_shares_takes_no_whole_chips_V1(
    capacities: dict[str, int], devices: int | None, labels: dict[str, str], code: str | None
) -> None:
    objects = [
        offering(capacities, devices, labels),
        node_report("n-0", report(range(8))),
        pod("job", pod_spec(8)),
        pod("without-chips", pod_spec(0)),
    ]
    answer = ask(objects)
    (candidate,) = job_of(answer, "job")["pods"][0]["candidates"]
    assert (None if candidate["accepted"] else candidate["reason"]["code"]) == code
    # Pods that ask for no chips are not concerned.
    assert job_of(answer, "without-chips")["state"] == "scheduled"
    bundle = read_bundle(["-"], stdin=as_bytes(objects))
    diagnosis = examine(bundle, default_configuration(), shipped_catalog(()), now=0)
    found = {one.code for one in diagnosis.findings if one.object == "node n-0"}
    shares = {"chip-memory-missing", "soft-capacity-differs", "shares-without-soft-label"}
    assert found & shares == ({code} if code else set())
    # Kubernetes counts shares there, which no other view can be compared with.
    assert code is None or not found & {"views-differ", "unstable-node"}


def test_the_reason_names_the_label_or_the_numbers_V1() -> None:
    def reason(made: Plain) -> Plain:
        (candidate,) = job_of(ask([made, pod("job", pod_spec(8))]), "job")["pods"][0]["candidates"]
        return dict(candidate["reason"])

    def message(made: Plain) -> str:
        return str(reason(made)["message"])

    soft = reason(offering({CHIP: 8}, 8, SOFT))
    assert "labeled for soft shares, but its capacity is 8, not 800 " in soft["message"]
    assert f"remove the label {next(iter(SOFT))} from n-0" in soft["fixes"]
    assert f"16 of {CHIP} on 8 chips are shares" in message(offering({CHIP: 16}, 8, {}))
    assert f"800 of {CHIP} on at most 64 chips are shares" in message(offering({CHIP: 800}, None, {}))


def test_a_pod_is_placed_when_its_node_offers_whole_chips_again_V1() -> None:
    scheduler = new_scheduler()
    shared = values.node("n-0", labels=SOFT, devices=None)
    assert not bound_pods(scheduler.handle(seen(shared, values.pod("job", 8)), 10**9))
    (bound,) = [
        one for one in scheduler.handle(seen(replace(shared, labels={})), 2 * 10**9) if isinstance(one, Bind)
    ]
    assert (bound.pod, bound.chips) == ("job", tuple(range(8)))
