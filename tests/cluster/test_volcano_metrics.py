"""Volcano's metrics on a real API server: whatever its Grafana dashboard queries is there, and true."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ringwise.manifests.text.quantities import nanoseconds
from ringwise_bench.docs.volcano_metrics import PREFIX, volcano_metrics
from tests.cluster.cluster import GROUPS, Cluster, Component
from tests.cluster.commands import kubectl_ringwise
from tests.cluster.objects import CHIP, Object, nodes, vcjob

pytestmark = pytest.mark.cluster

CONFIGURATION = "/api/v1/namespaces/volcano-system/configmaps/volcano-scheduler-configmap"
CONFIGURED = """\
actions: "enqueue, allocate, preempt"
tiers:
- plugins:
  - {name: priority}
  - {name: gang, enablePreemptable: false}
  - {name: conformance}
  - {name: topology910}
- plugins: [{name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}]
configurations:
- {name: init-params, arguments: {}}
"""
PLUGINS = (
    *("priority", "gang", "conformance", "topology910"),
    *("drf", "predicates", "proportion", "nodeorder"),
)
DURATION = f"{PREFIX}e2e_job_scheduling_duration"
#: 32 chips, 768 cores and 3072 GiB. All queues request at least what their weights give them.
NODES, RUNNING = 4, {"left": 2, "right": 1, "default": 1}
HIGH: Object = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "tests-high"},
    "value": 1000,
}


def queue(name: str, **spec: Any) -> Object:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": spec,
    }


def job(name: str, queue: str, **described: Any) -> Object:
    """One pod with all chips of a node and half of its other resources."""
    made = vcjob(name, 1, 8, pod_annotations={"volcano.sh/preemptable": "true"})
    made["spec"] |= {"queue": queue, **described}
    amounts = made["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["resources"]
    for kind in ("requests", "limits"):
        amounts[kind] = {**amounts.get(kind, {}), "cpu": "96", "memory": "384Gi"}
    return made


def get_queues(cluster: Cluster) -> dict[str, Any]:
    ran = kubectl_ringwise(cluster.admin_config, "get", "queues", "-o", "json")
    assert ran.returncode == 0, ran.stderr
    return {one["name"]: one for one in json.loads(ran.stdout)["queues"]}


def amounts_of(found: dict[str, float], name: str, kind: str) -> dict[str, float]:
    """What the metrics say of a queue, in the units of `get queues`."""
    label, start = f'queue_name="{name}"', f"{PREFIX}queue_{kind}"
    amounts = {
        "cpu": found.get(f"{start}_milli_cpu{{{label}}}"),
        "memory": found.get(f"{start}_memory_bytes{{{label}}}"),
    }
    chips = found.get(f'{start}_scalar_resources{{{label},resource="{CHIP}"}}')
    amounts[CHIP] = None if chips is None else chips / 1000
    return {resource: amount for resource, amount in amounts.items() if amount is not None}


def requested(cluster: Cluster, queue: str) -> dict[str, float]:
    """What the pods of a queue use or wait for."""
    groups = {one["metadata"]["name"]: one["spec"]["queue"] for one in cluster.api.items(GROUPS)}
    pods = [
        pod
        for pod in cluster.pods()
        if groups[pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"]] == queue
    ]
    return {"cpu": 96_000 * len(pods), "memory": 384 * 2**30 * len(pods), CHIP: 8 * len(pods)}


def check_queues(cluster: Cluster, scheduler: Component) -> bool:
    """False until the gauges count what runs and what is requested."""
    found, shown = scheduler.metrics(), get_queues(cluster)
    total = {"cpu": 768_000, "memory": 3072 * 2**30, CHIP: 32}
    for name, running in RUNNING.items():
        allocated = amounts_of(found, name, "allocated")
        if allocated != {"cpu": 96_000 * running, "memory": 384 * 2**30 * running, CHIP: 8 * running}:
            return False
        if amounts_of(found, name, "request") != requested(cluster, name):
            return False
        row = shown[name]
        assert allocated == {resource: row["used"][resource] for resource in total}
        assert amounts_of(found, name, "capacity") == row["capability"]
        others = sum(one["guarantee"].get(CHIP, 0) for other, one in shown.items() if other != name)
        most = min(total[CHIP] - others, row["capability"].get(CHIP, total[CHIP]))
        assert amounts_of(found, name, "real_capacity") == {**total, CHIP: most}
        deserved = amounts_of(found, name, "deserved")
        assert deserved[CHIP] == row["fair_share"][CHIP]
        # Nothing is requested beyond the shares of cpu and memory.
        asked = requested(cluster, name)
        weights = {"left": 2, "right": 1, "default": 1}
        for resource in ("cpu", "memory"):
            assert deserved[resource] == min(asked[resource], total[resource] * weights[name] / 4)
        share = max(allocated[resource] / deserved[resource] for resource in total)
        assert found[f'{PREFIX}queue_share{{queue_name="{name}"}}'] == pytest.approx(share)
    return True


def check_durations(cluster: Cluster, found: dict[str, float]) -> None:
    """From the creation of each PodGroup to the decision that is written to its pod."""
    created = {
        one["metadata"]["name"]: nanoseconds(one["metadata"]["creationTimestamp"])
        for one in cluster.api.items(GROUPS)
    }
    for pod in cluster.pods():
        notes = pod["metadata"]["annotations"]
        if "predicate-time" not in notes:
            continue
        group = notes["scheduling.k8s.io/group-name"]
        (value,) = (
            value
            for name, value in found.items()
            if name.startswith(f"{DURATION}{{") and f'"{group}"' in name
        )
        assert value == pytest.approx((int(notes["predicate-time"]) - created[group]) / 1e6)


def test_what_volcanos_dashboard_queries_is_true(cluster: Cluster) -> None:
    cluster.api.patch(CONFIGURATION, {"data": {"volcano-scheduler.conf": CONFIGURED}})
    capability = {CHIP: "16", "cpu": "768", "memory": "3072Gi"}
    cluster.apply(
        [
            *nodes(NODES),
            HIGH,
            queue("left", weight=2),
            queue("right", weight=1, capability=capability, guarantee={"resource": {CHIP: "8"}}),
        ]
    )
    scheduler = cluster.start("scheduler", "--volcano-metrics")
    controller = cluster.start("controller", "--volcano-metrics")
    cluster.wait(lambda: scheduler.leads and controller.leads, "both lead")
    for name, running in RUNNING.items():
        cluster.apply([job(f"{name}-{number}", name) for number in range(running)])
    for name, running in RUNNING.items():
        for number in range(running):
            cluster.wait_running(f"{name}-{number}", 1)
    # Nothing is free: these wait.
    cluster.apply([job(f"{name}-waits", name) for name in RUNNING])
    cluster.wait(
        lambda: all(cluster.condition(f"{name}-waits") for name in RUNNING), "the others say why they wait"
    )
    cluster.wait(lambda: check_queues(cluster, scheduler), "the gauges are counted")

    cluster.apply([job("boss", "left", priorityClassName=HIGH["metadata"]["name"])])
    cluster.wait_running("boss", 1)
    cluster.wait(
        lambda: any(f"{DURATION}{{" in name and "boss" in name for name in scheduler.metrics()),
        "the job has a duration",
    )
    found = scheduler.metrics()
    assert found[f"{PREFIX}pod_preemption_victims"] == 1
    assert found[f"{PREFIX}total_preemption_attempts"] == 1
    check_durations(cluster, found)
    labels = {
        "plugin_scheduling_latency_milliseconds": [
            f'OnSession="OnSessionOpen",plugin="{name}"' for name in PLUGINS
        ],
        "action_scheduling_latency_milliseconds": [
            f'action="{name}"' for name in ("enqueue", "allocate", "preempt")
        ],
    }
    placed = sum(RUNNING.values()) + 1
    for name, metric in volcano_metrics().items():
        if not metric.dashboard:
            continue
        if metric.type == "histogram":
            for label in labels.get(name, [""]):
                # As the client library writes them: by name.
                written = ",".join(sorted(filter(None, (*label.split(","), 'le="+Inf"'))))
                assert found[f"{PREFIX}{name}_bucket{{{written}}}"] >= 1, name
        else:
            assert any(sample.partition("{")[0] == f"{PREFIX}{name}" for sample in found), name
    assert found[f"{PREFIX}e2e_job_scheduling_latency_milliseconds_count"] >= placed
    created = controller.metrics()[f"{PREFIX}controller_job_to_pod_creation_latency_milliseconds_count"]
    assert created >= len(cluster.pods())
    assert not [name for name in controller.metrics() if DURATION in name]
