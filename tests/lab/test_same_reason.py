"""Number 9: the same job has the same outcome and the same reason in every command."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from ringwise.apps.admission.rules import ClusterFacts
from ringwise.manifests.bundle import read_bundle
from ringwise.manifests.settings.boards import shipped_catalog
from ringwise.manifests.settings.configuration import read_configuration
from ringwise.messages.events import QueueSeen, TopologySeen
from ringwise.reasons import ReasonKind, Stage
from ringwise.scheduler.defaults import BUILT_IN
from ringwise.scheduler.defragment import reasons as move_reasons
from ringwise.state.model import Queue
from ringwise.topology.switches import SwitchTopology
from ringwise_bench.docs.reasons_reference import all_kinds
from tests.admission.reviews import answer, review
from tests.builders.objects import (
    NAMESPACE,
    Plain,
    filler,
    hyper_node,
    node,
    pod,
    pod_group,
    pod_spec,
    queue,
    topology,
    usage_limit,
    vcjob,
)
from tests.examples import sample
from tests.lab.rig import Terminal, nodes, running
from tests.place.asking import configuration_text

A3 = "huawei.com/Ascend910"
POLICY = "huawei.com/schedule_policy"
CORES = "huawei.com/npu-core"
SOFT = {POLICY: "chip1-softShareDev"}


def job(pods: int = 1, chips: int = 8, **more: Any) -> Plain:
    spec = pod_spec(
        chips, more.pop("resource", A3), selector=more.pop("selector", None), **more.pop("pod", {})
    )
    return vcjob("job", [("worker", pods, spec)], **more)


def share_labels(percent: str = "50", mb: str = "1", policy: str | None = "elastic") -> dict[str, str]:
    values = {"aicoreQuota": percent, "hbmQuota": mb, "policy": policy}
    prefix = "huawei.com/scheduler.softShareDev."
    return {f"{prefix}{key}": value for key, value in values.items() if value is not None}


def share(count: int, **labels: Any) -> Plain:
    return job(1, count, pod_labels=share_labels(**labels), pod_annotations=SOFT)


def vnpu(cores: int, **labels: str) -> Plain:
    return job(1, cores, resource=CORES, pod_labels={"ring-controller.atlas": "ascend-310P", **labels})


def limited(name: str, most: int) -> list[Plain]:
    return [queue("small"), usage_limit("small", {"queue": "small"}, hard={name: most})]


def busy_in_queue(name: str, where: str, chips: int) -> list[Plain]:
    """A job of that queue that runs."""
    made = filler("busy", where, range(chips))
    made["metadata"]["annotations"]["scheduling.k8s.io/group-name"] = "busy"
    return [pod_group("busy", 1, queue=name), made]


def board(count: int, resource: str = A3, chips: int = 8, **more: Any) -> list[Plain]:
    return [
        node(f"node-{n}", chips=chips, resource=resource, ip=f"10.0.0.{n}", devices=range(chips), **more)
        for n in range(count)
    ]


def superpods(*sizes: int) -> list[Plain]:
    """SuperPoDs of 16-chip nodes."""
    return [
        node(
            f"sp{superpod}-{n}",
            chips=16,
            devices=range(16),
            labels={"accelerator-type": "module-a3-16-super-pod"},
            annotations={"superPodID": str(superpod)},
        )
        for superpod, size in enumerate(sizes)
        for n in range(size)
    ]


SWITCHES = topology(
    [("leaf-a", [("10.0.0.0", 0), ("10.0.0.1", 1)]), ("leaf-b", [("10.0.0.2", 0), ("10.0.0.3", 1)])], 2
)
V2 = configuration_text({"nslb-version": "2.0"})
WITHOUT_CHIP_PLUGIN = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: predicates
"""
B_NODES: dict[str, Any] = {"selector": {"accelerator-type": "module-910b-8"}}
LARGE = {"tor-affinity": "large-model-schema"}
SUPERPOD = {POLICY: "chip2-node16-sp"}
RACK = {POLICY: "chip8-node8-ra64-sp"}


@dataclass
class Case:
    wanted: Plain
    cluster: list[Plain] = field(default_factory=lambda: board(2))
    #: What else the job consists of.
    more: list[Plain] = field(default_factory=list)
    #: A volcano-scheduler.conf.
    settings: str = ""


