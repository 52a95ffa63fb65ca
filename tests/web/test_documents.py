"""Documents of the dashboard over real sockets: each keeps to its schema, bad requests are refused."""

from __future__ import annotations

from typing import Any

import pytest

from ringwise.web import openapi
from tests.builders.values import gang, hyper_node, job_of, task_of
from tests.tools.schemas import check_document
from tests.web.rig import TestCore, address_of, dashboard, raw_answer

JOB = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: asked}
spec:
  minAvailable: 1
  schedulerName: volcano
  tasks:
    - name: worker
      replicas: 1
      template:
        spec:
          containers:
            - {name: main, image: x, resources: {limits: {huawei.com/Ascend910: 4}}}
"""


async def test_every_document_keeps_to_its_schema() -> None:
    core = TestCore()
    core.tell([*gang("runs", 2, 8), *gang("waits", 9, 8)])
    async with dashboard(core) as at:
        seen = set()
        for path in (
            "api/v1/snapshot",
            "api/v1/series",
            "api/v1/jobs/default/runs",
            "api/v1/jobs/default/waits/why",
            "api/v1/nodes/n1",
            "api/v1/nodes/none",
        ):
            _, document = await at.get(path)
            seen.add(check_document(document))
        async with at.session.post(f"{at.url}api/v1/what-if", data=JOB) as response:
            answer = await response.json()
            assert (response.status, answer["jobs"][0]["state"]) == (200, "scheduled"), answer
            seen.add(check_document(answer))
        core.tell(gang("new", 1, 1))
        snapshot = await at.snapshot()
        core.tell(gang("newer", 1, 1))
        async with at.stream(snapshot["epoch"], snapshot["sequence"]) as events:
            name, change = await anext(events)
            assert name == "change"
            seen.add(check_document(change))
    assert seen == {
        f"ringwise.io/{name}/v1"
        for name in (
            *("dashboard", "dashboard-change", "dashboard-job", "dashboard-node", "series", "why"),
            "error",
            "place",
        )
    }


@pytest.mark.parametrize("name", openapi.DOCUMENTS)
async def test_documents_about_the_whole_cluster_keep_to_their_schemas(name: str) -> None:
    core = TestCore()
    core.tell(gang("waits", 9, 8), hyper_node("leaf", 1, "n1"))
    async with dashboard(core) as at:
        status, document = await at.get(f"api/v1/{name}")
    assert status == 200, document
    schema = check_document(document)
    assert schema.split("/")[1] in (name, f"dashboard-{name}")
    if name == "hypernodes":
        assert [row["name"] for row in document["hypernodes"]] == ["leaf"]


async def test_a_job_with_its_pods_and_a_node_with_its_chips() -> None:
    core = TestCore()
    core.tell(gang("runs", 2, 8))
    async with dashboard(core) as at:
        _, job = await at.get("api/v1/jobs/default/runs")
        assert [(pod["node"], pod["chips"]) for pod in job["pods"]] == [
            ("n1", list(range(8))),
            ("n2", list(range(8))),
        ]
        assert job["board"] == "910-x8"
        _, found = await at.get("api/v1/nodes/n1")
        assert {chip["job"] for chip in found["chips"]} == {"default/runs"}
        assert found["node"]["holders"] == [job["job"]["id"]] * 8
        assert found["pods"][0]["chips"] == list(range(8))


async def test_a_vcjob_without_pods_says_how_many_must_start_together() -> None:
    core = TestCore()
    core.tell(job_of(task_of(replicas=8, chips=8, min_available=6)))
    async with dashboard(core) as at:
        _, job = await at.get("api/v1/jobs/default/train")
        assert (job["min_available"], job["job"]["pods"]) == (6, 8)


@pytest.mark.parametrize(
    "path",
    [
        "api/v1/jobs/default/none",
        "api/v1/jobs/default/none/why",
        "api/v1/jobs/default/none/history",
        "api/v1/nodes/none",
        "api/v1/unknown",
        "page/none.js",
        "page/../guard.py",
        "page/%2e%2e/guard.py",
        "page/..%2fguard.py",
        "page//etc/passwd",
        "page/%00",
        "elsewhere",
    ],
)
async def test_what_is_not_there_is_404(path: str) -> None:
    async with dashboard() as at:
        host, port = address_of(at)
        raw = await raw_answer(
            host, port, f"GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        )
        assert raw.startswith(b"HTTP/1.1 404 "), raw
        assert b'"error":{"code":"' in raw


async def test_a_what_if_changes_nothing() -> None:
    async with dashboard() as at:
        before = await at.snapshot()
        async with at.session.post(f"{at.url}api/v1/what-if", data=JOB) as response:
            assert (await response.json())["jobs"][0]["pods"][0]["node"] == "n1"
        after = await at.snapshot()
        assert (after["sequence"], after["nodes"]) == (before["sequence"], before["nodes"])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: [", "invalid YAML"),
        ("", "contains no job"),
        ("kind: Nothing", "manifest"),
        (JOB.replace("replicas: 1", "replicas: 999999"), "pods"),
        (JOB.replace("name: asked", "name: NOT/valid"), "name"),
        ("[" * 5000, "manifest"),
    ],
)
async def test_a_bad_manifest_is_refused_with_its_error(text: str, says: str) -> None:
    async with dashboard() as at, at.session.post(f"{at.url}api/v1/what-if", data=text) as response:
        document = await response.json()
        assert response.status == 400, document
        assert says in document["error"]["message"]


async def test_a_what_if_about_a_job_that_exists_is_refused() -> None:
    core = TestCore()
    core.tell(gang("train", 1, 1))
    text = JOB.replace("kind: Job", "kind: PodGroup").split("spec:")[0].replace("batch", "scheduling")
    text = text.replace("v1alpha1", "v1beta1").replace("asked", "train") + "spec: {minMember: 1}"
    async with dashboard(core) as at, at.session.post(f"{at.url}api/v1/what-if", data=text) as response:
        assert response.status == 400
        assert (await response.json())["error"]["code"] == "already-there"


async def test_the_openapi_document_names_every_route() -> None:
    document = openapi.openapi_document()
    assert document["openapi"].startswith("3.1")
    async with dashboard() as at:
        status, served = await at.get("api/v1/openapi.json")
        assert (status, served["paths"].keys()) == (200, document["paths"].keys())
        async with at.session.get(f"{at.url}api/") as response:
            page = await response.text()
        assert all(path in page for path in document["paths"])
        assert "<script" not in page
        assert "style=" not in page
    for part in _references(document):
        assert part in document["components"]["schemas"]


def _references(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"].rpartition("/")[2]} if "$ref" in value else set()
        return own.union(*map(_references, value.values()))
    return set().union(*map(_references, value)) if isinstance(value, list) else set()


async def test_names_of_objects_are_text() -> None:
    core = TestCore()
    name = "<script>\u202e&amp;'\"\n\r\0"
    core.tell(gang(name, 1, 1))
    async with dashboard(core) as at:
        snapshot = await at.snapshot()
        assert [row["name"] for row in snapshot["jobs"]] == [name]
        async with at.session.get(f"{at.url}api/v1/snapshot") as response:
            assert response.content_type == "application/json"
        core.tell(gang(name + "2", 1, 1))
        async with at.stream(snapshot["epoch"], snapshot["sequence"]) as events:
            _, change = await anext(events)
            assert {row["name"] for row in change["jobs"]} == {name + "2"}
