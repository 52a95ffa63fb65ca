"""What the mutating webhook fills in, and that it is what everything assumes that reads the objects."""

from __future__ import annotations

import base64
import copy
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringwise.apps.admission.defaults import fill_job, fill_pod, fill_queue
from ringwise.apps.admission.webhook import NamespaceReader, filled
from ringwise.manifests.objects.jobs import vcjob_from_wire
from ringwise.manifests.objects.pods import PodClassCache
from ringwise.manifests.text.errors import Findings
from ringwise.manifests.text.wire import JobWire
from tests.admission.reviews import container, review, vcjob

TEMPLATE = {"spec": {"containers": [container(8)]}}


def patched(object: dict[str, Any], operation: str = "CREATE") -> dict[str, Any]:
    """The object as the API server stores it."""
    answered = filled(review(object, operation))
    assert answered is not None
    response = answered["response"]
    assert response["allowed"] is True
    stored = copy.deepcopy(object)
    if "patch" not in response:
        return stored
    assert response["patchType"] == "JSONPatch"
    for one in json.loads(base64.b64decode(response["patch"])):
        assert one["op"] == "add"
        *path, last = [part.replace("~1", "/").replace("~0", "~") for part in one["path"].split("/")[1:]]
        place: Any = stored
        for part in path:
            place = place[int(part)] if isinstance(place, list) else place[part]
        place[last] = one["value"]
    return stored


def bare(**spec: Any) -> dict[str, Any]:
    return {"kind": "Job", "metadata": {"name": "train", "namespace": "team"}, "spec": spec}


def test_replicas_that_are_missing_are_0() -> None:
    spec = patched(bare(tasks=[{"template": TEMPLATE}, {"template": TEMPLATE, "replicas": 2}]))["spec"]
    assert [task["minAvailable"] for task in spec["tasks"]] == [0, 2]
    assert spec["minAvailable"] == 2


def test_a_bare_job_is_filled_in() -> None:
    stored = patched(
        bare(
            tasks=[
                {"replicas": 3, "template": TEMPLATE},
                {"replicas": 2, "minAvailable": 1, "name": "ps", "maxRetry": 5, "template": TEMPLATE},
            ]
        )
    )
    spec = stored["spec"]
    assert (spec["queue"], spec["schedulerName"], spec["maxRetry"]) == ("default", "volcano", 3)
    assert spec["minAvailable"] == 4
    assert [(task["name"], task["minAvailable"], task["maxRetry"]) for task in spec["tasks"]] == [
        ("default0", 3, 3),
        ("ps", 1, 5),
    ]


def test_what_is_there_stays() -> None:
    job = patched(vcjob(8, queue="research", maxRetry=7))
    assert (job["spec"]["queue"], job["spec"]["maxRetry"], job["spec"]["minAvailable"]) == ("research", 7, 1)
    assert patched(job) == job
    assert patched(vcjob(8), "UPDATE") == vcjob(8)


def test_needed_plugins_and_the_dns_of_the_host_network() -> None:
    host = {"spec": {"hostNetwork": True, "containers": [container(8)]}}
    stored = patched(bare(plugins={"mpi": ["--port=1"]}, tasks=[{"name": "master", "template": host}]))
    assert stored["spec"]["plugins"] == {"mpi": ["--port=1"], "svc": [], "ssh": []}
    assert stored["spec"]["tasks"][0]["template"]["spec"]["dnsPolicy"] == "ClusterFirstWithHostNet"


def test_a_queue_is_filled_in() -> None:
    meta = {
        "name": "q",
        "annotations": {"volcano.sh/hierarchy": "a/b", "volcano.sh/hierarchy-weights": "1/2"},
    }
    queue = {"kind": "Queue", "metadata": meta}
    fill_queue(queue)
    assert queue["spec"] == {"reclaimable": True, "weight": 1, "parent": "root"}
    assert meta["annotations"] == {
        "volcano.sh/hierarchy": "root/a/b",
        "volcano.sh/hierarchy-weights": "1/1/2",
    }
    given_all = {"spec": {"reclaimable": False, "weight": 4, "parent": "a"}, "metadata": {"name": "q"}}
    assert fill_queue(given_all) == []
    root = {"spec": {"reclaimable": False, "weight": 1}, "metadata": {"name": "root"}}
    assert fill_queue(root) == []


