"""Pods, nodes and device lists as objects of the state."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ringwise.manifests.bundle import Bundle, read_bundle
from ringwise.manifests.objects.affinity import ALL_NAMESPACES
from ringwise.state.model import (
    Device,
    DeviceReport,
    HyperNode,
    HyperNodeMember,
    Node,
    NodeTerm,
    Owner,
    Pod,
    PodClass,
    PodTerm,
    PriorityClass,
    Requirement,
    Taint,
    Toleration,
    TopologySpread,
)
from ringwise.topology.switches import SwitchTopology
from ringwise.wellknown import QUEUE_GATE
from tests.builders.objects import hyper_node
from tests.builders.values import CHIP
from tests.manifests.builders import (
    config_map,
    device_info,
    node,
    pod,
    pod_group,
    priority_class,
    queue,
    text_of,
)


def bundle(*documents: dict[str, Any]) -> Bundle:
    read = read_bundle(["-"], stdin=text_of(*documents))
    assert read.errors == []
    return read


def the_pod(document: dict[str, Any]) -> Pod:
    return bundle(document).pods[0]


def the_node(document: dict[str, Any]) -> Node:
    return bundle(document).nodes[0]


def spec_of(**spec: Any) -> PodClass:
    return the_pod({**pod(), "spec": {"containers": [{}], **spec}}).cls


def asking(requests: dict[str, Any] | None = None, limits: dict[str, Any] | None = None, **more: Any) -> Any:
    return {"resources": {"requests": requests, "limits": limits}, **more}


def test_requests_are_those_of_all_containers_or_of_the_largest_init_container() -> None:
    cls = spec_of(
        containers=[asking({"cpu": "1", "memory": "1Gi"}), asking(limits={"cpu": "500m"})],
        initContainers=[
            asking({"cpu": "200m"}, restartPolicy="Always"),
            asking({"cpu": "3", "example.com/card": 2}),
            asking({"cpu": "100m"}, restartPolicy="Always"),
        ],
        overhead={"cpu": "50m"},
    )
    assert cls.cpu_milli == 3000 + 200 + 50
    assert cls.memory == 2**30
    assert cls.extended == (("example.com/card", 2),)
    assert cls.resource is None


@pytest.mark.parametrize(
    ("resources", "cpu_milli", "memory"),
    [
        ({"requests": {"cpu": "4", "memory": "4Gi"}}, 4050, 4 * 2**30),
        ({"requests": {"cpu": "1500m"}, "limits": {"cpu": "8", "memory": "8Gi"}}, 1550, 2**30),
        ({"limits": {"cpu": "8"}}, 2050, 2**30),
        ({}, 2050, 2**30),
    ],
    ids=["of the pod", "limit beside requests of containers", "only a limit", "none"],
)
def test_requests_of_the_whole_pod_replace_those_of_its_containers(
    resources: dict[str, Any], cpu_milli: int, memory: int
) -> None:
    cls = spec_of(
        containers=[asking({"cpu": "1"}), asking({"cpu": "1", "memory": "1Gi"})],
        resources=resources,
        overhead={"cpu": "50m"},
    )
    assert (cls.cpu_milli, cls.memory) == (cpu_milli, memory)


def test_a_limit_of_the_pod_counts_where_no_container_requests_the_resource() -> None:
    assert spec_of(resources={"limits": {"memory": "2Gi"}}).memory == 2 * 2**30


def test_chips_belong_to_a_container_not_to_the_whole_pod() -> None:
    spec = {"containers": [{}], "resources": {"requests": {CHIP: 8}}}
    (error,) = read_bundle(["-"], stdin=text_of({**pod(), "spec": spec})).errors
    assert "spec.resources.requests[huawei.com/Ascend910]" in str(error)
    assert "cpu, memory and hugepages-<size>" in str(error)


@pytest.mark.parametrize(
    ("limits", "resource", "chips"),
    [
        ({CHIP: 8}, CHIP, 8),
        ({CHIP: "4"}, CHIP, 4),
        ({"huawei.com/npu": 2}, "huawei.com/npu", 2),
        ({"huawei.com/Ascend910-2c": 1}, "huawei.com/Ascend910-2c", 1),
        ({CHIP: 1, "huawei.com/npu": 2}, f"{CHIP}+huawei.com/npu", 3),
        ({CHIP: 0}, CHIP, 0),
    ],
)
def test_chips_come_from_limits(limits: dict[str, Any], resource: str | None, chips: int) -> None:
    cls = spec_of(containers=[asking(limits=limits)])
    assert (cls.resource, cls.chips) == (resource, chips)


def test_D4_containers_that_request_chips_are_counted() -> None:
    built = pod(chips=2)
    built["spec"]["containers"] += [asking(limits={CHIP: 1}), asking({"cpu": "1"})]
    assert (the_pod(built).chip_containers, the_pod(built).cls.chips) == (2, 3)


@pytest.mark.parametrize(
    ("app", "init", "sidecar", "count", "before_start"),
    [
        (0, 2, 0, 1, True),
        (0, 0, 2, 1, False),
        (2, 2, 0, 2, False),
        (2, 0, 1, 2, False),
        (0, 2, 2, 2, False),
        (2, 0, 0, 1, False),
        (0, 0, 0, 0, False),
    ],
)
def test_D4_chips_that_only_an_init_container_requests_are_told_from_those_of_a_sidecar(
    app: int, init: int, sidecar: int, count: int, before_start: bool
) -> None:
    built = pod(chips=app)
    built["spec"]["initContainers"] = [
        asking(limits={CHIP: init}, name="first"),
        asking(limits={CHIP: sidecar}, name="beside", restartPolicy="Always"),
    ]
    read = the_pod(built)
    assert (read.chip_containers, read.cls.chips_before_start) == (count, before_start)


def test_pods_of_one_template_share_one_class() -> None:
    first, second, other = pod("a"), pod("b", node_name="node-0"), pod("c", 2)
    first["spec"]["containers"][0]["env"] = [{"name": "INDEX", "value": "0"}]
    one, two, three = bundle(first, second, other).pods
    assert one.cls is two.cls
    assert three.cls is not one.cls


@pytest.mark.parametrize(("given", "grace"), [({}, 30), (0, 0), (90, 90), (-5, 0), (1 << 60, 315_360_000)])
def test_how_long_a_pod_has_to_end(given: Any, grace: int) -> None:
    spec = {"terminationGracePeriodSeconds": given} if given != {} else {}
    assert the_pod({**pod(), "spec": {"containers": [{}], **spec}}).grace == grace


def test_rules_for_nodes_and_pods() -> None:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "a"}}}
    cls = spec_of(
        nodeSelector={"b": "2", "a": "1"},
        tolerations=[{"operator": "Exists"}, {"key": "k", "value": "v", "effect": "NoSchedule"}],
        affinity={
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z"]}]},
                        {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n"]}]},
                    ]
                },
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 7, "preference": {"matchExpressions": [{"key": "ssd", "operator": "Exists"}]}},
                    {
                        "weight": 8,
                        "preference": {
                            "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["m"]}]
                        },
                    },
                    {"weight": 9, "preference": {}},
                ],
            },
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [term],
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 5, "podAffinityTerm": {**term, "namespaceSelector": {}}}
                ],
            },
            "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]},
        },
    )
    app = Requirement("app", "In", ("a",))
    assert cls.node_selector == (("a", "1"), ("b", "2"))
    assert cls.tolerations == (Toleration("", "Exists"), Toleration("k", "Equal", "v", "NoSchedule"))
    assert cls.node_terms == (
        NodeTerm(labels=(Requirement("zone", "In", ("z",)),)),
        NodeTerm(fields=(Requirement("metadata.name", "NotIn", ("n",)),)),
    )
    assert cls.preferred_nodes == (
        (7, NodeTerm(labels=(Requirement("ssd", "Exists"),))),
        (8, NodeTerm(fields=(Requirement("metadata.name", "In", ("m",)),))),
    )
    assert cls.pod_anti_affinity == (PodTerm("kubernetes.io/hostname", (app,)),)
    assert cls.preferred_pod_anti_affinity == (
        PodTerm("kubernetes.io/hostname", (app,), (ALL_NAMESPACES,), 5),
    )
    # No selector at all matches no pod, unlike an empty one.
    assert cls.pod_affinity[0].selector[0].values == ()


@pytest.mark.parametrize(
    ("selector", "named", "selected"),
    [
        ({}, (ALL_NAMESPACES,), None),
        ({"matchLabels": {"kubernetes.io/metadata.name": "a"}}, ("a",), None),
        ({"matchLabels": {"team": "x"}}, (), (Requirement("team", "In", ("x",)),)),
    ],
)
def test_namespaces_of_a_term_are_named_or_selected_by_their_labels(
    selector: Any, named: tuple[str, ...], selected: Any
) -> None:
    term = {"topologyKey": "zone", "labelSelector": {}, "namespaceSelector": selector}
    wanted = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    (read,) = spec_of(affinity={"podAntiAffinity": wanted}).pod_anti_affinity
    assert (read.namespaces, read.namespace_selector) == (named, selected)


def test_spread_constraints() -> None:
    evenly: dict[str, Any] = {"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    cls = spec_of(
        topologySpreadConstraints=[
            {**evenly, "labelSelector": {"matchLabels": {"app": "a"}}, "minDomains": 3},
            {
                **evenly,
                "topologyKey": "rack",
                "whenUnsatisfiable": "ScheduleAnyway",
                "nodeAffinityPolicy": "Ignore",
                "nodeTaintsPolicy": "Honor",
            },
        ]
    )
    first, second = cls.spread
    app = Requirement("app", "In", ("a",))
    assert first == TopologySpread(PodTerm("zone", (app,)), 2, required=True, min_domains=3)
    assert (second.required, second.selected_only, second.tolerated_only) == (False, False, True)
    # No selector at all matches no pod.
    assert second.term.selector[0].values == ()


def test_own_labels_in_terms_are_those_of_the_pod() -> None:
    """An API server has added them to the selector already; then they are not added twice."""
    merged = {"matchExpressions": [{"key": "hash", "operator": "In", "values": ["1"]}]}
    term = {
        "topologyKey": "zone",
        "labelSelector": merged,
        "matchLabelKeys": ["hash", "absent"],
        "mismatchLabelKeys": ["tenant"],
    }
    spread = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {},
        "matchLabelKeys": ["hash"],
    }
    described = pod(labels={"hash": "1", "tenant": "x", "other": "y"})
    described["spec"] |= {
        "affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
        "topologySpreadConstraints": [spread],
    }
    read = the_pod(described)
    same, other = Requirement("hash", "In", ("1",)), Requirement("tenant", "NotIn", ("x",))
    assert read.cls.pod_affinity == (PodTerm("zone", (same, other)),)
    assert read.cls.spread[0].term == PodTerm("zone", (same,))


def test_an_empty_node_term_matches_nothing() -> None:
    required: dict[str, Any] = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}}
    (term,) = spec_of(affinity={"nodeAffinity": required}).node_terms
    assert term.fields[0].operator == "In"
    assert term.fields[0].values == ()


def test_host_ports() -> None:
    ports = [
        {"containerPort": 1, "hostPort": 80},
        {"containerPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"},
    ]
    assert spec_of(containers=[{"ports": ports}]).host_ports == (("0.0.0.0", "TCP", 80),)
    on_host = spec_of(containers=[{"ports": ports}], hostNetwork=True)
    assert on_host.host_ports == (("0.0.0.0", "TCP", 80), ("10.0.0.1", "UDP", 53))


def test_host_ports_of_sidecars_count_and_those_of_other_init_containers_do_not() -> None:
    cls = spec_of(
        initContainers=[
            {"ports": [{"containerPort": 1, "hostPort": 81}]},
            {"ports": [{"containerPort": 2, "hostPort": 82}], "restartPolicy": "Always"},
        ]
    )
    assert cls.host_ports == (("0.0.0.0", "TCP", 82),)


def test_a_nomination_counts_while_the_pod_has_no_node() -> None:
    status = {"phase": "Pending", "nominatedNodeName": "n1"}
    assert the_pod({**pod(), "status": status}).nominated == "n1"
    assert the_pod({**pod(node_name="n2"), "status": status}).nominated == ""


def test_N8_a_bound_pod_names_chosen_and_mounted_chips_up_to_its_limit() -> None:
    chosen = {CHIP: "Ascend910-4,Ascend910-0"}
    mounted = {**chosen, "huawei.com/AscendReal": "Ascend910-2,Ascend910-3,Ascend910-5"}
    assert the_pod(pod(chips=2, node_name="n", annotations=chosen)).holds == (4, 0)
    assert the_pod(pod(chips=1, node_name="n", annotations=chosen)).holds == (4,)
    both = the_pod(pod(chips=2, node_name="n", annotations=mounted))
    assert (both.holds, both.mounted, both.named_chips) == ((4, 0), (2, 3), (2, 3))
    assert the_pod(pod(chips=2, node_name="n")).holds == ()
    without_limit = the_pod(pod(chips=0, node_name="n", annotations=mounted))
    assert (without_limit.holds, without_limit.mounted) == ((), ())
    unbound = the_pod(pod(chips=2, annotations=mounted))
    assert (unbound.holds, unbound.mounted) == ((), ())


def test_the_chip_list_of_an_ended_pod_is_ignored() -> None:
    built = {**pod(chips=2, node_name="n", annotations={CHIP: "gone"}), "status": {"phase": "Failed"}}
    assert the_pod(built).holds == ()


STATEFUL = [{"kind": "StatefulSet", "name": "set", "controller": True}]
VARIABLE = [{"name": "VC_TASK_INDEX", "value": "5"}]


@pytest.mark.parametrize(
    ("annotation", "phase", "owners", "variables", "rank"),
    [
        ("7", "Running", STATEFUL, VARIABLE, 7),
        ("7", "Failed", STATEFUL, VARIABLE, 3),
        (None, "Running", STATEFUL, VARIABLE, 3),
        (None, "Running", [], VARIABLE, 5),
        ("7", "Failed", [], [], None),
        (None, "Pending", [], [], None),
    ],
)
def test_sources_of_a_rank(
    annotation: str | None, phase: str, owners: Any, variables: Any, rank: int | None
) -> None:
    built = pod("set-3", ownerReferences=owners)
    if annotation:
        built["metadata"]["annotations"] = {"hccl/rankIndex": annotation}
    built["spec"]["containers"][0]["env"] = variables
    built["status"] = {"phase": phase}
    assert the_pod(built).rank == rank


@pytest.mark.parametrize(("index", "rank"), [("999999999", 999999999), ("1000000000", None)])
def test_a_completion_index_is_a_rank_if_it_is_not_too_large(index: str, rank: int | None) -> None:
    assert the_pod(pod(labels={"batch.kubernetes.io/job-completion-index": index})).rank == rank


def test_the_rest_of_a_pod() -> None:
    built = pod(
        labels={"app": "a", "empty": None},
        annotations={
            "scheduling.k8s.io/group-name": "gang",
            "volcano.sh/task-spec": "work",
            "volcano.sh/preemptable": "true",
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
        },
        ownerReferences=[
            {"kind": "A", "name": "a"},
            {"kind": "Job", "name": "j", "uid": "u", "controller": True},
        ],
        deletionTimestamp="2025-01-31T08:00:00Z",
    )
    built["spec"].update(priority=10, priorityClassName="high", schedulingGates=[{"name": "wait"}])
    built["spec"]["preemptionPolicy"] = "Never"
    read = the_pod(built)
    assert read.labels == {"app": "a", "empty": ""}
    assert "kubectl.kubernetes.io/last-applied-configuration" not in read.annotations
    assert (read.group, read.task, read.preemptable, read.gated) == ("gang", "work", True, True)
    assert (read.priority, read.priority_class, read.scheduler) == (10, "high", "volcano")
    assert read.never_preempts
    assert not the_pod(pod()).never_preempts
    assert not the_pod(pod(annotations={"volcano.sh/preemptable": "false"})).preemptable
    assert read.owner == Owner("Job", "j", "u")
    assert read.deleting
    assert read.key == "team/pod-0"
    assert read.uid == the_pod(built).uid


@pytest.mark.parametrize(
    ("gates", "annotation", "queue_gated"),
    [
        ([QUEUE_GATE], "true", True),
        ([QUEUE_GATE], "false", False),
        ([QUEUE_GATE, "wait"], "true", False),
        (["wait"], "true", False),
        ([], "true", False),
    ],
)
def test_a_queue_gate_is_removed_only_where_no_other_gate_is(
    gates: list[str], annotation: str, queue_gated: bool
) -> None:
    built = pod(annotations={QUEUE_GATE: annotation})
    built["spec"]["schedulingGates"] = [{"name": gate} for gate in gates]
    read = the_pod(built)
    assert (read.gated, read.queue_gated) == (bool(gates), queue_gated)


def test_a_node() -> None:
    infos = {
        "Ascend910-1": {"IP": "10.1.0.1", "SuperDeviceID": 5},
        "Ascend910-0": {},
        "Ascend910-2c-100-0": {},
    }
    built = node(
        labels={"huawei.com/topotree.superpodid": "4"},
        annotations={"baseDeviceInfos": json.dumps(infos), "serverIndex": "2"},
    )
    built["spec"] = {"unschedulable": True, "taints": [{"key": "k", "effect": "NoExecute"}]}
    built["status"]["allocatable"] = {
        CHIP: "7",
        "cpu": "100m",
        "memory": "1Ki",
        "ephemeral-storage": "1500m",
    }
    read = the_node(built)
    assert read.devices == (Device(0), Device(1, "10.1.0.1", "5"))
    assert (read.superpod, read.server_index, read.internal_ip) == (4, "2", "10.0.0.1")
    assert (read.unschedulable, read.ready, read.taints) == (True, True, (Taint("k", "", "NoExecute"),))
    assert (read.cpu_milli, read.memory, read.max_pods) == (100, 1024, 110)
    assert read.chips_allocatable == {CHIP: 7}
    assert read.chips_capacity == {CHIP: 8}
    assert read.extended == (("ephemeral-storage", 2),)
    assert "baseDeviceInfos" not in read.annotations


def test_defaults_of_a_node() -> None:
    bare = the_node({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "bare"}})
    assert (bare.ready, bare.devices, bare.superpod, bare.max_pods) == (True, None, None, 110)
    only_capacity = the_node({**node(), "status": {"capacity": {CHIP: 8}}})
    assert only_capacity.chips_allocatable == {CHIP: 8}
    only_allocatable = the_node({**node(), "status": {"allocatable": {CHIP: 8}}})
    assert only_allocatable.chips_capacity == {CHIP: 8}
    for status in ("False", "Unknown"):
        lost = {**node(), "status": {"conditions": [{"type": "Ready", "status": status}]}}
        assert not the_node(lost).ready


def test_the_superpod_annotation_has_precedence_over_the_label() -> None:
    built = node(annotations={"superPodID": "-2"}, labels={"huawei.com/topotree.superpodid": "4"})
    assert the_node(built).superpod == -2


def test_N7_device_lists_of_one_node() -> None:
    info = device_info(
        free="Ascend910-2,Ascend910-10", Unhealthy="Ascend910-4", NetworkUnhealthy="", Fault="[]"
    )
    info["DeviceInfo"]["DeviceList"]["huawei.com/Ascend910-2c"] = "Ascend910-2c-100-0"
    # Faults are of chips, and this resource lists none.
    info["DeviceInfo"]["DeviceList"]["huawei.com/Ascend310P-Fault"] = "[]"
    read = bundle(config_map("mindx-dl-deviceinfo-node-1", {"DeviceInfoCfg": json.dumps(info)}))
    assert read.reports == [
        DeviceReport(
            node="node-1",
            resource=CHIP,
            free=1 << 2 | 1 << 10,
            unhealthy=1 << 4,
            network_unhealthy=0,
            superpod=3,
            server_index=1,
            update_time=1700000005 * 10**9,
            origin="stdin: document 1",
        )
    ]
    assert read.newest_timestamp == 1700000005 * 10**9


def test_N8_mounted_and_doubtful_chips_of_pods() -> None:
    data = {
        "DeviceInfoCfg": json.dumps(device_info(free="Ascend910-2")),
        "RingwiseMountedChips": '{"a": "Ascend910-0,Ascend910-3", "b": "npu-1"}',
        "RingwiseUnconfirmedChips": '{"c": "Ascend910-1,Ascend910-4", "d": ""}',
    }
    (report,) = bundle(config_map("mindx-dl-deviceinfo-node-1", data)).reports
    assert (report.mounted, report.doubtful) == ({"a": 0b1001}, {"c": 0b10010})


def test_N7_device_lists_of_many_nodes_in_both_forms() -> None:
    name = "cluster-info-device-0"
    flat = {**device_info()["DeviceInfo"], "SuperPodID": 9, "CmName": "x"}
    flat["DeviceList"] = {CHIP: "Ascend910-1", f"{CHIP}-Recovering": "Ascend910-7"}
    infos = {"mindx-dl-deviceinfo-a": device_info(free="Ascend910-0"), "mindx-dl-deviceinfo-b": flat}
    read = bundle(config_map(name, {name: json.dumps(infos)}, "mindx-dl"))
    assert [(one.node, one.free, one.superpod, one.recovering) for one in read.reports] == [
        ("a", 1, 3, 0),
        ("b", 2, 9, 1 << 7),
    ]
    assert all(one.aggregated and one.network_unhealthy is None for one in read.reports)


def test_config_maps_for_other_readers_and_unused_ones() -> None:
    read = bundle(
        config_map("basic-tor-node-cm", {"tor_info": "{}"}),
        config_map("cluster-info-device-7", {"cluster-info-device-7": ""}, "mindx-dl"),
        config_map("mindx-dl-deviceinfo-a", {"DeviceInfoCfg": "broken"}, "elsewhere"),
        config_map("mindx-dl-deviceinfo-b", {"DeviceInfoCfg": json.dumps(device_info(free=""))}, None),
    )
    assert [one.switches for one in read.of(SwitchTopology)] == [()]
    assert [one.node for one in read.reports] == ["b"]
    assert read.ignored == {"ConfigMap": 1}


def test_groups_queues_and_priority_classes() -> None:
    gang = pod_group(minTaskMember={"work": 2}, minResources={"cpu": "1", CHIP: 16}, priorityClassName="high")
    read = bundle(
        {**gang, "status": {"phase": "Inqueue"}},
        {**queue(capability={"memory": "1Gi"}, reclaimable=False), "status": {"state": "Closing"}},
        priority_class(value=-5),
    )
    (group,), (line,), (rank,) = read.pod_groups, read.queues, read.of(PriorityClass)
    assert (group.min_member, group.min_task_member, group.queue) == (2, {"work": 2}, "default")
    assert (group.min_resources, group.priority_class, group.phase) == (
        {"cpu": 1000, CHIP: 16},
        "high",
        "Inqueue",
    )
    assert (line.weight, line.capability, line.reclaimable, line.state) == (
        2,
        {"memory": 2**30},
        False,
        "Closing",
    )
    assert (rank.value, rank.default) == (-5, False)


def test_members_of_a_hyper_node() -> None:
    (found,) = bundle(hyper_node("s1", "a", {"regexMatch": {"pattern": "b.*"}})).of(HyperNode)
    assert found.members == (HyperNodeMember(name="a"), HyperNodeMember(pattern="b.*"))


def test_the_task_priority_of_a_bare_pod_is_no_priority_of_its_job() -> None:
    """Anybody may write the annotation; the priority of a pod is checked by the API server."""
    document = pod(annotations={"volcano.sh/task-priority": "2000000000"})
    assert the_pod(document).priority == 0
    document["spec"]["priority"] = 7
    assert the_pod(document).priority == 7
