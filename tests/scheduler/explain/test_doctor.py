"""The findings of `doctor`, one case for each kind of problem."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ringwise.framework.configuration import Configuration, Settings, Tier
from ringwise.messages import events as ev
from ringwise.scheduler.defaults import default_configuration, default_tiers
from ringwise.scheduler.explain.doctor import Diagnosis, diagnose
from ringwise.scheduler.explain.why import explain
from ringwise.state.model import Isolation, Node, Queue, VisibleDevices
from ringwise.topology.chips import chips_of, mask_of
from ringwise.topology.switches import Server, make_topology
from ringwise.views.topology import topology_problems
from tests.builders.values import CHIP, gang, isolated, node, pod, report, seen
from tests.fingerprint import fingerprint, state_of
from tests.scheduler.rig import NOW, scheduler_told, told
from tests.scheduler.rig import configuration as configured

ARM = {"host-arch": "huawei-arm"}
#: The label of a server of a SuperPoD.
SERVER = {"accelerator-type": "module-a3-16-super-pod"}


def examined(*events: object, configuration: Configuration | None = None) -> Diagnosis:
    view = told(*events, configuration=configuration)
    state_of(view).settle()
    before = fingerprint(state_of(view))
    diagnosis = diagnose(view)
    assert fingerprint(state_of(view)) == before
    return diagnosis


def found(diagnosis: Diagnosis) -> list[tuple[str, str, str]]:
    return [(one.severity, one.code, one.object) for one in diagnosis.findings]


def test_a_correct_cluster_has_no_findings() -> None:
    events: list[object] = [
        node("node-1", labels=ARM),
        report("node-1", range(2, 8)),
        pod("a", 2, on="node-1", holds=[0, 1]),
        pod("new", 1),
    ]
    diagnosis = examined(events)
    assert diagnosis.findings == ()
    assert (diagnosis.nodes, diagnosis.jobs, diagnosis.errors) == (1, 2, 0)


def test_pods_that_are_being_deleted_need_no_pod_group() -> None:
    """A deleted job's PodGroup is gone before its pods are."""
    going = pod("a", 2, on="node-1", holds=[0, 1], group="gone", deleting=True)
    assert examined(node("node-1", labels=ARM), report("node-1", range(2, 8)), going).findings == ()


@pytest.mark.parametrize("chip", ["", "Ascend910-3"])
@pytest.mark.parametrize("listed", [False, True])
def test_isolated_chips_are_healthy_and_no_view_differs_because_of_them(chip: str, listed: bool) -> None:
    isolations = isolated(Isolation("n", (chip,) if chip else ()))
    free = range(8) if listed else [n for n in range(8) if chip and n != 3]
    findings = examined(node("n", labels=ARM), report("n", free), isolations).findings
    assert [one.code for one in findings] == ["isolated"]


def test_chips_that_are_isolated_are_not_called_free_where_others_are_faulty() -> None:
    isolations = isolated(Isolation("n", ("Ascend910-3",)))
    findings = examined(node("n", labels=ARM), report("n", range(1, 8), unhealthy=1), isolations).findings
    (text,) = [one.message for one in findings if one.code == "views-differ"]
    assert text.endswith("has 7 free or isolated: 1 allocatable chip is faulty or not listed")


SERVERS = {"leaf-1": ["10.0.0.1", "10.0.0.9"]}


def topology(nodes_per_switch: int) -> ev.TopologySeen:
    made = make_topology(
        [(name, [Server(ip, n, n) for n, ip in enumerate(ips)]) for name, ips in SERVERS.items()],
        nodes_per_switch,
    )
    return ev.TopologySeen(made, made.unusable)


