"""The worked cases of part V as objects and events: soft shares, static and dynamic vNPUs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from ringwise.apps.extensions import new_scheduler
from ringwise.apps.loading import input_events
from ringwise.apps.place import _Candidates
from ringwise.manifests.bundle import read_bundle
from ringwise.manifests.settings.boards import shipped_catalog
from ringwise.messages import events as ev
from ringwise.messages.commands import Bind, Command
from ringwise.messages.events import Decide
from ringwise.scheduler.core.machine import Scheduler
from ringwise.state.model import Isolation
from tests.builders.objects import config_map, pod_group
from tests.builders.values import SECOND, isolated, seen
from tests.place.asking import Plain, _configuration, as_bytes

CASES: list[Plain] = json.loads((Path(__file__).parents[1] / "vectors" / "parts-visible.json").read_text())
NOW = 2_000_000_000 * SECOND
PERCENT = "huawei.com/scheduler.softShareDev.aicoreQuota"
POLICY = "huawei.com/schedule_policy"
CPU = {"cpu": "192", "memory": "1Ti", "pods": "250"}

#: Codes by the names of reasons in the cases; the others are equal.
CODES = {
    "several-chip-resources-in-a-pod": "several-chip-resources",
    "a-soft-sharing-label-is-missing": "soft-sharing-label-missing",
    "aicore-quota-not-1-to-100": "aicore-quota-range",
    "hbm-quota-less-than-1": "hbm-quota-range",
    "policy-unknown": "share-policy-unknown",
    "pods-differ": "share-labels-differ",
    "more-than-one-part-in-a-pod": "more-than-one-part",
    "scheduler-configured-for-static-parts": "static-vnpus-only",
    "no-handler-for-ring-controller-label": "ring-label-unknown",
    "dvpp-word-unknown": "dvpp-label-unknown",
    "count-not-allowed": "core-count-not-allowed",
    "dvpp-label-not-allowed-for-count": "dvpp-not-allowed",
    "level-label-not-allowed": "level-not-allowed",
    "ways-mixed": "allocation-modes-mixed",
    "node-has-no-accelerator-label": "chip-label-missing",
    "node-has-no-servertype-label": "chip-label-missing",
    "node-has-no-chip-name-label": "chip-label-missing",
    "no-template-table-for-this-chip": "no-vnpu-templates",
    "soft-label-and-capacity-differ": "soft-capacity-differs",
    "node-has-no-chip-memory-label": "chip-memory-missing",
    "node-in-another-way": "other-allocation-mode",
    "chip-has-no-such-template": "no-such-vnpu-template",
    "node-does-not-offer-this-part": "part-not-offered",
    "pod-of-unknown-part-on-node": "unknown-part-on-node",
    "idle-fewer-than-request": "idle-below-request",
    "job-is-on-another-node": "job-on-another-node",
    "no-chip-in-the-device-list": "no-available-chip",
    "no-room-for-the-whole-job-on-this-node": "no-room-for-whole-job",
}


def code(name: str) -> str:
    return CODES.get(name, name)


def of_kind(*kinds: str) -> list[Plain]:
    return [case for case in CASES if case["kind"] in kinds]


class Answer(NamedTuple):
    scheduler: Scheduler
    candidates: dict[str, Any]
    commands: Sequence[Command]

    def bound(self, *names: str) -> Bind | None:
        found = {one.pod: one for one in self.commands if isinstance(one, Bind)}
        return next((found[name] for name in names if name in found), None)


@cache
def _catalog() -> Any:
    return shipped_catalog(())


def chips_of(resource: str, chips: Sequence[int]) -> str:
    return ",".join(f"{resource.rpartition('/')[2]}-{chip}" for chip in chips)


def request_count(node_pod: Plain, resource: str) -> int:
    bound: Plain = node_pod["bound_with"] if "bound_with" in node_pod else node_pod["annotations"]
    if "count" in node_pod:
        return int(node_pod["count"])
    percent = bound.get(PERCENT, "")
    if (resource.startswith("huawei.com/Ascend") and "-" not in resource) or resource == "huawei.com/npu":
        if percent.isdigit() and len(percent) < 4:
            return int(percent)
        names = bound.get(resource, "")
        return max(1, len([one for one in names.split(",") if one]))
    names = bound.get(resource, "")
    return len(names.split(",")) if names.replace(",", "").isdigit() else 1


def node_object(case_node: Plain, resource: str | None) -> Plain:
    capacity = dict(case_node.get("capacities") or {})
    if "capacity" in case_node and resource is not None:
        capacity[resource] = case_node["capacity"]
    allocatable = dict(capacity)
    if resource is not None and resource in capacity and "idle" in case_node:
        used = sum(
            request_count(one, one.get("asks", resource))
            for one in case_node["pods"]
            if one.get("asks", resource) == resource
            and one.get("phase", "Running") not in ("Failed", "Succeeded")
        )
        allocatable[resource] = case_node["idle"] + used
    annotations = {}
    if "base_chips" in case_node:
        names = [f"Ascend910-{chip}" for chip in case_node["base_chips"]]
        annotations["baseDeviceInfos"] = json.dumps({name: {"IP": "10.0.0.1"} for name in names})
    texts = {name: str(count) for name, count in capacity.items()}
    offered = {name: str(count) for name, count in allocatable.items()}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": case_node["name"], "labels": case_node["labels"], "annotations": annotations},
        "status": {
            "capacity": CPU | texts,
            "allocatable": CPU | offered,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def is_named_later(case_node: Plain) -> bool:
    """Whether our plugin replaced another one: pods that the other one served stay settled."""
    named = case_node.get("doubtful") or any("reported" in one for one in case_node["pods"])
    return bool(named) and not case_node.get("own_plugin")


def report_object(case_node: Plain, resource: str | None, names_pods: bool = True) -> Plain:
    lists = case_node["device_info"]
    data = {"DeviceInfoCfg": json.dumps({"DeviceInfo": {"DeviceList": lists, "UpdateTime": 1}})}
    chips: dict[str, str] = {}
    shares: dict[str, Plain] = {}
    listed = next((name for name in lists if name.count("-") == 0), resource or "")
    for at, one in enumerate(case_node["pods"]):
        if "reported" not in one:
            continue
        uid = f"{case_node['name']}-{at}"
        if "reported_share" in one:
            mb, policy = one["reported_share"]
            name = chips_of(listed, one["reported"])
            percent = request_count(one, one.get("asks", resource or ""))
            shares[uid] = {"chip": name, "percent": percent, "mb": mb, "policy": policy}
        else:
            chips[uid] = chips_of(listed, one["reported"])
    for chip in case_node.get("doubtful", ()):
        # A pod that is gone, whose containers may still run.
        chips[f"gone-{chip}"] = chips_of(listed, [chip])
    if names_pods and (case_node.get("own_plugin") or chips or shares):
        data["RingwiseKubeletDevices"] = "{}"
        data["RingwiseMountedChips"] = json.dumps(chips)
        data["RingwiseMountedShares"] = json.dumps(shares)
    return config_map("kube-system", f"mindx-dl-deviceinfo-{case_node['name']}", data)


def pod_object(
    name: str,
    uid: str,
    limits: Plain,
    *,
    annotations: Plain,
    labels: Plain,
    node: str | None = None,
    phase: str = "Pending",
    group: str | None = None,
) -> Plain:
    notes = dict(annotations)
    if group is not None:
        notes["scheduling.k8s.io/group-name"] = group
    spec: Plain = {
        "schedulerName": "volcano",
        "containers": [{"name": "main", "image": "i", "resources": {"limits": limits, "requests": limits}}],
    }
    if node is not None:
        spec["nodeName"] = node
    metadata = {"name": name, "namespace": "vcjob", "uid": uid, "annotations": notes, "labels": labels}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": spec,
        "status": {"phase": phase},
    }


def node_pods(case: Plain, key: str, group: str | None) -> list[Plain]:
    """The pods on the nodes, with the annotations that they have now or were bound with."""
    resource = case["request"]["resource"] if "request" in case else None
    found = []
    for case_node in case["nodes"]:
        for at, one in enumerate(case_node["pods"]):
            uid = f"{case_node['name']}-{at}"
            asks = one.get("asks", resource)
            annotations = one["annotations"]
            if key == "bound_with":
                annotations = one.get("bound_with", annotations)
            mine = one.get("job") == "job"
            same = mine or one.get("folder") == "same"
            labels = {"volcano.sh/job-name": "train"} if same else {}
            if mine:
                labels |= case["request"]["labels"]
                given: Plain = case["request"].get("annotations", {})
                annotations = annotations | {key: given[key] for key in (POLICY, "sp-block") if key in given}
            if asks == "huawei.com/npu-core":
                labels |= {"ring-controller.atlas": "ascend-310P"}
            found.append(
                pod_object(
                    uid,
                    uid,
                    {asks: str(request_count(one, asks))},
                    annotations=annotations,
                    labels=labels,
                    node=case_node["name"],
                    phase=one.get("phase", "Running"),
                    group=group if mine else None,
                )
            )
    return found


def events_of(objects: Sequence[Plain]) -> list[ev.Event]:
    bundle = read_bundle(["-"], stdin=as_bytes(list(objects)))
    assert not bundle.errors, bundle.errors
    events, _ = input_events(bundle, keep_wrong_pods=True)
    return events


def answer(case: Plain, decide: Decide = Decide.ONE_CYCLE) -> Answer:
    """Decide the case with the whole scheduler."""
    request = case["request"]
    resource = request["resource"]
    settings = {}
    if "presetVirtualDevice" in request:
        settings["presetVirtualDevice"] = str(request["presetVirtualDevice"]).lower()
    if "owned_annotations" in request:
        settings["owned-annotations"] = request["owned_annotations"]
    scheduler = new_scheduler(_configuration(tuple(settings.items())), _catalog())
    observer = _Candidates()
    scheduler.observe(observer)
    cluster = [node_object(one, resource) for one in case["nodes"]]
    cluster += [report_object(one, resource, not is_named_later(one)) for one in case["nodes"]]
    total = request.get("pods", 1)
    group = "train" if total > 1 else None
    objects = node_pods(case, "bound_with", group)
    labels = {"volcano.sh/job-name": "train", **request["labels"]}
    if group is not None:
        objects.append(pod_group(group, total if case["kind"] == "soft" else 1, phase="Inqueue"))
    scheduler.handle(events_of([*cluster, *objects]), NOW, Decide.NOTHING)
    entries = [
        Isolation(one["name"], (chips_of(name, [chip]),))
        for one in case["nodes"]
        for chip in one.get("isolated", ())
        for name in one["device_info"]
        if name.count("-") == 0
    ]
    later: list[ev.Event] = seen(isolated(*entries))
    later += [one for one in events_of(node_pods(case, "annotations", group)) if isinstance(one, ev.PodSeen)]
    later += events_of([report_object(one, resource) for one in case["nodes"] if is_named_later(one)])
    for one in case["nodes"]:
        for cut in one.get("failed_cuts", ()):
            cuts: Any = scheduler.view.cluster.failed_vnpus
            failed = cuts.setdefault(one["name"], {})
            failed[cut["chip"], cut["template"]] = NOW - cut["seconds_ago"] * SECOND
    limits = {resource: str(request["count"])}
    limits |= {name: str(count) for name, count in request.get("also", {}).items()}
    pods = [one for node in case["nodes"] for one in node["pods"]]
    placed = sum(one.get("job") == "job" and one.get("phase") != "Failed" for one in pods)
    waiting = []
    for at in range(total - placed):
        own = dict(labels)
        if at and request.get("other_pods"):
            own |= request["other_pods"][at - 1]
        waiting.append(
            pod_object(
                f"new-{at}",
                f"new-{at}",
                limits,
                annotations=request.get("annotations", {}),
                labels=own,
                group=group,
            )
        )
    scheduler.handle([*later], NOW, Decide.NOTHING)
    commands = scheduler.handle(events_of(waiting), NOW, decide)
    candidates = next(
        (
            {one.node: one for one in found}
            for key, found in observer.of.items()
            if key.endswith(("train", "new-0"))
        ),
        {},
    )
    return Answer(scheduler, candidates, commands)