@pytest.mark.parametrize(
    "tasks",
    [
        [{"replicas": 2, "template": TEMPLATE}],
        [{"template": TEMPLATE}, {"replicas": 3, "minAvailable": 0, "template": TEMPLATE}],
        [{"maxRetry": 0, "template": TEMPLATE}, {"maxRetry": -1, "template": TEMPLATE}],
        [
            {
                "replicas": 4,
                "template": TEMPLATE,
                "partitionPolicy": {"totalPartitions": 2, "partitionSize": 2, "minPartitions": 1},
            }
        ],
    ],
)
def test_a_filled_job_is_the_same_job(tasks: list[dict[str, Any]]) -> None:
    """Nothing depends on the webhook: what it fills in is what every reader assumes."""

    def read(job: dict[str, Any]) -> tuple[object, ...]:
        wire = msgspec.json.decode(json.dumps(job).encode(), type=JobWire)
        found = vcjob_from_wire(wire, PodClassCache(), Findings("job"))
        return found.tasks, found.min_available, found.queue, found.scheduler, found.max_retry

    job = bare(tasks=tasks)
    before = read(job)
    fill_job(job)
    assert read(job) == before


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["tasks", "spec", "template", "plugins", "replicas", "partitionPolicy", "mpi"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)


@given(VALUES)
def test_any_value_in_any_place_is_answered(value: Any) -> None:
    for object in ({"kind": "Job", "spec": value}, {"kind": "Queue", "spec": value, "metadata": value}):
        answered = filled(review(object))
        assert answered is not None
        assert answered["response"]["allowed"] is True
    assert filled(b"no review") is None


GATE = "scheduling.volcano.sh/queue-allocation-gate"


@pytest.mark.parametrize(
    ("annotations", "spec", "gates"),
    [
        ({GATE: "true"}, {}, [GATE]),
        ({GATE: "true"}, {"schedulingGates": [{"name": "mine"}]}, ["mine", GATE]),
        ({GATE: "true"}, {"schedulingGates": [{"name": GATE}]}, [GATE]),
        ({GATE: "false"}, {}, []),
        ({}, {}, []),
        (None, {}, []),
        ({GATE: "true"}, {"schedulerName": "default-scheduler"}, []),
        ({GATE: "true"}, {"nodeName": "n1"}, []),
    ],
)
def test_a_pod_that_asks_for_it_gets_the_gate_of_its_queue(
    annotations: dict[str, str] | None, spec: dict[str, Any], gates: list[str]
) -> None:
    pod = {"metadata": {"annotations": annotations}, "spec": {"schedulerName": "volcano", **spec}}
    before = copy.deepcopy(pod)
    operations = fill_pod(pod)
    assert [gate["name"] for gate in pod["spec"].get("schedulingGates", [])] == gates
    assert bool(operations) is (pod != before)
    assert fill_pod(pod) == []


# -- the queue of a namespace


def group_in(queue: str | None, namespace: str = "team") -> dict[str, Any]:
    """A PodGroup as it is stored, where the namespace team names the queue research."""
    sent: dict[str, Any] = {"kind": "PodGroup", "metadata": {"name": "gang"}, "spec": {"minMember": 1}}
    if queue is not None:
        sent["spec"]["queue"] = queue
    body = json.loads(review(sent))
    body["request"]["namespace"] = namespace
    answered = filled(json.dumps(body).encode(), namespace_queues={"team": "research"})
    assert answered is not None
    response = answered["response"]
    for one in json.loads(base64.b64decode(response.get("patch", "")) or b"[]"):
        assert (one["op"], one["path"]) == ("add", "/spec/queue")
        sent["spec"]["queue"] = one["value"]
    spec: dict[str, Any] = sent["spec"]
    return spec


@pytest.mark.parametrize("queue", [None, "", "default"])
def test_a_pod_group_in_the_default_queue_gets_that_of_its_namespace(queue: str | None) -> None:
    assert group_in(queue)["queue"] == "research"
    assert group_in(queue, "others").get("queue") == queue


def test_a_queue_that_is_named_stays() -> None:
    assert group_in("own")["queue"] == "own"


def test_the_queues_of_namespaces_are_read() -> None:
    queues: dict[str, str] = {}
    reader = NamespaceReader(queues)

    def seen(name: str, **annotations: str) -> None:
        wire = {"metadata": {"name": name, "annotations": annotations or None}}
        found = Findings(name)
        assert reader.read(msgspec.Raw(json.dumps(wire).encode()), found) == ()
        assert found.errors == []

    key = "scheduling.volcano.sh/queue-name"
    seen("a", **{key: "research"})
    seen("b")
    seen("c", **{key: ""})
    assert queues == {"a": "research"}
    seen("a", **{key: "other"})
    seen("b", **{key: "research"})
    assert queues == {"a": "other", "b": "research"}
    seen("a")
    reader.forget("b")
    assert queues == {}