@pytest.mark.parametrize(
    ("events", "finding"),
    [
        ([node("n", labels=ARM, devices=None)], ("warning", "chips-assumed", "node n")),
        (
            [node("n", labels=ARM), pod("a", 2, on="n")],
            ("error", "unknown-holder", "node n"),
        ),
        (
            [node("n", labels=ARM), pod("a", 1, on="n", holds=[0]), pod("b", 1, on="n", holds=[0])],
            ("error", "chip-held-twice", "node n"),
        ),
        (
            [node("n", labels=ARM), pod("a", 1, on="n", holds=[9])],
            ("error", "chip-not-on-node", "node n"),
        ),
        (
            [node("n", labels=ARM), report("n", range(8)), pod("a", 1, on="n", holds=[0])],
            ("warning", "views-differ", "node n"),
        ),
        ([node("n", labels=ARM), report("n", range(7))], ("warning", "views-differ", "node n")),
        ([node("n", labels=ARM, faulty=1)], ("error", "unstable-node", "node n")),
        (
            [node("n", labels=ARM), report("n", range(1, 8), unhealthy=1)],
            ("note", "views-differ", "node n"),
        ),
        (
            [
                node("n", labels=ARM, faulty=1),
                report("n", range(1, 8), unhealthy=1),
                pod("a", 1, on="n", holds=[0]),
            ],
            ("warning", "faulty-chip-in-use", "node n"),
        ),
        ([node("n", labels=ARM, ready=False)], ("warning", "node-not-ready", "node n")),
        ([node("n")], ("note", "label-missing", "node n")),
        ([node("n", labels={"host-arch": "huawei-amr"})], ("warning", "label-odd", "node n")),
        (
            [node("n", labels={**ARM, "accelerator-type": "modul"})],
            ("warning", "label-odd", "node n"),
        ),
        ([report("ghost", range(8))], ("warning", "report-without-node", "ConfigMap of ghost")),
        (
            [
                node("n", labels=ARM),
                node("m", labels=ARM),
                report("n", range(8), update_time=10**9),
                report("m", range(8), update_time=10**13),
            ],
            ("warning", "report-stale", "node n"),
        ),
        (
            [
                node("n", labels=ARM),
                report("n", range(8), update_time=10**13),
                report("n", range(8), update_time=10**12, aggregated=True),
            ],
            ("warning", "aggregate-behind", "ClusterD"),
        ),
        (
            [node("n", labels=ARM, internal_ip="10.0.0.1"), topology(4)],
            ("warning", "server-not-a-node", "ConfigMap basic-tor-node-cm"),
        ),
        (
            [node("n", labels=ARM, internal_ip="10.0.0.1"), topology(0)],
            ("error", "switch-tor-count-invalid", "ConfigMap basic-tor-node-cm"),
        ),
        (
            [node("n", labels=ARM, internal_ip="10.0.0.5"), topology(4)],
            ("warning", "node-outside-topology", "node n"),
        ),
        (
            [
                node("a", labels=ARM, internal_ip="10.0.0.1", created=9),
                node("n", labels=ARM, internal_ip="10.0.0.1", created=5),
                topology(4),
            ],
            ("warning", "duplicate-internal-ip", "2 nodes (n, a)"),
        ),
        (
            [node("n", labels=ARM, superpod=0), node("m", labels=ARM, superpod=-3)],
            ("warning", "superpod-id-invalid", "node m"),
        ),
        (
            [node("n", labels=ARM, superpod=0), node("m", labels={**ARM, **SERVER}, superpod=-2)],
            ("warning", "not-in-superpod", "node m"),
        ),
        (
            [node("n", labels=ARM, superpod=0), node("m", labels=ARM)],
            ("warning", "superpod-id-missing", "node m"),
        ),
        (
            [node("n", labels=ARM, superpod=0, rack=0), node("m", labels=ARM, superpod=0)],
            ("warning", "rack-id-missing", "node m"),
        ),
        (
            [node("n", labels=ARM, superpod=0, rack=0), node("m", labels=ARM, superpod=0, rack=-1)],
            ("warning", "rack-id-invalid", "node m"),
        ),
        ([Queue("q", weight=0)], ("error", "queue-weight", "queue q")),
        (
            [Queue("q", annotations={"ringwise.io/max-cooldown": "-1h"})],
            ("warning", "queue-annotation", "queue q"),
        ),
        (
            [Queue("q", annotations={"ringwise.io/trust-checkpoints": "yes"})],
            ("warning", "queue-annotation", "queue q"),
        ),
        (
            [Queue("q", capability={CHIP: 1}, guarantee={CHIP: 2})],
            ("error", "queue-guarantee-above-capability", "queue q"),
        ),
        (
            [node("n", labels=ARM), Queue("q", guarantee={CHIP: 9})],
            ("error", "queue-guarantees-above-cluster", "queues"),
        ),
        ([Queue("q", parent="p")], ("warning", "queue-parent-unknown", "queue q")),
        (
            [node("n", labels=ARM), gang("lost", 1, 1, queue="nowhere")],
            ("error", "unknown-queue", "job default/lost"),
        ),
        (
            [node("n", labels=ARM), pod("a", 1, group="absent")],
            ("error", "pod-group-missing", "job default/absent"),
        ),
        (
            [node("n", labels=ARM), pod("three", 3)],
            ("warning", "request-not-allowed", "job default/three"),
        ),
    ],
)
def test_each_problem_is_found_with_a_fix(events: list[Any], finding: tuple[str, str, str]) -> None:
    diagnosis = examined(*events)
    assert finding in found(diagnosis)
    assert all(one.message and one.fix for one in diagnosis.findings)
    assert (diagnosis.errors > 0) == any(one.severity == "error" for one in diagnosis.findings)


