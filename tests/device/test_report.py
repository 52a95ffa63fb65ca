"""The node's ConfigMap, byte for byte: the worked cases and what they leave open."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ringwise.device.allocator import Allocator
from ringwise.device.cards import (
    ASCEND910A5,
    ASCEND910B,
    Chip,
    UnknownCardError,
    accelerator_type,
    card_type,
    carries_configuration,
    device_type,
    name_of,
    node_annotations,
    node_labels,
    physical_id,
)
from ringwise.device.health.levels import switch_node_status
from ringwise.device.health.tracker import ChipFault, Escalation
from ringwise.device.ledger import Ledger
from ringwise.device.rank_tables import rank_table_device
from ringwise.device.report import (
    NO_PORT,
    ChipReport,
    SwitchFault,
    base_device_infos,
    check_code,
    device_info_cfg,
    device_list,
    is_due,
    same_device_list,
    switch_info_cfg,
    upgrade_fault_reason,
    uplinks_down,
)
from ringwise.manifests.config_maps.node_info import node_reports_of, status_of_levels
from ringwise.manifests.text.errors import Findings
from ringwise.manifests.text.go_json import digest
from ringwise.manifests.text.wire import ConfigMapWire, MetaWire
from ringwise.messages.rank_table import RankTableDevice, rank_table_fragment, rank_table_key
from tests.builders.values import CHIP
from tests.device.cases import case_id, pod_of, section, sections


def fault_of(case: dict[str, Any] | None, normal: str) -> ChipFault:
    if case is None:
        return ChipFault(normal)
    times = {code: (time, level) for code, (time, level) in case["map"].items()}
    return ChipFault(case["level"], tuple(case["codes"].split(",")), times)


def chip_of(case: dict[str, Any]) -> ChipReport:
    return ChipReport(
        case["name"],
        healthy=case.get("health", "Healthy") == "Healthy",
        network_healthy=case.get("net", "Healthy") == "Healthy",
        fault=fault_of(case.get("chip_fault"), "NormalNPU"),
        network_fault=fault_of(case.get("net_fault"), "NormalNetwork"),
    )


@pytest.mark.parametrize("case", section("deviceinfo_configmap"), ids=case_id)
def test_device_info(case: dict[str, Any]) -> None:
    machine = Allocator(CHIP, [one["name"] for one in case["devices"]], Ledger())
    machine.replace_pods([pod_of(pod) for pod in case["pods"]], 0)
    lists = device_list(CHIP, [chip_of(one) for one in case["devices"]], machine.used())
    if "DeviceList" in case:
        assert lists == case["DeviceList"]
    text = device_info_cfg(lists, case["update_time"], case["super_pod_id"], case["server_index"])
    assert text == case["DeviceInfoCfg"]


def test_the_rack_stands_after_the_check_code() -> None:
    text = device_info_cfg({"b": "2", "a": "1"}, 7, 3, 5, 0)
    assert list(json.loads(text)) == ["DeviceInfo", "SuperPodID", "ServerIndex", "CheckCode", "RackID"]
    without = device_info_cfg({"b": "2", "a": "1"}, 7, 3, 5)
    assert text == without[:-1] + ',"RackID":0}'
    assert list(json.loads(text)["DeviceInfo"]["DeviceList"]) == ["a", "b"]


@pytest.mark.parametrize("case", section("checkcode")["examples"], ids=lambda case: case["sha256"][:8])
def test_check_codes(case: dict[str, Any]) -> None:
    value = json.loads(case["json"])
    assert digest(value) == case["sha256"]
    if isinstance(value, dict) and "DeviceList" in value:
        assert check_code(value["DeviceList"], value["UpdateTime"]) == case["sha256"]


def test_the_check_code_covers_what_go_would_write() -> None:
    text = '{"DeviceList":{"a":"\\u003c\\u003e\\u0026\\u2028é"},"UpdateTime":1}'
    assert check_code({"a": "<>&\u2028é"}, 1) == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize("case", section("change_detection"))
def test_a_fault_s_time_alone_is_no_change(case: dict[str, Any]) -> None:
    assert same_device_list(case["old"], case["new"]) is case["same"]


@pytest.mark.parametrize("case", section("report_rate"))
def test_report_rate_cases(case: dict[str, Any]) -> None:
    assert is_due(case["since_last_s"], case["changed"]) is case["write"]


@pytest.mark.parametrize(
    ("since", "changed", "due"),
    [(0.9, True, False), (1.0, True, True), (299, False, False), (300, False, True)],
)
def test_report_rate(since: float, changed: bool, due: bool) -> None:
    assert is_due(since, changed) is due


@pytest.mark.parametrize("case", section("switch_node_status"), ids=lambda case: case["FaultLevel"])
def test_switch_node_status(case: dict[str, Any]) -> None:
    assert switch_node_status(case["FaultLevel"]) == case["NodeStatus"]


def alarm(port: int, **more: Any) -> SwitchFault:
    values: dict[str, Any] = {
        "event": 15859445,
        "code": 0x00F1FEF5,
        "sub_type": "155912",
        "peer_device": 1,
        "peer_port": 3,
        "chip": 0,
        "port": port,
        "severity": 2,
        "assertion": 1,
        "raised": 1700000000000,
    }
    return SwitchFault(**{**values, **more})


def test_switch_info_as_the_digest_shows_it() -> None:
    text = switch_info_cfg([alarm(7)], {"[0x00f1fef5,155912,npu,na]": "Separate"}, 1700000005)
    assert text == (
        '{"FaultCode":["{\\"EventType\\":15859445,\\"AssembledFaultCode\\":\\"[0x00f1fef5,155912,npu,na]\\",'
        '\\"PeerPortDevice\\":1,\\"PeerPortId\\":3,\\"SwitchChipId\\":0,\\"SwitchPortId\\":7,\\"Severity\\":2,'
        '\\"Assertion\\":1,\\"AlarmRaisedTime\\":1700000000000}"],"FaultLevel":"Separate",'
        '"UpdateTime":1700000005,"NodeStatus":"UnHealthy","FaultTimeAndLevelMap":'
        '{"[0x00f1fef5,155912,npu,na]_0_7":{"fault_time":1700000000000,"fault_level":"Separate"}}}'
    )


def test_a_switch_chip_without_any_uplink_separates_the_node() -> None:
    rule = section("switch_l1_l2_all_down")
    assert rule["result"] == "forced Separate"
    alarms = [alarm(port, peer_device=2) for port in range(16)]
    assert uplinks_down(alarms)
    assert not uplinks_down(alarms[:15])
    assert not uplinks_down([alarm(port, peer_device=2, chip=port % 2) for port in range(16)])
    assert json.loads(switch_info_cfg(alarms, {}, 0))["FaultLevel"] == "Separate"


@pytest.mark.parametrize(
    "change",
    [{"assertion": 0}, {"peer_port": NO_PORT}, {"peer_device": 1}, {"chip": 1}, {"port": 14}],
    ids=str,
)
def test_every_condition_of_an_uplink_that_is_down_counts(change: dict[str, Any]) -> None:
    alarms = [alarm(port, peer_device=2) for port in range(16)]
    assert not uplinks_down([*alarms[:15], replace(alarms[15], **change)])


def test_switch_codes_without_a_level_are_not_reported() -> None:
    document = json.loads(switch_info_cfg([alarm(1, peer_port=0xFFFFFFFF)], {}, 0))
    assert document == {
        "FaultCode": [],
        "FaultLevel": "",
        "UpdateTime": 0,
        "NodeStatus": "Healthy",
        "FaultTimeAndLevelMap": {},
    }
    assert alarm(1, peer_port=0xFFFFFFFF).assembled == "[0x00f1fef5,155912,na,na]"


# -- names and labels


@pytest.mark.parametrize("case", section("device_name_parse"), ids=lambda case: case["name"])
def test_chip_names(case: dict[str, Any]) -> None:
    if case.get("error"):
        with pytest.raises(ValueError, match="invalid chip name"):
            physical_id(case["name"])
    else:
        assert [physical_id(case["name"])] == case["visible"]


@pytest.mark.parametrize(
    ("name", "board", "card", "device"),
    [
        ("910B3", 0xB0, "Ascend910A3", "Ascend910"),
        ("Ascend950PR", 0, "Ascend910A5", "npu"),
        ("310P3", 0, "Ascend310P", "Ascend310P"),
        ("I2", 0, "Ascend310P", "Ascend310P"),
        ("310B4", 0, "Ascend310B", "Ascend310"),
        ("310", 0, "Ascend310", "Ascend310"),
        ("910B3", 0x28, "Ascend910B", "Ascend910"),
        ("A2G1", 0, "Ascend910B", "Ascend910"),
        ("910PremiumA", 0, "Ascend910", "Ascend910"),
    ],
)
def test_card_types(name: str, board: int, card: str, device: str) -> None:
    assert card_type(name, board) == card
    assert device_type(card) == device
    assert name_of(card, 7) == f"{device}-7"


def test_an_unknown_chip_is_an_error() -> None:
    with pytest.raises(UnknownCardError, match='"GPU" on board 0x1 has an unknown type'):
        card_type("GPU", 1)


def chip(number: int = 0, **more: Any) -> Chip:
    return Chip(number, number, number, 0, **more)


@pytest.mark.parametrize("case", section("node_labels"))
def test_node_labels(case: dict[str, Any]) -> None:
    card = case["card"]
    facts: dict[str, Any] = {"chip_name": case.get("chip_name", "x")}
    if case.get("all_cards_300i_duo"):
        facts["product"] = "Atlas 300I Duo"
    if "super_pod_id" in case or "super_pod_type" in case:
        facts |= {"superpod": 3, "superpod_type": 1, "rack": 2, "server_index": 5}
    labels = node_labels(card, [chip(**facts)], case.get("dcmi_version", ""), case.get("existing", {}))
    if "accelerator" in case:
        assert labels["accelerator"] == case["accelerator"]
    elif isinstance(case["labels"], dict):
        assert labels == case["labels"]
    else:
        topology = sorted(key for key in labels if key.startswith("huawei.com/topotree."))
        assert topology == sorted(case["labels"])


@pytest.mark.parametrize(
    ("card", "count", "facts", "label"),
    [
        ("Ascend910", 8, {}, "module"),
        ("Ascend910", 4, {}, ""),
        ("Ascend910B", 8, {"board": 0x30}, "module-910b-8"),
        ("Ascend910B", 16, {"board": 0x30}, "module-910b-16"),
        ("Ascend910B", 16, {"board": 0x51}, "module-910b-16"),
        ("Ascend910B", 8, {"board": 0x51}, ""),
        ("Ascend910B", 7, {"board": 0x30}, ""),
        # Eight chips that are not joined; a board that the driver does not know; cards in slots.
        ("Ascend910B", 8, {"board": 0x33}, ""),
        ("Ascend910B", 8, {"board": 0x3C}, ""),
        ("Ascend910B", 8, {"board": 0}, ""),
        ("Ascend910", 8, {"product": "Atlas 300T Pro"}, ""),
        ("Ascend910B", 8, {"board": 0x30, "product": "Atlas 300T A2"}, ""),
        ("Ascend910B", 2, {"board": 0x28}, "card-910b-infer"),
        ("Ascend910B", 8, {"board": 0x29, "product": "Atlas 300I A2"}, "card-910b-infer"),
        ("Ascend910A3", 16, {"superpod": 0}, "module-a3-16-super-pod"),
        ("Ascend910A3", 8, {"superpod": 1}, "module-a3-8-super-pod"),
        ("Ascend910A3", 16, {}, "module-a3-16"),
        ("Ascend910A3", 8, {}, ""),
        ("Ascend910A5", 8, {}, ""),
    ],
)
def test_the_board_label_is_set_only_without_doubt(
    card: str, count: int, facts: dict[str, Any], label: str
) -> None:
    chips = [chip(number, **facts) for number in range(count)]
    assert accelerator_type(card, chips) == label
    assert "accelerator-type" not in node_labels(card, chips, "", {"accelerator-type": "half"})


def test_chips_of_different_boards_or_with_gaps_leave_a_doubt() -> None:
    eight = [chip(number, board=0x30) for number in range(8)]
    assert accelerator_type("Ascend910B", eight) == "module-910b-8"
    assert accelerator_type("Ascend910B", [*eight[:7], chip(7, board=0x28)]) == ""
    assert accelerator_type("Ascend910B", [*eight[:7], chip(15, board=0x30)]) == ""
    assert accelerator_type("Ascend910B", [chip(0, board=0x28), chip(1, board=0x29)]) == "card-910b-infer"


@pytest.mark.parametrize("version", ["24.1 rc2", "v" * 64, "-1", "24.1\ufffd"])
def test_a_value_that_is_no_label_is_left_out(version: str) -> None:
    labels = node_labels("Ascend910B", [chip()], version, {})
    assert "huawei.com/driver.version" not in labels
    assert labels["accelerator"] == "huawei-Ascend910"


@pytest.mark.parametrize(
    ("card", "product", "cards", "kind"),
    [
        ("Ascend910A5", "Atlas 350", (0, 1), "300I-Atlas350"),
        ("Ascend910A5", "Atlas 350", (0, 0, 0, 0, 1, 1, 1, 1), "300I-Atlas350-4p"),
        ("Ascend910A5", "Atlas 850", (0, 1), None),
        ("Ascend910B", "Atlas 350", (0, 1), None),
    ],
)
def test_a5_standard_cards_are_named(
    card: str, product: str, cards: tuple[int, ...], kind: str | None
) -> None:
    chips = [Chip(number, number, card, 0, product=product) for number, card in enumerate(cards)]
    assert node_annotations(card, chips, "{}").get("cardType") == kind


@pytest.mark.parametrize(
    ("card", "product", "carried"),
    [
        ("Ascend910B", "", True),
        ("Ascend910A5", "", True),
        ("Ascend310P", "Atlas 300I Duo", True),
        ("Ascend310P", "Atlas 300I Pro", False),
        ("Ascend310", "", False),
    ],
)
def test_d3_which_pods_carry_a_configuration(card: str, product: str, carried: bool) -> None:
    assert carries_configuration(card, [chip(0, product=product), chip(1, product=product)]) is carried


def test_base_device_infos() -> None:
    case = section("base_device_info_refresh")
    names = {0: "Ascend910-0"}
    text = base_device_infos(names, [chip(ip="127.0.0.1")], with_logic_id=False)
    assert json.loads(text) == case["cached"]
    changed = base_device_infos(names, [chip(ip="127.0.1.1")], with_logic_id=False)
    assert json.loads(changed) == case["cases"][2]["new"]


@pytest.mark.parametrize("case", section("manually_separate_names"))
def test_manually_separated_chips_are_named_by_physical_id(case: dict[str, Any]) -> None:
    physical = case["logic_to_phy"][str(case["logic_ids"][0])]
    assert name_of(case["card"], physical) == case["value"]


def test_upgrade_reasons() -> None:
    escalation = Escalation(0x80E01801, "ManuallySeparateNPU", "FaultFrequency", 1700000000123)
    assert upgrade_fault_reason({"Ascend910-4": [escalation]}, {}) == (
        '{"Ascend910-4":[{"upgrade_time":1700000000123,"fault_code":"80e01801",'
        '"fault_level":"ManuallySeparateNPU","upgrade_type":"FaultFrequency"}]}'
    )
    assert upgrade_fault_reason({}, {}) == "{}"


@pytest.mark.parametrize("case", section("scheduler_available_self_maintained"))
def test_n7_free_chips(case: dict[str, Any]) -> None:
    chips = [
        ChipReport(name, healthy=name not in case["unhealthy"]) for name in case["node_base_device_infos"]
    ]
    assert device_list(CHIP, chips, case["used"])[CHIP] == case["available"]


@pytest.mark.parametrize("healthy", [True, False])
@pytest.mark.parametrize("codes", [(), ("80818200", "80E01801")])
def test_every_code_of_a_chip_is_reported_and_every_unhealthy_chip(
    healthy: bool, codes: tuple[str, ...]
) -> None:
    """Also a code that leaves the chip healthy."""
    fault = ChipFault("NotHandleFault", codes, dict.fromkeys(codes, (7, "NotHandleFault")))
    chip = ChipReport("Ascend910-3", healthy=healthy, fault=fault)
    listed = json.loads(device_list(CHIP, [chip], ())[f"{CHIP}-Fault"])
    reported = [(one["fault_type"], one["npu_name"], one["fault_code"]) for one in listed]
    expected = ("CardUnhealthy", "Ascend910-3", ",".join(codes))
    assert reported == ([] if healthy and not codes else [expected])


def test_keys_of_310_chips() -> None:
    assert device_list("huawei.com/Ascend310P", [ChipReport("Ascend310P-0")], ()) == {
        "huawei.com/Ascend310P": "Ascend310P-0",
        "huawei.com/Ascend310P-Fault": "[]",
        "huawei.com/Ascend310P-Unhealthy": "",
    }
    assert set(device_list("huawei.com/Ascend310", [], ())) == {
        "huawei.com/Ascend310",
        "huawei.com/Ascend310P-Fault",
        "huawei.com/Ascend310-Unhealthy",
    }


@pytest.mark.parametrize("case", section("pod_configuration_annotation"), ids=case_id)
def test_rank_tables(case: dict[str, Any]) -> None:
    """D3: what the configuration annotation says of a pod's chips."""
    if "device" in case:
        one = rank_table_device(
            ASCEND910B, case["device_id"], case["device_ip"], case["known_super_device_id"]
        )
        text = rank_table_fragment(pod_name="p", pod_uid="u", node_ip="", devices=[one])
        assert json.loads(text)["devices"] == [case["device"]]
        return
    wanted = json.loads(case["json"])
    assert rank_table_key(CHIP) == case["key"]
    made = rank_table_fragment(
        pod_name=wanted["pod_name"],
        pod_uid=wanted["server_id"],
        node_ip=wanted["host_ip"],
        devices=[
            rank_table_device(
                ASCEND910B, int(one["device_id"]), one["device_ip"], int(one["super_device_id"])
            )
            for one in reversed(wanted["devices"])
        ],
        superpod=wanted["super_pod_id"],
        rack=wanted["rack_id"],
        server_index=wanted["server_index"],
    )
    assert made == case["json"]


