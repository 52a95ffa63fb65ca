"""A package with a plugin and an action is installed; every command that decides uses both."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ringwise.apps.admission.rules import ClusterFacts, judge_vcjob
from ringwise.apps.extensions import installed_specs, new_scheduler, read_user_configuration
from ringwise.apps.kube_scheduler import ComponentOptions, ConfigurationFile, serve
from ringwise.apps.live import read_cluster
from ringwise.cli.commands import cli
from ringwise.cli.commands import plugin as kubectl
from ringwise.kubeclient.config import direct
from ringwise.manifests.settings.boards import shipped_catalog
from ringwise.wellknown import PLUGIN_ENTRY_POINTS
from tests.kube.fake_api_server import FakeApiServer
from tests.kube.harness import CONFIG_MAPS, NODES, PODS, cluster_was_read, node, pod, server, until
from tests.lab.rig import SMALL, Terminal, job, running

SOURCE = """
from ringwise.framework.extension_points import JOB_VALID
from ringwise.framework.registry import ActionSpec, PluginSpec
from ringwise.reasons import SPECIFICATION, ReasonKind, Stage

FENCED = ReasonKind("fenced-job", Stage.VALIDATE, "the job {job} is fenced", ("rename it",), SPECIFICATION)
#: How many pending jobs the action saw in each cycle.
SEEN = []


class Fence:
    def __init__(self, option):
        self.word = option.arguments.get("word", "fenced")

    def open(self, session):
        session.register(JOB_VALID, self.valid)

    def valid(self, job):
        return FENCED(job=job.name) if self.word in job.name else None


def audit(session):
    SEEN.append(len(session.pending))


FENCE = PluginSpec("fence", "refuses jobs by their name", Fence, arguments=None)
AUDIT = ActionSpec("audit", "counts pending jobs", audit)
"""
CONFIGURATION = """\
actions: "enqueue, allocate, backfill, audit"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: topology910
  - name: fence
    arguments: {word: fenced}
- plugins:
  - name: drf
  - name: predicates
  - name: proportion
"""
NODE = """apiVersion: v1
kind: Node
metadata: {name: node-1, labels: {accelerator: huawei-Ascend910}}
status:
  allocatable: {cpu: "192", memory: 768Gi, pods: "110", huawei.com/Ascend910: "8"}
  conditions: [{type: Ready, status: "True"}]
"""
JOBS = (job("fenced-train"), job("train"))


class Installed:
    """The package, and what its action saw."""

    def __init__(self, folder: Path) -> None:
        self.configuration = folder / "volcano-scheduler.conf"
        self.configuration.write_text(CONFIGURATION)
        self.cluster = folder / "cluster.yaml"
        self.cluster.write_text("---\n".join((NODE, *JOBS)))

    @property
    def seen(self) -> list[int]:
        found: list[int] = sys.modules["fenced_package"].SEEN
        return found

    def json(self, *arguments: str, exit_code: int = 0) -> Any:
        given = [*arguments, "-f", str(self.cluster), "--config", str(self.configuration), "-o", "json"]
        ran = CliRunner(env={"RINGWISE_LAB": "/absent"}).invoke(cli, given)
        assert ran.exit_code == exit_code, ran.output
        return json.loads(ran.stdout)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Installed]:
    site = tmp_path / "site"
    metadata = site / "fenced_package-1.0.dist-info"
    metadata.mkdir(parents=True)
    (site / "fenced_package.py").write_text(SOURCE)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: fenced-package\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(
        f"[{PLUGIN_ENTRY_POINTS}]\nfence = fenced_package:FENCE\naudit = fenced_package:AUDIT\n"
    )
    monkeypatch.syspath_prepend(str(site))
    installed_specs.cache_clear()
    assert installed_specs()[1] == ()
    try:
        yield Installed(tmp_path)
    finally:
        installed_specs.cache_clear()
        sys.modules.pop("fenced_package", None)


def outcomes(jobs: list[dict[str, Any]]) -> dict[str, tuple[str, str | None]]:
    """The job's name -> its outcome, and the code of its reason."""
    return {one["name"]: (one["state"], one["reason"] and one["reason"]["code"]) for one in jobs}


EXPECTED = {"fenced-train": ("rejected", "fenced-job"), "train": ("scheduled", None)}