def test_n7_differences_name_the_chips_and_the_pods() -> None:
    diagnosis = examined(
        node("n", labels=ARM), report("n", [0, 1, 2, 3, 4, 5, 6]), pod("a", 1, on="n", holds=[0])
    )
    texts = [one.message for one in diagnosis.findings]
    assert any(
        "Ascend910-0 as free; according to the scheduler, it is held by default/a" in text for text in texts
    )
    assert any("according to the scheduler, Ascend910-7 is free" in text for text in texts)


def test_a_report_need_not_include_pods_that_have_not_started() -> None:
    differs = (
        "its report lists Ascend910-0,Ascend910-1 as free; "
        "according to the scheduler, they are held by default/a"
    )
    for phase, texts in (("Pending", []), ("Running", [differs])):
        bound = pod("a", 2, on="n", holds=[0, 1], phase=phase)
        diagnosis = examined(node("n", labels=ARM), report("n", range(8)), bound)
        assert [one.message for one in diagnosis.findings] == texts


@pytest.mark.parametrize(
    ("chosen", "mounted", "reported", "named_by"),
    [
        ([4, 5], [], None, "named by huawei.com/Ascend910 Ascend910-4,Ascend910-5"),
        ([], [], None, "no longer named by an annotation"),
        (
            [0, 1],
            [2, 3],
            None,
            "named by huawei.com/Ascend910 Ascend910-0,Ascend910-1; "
            "huawei.com/AscendReal Ascend910-2,Ascend910-3",
        ),
        (
            [0, 1],
            [],
            [4, 5],
            "named by huawei.com/Ascend910 Ascend910-0,Ascend910-1; "
            "its device plugin Ascend910-4,Ascend910-5",
        ),
        ([0, 1], [0, 1], None, ""),
        ([0, 1], [1, 0], [0, 1], ""),
        ([], [], [0, 1], ""),
    ],
)
def test_N8_a_difference_between_annotations_is_named(
    chosen: list[int], mounted: list[int], reported: list[int] | None, named_by: str
) -> None:
    """A running pod of chips 0 and 1, then its annotations and the node's report."""
    first = pod("a", 2, on="n", holds=[0, 1])
    edited = replace(first, holds=tuple(chosen), mounted=tuple(mounted))
    told_mounted = {} if reported is None else {first.uid: mask_of(reported)}
    free = mask_of(range(8)) & ~mask_of([0, 1, *mounted, *(reported or [])])
    listed = report("n", chips_of(free), network_unhealthy=None, mounted=told_mounted)
    findings = [
        one
        for one in examined(node("n", labels=ARM), first, edited, listed).findings
        if one.code == "annotations-differ"
    ]
    assert [one.object for one in findings] == (["node n"] if named_by else [])
    assert all("pod default/a holds " in one.message and named_by in one.message for one in findings)