def rack_nodes(*sizes: int, superpod: int = 0) -> list[Plain]:
    """Racks of 8-chip nodes."""
    return [
        node(
            f"sp{superpod}-r{rack}-{n}",
            devices=range(8),
            annotations={"superPodID": str(superpod), "rackID": str(rack)},
        )
        for rack, size in enumerate(sizes)
        for n in range(size)
    ]


def with_field(**fields: Any) -> list[Plain]:
    """The containers of a pod of 8 chips, the first with this field."""
    first, *others = pod_spec(8)["containers"]
    return [{**first, **fields}, *others]


def rack_job(pods: int, **notes: str) -> Plain:
    annotations = {key.replace("_block", "-block"): text for key, text in notes.items()}
    return job(pods, 8, pod_annotations={**RACK, **annotations})


def blocks(sp_block: str, pods: int = 2, chips: int = 16) -> Case:
    return Case(job(pods, chips, pod_annotations={**SUPERPOD, "sp-block": sp_block}), superpods(4))


def partitions(wanted: Plain, count: int, size: int) -> Plain:
    """The same job, of partitions of which none must run."""
    (task,) = wanted["spec"]["tasks"]
    task |= {"partitionPolicy": {"totalPartitions": count, "partitionSize": size}, "minAvailable": 1}
    return wanted


def racks(pods: int = 8, **notes: str) -> Case:
    return Case(rack_job(pods, **notes))


WITH_HYPER_NODES = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: topology910
  - name: predicates
  - name: network-topology-aware
