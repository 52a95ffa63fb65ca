"""Randomly changed documents are read or reported, and nothing else is raised."""

from __future__ import annotations

import copy
import json
from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from ringwise.manifests.bundle import read_bundle
from ringwise.manifests.text.errors import ManifestError
from ringwise.messages.job_expansion import pod_group_of, pods_of
from tests.manifests.builders import (
    config_map,
    device_info,
    pod_group,
    priority_class,
    queue,
    real_node,
    real_pod,
    vcjob,
)
from tests.place.workloads import ascend_job, operator_job, replicated, role

VALID = [
    real_node(1),
    real_pod(1, 10),
    pod_group(minTaskMember={"work": 1}, minResources={"cpu": "1"}),
    queue(capability={"cpu": "4"}, guarantee={"resource": {"memory": "1Gi"}}),
    priority_class(),
    vcjob(policies=[{"event": "PodEvicted", "action": "RestartJob"}], plugins={"env": []}),
    config_map("mindx-dl-deviceinfo-a", {"DeviceInfoCfg": json.dumps(device_info(free="Ascend910-0"))}),
    config_map(
        "cluster-info-device-0",
        {"cluster-info-device-0": json.dumps({"mindx-dl-deviceinfo-a": device_info(free="Ascend910-0")})},
        "mindx-dl",
    ),
    {
        **real_pod(2, 10),
        "spec": {
            "containers": [{"ports": [{"hostPort": 80}], "env": [{"name": "VC_TASK_INDEX", "value": "1"}]}],
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}
                        ]
                    }
                },
                "podAntiAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {
                            "weight": 3,
                            "podAffinityTerm": {
                                "topologyKey": "a",
                                "labelSelector": {"matchLabels": {"a": "b"}},
                            },
                        }
                    ]
                },
            },
        },
    },
]

VALID += [
    replicated("Deployment", 1, 2, metadata={"annotations": {"scheduling.volcano.sh/group-min-member": "1"}}),
    replicated("StatefulSet", 1, 2, ordinals={"start": 1}, podManagementPolicy="Parallel"),
    replicated("Job", 1, 2, completions=3, suspend=False),
    ascend_job({"Master": role(1), "Worker": role(1, 2)}, policy={"minAvailable": 2, "queue": "q"}),
    operator_job("MPIJob", {"Launcher": role(0), "Worker": role(1)}, policy={"minResources": {"cpu": "1"}}),
]

STRANGE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from(
        [-1, 1.5, 10**400, 2**63, "", "-", "1e999", "NaN", "{", "[]", "\x00", "\ud7ff", "9" * 500]
    ),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=20),
    st.lists(st.none() | st.integers() | st.text(max_size=3), max_size=3),
    st.dictionaries(st.text(max_size=5), st.none() | st.integers() | st.text(max_size=3), max_size=3),
)


def places(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """The path of every value in a document."""
    inner: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value))
    return [path, *(place for key, one in inner for place in places(one, (*path, key)))]


@st.composite
def changed(draw: st.DrawFn) -> Any:
    document = copy.deepcopy(draw(st.sampled_from(VALID)))
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.sampled_from(places(document)))
        if not place:
            continue
        holder: Any = document
        for key in place[:-1]:
            holder = holder[key]
        if draw(st.booleans()) and isinstance(holder, dict):
            del holder[place[-1]]
        else:
            holder[place[-1]] = draw(STRANGE)
    return document


def check(data: bytes) -> None:
    bundle = read_bundle(["-"], stdin=data, keep_going=True)
    for error in bundle.errors:
        assert isinstance(error, ManifestError)
        assert str(error).startswith("stdin: document ")
        assert str(error).isprintable()
    # What workloads are expanded to: pods and PodGroups have names of their own.
    for things in (bundle.pods, bundle.pod_groups):
        assert len({one.key for one in things}) == len(things)
    for job in bundle.vcjobs:
        assert len(pods_of(job)) == (0 if job.problems or job.over else job.replicas)
        pod_group_of(job)


@given(st.lists(changed(), min_size=1, max_size=3))
def test_changed_json_documents_are_read_or_reported(documents: list[Any]) -> None:
    check(b"\n".join(json.dumps(document).encode() for document in documents))
    check(json.dumps({"apiVersion": "v1", "items": documents, "kind": "List"}, indent=4).encode())


@given(st.lists(changed(), min_size=1, max_size=2))
def test_changed_yaml_documents_are_read_or_reported(documents: list[Any]) -> None:
    check(yaml.safe_dump_all(documents).encode())


@given(changed())
def test_both_readers_agree(document: Any) -> None:
    """JSON and YAML accept the same documents, with the same objects."""
    by_json = read_bundle(["-"], stdin=json.dumps(document).encode())
    # JSON is YAML, so the same bytes go through the other reader behind a comment.
    by_yaml = read_bundle(["-"], stdin=b"# YAML\n" + yaml.safe_dump(document).encode())
    assert bool(by_json.errors) == bool(by_yaml.errors)
    assert by_json.pods == by_yaml.pods
    assert by_json.nodes == by_yaml.nodes
    assert by_json.reports == by_yaml.reports


VALID_BYTES = [json.dumps(document).encode() for document in VALID] + [
    yaml.safe_dump(document).encode() for document in VALID
]


@given(
    st.sampled_from(VALID_BYTES),
    st.lists(
        st.tuples(st.integers(0, 5000), st.integers(0, 3), st.binary(max_size=4)), min_size=1, max_size=4
    ),
)
def test_changed_bytes_are_read_or_reported(data: bytes, cuts: list[tuple[int, int, bytes]]) -> None:
    for at, removed, put in cuts:
        place = at % (len(data) + 1)
        data = data[:place] + put + data[place + removed :]
    check(data)


@given(st.binary(max_size=200) | st.text(alphabet="{}[]:,\"'&*!|>-#%@` \n\ta1", max_size=60).map(str.encode))
def test_random_bytes_are_read_or_reported(data: bytes) -> None:
    check(data)