def test_place_and_the_replay_of_its_journal(installed: Installed, tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    answer = installed.json("place", "--journal", str(journal))
    assert outcomes(answer["jobs"]) == EXPECTED
    assert installed.seen == [2]
    again = CliRunner().invoke(cli, ["replay", str(journal), "-o", "json"])
    assert again.exit_code == 0, again.output
    assert json.loads(again.stdout)["identical"]
    assert installed.seen == [2, 2]


@pytest.mark.parametrize(
    ("command", "exit_code", "check"),
    [
        (("why", "fenced-train"), 0, lambda answer: answer["reason"]["code"] == "fenced-job"),
        (
            ("doctor",),
            0,
            lambda answer: "fenced-job" in [finding["code"] for finding in answer["findings"]],
        ),
    ],
    ids=["why", "doctor"],
)
def test_questions_about_manifests(
    installed: Installed, command: tuple[str, ...], exit_code: int, check: Callable[[Any], bool]
) -> None:
    assert check(installed.json(*command, exit_code=exit_code))
    assert installed.seen == [2]


def test_the_lab_and_the_replay_of_its_journal(installed: Installed, tmp_path: Path) -> None:
    folder = tmp_path / "lab"
    with running(folder, replace(SMALL, configuration=(CONFIGURATION, "conf"))) as lab:
        terminal = Terminal(folder)
        terminal.submit(*JOBS)
        jobs = terminal.json("get jobs")["jobs"]
        assert outcomes(jobs) == EXPECTED
        assert terminal.json("why fenced-train")["reason"]["code"] == "fenced-job"
        assert terminal.json("doctor")["errors"] == 0
        assert lab.live.view.history.incidents == []
    in_the_lab = len(installed.seen)
    assert in_the_lab > 0
    again = CliRunner().invoke(cli, ["replay", str(folder / "journal.jsonl"), "-o", "json"])
    assert again.exit_code == 0, again.output
    assert json.loads(again.stdout)["identical"]
    assert len(installed.seen) == 2 * in_the_lab
    # A lab that is started again reads its own configuration.
    with running(folder) as lab:
        assert lab.live.view.configuration.actions[-1] == "audit"


def test_admission(installed: Installed) -> None:
    cluster = ClusterFacts(shipped_catalog(), configuration=read_user_configuration(CONFIGURATION, "conf"))
    manifest = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "fenced-train", "namespace": "lab"},
        "spec": {
            "schedulerName": "volcano",
            "minAvailable": 1,
            "tasks": [
                {
                    "name": "worker",
                    "replicas": 1,
                    "template": {
                        "spec": {
                            "containers": [
                                {"name": "main", "resources": {"limits": {"huawei.com/Ascend910": 1}}}
                            ]
                        }
                    },
                }
            ],
        },
    }
    verdict = judge_vcjob(json.dumps(manifest).encode(), cluster)
    assert [reason.code for reason in verdict.refusals] == ["fenced-job"]


def configuration_map() -> dict[str, Any]:
    return {
        "metadata": {"name": "volcano-scheduler-configmap", "namespace": "volcano-system"},
        "data": {"volcano-scheduler.conf": CONFIGURATION},
    }


@pytest.mark.parametrize("where", ["cluster", "file"])
async def test_the_scheduler_on_kubernetes(installed: Installed, where: str) -> None:
    # Without PodGroups both pods are decided in the first cycle.
    options = ComponentOptions(metrics_address="", health_address="", leader_elect=False, pod_groups=False)
    file = None
    if where == "file":
        options = replace(options, scheduler_conf=installed.configuration)
        file = ConfigurationFile(installed.configuration)
    else:
        options = replace(options, configuration_map=("volcano-system", "volcano-scheduler-configmap"))
    stop = asyncio.Event()
    async with FakeApiServer() as api:
        api.put(NODES, node("node-1"))
        api.put(CONFIG_MAPS, configuration_map())
        api.put(PODS, pod("fenced-train", 1))
        api.put(PODS, pod("train", 1))
        task = asyncio.create_task(
            serve(options, direct(api.url), file, shipped_catalog(()), lambda line: None, stop)
        )
        await until(lambda: api.get(PODS, "default/train")["spec"].get("nodeName"))
        stop.set()
        await task
        assert "nodeName" not in api.get(PODS, "default/fenced-train")["spec"]
    assert installed.seen[0] == 2


async def test_kubectl(installed: Installed, monkeypatch: pytest.MonkeyPatch) -> None:
    async with server() as (api, client):
        api.put(NODES, node("node-1"))
        api.put(CONFIG_MAPS, configuration_map())
        api.put(PODS, pod("fenced-train", 1))
        api.put(PODS, pod("train", 1))
        cluster_was_read(monkeypatch, await read_cluster(client))
    arguments = ["why", "fenced-train", "-o", "json"]
    ran = await asyncio.to_thread(CliRunner().invoke, kubectl, arguments, catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    assert json.loads(ran.stdout)["reason"]["code"] == "fenced-job"
    assert installed.seen == [2]


def test_without_the_package_its_names_are_unknown(installed: Installed) -> None:
    assert "audit" in new_scheduler(read_user_configuration(CONFIGURATION, "conf")).view.configuration.actions
    (Path(sys.path[0]) / "fenced_package.py").write_text("import absent_module\n")
    sys.modules.pop("fenced_package", None)
    installed_specs.cache_clear()
    ran = CliRunner().invoke(
        cli, ["place", "-f", str(installed.cluster), "--config", str(installed.configuration)]
    )
    assert ran.exit_code == 2
    lines = ran.stderr.splitlines()
    assert 'actions: Invalid value: "audit": must be one of' in lines[0]
    assert 'name: Invalid value: "fence": must be one of' in lines[1]
    assert lines[2].endswith(
        "installed packages: entry point audit = fenced_package:AUDIT: "
        "ModuleNotFoundError: No module named 'absent_module'"
    )
