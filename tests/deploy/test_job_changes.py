"""`kubectl ringwise suspend`, `resume` and `requeue` on a stand-in for a cluster."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from ringwise.apps.job_changes import JobChanges
from ringwise.apps.suspension import JobChangeRequest, NotPossibleError
from ringwise.cli.commands import plugin
from ringwise.kubeclient.client import ApiError
from tests.device.test_commands import kubeconfig
from tests.event_loop import run
from tests.kube.fake_api_server import FakeApiServer, Object
from tests.kube.harness import JOBS, PODS, QUEUES, InstantClock, pod, server

COMMANDS = "/apis/bus.volcano.sh/v1alpha1/commands"
BATCH_JOBS = "/apis/batch/v1/jobs"
ASCEND_JOBS = "/apis/mindxdl.gitee.com/v1/ascendjobs"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
DEPLOYMENTS = "/apis/apps/v1/deployments"
PHASES = {"AbortJob": "Aborting", "ResumeJob": "Restarting", "RestartJob": "Restarting"}


def vcjob(phase: str = "Running", *, running: int = 1, **more: Any) -> Object:
    container = {"name": "c", "resources": {"limits": {"huawei.com/Ascend910": "8"}}}
    task = {"name": "w", "replicas": 1, "template": {"spec": {"containers": [container]}}}
    return {
        "metadata": {"name": "train", "namespace": "default", **more},
        "spec": {"queue": "default", "minAvailable": 1, "tasks": [task]},
        "status": {"state": {"phase": phase}, "running": running},
    }


def batch_job(*, suspend: bool = False, active: int = 1, condition: str = "") -> Object:
    conditions = [{"type": condition, "status": "True"}] if condition else []
    return {
        "metadata": {"name": "train", "namespace": "default"},
        "spec": {"suspend": suspend},
        "status": {"active": active, "conditions": conditions},
    }


def ascend_job(*, suspend: bool = False) -> Object:
    return {
        "metadata": {"name": "train", "namespace": "default"},
        "spec": {"runPolicy": {"suspend": suspend}},
    }


class Controllers(InstantClock):
    """Time that passes at once, and what controllers do meanwhile."""

    def __init__(self, api: FakeApiServer, *, take: bool = True, obey: bool = True) -> None:
        super().__init__()
        self._api, self._take, self._obey = api, take, obey
        self.taken: list[tuple[str, str, str]] = []

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds)
        for command in list(self._api.all(COMMANDS)) if self._take else ():
            self._api.remove(COMMANDS, f"default/{command['metadata']['name']}")
            self.taken.append((command["action"], command["target"]["uid"], command["message"]))
            if self._obey:
                job = self._api.get(JOBS, "default/train")
                job["status"]["state"]["phase"] = PHASES[command["action"]]
                job["status"]["version"] = job["status"].get("version", 0) + 1
                self._api.put(JOBS, job)
        for job in self._api.all(BATCH_JOBS):
            if job["spec"]["suspend"] and self._obey:
                job["status"]["active"] = 0
                self._api.put(BATCH_JOBS, job)


def changed(
    wish: JobChangeRequest,
    prepare: Callable[[FakeApiServer], object],
    *,
    name: str = "train",
    take: bool = True,
    obey: bool = True,
) -> tuple[dict[str, Any] | str, FakeApiServer, Controllers]:
    """The document or what was refused, the objects afterwards, and what controllers took."""
    found: list[tuple[dict[str, Any] | str, FakeApiServer, Controllers]] = []

    async def test() -> None:
        async with server() as (api, client):
            prepare(api)
            clock = Controllers(api, take=take, obey=obey)
            said: dict[str, Any] | str
            try:
                changes = JobChanges(client, "default", name, 30, clock)
                said = msgspec.to_builtins(await changes.carry_out(wish, "by anna"))
            except (NotPossibleError, ApiError) as error:
                said = str(error)
            found.append((said, api, clock))

    run(test())
    return found[0]


# -- vcjobs


@pytest.mark.parametrize(
    ("action", "phase", "command"),
    [
        ("suspend", "Running", "AbortJob"),
        ("resume", "Aborted", "ResumeJob"),
        ("requeue", "Running", "RestartJob"),
    ],
)
def test_a_vcjob_is_asked_with_a_command(action: str, phase: str, command: str) -> None:
    said, api, clock = changed(JobChangeRequest(action), lambda api: api.put(JOBS, vcjob(phase)))
    assert isinstance(said, dict), said
    assert (said["kind"], said["action"], said["namespace"], said["name"]) == (
        "vcjob",
        action,
        "default",
        "train",
    )
    uid = api.get(JOBS, "default/train")["metadata"]["uid"]
    assert clock.taken == [(command, uid, "by anna")]


def test_a_command_that_nobody_takes_is_taken_back() -> None:
    said, api, _ = changed(JobChangeRequest("suspend"), lambda api: api.put(JOBS, vcjob()), take=False)
    assert isinstance(said, str)
    assert said.startswith("no vcjob controller accepted the Command train-abortjob-")
    assert "nothing was changed; is Volcano's controller running, or `ringwise run controller`" in said
    assert api.all(COMMANDS) == []


def test_a_command_that_is_taken_without_effect_says_so() -> None:
    said, _, _ = changed(JobChangeRequest("suspend"), lambda api: api.put(JOBS, vcjob()), obey=False)
    assert said == (
        "the controller accepted the Command AbortJob, and vcjob default/train did not change within 30s: "
        "kubectl describe vcjob -n default train shows its events"
    )


def test_queue_and_priority_are_changed_in_place() -> None:
    def prepare(api: FakeApiServer) -> None:
        api.put(JOBS, vcjob("Aborted"))
        api.put(QUEUES, {"metadata": {"name": "night"}, "status": {"state": "Open"}})
        api.put(CLASSES, {"metadata": {"name": "low"}, "value": 1})

    said, api, clock = changed(JobChangeRequest("requeue", "night", "low"), prepare)
    assert isinstance(said, dict)
    assert (
        said["message"]
        == "vcjob default/train has queue night and priority class low now and stays suspended"
    )
    spec = api.get(JOBS, "default/train")["spec"]
    assert (spec["queue"], spec["priorityClassName"], clock.taken) == ("night", "low", [])


@pytest.mark.parametrize(
    ("wish", "given", "said"),
    [
        (
            JobChangeRequest("requeue", "nigt"),
            vcjob("Aborted"),
            'queue "nigt" not found; must be one of',
        ),
        (
            JobChangeRequest("requeue", "shut"),
            vcjob("Aborted"),
            "queue shut is Closed: only an Open queue",
        ),
        (
            JobChangeRequest("requeue", None, "lo"),
            vcjob(),
            'priority class "lo" not found; must be one of',
        ),
        (
            JobChangeRequest("requeue", "night"),
            vcjob(),
            "vcjob default/train is Running: only a job that is suspended, or",
        ),
        (
            JobChangeRequest("requeue", "night"),
            vcjob("Pending"),
            "vcjob default/train is Pending: only a job that is",
        ),
        (
            JobChangeRequest("suspend"),
            vcjob("Aborting"),
            "vcjob default/train is already suspended; to resume it: ",
        ),
        (
            JobChangeRequest("suspend"),
            vcjob("Completed"),
            "vcjob default/train is Completed: a finished job cannot be",
        ),
        (JobChangeRequest("resume"), vcjob("Pending"), "vcjob default/train is not suspended: it is Pending"),
        (
            JobChangeRequest("requeue"),
            vcjob("Pending", running=0),
            "vcjob default/train is already pending in queue default; ",
        ),
        (JobChangeRequest("requeue"), vcjob("Restarting"), "vcjob default/train is already being requeued"),
        (
            JobChangeRequest("suspend"),
            vcjob(deletionTimestamp="2026-01-01T00:00:00Z"),
            "vcjob default/train is being deleted",
        ),
    ],
)
def test_what_is_refused_without_a_write(wish: JobChangeRequest, given: Object, said: str) -> None:
    def prepare(api: FakeApiServer) -> None:
        api.put(JOBS, given)
        api.put(QUEUES, {"metadata": {"name": "night"}, "status": {"state": "Open"}})
        api.put(QUEUES, {"metadata": {"name": "shut"}, "status": {"state": "Closed"}})
        api.put(CLASSES, {"metadata": {"name": "low"}, "value": 1})

    told, api, _ = changed(wish, prepare)
    assert isinstance(told, str), told
    assert told.startswith(said)
    assert {method for method, _ in api.requests} == {"GET"}


# -- jobs with a field of their own


def test_a_job_of_kubernetes_has_its_own_field() -> None:
    said, api, _ = changed(JobChangeRequest("suspend"), lambda api: api.put(BATCH_JOBS, batch_job()))
    assert isinstance(said, dict)
    assert (said["kind"], said["message"]) == ("Job", "Job default/train suspended; its chips are released")
    assert api.get(BATCH_JOBS, "default/train")["spec"]["suspend"] is True
    said, api, _ = changed(
        JobChangeRequest("resume"), lambda api: api.put(BATCH_JOBS, batch_job(suspend=True))
    )
    assert api.get(BATCH_JOBS, "default/train")["spec"]["suspend"] is False


def test_a_job_of_kubernetes_is_requeued_when_its_pods_are_gone() -> None:
    said, api, _ = changed(JobChangeRequest("requeue"), lambda api: api.put(BATCH_JOBS, batch_job()))
    assert isinstance(said, dict)
    job = api.get(BATCH_JOBS, "default/train")
    assert (job["spec"]["suspend"], job["status"]["active"]) == (False, 0)
    said, api, _ = changed(
        JobChangeRequest("requeue"), lambda api: api.put(BATCH_JOBS, batch_job()), obey=False
    )
    assert said == (
        "Job default/train is suspended, but its pods have not terminated after 30s: it stays suspended; "
        "then: ringwise resume default/train"
    )
    assert api.get(BATCH_JOBS, "default/train")["spec"]["suspend"] is True


def test_an_ascend_job_has_it_in_its_run_policy() -> None:
    said, api, _ = changed(JobChangeRequest("suspend"), lambda api: api.put(ASCEND_JOBS, ascend_job()))
    assert isinstance(said, dict)
    assert said["kind"] == "AscendJob"
    assert api.get(ASCEND_JOBS, "default/train")["spec"]["runPolicy"]["suspend"] is True


@pytest.mark.parametrize(
    ("wish", "where", "given", "said"),
    [
        (
            JobChangeRequest("suspend"),
            BATCH_JOBS,
            batch_job(suspend=True),
            "Job default/train is already suspended; to resume",
        ),
        (JobChangeRequest("resume"), BATCH_JOBS, batch_job(), "Job default/train is not suspended"),
        (
            JobChangeRequest("requeue"),
            BATCH_JOBS,
            batch_job(suspend=True),
            "Job default/train is suspended; to queue it again: ringwise resume",
        ),
        (
            JobChangeRequest("suspend"),
            BATCH_JOBS,
            batch_job(condition="Complete"),
            "Job default/train is Complete: a finished job cannot be suspended; submit it again",
        ),
        (
            JobChangeRequest("requeue", None, "low"),
            BATCH_JOBS,
            batch_job(),
            "queue and priority of Job default/train are part of its pod template, which is immutable: ",
        ),
        (
            JobChangeRequest("requeue"),
            ASCEND_JOBS,
            ascend_job(),
            "AscendJob default/train cannot be requeued in one step: ",
        ),
        (
            JobChangeRequest("suspend"),
            DEPLOYMENTS,
            {"metadata": {"name": "train", "namespace": "default"}},
            "Deployment default/train cannot be suspended, only vcjobs, Jobs of Kubernetes and AscendJobs "
            "can; to give its chips back: kubectl scale deployment -n default train --replicas=0",
        ),
        (
            JobChangeRequest("suspend"),
            PODS,
            pod("train", 1),
            "Pod default/train cannot be suspended, only vcjobs, Jobs of Kubernetes and AscendJobs can; to "
            "give its chips back: kubectl delete pod -n default train",
        ),
    ],
)
def test_what_is_refused_of_others_without_a_write(
    wish: JobChangeRequest, where: str, given: Object, said: str
) -> None:
    def prepare(api: FakeApiServer) -> None:
        api.put(where, given)
        api.put(CLASSES, {"metadata": {"name": "low"}, "value": 1})

    told, api, _ = changed(wish, prepare)
    assert isinstance(told, str), told
    assert told.startswith(said)
    assert {method for method, _ in api.requests} == {"GET"}


# -- names and rights


def test_a_job_that_is_not_there() -> None:
    said, _, _ = changed(JobChangeRequest("suspend"), lambda api: api.put(JOBS, vcjob()), name="trian")
    assert said == (
        'job "trian" not found in namespace default among vcjobs, Jobs of Kubernetes and '
        'AscendJobs; use -n for another namespace; did you mean "train"?'
    )


def test_a_name_of_two_kinds_is_not_guessed() -> None:
    def prepare(api: FakeApiServer) -> None:
        api.put(JOBS, vcjob())
        api.put(BATCH_JOBS, batch_job())

    said, _, _ = changed(JobChangeRequest("suspend"), prepare)
    assert said == (
        "default/train matches several jobs (jobs.batch.volcano.sh and jobs.batch): delete one of them"
    )


async def test_who_may_do_it_is_the_api_servers_word(tmp_path: Path) -> None:
    results: list[tuple[int, str]] = []
    async with FakeApiServer() as api:
        api.put(JOBS, vcjob())
        config = kubeconfig(tmp_path, api.url)
        api.fault(lambda method, path: method == "POST" and path.endswith("/commands"), status=403)
        arguments = ["suspend", "default/train", "--kubeconfig", config]
        ran = await asyncio.to_thread(CliRunner().invoke, plugin, arguments)
        results.append((ran.exit_code, ran.stderr.splitlines()[-1]))
        arguments = ["suspend", "default/train", "-n", "other", "--kubeconfig", config]
        ran = await asyncio.to_thread(CliRunner().invoke, plugin, arguments)
        results.append((ran.exit_code, ran.stderr.splitlines()[-1]))
        api.put(BATCH_JOBS, {**batch_job(), "metadata": {"name": "batch", "namespace": "default"}})
        arguments = ["suspend", "batch", "--kubeconfig", config, "-o", "json"]
        ran = await asyncio.to_thread(CliRunner().invoke, plugin, arguments)
        results.append((ran.exit_code, json.loads(ran.stdout)["message"]))
        api.put(BATCH_JOBS, {**batch_job(), "metadata": {"name": "far", "namespace": "lab"}})
        api.put(JOBS, vcjob())
        api.put(BATCH_JOBS, {**batch_job(), "metadata": {"name": "train", "namespace": "lab"}})
        for name in ("far", "train", "nobody"):
            arguments = ["suspend", name, "-A", "--kubeconfig", config]
            ran = await asyncio.to_thread(CliRunner().invoke, plugin, arguments)
            results.append((ran.exit_code, (ran.stdout or ran.stderr).splitlines()[-1]))
    (refused, other, done, *everywhere) = results
    assert everywhere == [
        (0, "Job lab/far suspended; its chips are released"),
        (2, "ringwise: 2 namespaces have a job train; use one of default, lab"),
        (2, 'ringwise: job "nobody" not found in any namespace'),
    ]
    assert refused[0] == 1
    assert refused[1].startswith("ringwise: the API server rejected the request: 403 ")
    wrong = "default/train has namespace default, but -n is other: they cannot be combined"
    assert other == (2, f"ringwise: {wrong}")
    assert done == (0, "Job default/batch suspended; its chips are released")