def test_r1_superpods_without_any_rack_need_none() -> None:
    """Racks of one SuperPoD do not make those of another board in another SuperPoD wrong."""
    view = examined(node("n", labels=ARM, superpod=0, rack=0), node("m", labels=ARM, superpod=1))
    assert not [finding for finding in found(view) if "rack" in finding[1]]


@pytest.mark.parametrize("superpod", [-2, -1, None])
def test_p6_a_mixed_cluster_has_nodes_without_superpods(superpod: int | None) -> None:
    """Device plugins report -2 where there is none; boards without SuperPoDs report nothing at all."""
    servers = [node(f"a{number}", 16, labels={**ARM, **SERVER}, superpod=0) for number in range(3)]
    others = [node(f"b{number}", labels=ARM, superpod=superpod) for number in range(3)]
    labeled = [node("c", labels={**ARM, "accelerator-type": "module"}, superpod=superpod)]
    reports = [report(f"a{number}", range(16)) for number in range(3)]
    reports += [report(name, range(8)) for name in ("b0", "b1", "b2", "c")]
    view = told([*servers, *others, *labeled, *reports])
    assert found(diagnose(view)) == []
    assert topology_problems(view) == []


def test_p6_a_waiting_job_with_blocks_is_not_told_of_nodes_without_superpods() -> None:
    servers = [node(f"a{number}", 16, labels={**ARM, **SERVER}, superpod=0) for number in range(3)]
    others = [node(f"b{number}", 16, labels=ARM, superpod=-2) for number in range(9)]
    job = gang("train", 4, 16, annotations={"sp-block": "32"})
    # Of one that fits nowhere the reason names what is wrong with ids.
    for superpod, named in ((-2, False), (-3, True)):
        nodes = [*servers, *others, node("x", 16, labels={**ARM, **SERVER}, superpod=superpod)]
        view = told([*nodes, *job], configuration=configured(actions=("allocate",)))
        (reason,) = [job.reason for job in view.jobs.values()]
        assert reason is not None
        assert reason.code.startswith("superpod"), reason.message
        assert any("the SuperPoD ids have a fault" in text for text in reason.hints) is named


def test_p6_a_superpod_with_too_many_nodes_is_an_error() -> None:
    default = default_configuration()
    small = Configuration(default.actions, default.tiers, Settings(super_pod_size=1))
    events = [node(f"n{number}", labels=ARM, superpod=0) for number in range(2)]
    assert ("error", "superpod-oversize", "SuperPoD 0") in found(examined(*events, configuration=small))


@pytest.mark.parametrize(
    ("annotation", "users", "expected"),
    [
        ("guarded", ["", ""], ["no-users"]),
        ("guarded", ["", "ana"], []),
        ("guarded", [], []),
        ("open", ["", ""], []),
    ],
)
def test_a_guarded_annotation_that_nothing_writes_is_found(
    annotation: str, users: list[str], expected: list[str]
) -> None:
    jobs = [
        pod(f"job-{number}", 1, annotations={"ringwise.io/user": user} if user else {})
        for number, user in enumerate(users)
    ]
    chosen = configured(user_annotation=annotation)
    events = (node("n", labels=ARM), report("n", range(8)), *jobs)
    assert [code for _, code, _ in found(examined(*events, configuration=chosen))] == expected


def test_unconfirmed_bindings_are_no_difference() -> None:
    assert examined(node("n", labels=ARM), report("n", range(8)), pod("new", 8)).findings == ()


def test_errors_come_first() -> None:
    seen = report("ghost", network_unhealthy=None)
    diagnosis = examined(node("n"), seen, Queue("q", weight=0))
    assert [one.severity for one in diagnosis.findings] == ["error", "warning", "note"]


