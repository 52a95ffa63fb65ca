"""Records what one version of Ringwise writes and prints, so that later versions can be tested against it.

    python -m tests.compatibility.record CHECKOUT FOLDER

CHECKOUT is a checkout of the version to record, FOLDER a new folder beside this file. It gets

- `lab.tar.xz`: the folder of a lab with its database and two journals,
- `place.tar.xz`: inputs of `ringwise place` with the journals it wrote,
- `expected.json.xz`: what the version prints for both,
- `names.json`: names that others hold: fields of JSON documents, reason codes, metrics, entry-point groups.
"""

from __future__ import annotations

import io
import json
import lzma
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.place.objects import (
    ASCEND,
    Plain,
    filler,
    node,
    node_report,
    pod,
    pod_group,
    pod_spec,
    report,
    vcjob,
)
from tests.tools.checkouts import Checkout, environment
from tests.tools.documents import field_paths
from tests.tools.scenarios import CLASSES, scenario

#: Seeds of the inputs of `place`: two of each kind of scenario, with many jobs that are placed.
SEEDS = (3, 10, 14, 21, 23, 25, 31, 32, 52, 59)
LAB_FILES = ("lab.db", "journal.jsonl", "journal.1.jsonl")

#: What is asked of the lab after it was opened again, and once more after some time has passed.
QUERIES: dict[str, tuple[str, ...]] = {
    "get nodes": ("get", "nodes"),
    "get jobs": ("get", "jobs"),
    "get queues": ("get", "queues"),
    "get pods": ("get", "pods"),
    "describe node": ("describe", "node", "node-0"),
    "describe job": ("describe", "job", "model"),
    "describe queue": ("describe", "queue", "research"),
    "describe pod": ("describe", "pod", "model-worker-0"),
    "why pending": ("why", "too-large"),
    "why refused": ("why", "three-chips"),
    "why running": ("why", "model"),
    "why ended": ("why", "short"),
    "capacity": ("capacity",),
    "doctor": ("doctor",),
    "topology show": ("topology", "show"),
    "top": ("top", "--once"),
}
LATER = ("get nodes", "get jobs", "get queues", "get pods")
FURTHER_TIME = "20m"

CONFIGURATION = """\
actions: "enqueue, allocate, preempt, reclaim, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
  - name: topology910
- plugins:
  - name: drf
  - name: predicates
    arguments:
      predicate.TaintTolerationEnable: true
  - name: proportion
  - name: nodeorder
    arguments:
      leastrequested.weight: 2
      imagelocality.weight: 0
  - name: binpack
    enableNodeOrder: true
    arguments:
      binpack.weight: 3
      binpack.resources: huawei.com/Ascend910
      binpack.resources.huawei.com/Ascend910: 5
configurations:
- name: init-params
  arguments:
    nslb-version: "2.0"
    shared-tor-num: "2"
    super-pod-size: "6"
    reserve-nodes: "1"
    reservation-after: "300"
    multi-pod-requests: "field"
    prefer-previous-node: "true"
- name: allocate
  arguments:
    predicateErrorCacheEnable: true
"""


def as_list(*objects: Plain) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})


def queue(name: str, state: str = "Open", **spec: Any) -> Plain:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": spec,
        "status": {"state": state},
    }


def priority_class(name: str, value: int) -> Plain:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }


def more_nodes() -> list[Plain]:
    """Two SuperPoDs, nodes of another board, a node with a taint. The nodes of the lab have leaf switches."""
    made: list[Plain] = []
    for superpod in (3, 4):
        for place in range(6):
            name = f"sp{superpod}-{place}"
            labels = {"kubernetes.io/hostname": name}
            # One SuperPoD is named by its nodes, the other one by the reports.
            notes = {"superPodID": str(superpod)} if superpod == 4 else {}
            made.append(node(name, chips=16, labels=labels, annotations=notes))
            made.append(node_report(name, report(range(16), superpod=None if notes else superpod)))
    for place in range(2):
        name = f"mesh-{place}"
        labels = {"kubernetes.io/hostname": name, "zone": "a"}
        made.append(node(name, resource="huawei.com/npu", devices=range(8), labels=labels))
        made.append(node_report(name, report(range(1, 8), unhealthy=[0], resource="huawei.com/npu")))
    taint = {"key": "team", "value": "x", "effect": "NoSchedule"}
    made.append(node("closed-0", devices=range(8), taints=[taint]))
    made.append(filler("stranger", "closed-0", [2, 3], annotations={"volcano.sh/preemptable": "true"}))
    return made


def gang(name: str, pods: int, chips: int, **more: Any) -> Plain:
    return vcjob(name, [("worker", pods, pod_spec(chips))], **more)