"""


def near(pods: int, *more: Plain, **labels: str) -> Case:
    """A job that must run inside one of two HyperNodes of two nodes each."""
    wanted = job(pods, networkTopology={"highestTierAllowed": 1}, pod_labels=labels)
    two = [hyper_node("s0", "node-0", "node-1"), hyper_node("s1", "node-2", "node-3")]
    return Case(wanted, [*board(4), *two, *more], settings=WITH_HYPER_NODES)


CASES: Mapping[str, Case] = {
    "no-hyper-node-fits": near(2, filler("a", "node-0", range(8)), filler("b", "node-2", range(8))),
    "hyper-nodes-too-small": near(3),
    "no-hyper-node": Case(
        job(1, networkTopology={"highestTierAllowed": 1}), board(2), settings=WITH_HYPER_NODES
    ),
    "topology-combined": near(2, **LARGE),
    "invalid-job": Case(job(2, minAvailable=3)),
    "other-scheduler": Case(job(1, schedulerName="volcanoo", pod={"schedulerName": "volcanoo"})),
    "unknown-queue": Case(job(1, queue="defualt")),
    "no-chip-plugin": Case(job(1), settings=WITHOUT_CHIP_PLUGIN),
    "queue-not-open": Case(job(1, queue="closed"), [*board(2), queue("closed", state="Closed")]),
    "queue-not-a-leaf": Case(job(1, queue="dept"), [*board(2), queue("dept"), queue("team", parent="dept")]),
    "request-not-allowed": Case(job(1, 3)),
    "multi-pod-request-not-allowed": Case(job(2, 4)),
    "one-pod-only": Case(
        job(
            2,
            1,
            resource="huawei.com/Ascend310P",
            pod_labels={"duo": "true", "npu-310-strategy": "card", "distributed": "true"},
        )
    ),
    "unknown-strategy-label": Case(
        job(1, 1, resource="huawei.com/Ascend310", pod_labels={"npu-310-strategy": "cart"})
    ),
    "schedule-policy-needed": Case(job(1, 1, resource="huawei.com/npu")),
    "no-chips-requested": Case(
        job(
            1,
            selector={"accelerator-type": "module-910b-8"},
            pod={"containers": [{"name": "main", "image": "a", "resources": {"limits": {A3: 0}}}]},
        )
    ),
    "pod-without-chips": Case(
        vcjob(
            "job", [("a", 1, pod_spec(16)), ("b", 1, pod_spec(0))], pod_annotations={POLICY: "chip2-node16"}
        )
    ),
    "mixed-boards": Case(
        vcjob(
            "job",
            [
                ("a", 1, pod_spec(8, **B_NODES)),
                ("b", 1, pod_spec(8, selector={"accelerator-type": "module"})),
            ],
        )
    ),
    "conflicting-values": Case(
        job(2, labels=LARGE, pod_labels={"tor-affinity": "normal-schema"}), [*board(4), SWITCHES]
    ),
    "unknown-chip-resource": Case(job(1, 1, resource="huawei.com/Ascend911")),
    "virtual-chips-not-supported": Case(job(1, 1, resource="huawei.com/Ascend310B-4c")),
    "several-chip-resources": Case(
        job(pod={"containers": [{"name": "main", "image": "a", "resources": {"limits": {A3: 1, CORES: 1}}}]})
    ),
    "policy-and-resource-differ": Case(job(1, 1, resource=CORES, pod_annotations=SOFT)),
    "network-affinity-with-parts": Case(vnpu(1, **{"tor-affinity": "large-model-schema"})),
    "soft-sharing-label-missing": Case(share(50, policy=None)),
    "quota-not-a-number": Case(share(50, percent="+50")),
    "aicore-quota-range": Case(share(50, percent="0")),
    "hbm-quota-range": Case(share(50, mb="0")),
    "share-policy-unknown": Case(share(50, policy="fixed")),
    "request-differs-from-quota": Case(share(50, percent="40")),
    "share-labels-differ": Case(
        pod_group("job", 2),
        more=[
            pod(f"job-{mb}", pod_spec(50), group="job", labels=share_labels(mb=mb), annotations=SOFT)
            for mb in ("1", "2")
        ],
    ),
    "more-than-one-part": Case(job(1, 2, resource="huawei.com/Ascend910-4c")),
    "static-vnpus-only": Case(vnpu(1), settings=configuration_text({"presetVirtualDevice": "true"})),
    "ring-label-unknown": Case(vnpu(1, **{"ring-controller.atlas": "ascend-310"})),
    "dvpp-label-unknown": Case(vnpu(1, **{"vnpu-dvpp": "maybe"})),
    "core-count-not-allowed": Case(vnpu(3)),
    "dvpp-not-allowed": Case(vnpu(1, **{"vnpu-dvpp": "yes"})),
    "level-not-allowed": Case(vnpu(5, **{"ring-controller.atlas": "ascend-910b", "vnpu-level": "high"})),
    "policy-not-supported": Case(job(1, 1, pod_annotations={POLICY: "multilevel"})),
    "unknown-schedule-policy": Case(job(1, 1, pod_annotations={POLICY: "chip4-node9"})),
    "unknown-accelerator-type": Case(job(1, 1, selector={"accelerator-type": "modul"})),
    "mixed-resources": Case(
        vcjob("job", [("a", 1, pod_spec(1)), ("b", 1, pod_spec(1, "huawei.com/Ascend310P"))])
    ),
    "too-many-chip-containers": Case(
        job(
            1,
            pod={
                "containers": [*pod_spec(1)["containers"], {**pod_spec(1)["containers"][0], "name": "other"}]
            },
        )
    ),
    "chips-of-init-container": Case(
        job(1, pod={**pod_spec(0), "initContainers": [{**pod_spec(1)["containers"][0], "name": "first"}]})
    ),
    "visible-devices-set": Case(
        job(1, pod={"containers": with_field(env=[{"name": "ASCEND_VISIBLE_DEVICES", "value": "0-7"}])})
    ),
    "visible-devices-hidden": Case(
        job(1, pod={"containers": with_field(envFrom=[{"configMapRef": {"name": "all"}}])}),
        settings=configuration_text({"visible-devices": "strict"}),
    ),
    "switch-label-unknown": Case(job(2, labels={"tor-affinity": "big"}), [*board(4), SWITCHES]),
    "switch-topology-missing": Case(job(2, labels=LARGE)),
    "switch-topology-empty": Case(job(2, labels=LARGE), [*board(2), topology([], 2)]),
    "switch-tor-count-invalid": Case(
        job(2, labels=LARGE), [*board(2), topology([("leaf-a", [("10.0.0.0", 0)])], 0)]
    ),
    "switch-topology-invalid": Case(
        job(2, labels=LARGE), [*board(2), {**SWITCHES, "data": {"tor_info": "{"}}]
    ),
    "switch-and-superpod": Case(
        job(2, 16, labels=LARGE, pod_annotations={**SUPERPOD, "sp-block": "16"}), [*superpods(4), SWITCHES]
    ),
    "sp-block-not-a-number": blocks("many"),
    "sp-block-not-positive": blocks("0"),
    "sp-block-below-node": blocks("8"),
    "sp-block-not-whole-nodes": blocks("24"),
    "sp-block-above-superpod": blocks("1600"),
    "superpod-blocks-do-not-divide": blocks("32", pods=3),
    "superpod-one-pod-block": blocks("4", pods=1, chips=8),
    "superpod-one-pod-request": blocks("3", pods=1, chips=3),
    "superpod-pod-not-whole-node": blocks("32", pods=4, chips=8),
    "ra-block-range": racks(sp_block="64", ra_block="3"),
    "ra-block-above-sp-block": racks(sp_block="16", ra_block="32"),
    "rack-pods-do-not-fill-blocks": racks(pods=6, sp_block="32"),
    "ub-memory-too-large": Case(
        job(160, 8, pod_annotations={**RACK, "sp-block": "64", "huawei.com/schedule_ubmemory": "true"})
    ),
    "cluster-too-small": Case(job(3)),
    "too-few-free-chips": Case(job(2), [*board(2), filler("busy", "node-0", [0])]),
    "queue-capability-reached": Case(
        job(1, queue="small"), [*board(2), queue("small", capability={"huawei.com/Ascend910": 4})]
    ),
    "chip-limit-reached": Case(
        job(1, queue="small"),
        [*board(2), *limited(f"requests.{A3}", 12), *busy_in_queue("small", "node-0", 8)],
    ),
    "larger-than-limit": Case(job(1, queue="small"), [*board(2), *limited(f"requests.{A3}", 4)]),
    "running-jobs-limit-reached": Case(job(1, queue="small"), [*board(2), *limited("runningJobs", 0)]),
    "pending-jobs-limit-reached": Case(job(1, queue="small"), [*board(2), *limited("pendingJobs", 0)]),
    "no-node-fits": Case(job(1, selector={"zone": "b"})),
    "gang-incomplete": Case(job(2), [*board(3), filler("one", "node-0", [0]), filler("two", "node-1", [1])]),
    "one-switch-too-small": Case(job(3, labels=LARGE), [*board(4), SWITCHES]),
    "pods-need-different-nodes": Case(
        vcjob(
            "job",
            [("master", 1, pod_spec(8, selector={"zone": "b"})), ("worker", 2, pod_spec(8))],
            labels={"tor-affinity": "normal-schema"},
        ),
        [*board(6), SWITCHES],
    ),
    "superpod-not-enough-blocks": Case(
        job(4, 16, pod_annotations={**SUPERPOD, "sp-block": "32"}), superpods(3, 1)
    ),
    "logical-switches-too-few": Case(
        job(4, labels=LARGE), [*board(6), SWITCHES, filler("busy", "node-0", [0])]
    ),
    "too-few-free-nodes-under-switches": Case(
        job(4, labels={"tor-affinity": "normal-schema"}), [*board(6), SWITCHES, filler("busy", "node-0", [0])]
    ),
    "switches-too-full": Case(
        job(4, labels=LARGE), [*board(6), SWITCHES, filler("busy", "node-0", [0])], settings=V2
    ),
    "switches-full-for-common-job": Case(
        job(4, labels={"tor-affinity": "normal-schema"}),
        [*board(6), SWITCHES, filler("busy", "node-0", [0])],
        settings=V2,
    ),
    "sub-group-incomplete": Case(
        partitions(job(6, 16, minAvailable=2, pod_annotations={**SUPERPOD, "sp-block": "32"}), 2, 3),
        superpods(5),
    ),
    "superpod-not-enough-nodes": Case(
        job(4, 16, pod_annotations={**SUPERPOD, "sp-block": "32"}), [*superpods(3), *board(2, chips=16)]
    ),
    "rack-not-enough-nodes": Case(
        job(
            4,
            pod_annotations={**RACK, "sp-block": "32", "ra-block": "8"},
            pod_labels={"super-pod-affinity": "soft"},
        ),
        [*rack_nodes(3), *board(2)],
    ),
    "rack-no-rack-holds-group": Case(rack_job(4, sp_block="32", ra_block="32"), rack_nodes(3, 3)),
    "rack-blocks-not-placed": Case(rack_job(8, sp_block="32", ra_block="32"), rack_nodes(4, 2, 2)),
    "rack-not-enough-blocks": Case(
        rack_job(4, sp_block="32", ra_block="8"), [*rack_nodes(3), *rack_nodes(3, superpod=1)]
    ),
    "rack-no-domain-holds-job": Case(
        rack_job(4, sp_block="32", ra_block="8", **{"huawei.com/schedule_ubmemory": "true"}),
        [*rack_nodes(3), *rack_nodes(3, superpod=1)],
    ),
    "ra-block-pods-do-not-divide": racks(pods=6, sp_block="48", ra_block="32"),
    "sp-block-not-whole-racks": racks(pods=6, sp_block="24", ra_block="16"),
    "pod-group-missing": Case(pod("job-0", pod_spec(8), group="job")),
    "not-enough-pods-of-task": Case(
        pod_group("job", 2, minTaskMember={"worker": 2}),
        more=[
            pod("job-0", pod_spec(8), group="job", annotations={"volcano.sh/task-spec": "worker"}),
            pod("job-1", pod_spec(8), group="job", annotations={"volcano.sh/task-spec": "other"}),
        ],
    ),
    "not-enough-sub-groups": Case(
        pod_group("job", 2, subGroupPolicy=[{"name": "part", "matchLabelKeys": ["part"], "minSubGroups": 2}]),
        more=[pod(f"job-{number}", pod_spec(8), group="job", labels={"part": "same"}) for number in range(2)],
    ),
    "not-enough-pods": Case(pod_group("job", 2), more=[pod("job-0", pod_spec(8), group="job")]),
    "pods-gated": Case(
        pod_group("job", 1),
        more=[pod("job-0", pod_spec(8, schedulingGates=[{"name": "example.com/wait"}]), group="job")],
    ),
}
KINDS = {kind.code: kind for kind in all_kinds()}
#: Reasons of one node. A job that no node takes counts them: `no-node-fits`, `gang-incomplete`.
OF_ONE_NODE = {code for code, kind in KINDS.items() if kind.stage is Stage.PREDICATE} - {"no-node-fits"}
#: Problems of the leaf switches and of SuperPoDs: `doctor` names them.
OF_THE_TOPOLOGY = {
    *("server-not-a-node", "server-under-two-switches", "switch-listed-twice", "switch-too-many-servers"),
    *("switch-without-servers", "superpod-oversize"),
}
#: Why a running job is not moved, or no moves help: plans name them (M1).
OF_MOVES = {kind.code for kind in vars(move_reasons).values() if isinstance(kind, ReasonKind)}
#: What follows from a history, not from manifests: faults, evictions, failed bindings, defects, other jobs.
OF_A_HISTORY = {
    *("blocked-by-head-of-queue", "pods-not-created"),
    "hyper-node-changed",
    *("peers-outside-topology", "peers-switch-full", "replacement-over-limit", "replacement-position-taken"),
    *("wait-for-previous-nodes", "wait-for-planned-places"),
    "backup-pod-pending",
    *("volumes-pending", "volumes-timed-out", "volume-binding-failed"),
    *("superpod-wait-for-old-nodes", "superpod-block-cannot-refill", "superpod-blocks-disagree"),
    *("rack-wait-for-same-rack", "rack-wait-for-same-superpod", "rack-running-pods-hold-group"),
    *("bind-failed", "internal-error", "evictions-in-progress", "partial-gang", "tasks-incomplete"),
    "sub-groups-incomplete",
    *(
        "no-pods-yet",
        "pods-never-created",
        "pod-group-not-created",
        "pods-missing",
        "queue-overused",
        "queue-quota-reserved",
        "queue-over-fair-share",
        "queue-quota-insufficient",
    ),
    # Of a queue or a HyperNode, not of a job.
    *("invalid-queue", "queue-protected", "invalid-hyper-node"),
    # Of plugins that are not in the default configuration.
    *("cluster-overcommitted", "namespace-quota-insufficient", "queue-tree-broken"),
    # Of settings that a lab does not have, or of services that run.
    *("rack-super-pod-size-range", "rack-no-rack-for-service", "total-not-allowed", "average-too-large"),
}


#: The others are asked of files alone.
IN_A_LAB = {*sample([*CASES])}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("labs")


@pytest.mark.parametrize("code", CASES)
def test_one_outcome_and_one_reason_in_every_command(code: str, folders: Path) -> None:
    case = CASES[code]
    text = "\n---\n".join(json.dumps(one) for one in (*case.cluster, case.wanted, *case.more))
    terminal = Terminal(folders / code)
    option, lab = "", nodes(0)
    if case.settings:
        file = folders / f"{code}.conf"
        file.write_text(case.settings)
        option, lab = f" --config {file}", replace(lab, configuration=(case.settings, str(file)))
    answers = {
        "place": _job(terminal.json(f"place -f -{option}", text)["jobs"]),
        "why of files": terminal.json(f"why job -f -{option}", text),
    }
    if code in IN_A_LAB:
        with running(folders / code, lab):
            answers["submit"] = _job(terminal.json("submit -", text)["jobs"])
            answers["get"] = _job(terminal.json("get jobs")["jobs"])
            answers["describe"] = terminal.json("describe job job")
            answers["why"] = terminal.json("why job")
    told = {name: (found["state"], (found["reason"] or {}).get("code")) for name, found in answers.items()}
    assert set(told.values()) == {(_outcome(code), code)}, told
    assert len({found["reason"]["message"] for found in answers.values()}) == 1, answers
    # Number 10: and the same fixes, each tried at the moment; a list tries none.
    if code in IN_A_LAB:
        assert answers.pop("get")["reason"]["fixes"] == []
    assert len({tuple(found["reason"]["fixes"]) for found in answers.values()}) == 1, answers
    if case.wanted["kind"] == "Job":
        _same_in_the_webhook(case, answers["place"])


def _outcome(code: str) -> str:
    return "rejected" if KINDS[code].stage is Stage.VALIDATE else "pending"


def _job(jobs: list[dict[str, Any]]) -> dict[str, Any]:
    return next(found for found in jobs if (found["namespace"], found["name"]) == (NAMESPACE, "job"))


def _same_in_the_webhook(case: Case, placed: dict[str, Any]) -> None:
    """It refuses what only the submitter can fix, with the reason that the others give."""
    cluster = ClusterFacts(shipped_catalog())
    bundle = read_bundle(["-"], stdin="\n---\n".join(map(json.dumps, case.cluster)).encode())
    if case.settings:
        cluster.configuration = read_configuration(case.settings, "volcano-scheduler.conf", BUILT_IN)
    for found in (Queue("default"), *bundle.queues):
        cluster.take(QueueSeen(found))
    for known in bundle.of(SwitchTopology):
        cluster.take(TopologySeen(known, known.unusable))
    answered = answer(review(case.wanted), cluster)
    assert answered is not None
    response = answered["response"]
    if response["allowed"]:
        told = "".join(response.get("warnings", ()))
        assert placed["state"] == "pending" or placed["reason"]["message"][:200] in told
    else:
        # After the words of Volcano, where it has some for the fact.
        assert placed["reason"]["message"] in response["status"]["message"]


def test_every_code_has_a_case_or_is_no_reason_of_a_job_alone() -> None:
    codes = set(KINDS)
    others = OF_ONE_NODE | OF_THE_TOPOLOGY | OF_MOVES | OF_A_HISTORY
    assert codes - set(CASES) - others == set()
    assert (set(CASES) | others) - codes == set()
    assert not set(CASES) & others


def test_a_job_that_the_controller_finds_invalid_is_known_until_it_is_gone(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    with running(tmp_path, nodes(1)):
        terminal.submit(json.dumps(job(2, minAvailable=3)))
        assert terminal.json("why job")["reason"]["details"]["problem"].startswith(
            "job 'minAvailable' should not be greater than total replicas in tasks: the job wants at least 3"
        )
        assert terminal.ok("delete job job") == f"job {NAMESPACE}/job deleted\n"
        assert terminal.json("get jobs")["jobs"] == []
        assert "job " in terminal.refused("why job")