def without_chip_plugin() -> Configuration:
    tiers = tuple(
        Tier(tuple(option for option in tier.plugins if option.name != "topology910"))
        for tier in default_tiers()
    )
    return configured(("enqueue", "allocate", "backfill"), tiers=tiers)


def test_without_the_chip_plugin_chip_pods_wait_with_the_missing_line() -> None:
    view = told(node("n1"), pod("chips", 8), pod("none", 0), configuration=without_chip_plugin())
    job = view.jobs["default/pod:chips"]
    assert job.reason is not None
    assert job.reason.code == "no-chip-plugin"
    assert "`- name: topology910`" in job.reason.message
    assert view.cluster.pods["chips"].node < 0
    assert view.cluster.pods["none"].node == 0
    assert explain(view, job, NOW).outcome == "pending"
    (found,) = [finding for finding in diagnose(view).findings if finding.code == "no-chip-plugin"]
    assert found.severity == "error"
    assert "`- name: topology910`" in found.fix


def test_a_cluster_without_chips_needs_no_chip_plugin() -> None:
    events: list[object] = [
        Node("n1", cpu_milli=1_000, labels={"host-arch": "huawei-arm"}),
        pod("none", 0),
    ]
    assert told(*events, configuration=without_chip_plugin()).cluster.pods["none"].node == 0
    assert [f.code for f in diagnose(told(*events, configuration=without_chip_plugin())).findings] == []


def test_once_the_chip_plugin_is_configured_the_pods_start() -> None:
    scheduler = scheduler_told(node("n1"), pod("chips", 8), configuration=without_chip_plugin())
    scheduler.handle(seen(default_configuration()), NOW)
    assert scheduler.view.cluster.pods["chips"].chips == 0xFF


def test_a_clusterd_that_keeps_up_or_is_not_used_is_no_finding() -> None:
    minute, default = 60 * 10**9, default_configuration()
    unused = Configuration(default.actions, default.tiers, Settings(use_cluster_info_manager=False))
    own = report("n", range(8), update_time=100 * minute)
    for age, configuration in ((1, default), (50, unused)):
        late = report("n", range(8), update_time=(100 - age) * minute, aggregated=True)
        assert found(examined(node("n", labels=ARM), own, late, configuration=configuration)) == []


@pytest.mark.parametrize(
    ("doubtful", "severity"), [([0, 1], "note"), ([0, 1, 4], "warning"), ([2, 3], "warning"), ([], "")]
)
def test_N8_a_pod_without_a_record_of_its_mount_is_named(doubtful: list[int], severity: str) -> None:
    running = pod("a", 2, on="n", holds=[0, 1])
    free = mask_of(range(8)) & ~mask_of([0, 1, *doubtful])
    reported = report(
        "n",
        chips_of(free),
        network_unhealthy=None,
        doubtful={"a": mask_of(doubtful)} if doubtful else {},
        kubelet_ids={"default/a": 0b11},
    )
    findings = examined(node("n", labels=ARM), running, reported).findings
    if not doubtful:
        assert [one.code for one in findings] == ["mounts-differ"]
        return
    codes = (
        {"chips-without-record", "views-differ"}
        if len(doubtful) > 2 or doubtful == [2, 3]
        else {"chips-without-record"}
    )
    assert {one.code for one in findings} == codes
    (found_here,) = (one for one in findings if one.code == "chips-without-record")
    assert (found_here.severity, found_here.object) == (severity, "node n")
    named = ",".join(f"Ascend910-{chip}" for chip in doubtful)
    assert f"for pod default/a, which requests 2 chips: {named} may be in its container" in found_here.message


def test_N8_chips_of_a_deleted_pod_that_may_still_run_are_named() -> None:
    reported = report("n", range(4, 8), mounted={"gone": 0x0F})
    view = told(node("n", labels=ARM), reported, pod("b", 8))
    findings = examined(node("n", labels=ARM), reported).findings
    (found,) = (one for one in findings if one.code == "chips-without-record")
    assert found.severity == "warning"
    assert "the pod with uid gone is deleted and its container may still run: Ascend910-0," in found.message
    (job,) = (one for one in view.jobs.values() if one.name == "b")
    assert "in a container of a deleted pod (4)" in str(explain(view, job, NOW))


