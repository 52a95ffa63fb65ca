"""Commands of the controller on the server: in order for each job, once, and only while we lead."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from ringwise.kube.run.leader_election import Fence
from ringwise.kube.watch.kinds import Place
from ringwise.kube.watch.reflector import Reflector
from ringwise.kube.write.binder import Binder
from ringwise.kube.write.executor import Executor
from ringwise.kube.write.job_commands import Wishes
from ringwise.kube.write.ordered_work import Persistence
from ringwise.kube.write.pod_templates import JobTemplates, TemplateStore
from ringwise.kube.write.status import StatusWriter
from ringwise.kubeclient.resources import JOB_COMMANDS
from ringwise.messages import events as ev
from ringwise.messages.commands import (
    Command,
    CreateGroup,
    CreatePod,
    DeleteGroup,
    DeleteJob,
    DeletePod,
    Evict,
    PodAdditions,
    Publish,
    SetJobStatus,
)
from ringwise.messages.events import EvictFailed
from ringwise.state.model import Owner, Pod, PodClass, PodGroup
from tests.kube.harness import CONFIG_MAPS, EVENTS, GROUPS, JOBS, PODS, JumpingClock, pod, run, server, until
from tests.kube.standin import StandIn

JOB = {
    "metadata": {"name": "train", "namespace": "default", "uid": "j1"},
    "spec": {
        "tasks": [{"name": "worker", "template": {"spec": {"containers": [{"name": "main", "image": "i"}]}}}],
        "volumes": [{"mountPath": "/out", "volumeClaim": {"accessModes": ["ReadWriteMany"]}}],
    },
}
#: Where root keeps its keys; no folder of this machine.
SSH_FOLDER = "/root/.ssh"
COMMANDS = "/apis/bus.volcano.sh/v1alpha1/commands"


class Carrying:
    def __init__(
        self,
        standin: StandIn,
        executor: Executor,
        fence: Fence,
        failed: list[EvictFailed],
        templates: TemplateStore,
    ) -> None:
        self.standin = standin
        self.executor = executor
        self.fence = fence
        self.failed = failed
        self.templates = templates

    async def do(self, *commands: Command) -> None:
        self.executor.carry_out(commands)
        await self.executor.finish()

    def writes(self) -> list[str]:
        return [
            f"{method} {path.rpartition('/')[2]}" for method, path in self.standin.requests if method != "GET"
        ]


@asynccontextmanager
async def carrying() -> AsyncIterator[Carrying]:
    async with server() as (standin, client):
        clock = JumpingClock()
        fence = Fence(clock)
        fence.open_for_good()
        templates = TemplateStore()
        templates.put("default/train", JobTemplates.of(msgspec.Raw(msgspec.json.encode(JOB))))
        standin.put(JOBS, {**JOB})
        binder = Binder(client, fence, clock=clock, failed=lambda failure: None)
        status = StatusWriter(client, fence, {}, clock=clock)
        failed: list[EvictFailed] = []
        executor = Executor(client, binder, status, templates, Persistence(fence, clock), failed.append)
        yield Carrying(standin, executor, fence, failed, templates)
        await executor.stop()


def worker(index: int, uid: str = "x") -> Pod:
    return Pod(uid, "default", f"train-worker-{index}", PodClass(), task="worker")


def job_state(one: Carrying) -> Any:
    return one.standin.get(JOBS, "default/train").get("status", {}).get("state", {}).get("phase")


def test_a_status_stands_before_pods_are_deleted_for_it() -> None:
    async def test() -> None:
        async with carrying() as one:
            uid = one.standin.put(PODS, pod("train-worker-0"))["metadata"]["uid"]
            one.standin.fault("jobs/train/status", status=503, times=6)
            await one.do(
                SetJobStatus("default/train", "Restarting", retries=1),
                DeletePod(uid, "default", "train-worker-0"),
            )
            assert job_state(one) == "Restarting"
            assert one.writes() == ["PATCH status"] * 7 + ["DELETE train-worker-0"]

    run(test())


def test_jobs_do_not_wait_for_each_other() -> None:
    async def test() -> None:
        async with carrying() as one:
            one.standin.put(JOBS, {"metadata": {"name": "other", "namespace": "default"}})
            one.standin.fault("jobs/train/status", status=503, times=10**6)
            one.executor.carry_out(
                [SetJobStatus("default/train", "Running"), SetJobStatus("default/other", "Running")]
            )
            await until(lambda: one.standin.get(JOBS, "default/other").get("status"))
            one.fence.close()

    run(test())


def test_pods_come_with_what_they_need_made_once() -> None:
    async def test() -> None:
        async with carrying() as one:
            additions = PodAdditions(
                subdomain="train", mounts=((SSH_FOLDER, "Secret", "train-ssh"),), isolated=True
            )
            await one.do(*(CreatePod(worker(index), "default/train", additions) for index in range(3)))
            assert len(one.standin.all(PODS)) == 3
            assert one.writes().count("POST services") == 1
            assert one.writes().count("POST secrets") == 1
            assert one.writes().count("POST networkpolicies") == 1
            claim = one.standin.get("/api/v1/persistentvolumeclaims", "default/train-volume-0")
            assert claim["spec"] == {"accessModes": ["ReadWriteMany"]}
            assert claim["metadata"]["ownerReferences"][0]["uid"] == "j1"
            secret = one.standin.get("/api/v1/secrets", "default/train-ssh")
            assert secret["stringData"]["authorized_keys"] == secret["stringData"]["id_rsa.pub"]
            # Once more: everything is there already, and nobody complains.
            await one.do(CreatePod(worker(0), "default/train", additions))
            assert one.standin.all(EVENTS) == []

    run(test())


@pytest.mark.parametrize("open_to_all", [False, True])
def test_pods_of_a_job_are_reached_by_each_other_only(open_to_all: bool) -> None:
    async def test() -> None:
        async with carrying() as one:
            additions = PodAdditions(subdomain="train", isolated=not open_to_all, found_early=open_to_all)
            await one.do(CreatePod(worker(0), "default/train", additions))
            service = one.standin.get("/api/v1/services", "default/train")
            assert service["spec"]["publishNotReadyAddresses"] is open_to_all
            walls = one.standin.all("/apis/networking.k8s.io/v1/networkpolicies")
            assert len(walls) == (not open_to_all)
            for wall in walls:
                pods = {"volcano.sh/job-name": "train", "volcano.sh/job-namespace": "default"}
                assert wall["metadata"]["name"] == "train"
                assert wall["metadata"]["ownerReferences"][0]["uid"] == "j1"
                assert wall["spec"] == {
                    "podSelector": {"matchLabels": pods},
                    "ingress": [{"from": [{"podSelector": {"matchLabels": pods}}]}],
                    "policyTypes": ["Ingress"],
                }

    run(test())


def test_a_pod_that_the_server_refuses_is_told_on_its_job() -> None:
    async def test() -> None:
        async with carrying() as one:
            one.standin.fault("POST /api/v1/namespaces/default/pods", status=403)
            await one.do(CreatePod(worker(0), "default/train"))
            (event,) = one.standin.all(EVENTS)
            assert (event["reason"], event["involvedObject"]["name"]) == ("FailedCreate", "train")

    run(test())


def test_a_pod_of_a_job_that_is_gone_is_not_made() -> None:
    async def test() -> None:
        async with carrying() as one:
            await one.do(CreatePod(worker(0), "default/deleted"))
            assert one.standin.all(PODS) == []

    run(test())


def test_a_group_is_made_or_brought_up_to_date() -> None:
    async def test() -> None:
        async with carrying() as one:
            group = PodGroup("default", "train-j1", min_member=2, owner=Owner("Job", "train", "j1"))
            await one.do(CreateGroup(group))
            found = one.standin.get(GROUPS, "default/train-j1")
            found["status"] = {"phase": "Running"}
            group.min_member = 3
            await one.do(CreateGroup(group))
            found = one.standin.get(GROUPS, "default/train-j1")
            assert (found["spec"]["minMember"], found["status"]["phase"]) == (3, "Running")
            await one.do(DeleteGroup("default/train-j1"), DeleteGroup("default/train-j1"))
            assert one.standin.all(GROUPS) == []

    run(test())


def test_a_namesake_is_neither_deleted_nor_evicted() -> None:
    async def test() -> None:
        async with carrying() as one:
            one.standin.put(PODS, pod("train-worker-0"))
            await one.do(
                DeletePod("earlier", "default", "train-worker-0"),
                Evict("earlier", "default", "train-worker-0", "preempt"),
            )
            assert len(one.standin.all(PODS)) == 1

    run(test())


def test_an_eviction_waits_for_its_budget() -> None:
    async def test() -> None:
        async with carrying() as one:
            uid = one.standin.put(PODS, pod("victim"))["metadata"]["uid"]
            one.standin.fault("/eviction", status=429, times=2)
            await one.do(Evict(uid, "default", "victim", "preempt"))
            assert one.standin.all(PODS) == []
            assert "because of preempt" in one.standin.all(EVENTS)[0]["message"]

    run(test())


def test_an_eviction_that_is_given_up_is_told_to_the_core() -> None:
    async def test() -> None:
        async with carrying() as one:
            uid = one.standin.put(PODS, pod("victim"))["metadata"]["uid"]
            await one.do(Evict("earlier", "default", "victim", "preempt"))
            await one.do(Evict("gone", "default", "nobody", "preempt"))
            assert one.failed == []
            one.standin.fault("/eviction", status=503, times=20)
            await one.do(Evict(uid, "default", "victim", "preempt"))
            assert one.failed == [EvictFailed(uid)]

    run(test())


def test_a_template_that_cannot_be_used_is_told_and_the_status_is_written_all_the_same() -> None:
    async def test() -> None:
        async with carrying() as one:
            container = {"name": "main", "image": "i", "volumeMounts": ["nonsense"]}
            tasks = [{"name": "worker", "template": {"spec": {"containers": [container]}}}]
            broken = {**JOB, "spec": {"tasks": tasks}}
            one.templates.put("default/train", JobTemplates.of(msgspec.Raw(msgspec.json.encode(broken))))
            additions = PodAdditions(mounts=((SSH_FOLDER, "Secret", "train-ssh"),))
            await one.do(
                CreatePod(worker(0), "default/train", additions), SetJobStatus("default/train", "Pending")
            )
            assert job_state(one) == "Pending"
            assert one.standin.all(PODS) == []
            (told,) = one.standin.all(EVENTS)
            assert (told["reason"], told["involvedObject"]["name"]) == ("FailedCreate", "train")
            assert "the template of task worker cannot be used" in told["message"]

    run(test())


def test_a_config_map_is_written_whether_it_exists_or_not() -> None:
    async def test() -> None:
        async with carrying() as one:
            for text in ("one", "two"):
                await one.do(Publish("default", "train-svc", {"worker.host": text}))
            found = one.standin.get(CONFIG_MAPS, "default/train-svc")
            assert found["data"] == {"worker.host": "two"}
            assert found["metadata"]["ownerReferences"][0]["name"] == "train"

    run(test())


def test_a_job_whose_time_has_passed_is_deleted_as_itself() -> None:
    async def test() -> None:
        async with carrying() as one:
            await one.do(DeleteJob("default/train"), SetJobStatus("default/train", "Completed"))
            assert one.standin.all(JOBS) == []

    run(test())


def test_a_wish_is_deleted_before_it_is_granted_and_only_by_the_leader() -> None:
    async def test() -> None:
        async with server() as (standin, client):
            clock = JumpingClock()
            fence = Fence(clock)
            fence.open_for_good()
            granted: list[ev.Event] = []
            wishes = Wishes(client, Persistence(fence, clock), granted.extend)
            reflector = Reflector(
                client, Place(JOB_COMMANDS, optional=True), wishes, granted.extend, clock=clock
            )
            for name, kind in (("mine", "Job"), ("queue", "Queue")):
                standin.put(
                    COMMANDS,
                    {
                        "metadata": {"name": name, "namespace": "default"},
                        "action": "AbortJob",
                        "target": {"kind": kind, "name": "train"},
                    },
                )
            reflector.start()
            await reflector.synced.wait()
            assert granted == []
            assert len(standin.all(COMMANDS)) == 2
            wishes.lead()
            await until(lambda: granted)
            assert granted == [ev.JobCommand("default/train", "AbortJob")]
            assert [one["metadata"]["name"] for one in standin.all(COMMANDS)] == ["queue"]
            await reflector.stop()
            await wishes.stop()

    run(test())