def first_jobs() -> list[Plain]:
    duration = {"ringwise.io/expected-duration": "40m"}
    model = gang("model", 4, 8, labels={"tor-affinity": "large-model-schema"}, queue="research")
    model["spec"]["plugins"] = {"env": [], "svc": [], "ssh": []}
    short = gang("short", 1, 1, pod_annotations={"ringwise.io/simulate": "succeed@30"})
    fails = gang("fails", 1, 2, pod_annotations={"ringwise.io/simulate": "fail@20:137"}, maxRetry=2)
    fails["spec"]["policies"] = [{"event": "PodFailed", "action": "RestartJob"}]
    stages = vcjob("stages", [("prepare", 1, pod_spec(0)), ("train", 1, pod_spec(4))], minAvailable=1)
    stages["spec"]["tasks"][1]["dependsOn"] = {"name": ["prepare"]}
    blocks = gang("blocks", 4, 16, labels={"super-pod-affinity": "hard"}, annotations={"sp-block": "32"})
    soft = gang("soft", 2, 16, labels={"super-pod-affinity": "soft"}, annotations={"sp-block": "32"})
    soft["spec"]["tasks"][0]["template"]["metadata"]["annotations"] = duration
    flexible = gang("flexible", 3, 8, minAvailable=1, priorityClassName="low", queue="research")
    flexible["spec"]["tasks"][0]["template"]["metadata"]["annotations"] = {"volcano.sh/preemptable": "true"}
    mesh = vcjob(
        "mesh",
        [("worker", 1, pod_spec(4, "huawei.com/npu", selector={"zone": "a"}))],
        annotations={"huawei.com/schedule_policy": "chip4-node8"},
    )
    return [model, short, fails, stages, blocks, soft, flexible, mesh]


def second_jobs() -> list[Plain]:
    common = gang("common", 2, 8, labels={"tor-affinity": "normal-schema"}, queue="production")
    padding = gang("padding", 2, 8, labels={"tor-affinity": "large-model-schema"})
    group = pod_group("group", 2, labels={"app": "group"}, priorityClassName="high")
    members = [pod(f"group-{rank}", pod_spec(4), group="group") for rank in range(2)]
    affinity = {
        "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {
                    "weight": 3,
                    "preference": {
                        "matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["a"]}]
                    },
                }
            ]
        }
    }
    alone = pod("alone", pod_spec(2, affinity=affinity), annotations={"ringwise.io/expected-duration": "2h"})
    tolerant = pod("tolerant", pod_spec(4, tolerations=[{"key": "team", "operator": "Exists"}]))
    return [common, padding, group, *members, alone, tolerant, gang("fill", 1, 8)]


def waiting_jobs() -> list[Plain]:
    return [
        gang("too-large", 12, 8),
        gang("three-chips", 1, 3),
        gang("over-quota", 4, 8, queue="production"),
        gang("not-open", 1, 1, queue="closed"),
        gang("many-blocks", 12, 16, annotations={"sp-block": "64"}),
        gang("important", 3, 8, priorityClassName="high", queue="research"),
        pod("cpu-only", pod_spec(0)),
    ]


def live(checkout: Checkout, folder: Path, inputs: Path) -> None:
    """A lab with jobs of every kind, faults and a restart. At its end jobs run, wait and terminate."""
    conf = inputs / "volcano-scheduler.conf"
    conf.write_text(CONFIGURATION)

    def do(*arguments: str) -> None:
        ran = checkout.run(*arguments, "--lab", str(folder))
        if ran.code:
            raise SystemExit(f"{' '.join(arguments)}: {ran.err}")

    def submit(name: str, *objects: Plain) -> None:
        (inputs / name).write_text(as_list(*objects))
        do("submit", str(inputs / name))

    first = ("--nodes", "14", "--board", "910-x8", "--leaf-size", "4", "--config", str(conf))
    with checkout.lab(folder, *first):
        submit("nodes.json", *more_nodes())
        submit(
            "queues.json",
            queue("research", weight=3, capability={ASCEND: 128, "cpu": "4000"}),
            queue("production", weight=1, guarantee={"resource": {ASCEND: 8}}, capability={ASCEND: 24}),
            queue("closed", "Closed", weight=1),
            queue("empty", weight=2),
            *(priority_class(name, value) for name, value in CLASSES.items()),
        )
        submit("first.json", *first_jobs())
        do("advance", "35s")
        submit("second.json", *second_jobs())
        do("fault", "node-1", "3")
        do("fault", "node-2", "0,4", "--network")
        do("advance", "50s")
        do("cordon", "mesh-1")
        do("delete", "node", "sp4-5")
    with checkout.lab(folder):
        submit("waiting.json", *waiting_jobs())
        do("advance", "10s")
        changed = CONFIGURATION.replace('shared-tor-num: "2"', 'shared-tor-num: "1"')
        submit(
            "configuration.json",
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"namespace": "volcano-system", "name": "volcano-scheduler-configmap"},
                "data": {"volcano-scheduler.conf": changed},
            },
        )
        do("fault", "node-1", "3", "--heal")
        do("fault", "sp3-0", "5")
        do("delete", "job", "padding")
        do("advance", "6m")
        do("drain", "sp3-1")
        do("delete", "pod", "model-worker-2")
        do("delete", "queue", "empty")
        do("advance", "1s")