def test_N8_why_names_the_pod_that_may_have_the_chips() -> None:
    reported = report("n", doubtful={"a": mask_of(range(8))})
    view = told(node("n", labels=ARM), pod("a", 2, on="n", holds=[0, 1]), reported, pod("b", 8))
    (job,) = (one for one in view.jobs.values() if one.name == "b")
    assert "held by a (2), perhaps in a (6)" in str(explain(view, job, NOW))


OWN = VisibleDevices("main", "spec.containers[0].env[0].value", '"0-7"')


@pytest.mark.parametrize(
    ("setting", "certain", "severity"),
    [
        ("refused", True, "warning"),
        ("strict", True, "warning"),
        ("allowed", True, "note"),
        ("refused", False, ""),
        ("strict", False, "note"),
    ],
)
def test_running_pods_that_choose_their_chips_are_named(setting: str, certain: bool, severity: str) -> None:
    own = replace(OWN, certain=certain)
    diagnosis = examined(
        node("n", labels=ARM),
        pod("a", 2, on="n", holds=[0, 1], annotations={CHIP: "Ascend910-0,Ascend910-1"}, visible_devices=own),
        # Placed by another scheduler, without chips.
        pod("b", 0, on="n", scheduler="default-scheduler", visible_devices=own),
        pod("ended", 0, on="n", phase="Succeeded", visible_devices=own),
        configuration=configured(visible_devices=setting),
    )
    code = "visible-devices-set" if certain else "visible-devices-hidden"
    wanted = [(severity, code, f"pod default/{name}/main") for name in ("a", "b")] if severity else []
    assert [one for one in found(diagnosis) if one[1].startswith("visible-devices")] == wanted
    for one in diagnosis.findings:
        if one.code == code:
            assert one.message.startswith("on n, container main of pod ")
            assert one.fix


def test_findings_that_say_the_same_are_one_with_examples() -> None:
    nodes = [node(f"n{number}", labels=ARM, ready=False) for number in range(12)]
    expected = {
        1: ("node n0", "is not Ready"),
        3: ("3 nodes (n0, n1, n2)", "are not Ready"),
        12: ("12 nodes, for example n0, n1, n2", "are not Ready"),
    }
    for count, shown in expected.items():
        findings = examined(*nodes[:count]).findings
        assert [(one.object, one.message) for one in findings if one.code == "node-not-ready"] == [shown]


def test_many_findings_that_differ_in_details_are_one_with_an_example() -> None:
    ages = [report(f"n{number}", range(8), update_time=60 * 10**9 * (number + 1)) for number in range(20)]
    nodes = [node(f"n{number}", labels=ARM) for number in range(21)]
    view = told(*nodes, *ages, report("n20", range(8), update_time=10**13))
    (stale,) = [one for one in diagnose(view).findings if one.code == "report-stale"]
    assert stale.object == "20 nodes"
    assert stale.message == "for example node n0: its report is 2h45m older than the newest one"
    # Where time jumps, a report that was written once is not stale.
    assert not [one for one in diagnose(view, renews_reports=False).findings if one.code == "report-stale"]


def test_of_very_many_pods_that_choose_their_chips_most_are_counted() -> None:
    pods: list[object] = [pod(f"p{number}", 0, on="n", visible_devices=OWN) for number in range(120)]
    findings = [
        one for one in examined(node("n", labels=ARM), pods).findings if one.code.startswith("visible")
    ]
    (one,) = findings
    assert one.object == "120 pods"
    assert one.message.startswith("for example pod default/p0/main: on n, container main of pod ")


def test_a_waiting_pod_that_chooses_its_chips_is_a_refused_job() -> None:
    diagnosis = examined(node("n", labels=ARM), pod("a", 1, visible_devices=OWN))
    assert [one for one in found(diagnosis) if one[1].startswith("visible")] == [
        ("warning", "visible-devices-set", "job default/a")
    ]