def test_rank_tables_name_no_address_where_there_is_none() -> None:
    assert rank_table_device(ASCEND910B, 3, "").ip == "-1"
    assert rank_table_device(ASCEND910A5, 3, "10.0.0.1", 7) == RankTableDevice(3, "", "7")


@pytest.mark.parametrize("case", section("noded_status"))
def test_the_state_of_a_node_follows_from_its_worst_fault(case: dict[str, Any]) -> None:
    """As NodeD writes it, with the check code over `NodeInfo` alone."""
    if "worst" in case:
        assert status_of_levels(["NotHandleFault", case["worst"]]) == case["NodeStatus"]
        return
    written = json.loads(case["example"])
    info = written["NodeInfo"]
    assert digest(info) == written["CheckCode"]
    assert status_of_levels(one["FaultLevel"] for one in info["FaultDevList"]) == info["NodeStatus"]
    del info["NodeStatus"]
    wire = ConfigMapWire(
        metadata=MetaWire(name="mindx-dl-nodeinfo-n", namespace="mindx-dl"),
        data={"NodeInfo": json.dumps(written)},
    )
    read = node_reports_of(wire, Findings("here"))
    assert read is not None
    assert [one.status for one in read] == ["UnHealthy"]


@pytest.mark.parametrize(
    ("levels", "status"),
    [
        ((), ""),
        (("strange",), ""),
        (("NotHandleFault",), "Healthy"),
        (("SeparateFault", "PreSeparateFault"), "UnHealthy"),
        (("PreSeparateFault", "NotHandleFault"), "PreSeparate"),
    ],
)
def test_levels_of_nodes(levels: tuple[str, ...], status: str) -> None:
    assert status_of_levels(levels) == status


def test_all_sections_of_the_cases_are_used() -> None:
    """A case that no test runs would be none."""
    here = Path(__file__).parent
    text = "".join(path.read_text(encoding="utf-8") for path in here.glob("*.py"))
    assert {name for name in sections() if f'section("{name}")' not in text} == set()