def answers(checkout: Checkout, folder: Path) -> dict[str, Any]:
    """What a version shows of the lab in this folder, which it changes."""
    found: dict[str, Any] = {}
    with checkout.lab(folder):
        for name, question in QUERIES.items():
            found[name] = checkout.run(*question, "-o", "json", "--lab", str(folder)).document()
        checkout.run("advance", FURTHER_TIME, "--lab", str(folder))
        for name in LATER:
            again = checkout.run(*QUERIES[name], "-o", "json", "--lab", str(folder))
            found[f"{name} later"] = again.document()
    for name in ("top", "top later"):
        found.get(name, {}).get("status", {}).pop("folder", None)
    return found


def place_inputs(folder: Path) -> None:
    for seed in SEEDS:
        made = scenario(seed)
        (folder / f"{seed}.json").write_text(made.manifest())
        (folder / f"{seed}.conf").write_text(made.configuration)


def place_answer(run: Callable[..., Any], folder: Path, seed: int, *more: str) -> Any:
    source = ("-f", str(folder / f"{seed}.json"), "--config", str(folder / f"{seed}.conf"), "-o", "json")
    return run("place", *source, "--scores", "--all", *more)


#: Run with the version's own Python path: every metric with its type and labels.
METRICS = """
import json
from ringwise.metrics.prometheus import Metrics
print(json.dumps({family.name: [family.kind, *family.labels] for family in Metrics().families()}))
"""


def names(checkout: Checkout, documents: dict[str, Any]) -> dict[str, Any]:
    page = (checkout.path / "docs" / "reasons.md").read_text(encoding="utf-8")
    metrics = subprocess.run(
        [sys.executable, "-c", METRICS],
        env=environment(checkout.path),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    project = tomllib.loads((checkout.path / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {
        "reason codes": re.findall(r"^### `([a-z0-9-]+)`$", page, re.MULTILINE),
        "metrics": json.loads(metrics),
        "scripts": sorted(project["scripts"]),
        "entry-point group": "ringwise.plugins",
        "fields": {name: sorted(field_paths(document)) for name, document in sorted(documents.items())},
    }


def archive(path: Path, folder: Path, files: list[str]) -> None:
    """The same files give the same archive."""
    with tarfile.open(path, "w:xz", preset=9) as tar:
        for name in files:
            content = (folder / name).read_bytes()
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))


def record(checkout: Checkout, target: Path, work: Path) -> None:
    target.mkdir()
    lab, inputs, place = work / "lab", work / "inputs", work / "place"
    inputs.mkdir()
    place.mkdir()
    live(checkout, lab, inputs)
    archive(target / "lab.tar.xz", lab, list(LAB_FILES))
    again = work / "again"
    again.mkdir()
    for name in LAB_FILES:
        shutil.copy(lab / name, again / name)
    expected: dict[str, Any] = {"lab": answers(checkout, again), "place": {}}
    place_inputs(place)
    for seed in SEEDS:
        journal = ("--journal", str(place / f"{seed}.journal.jsonl"))
        expected["place"][str(seed)] = place_answer(checkout.run, place, seed, *journal).document()
    archive(target / "place.tar.xz", place, sorted(path.name for path in place.iterdir()))
    (target / "expected.json.xz").write_bytes(
        lzma.compress(json.dumps(expected, sort_keys=True).encode(), preset=9)
    )
    documents = {**expected["lab"], "place": list(expected["place"].values())}
    names_text = json.dumps(names(checkout, documents), indent=1) + "\n"
    (target / "names.json").write_text(names_text, encoding="utf-8")


def main() -> None:
    checkout_path, target = Path(sys.argv[1]), Path(sys.argv[2])
    with closing(Checkout(checkout_path)) as checkout, tempfile.TemporaryDirectory() as work:
        record(checkout, target, Path(work))


if __name__ == "__main__":
    main()
