"""Commands of the controller: in order for each job, once, and only while leading."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import msgspec

from ringwise.kube.watch.job_templates import JobTemplates
from ringwise.kube.watch.kinds import WatchTarget
from ringwise.kube.watch.reflector import Reflector
from ringwise.kube.write.fence import Fence
from ringwise.kube.write.job_commands import JobCommands
from ringwise.kubeclient.resources import JOB_COMMANDS
from ringwise.kubeclient.retry import Retrier
from ringwise.messages import events as ev
from ringwise.messages.commands import (
    AnnotateGroup,
    AnnotatePod,
    Bind,
    CreateGroup,
    CreatePod,
    DeleteGroup,
    DeleteJob,
    DeletePod,
    Evict,
    PodAdditions,
    Publish,
    RecordQueueEvent,
    RecordVcJobEvent,
    SetJobStatus,
)
from ringwise.messages.event_reasons import EventReason
from ringwise.messages.events import EvictFailed
from ringwise.state.model import NetworkTopology, Owner, PodGroup
from tests.kube.harness import (
    CONFIG_MAPS,
    EVENTS,
    GROUPS,
    JOBS,
    PODS,
    InstantClock,
    ManualClock,
    group,
    pod,
    server,
    until,
)
from tests.kube.write.executing import JOB, executing, job_state, worker

#: The folder of root's keys in a container.
SSH_FOLDER = "/root/.ssh"
COMMANDS = "/apis/bus.volcano.sh/v1alpha1/commands"


async def test_F1_the_record_of_a_rescheduling_is_written_before_its_pods_are_deleted() -> None:
    async with executing() as one:
        uids = [one.api.put(PODS, pod(f"train-{n}"))["metadata"]["uid"] for n in range(40)]
        one.api.fault("ringwise-rescheduling", status=503, times=2)
        await one.do(
            Publish("volcano-system", "ringwise-rescheduling", {"rescheduling.json": "{}"}),
            *(DeletePod(uid, "default", f"train-{n}", fault=True) for n, uid in enumerate(uids)),
        )
        writes = [write for write in one.writes() if "events" not in write]
        assert writes[:4] == [*["PATCH ringwise-rescheduling"] * 3, "POST configmaps"]
        assert sorted(writes[4:]) == sorted(f"DELETE train-{n}" for n in range(40))
        # However long the server cannot write: it could not create the replacements either.
        one.api.fault("ringwise-rescheduling", status=503, times=100)
        uid = one.api.put(PODS, pod("later"))["metadata"]["uid"]
        await one.do(
            Publish("volcano-system", "ringwise-rescheduling", {"rescheduling.json": "[]"}),
            DeletePod(uid, "default", "later", fault=True),
        )
        writes = one.writes()
        assert writes.count("PATCH ringwise-rescheduling") == 3 + 101
        assert writes.index("DELETE later") > len(writes) - 1 - writes[::-1].index(
            "PATCH ringwise-rescheduling"
        )
        # A record that is forbidden does not keep faulty pods for ever.
        one.api.fault("ringwise-rescheduling", status=403, times=100)
        uid = one.api.put(PODS, pod("last"))["metadata"]["uid"]
        await one.do(
            Publish("volcano-system", "ringwise-rescheduling", {"rescheduling.json": "{}"}),
            DeletePod(uid, "default", "last", fault=True),
        )
        assert "DELETE last" in one.writes()


async def test_the_status_is_written_before_pods_are_deleted() -> None:
    async with executing() as one:
        uid = one.api.put(PODS, pod("train-worker-0"))["metadata"]["uid"]
        one.api.fault("jobs/train/status", status=503, times=6)
        await one.do(
            SetJobStatus("default/train", "Restarting", retries=1),
            DeletePod(uid, "default", "train-worker-0"),
        )
        assert job_state(one) == "Restarting"
        assert one.writes() == ["PATCH status"] * 7 + ["DELETE train-worker-0"]


async def test_jobs_do_not_wait_for_each_other() -> None:
    async with executing() as one:
        one.api.put(JOBS, {"metadata": {"name": "other", "namespace": "default"}})
        one.api.fault("jobs/train/status", status=503, times=10**6)
        one.executor.execute(
            [SetJobStatus("default/train", "Running"), SetJobStatus("default/other", "Running")]
        )
        await until(lambda: one.api.get(JOBS, "default/other").get("status"))
        one.fence.close()


async def test_jobs_do_not_wait_for_many_jobs_whose_writes_always_fail() -> None:
    """The API server answers 500 if a status makes a large object too large for its storage."""
    async with executing(ManualClock()) as one:
        one.api.fault("jobs/large", status=500, times=10**6)
        one.executor.execute([SetJobStatus(f"default/large-{number}", "Running") for number in range(80)])
        await until(lambda: one.api.count("PATCH") >= 64)
        one.executor.execute([SetJobStatus("default/train", "Running")])
        await until(lambda: job_state(one) == "Running")


async def test_jobs_do_not_wait_for_the_pods_of_a_job_whose_objects_cannot_be_created() -> None:
    clock = ManualClock()
    async with executing(clock) as one:
        one.api.put(JOBS, {"metadata": {"name": "other", "namespace": "default"}})
        one.api.fault("POST /api/v1/namespaces/default/persistentvolumeclaims", status=500, times=10**6)
        one.executor.execute([CreatePod(worker(index), "default/train") for index in range(80)])
        await until(lambda: clock.sleeping)
        one.executor.execute([SetJobStatus("default/other", "Running")])
        await until(lambda: one.api.get(JOBS, "default/other").get("status"))


async def test_pods_that_are_requested_again_do_not_accumulate_behind_a_status() -> None:
    """The controller requests them every ten seconds, for as long as the status cannot be written."""
    clock = ManualClock()
    async with executing(clock) as one:
        uid = one.api.put(PODS, pod("surplus"))["metadata"]["uid"]
        one.api.fault("jobs/train/status", status=500)
        one.executor.execute([SetJobStatus("default/train", "Pending")])
        await until(lambda: clock.sleeping)
        for _ in range(100):
            one.executor.execute(
                [
                    CreatePod(worker(0), "default/train"),
                    SetJobStatus("default/train", "Running"),
                    DeletePod(uid, "default", "surplus"),
                ]
            )
        await clock.pass_time(10)
        await one.executor.finish()
        assert job_state(one) == "Running"
        assert [found["metadata"]["name"] for found in one.api.all(PODS)] == ["train-worker-0"]
        assert one.api.count("POST /api/v1/namespaces/default/pods") < 20
        assert one.api.count("DELETE /api/v1/namespaces/default/pods") < 20


async def test_a_refused_pod_gives_an_event_on_its_job() -> None:
    async with executing() as one:
        one.api.fault("POST /api/v1/namespaces/default/pods", status=403)
        await one.do(CreatePod(worker(0), "default/train"))
        (event,) = one.api.all(EVENTS)
        assert (event["reason"], event["involvedObject"]["name"]) == ("FailedCreate", "train")


async def test_a_refused_pod_group_gives_an_event_on_its_job() -> None:
    async with executing() as one:
        uid = JobTemplates.of(msgspec.Raw(msgspec.json.encode(JOB))).uid
        one.api.fault(f"POST {GROUPS.replace('/podgroups', '/namespaces/default/podgroups')}", status=400)
        group = PodGroup("default", "train-j1", min_member=2, owner=Owner("Job", "train", uid))
        await one.do(CreateGroup(group))
        (event,) = one.api.all(EVENTS)
        assert (event["reason"], event["involvedObject"]["name"]) == ("PodGroupError", "train")
        (held_up,) = one.held_up
        assert (held_up.key, held_up.uid) == ("default/train", uid)
        assert held_up.why.startswith("PodGroup train-j1: 400")


async def test_no_pod_is_created_for_a_deleted_job() -> None:
    async with executing() as one:
        await one.do(CreatePod(worker(0), "default/deleted"))
        assert one.api.all(PODS) == []


async def test_a_group_is_created_or_updated() -> None:
    async with executing() as one:
        group = PodGroup("default", "train-j1", min_member=2, owner=Owner("Job", "train", "j1"))
        await one.do(CreateGroup(group))
        found = one.api.get(GROUPS, "default/train-j1")
        found["status"] = {"phase": "Running"}
        group.min_member = 3
        await one.do(CreateGroup(group))
        found = one.api.get(GROUPS, "default/train-j1")
        assert (found["spec"]["minMember"], found["status"]["phase"]) == (3, "Running")
        await one.do(DeleteGroup("default/train-j1"), DeleteGroup("default/train-j1"))
        assert one.api.all(GROUPS) == []


REPLICA_SET = Owner("ReplicaSet", "chat-1", "rs", "apps/v1")


def ordinary_group(members: int, owner: Owner = REPLICA_SET, **more: Any) -> PodGroup:
    return PodGroup("default", "podgroup-rs", min_member=members, owner=owner, ordinary=True, **more)


async def test_a_group_of_ordinary_pods_follows_its_owner() -> None:
    """What is no longer wanted is removed, and what others wrote stays."""
    async with executing() as one:
        built = {"ringwise.io/replicas": "2", "volcano.sh/x": "y"}
        label = {"volcano.sh/preemptable": "true"}
        await one.do(CreateGroup(ordinary_group(1, annotations=built, labels=label)))
        found = one.api.get(GROUPS, "default/podgroup-rs")
        assert found["metadata"]["ownerReferences"] == [
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "name": "chat-1",
                "uid": "rs",
                "controller": True,
            }
        ]
        found["metadata"]["annotations"]["mine"] = "kept"
        found["metadata"]["labels"]["mine"] = "kept"
        found["status"] = {"phase": "Running"}
        await one.do(CreateGroup(ordinary_group(3)))
        found = one.api.get(GROUPS, "default/podgroup-rs")
        assert (found["spec"]["minMember"], found["status"]["phase"]) == (3, "Running")
        assert found["metadata"]["annotations"] == {"volcano.sh/x": "y", "mine": "kept"}
        assert found["metadata"]["labels"] == {"mine": "kept"}
        await one.do(DeleteGroup("default/podgroup-rs"), DeleteGroup("default/podgroup-rs"))
        assert one.api.all(GROUPS) == []


async def test_the_topology_of_a_group_of_ordinary_pods_follows_and_keeps_no_limit_of_before() -> None:
    """The controller asks for it until it is so: what a merge left over would be asked for without an end."""
    async with executing() as one:
        await one.do(CreateGroup(ordinary_group(1, topology=NetworkTopology(highest_tier=1))))
        await one.do(CreateGroup(ordinary_group(1, topology=NetworkTopology(soft=True))))
        found = one.api.get(GROUPS, "default/podgroup-rs")
        assert found["spec"]["networkTopology"] == {"mode": "soft"}


async def test_a_group_of_that_name_with_another_owner_is_neither_changed_nor_deleted() -> None:
    async with executing() as one:
        await one.do(CreateGroup(ordinary_group(1, owner=Owner("Widget", "w", "w", "example.com/v1"))))
        await one.do(CreateGroup(ordinary_group(3)), DeleteGroup("default/podgroup-rs"))
        (found,) = one.api.all(GROUPS)
        assert found["spec"]["minMember"] == 1
        assert one.api.all(EVENTS) == []


async def test_a_group_that_gets_another_owner_after_the_check_is_not_changed() -> None:
    async with executing() as one:
        await one.do(CreateGroup(ordinary_group(1)))
        taken: list[str] = []

        def take(method: str, path: str) -> bool:
            if method == "PATCH" and "podgroups" in path and not taken:
                taken.append(path)
                found = one.api.get(GROUPS, "default/podgroup-rs")
                owners = [{**found["metadata"]["ownerReferences"][0], "name": "other", "uid": "other"}]
                one.api.put(GROUPS, {**found, "metadata": {**found["metadata"], "ownerReferences": owners}})
            return False

        one.api.fault(take)
        await one.do(CreateGroup(ordinary_group(3)))
        assert taken
        assert one.api.get(GROUPS, "default/podgroup-rs")["spec"]["minMember"] == 1


async def test_a_pod_is_told_its_group_once() -> None:
    """A pod of the same name that came later gets nothing."""
    async with executing() as one:
        uid = one.api.put(PODS, pod("chat-0"))["metadata"]["uid"]
        told = {"scheduling.k8s.io/group-name": "podgroup-rs"}
        await one.do(AnnotatePod("earlier", "default", "chat-0", told))
        assert "scheduling.k8s.io/group-name" not in one.api.get(PODS, "default/chat-0")["metadata"].get(
            "annotations", {}
        )
        await one.do(AnnotatePod(uid, "default", "chat-0", told))
        assert one.api.get(PODS, "default/chat-0")["metadata"]["annotations"].items() >= told.items()


async def test_annotations_of_a_pod_group_are_added_and_one_that_is_gone_needs_none() -> None:
    async with executing() as one:
        told = {"volcano.sh/job-allocated-hypernode": "s1"}
        meta = {"name": "train", "namespace": "default", "annotations": {"a": "b"}}
        one.api.put(GROUPS, {"metadata": meta})
        await one.do(AnnotateGroup("default/train", told), AnnotateGroup("default/gone", told))
        assert one.api.get(GROUPS, "default/train")["metadata"]["annotations"] == {"a": "b", **told}
        await one.do(AnnotateGroup("default/train", dict.fromkeys(told)))
        assert one.api.get(GROUPS, "default/train")["metadata"]["annotations"] == {"a": "b"}


async def test_groups_of_pods_without_an_owner_and_counts_of_jobs_come_after_bindings() -> None:
    """A phase does not wait, nor does a PodGroup that pods wait for."""
    async with executing(ManualClock()) as one:
        hold = asyncio.Event()
        one.api.fault("/binding", until=hold)
        for name in ("bound", "lone"):
            one.api.put(PODS, pod(name))
        uid = one.api.get(PODS, "default/lone")["metadata"]["uid"]
        own = ordinary_group(1, owner=Owner("Pod", "lone", uid, "v1"))
        told = {"scheduling.k8s.io/group-name": f"podgroup-{uid}"}
        bind = Bind(one.api.get(PODS, "default/bound")["metadata"]["uid"], "default", "bound", "node-1")
        one.executor.execute(
            [
                bind,
                CreateGroup(replace(own, name=f"podgroup-{uid}")),
                AnnotatePod(uid, "default", "lone", told),
                CreateGroup(ordinary_group(1)),
                SetJobStatus("default/train", "Pending", since=1),
            ]
        )
        await until(lambda: job_state(one) == "Pending" and one.api.all(GROUPS))
        for running in (1, 2, 3):
            one.executor.execute(
                [SetJobStatus("default/train", "Pending", since=1, counts={"Running": running})]
            )
            for _ in range(20):
                await asyncio.sleep(0)
        assert sorted(one.writes()) == ["PATCH status", "POST binding", "POST podgroups"]
        hold.set()
        await one.executor.finish()
        assert one.api.get(JOBS, "default/train")["status"]["running"] == 3
        assert one.api.count("PATCH /apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs") == 2
        assert f"default/podgroup-{uid}" in one.api.collections[GROUPS]
        assert one.api.get(PODS, "default/lone")["metadata"]["annotations"].items() >= told.items()


async def test_pods_that_are_created_come_before_events() -> None:
    async with executing(ManualClock()) as one:
        hold = asyncio.Event()
        one.api.fault("POST /api/v1/namespaces/default/pods", until=hold)
        one.executor.execute([CreatePod(worker(0), "default/train")])
        await until(lambda: one.api.count("POST /api/v1/namespaces/default/pods"))
        one.executor.execute([RecordVcJobEvent("default/train", EventReason.EXECUTE_ACTION, "something")])
        for _ in range(50):
            await asyncio.sleep(0)
        assert one.api.all(EVENTS) == []
        hold.set()
        await one.executor.finish()
        assert [event["reason"] for event in one.api.all(EVENTS)] == ["ExecuteAction"]


async def test_another_pod_of_the_same_name_is_neither_deleted_nor_evicted() -> None:
    async with executing() as one:
        one.api.put(PODS, pod("train-worker-0"))
        await one.do(
            DeletePod("earlier", "default", "train-worker-0"),
            Evict("earlier", "default", "train-worker-0", "preempt"),
        )
        assert len(one.api.all(PODS)) == 1


async def test_an_eviction_waits_for_the_disruption_budget() -> None:
    async with executing() as one:
        uid = one.api.put(PODS, pod("victim"))["metadata"]["uid"]
        one.api.fault("/eviction", status=429, times=2)
        await one.do(Evict(uid, "default", "victim", "preempt"))
        assert one.api.all(PODS) == []
        assert "because of preempt" in one.api.all(EVENTS)[0]["message"]


async def test_a_failed_eviction_is_reported_to_the_core() -> None:
    async with executing() as one:
        uid = one.api.put(PODS, pod("victim"))["metadata"]["uid"]
        await one.do(Evict("earlier", "default", "victim", "preempt"))
        await one.do(Evict("gone", "default", "nobody", "preempt"))
        assert one.failed == []
        one.api.fault("/eviction", status=503, times=20)
        await one.do(Evict(uid, "default", "victim", "preempt"))
        [failure] = one.failed
        assert failure.uid == uid
        assert "503" in failure.why


async def test_a_mark_that_was_not_written_is_reported_to_the_core() -> None:
    async with executing() as one:
        uid = one.api.put(PODS, pod("faulty"))["metadata"]["uid"]
        told = {"huawei.com/pod-status": "Unhealthy-CardUnhealthy"}
        await one.do(AnnotatePod("gone", "default", "none", told))
        assert one.failed == []
        one.api.fault("/pods/faulty", status=503, times=20)
        await one.do(AnnotatePod(uid, "default", "faulty", {"scheduling.k8s.io/group-name": "g"}))
        assert one.failed == []
        await one.do(AnnotatePod(uid, "default", "faulty", told))
        assert one.failed == [EvictFailed(uid)]
        one.api.fault("/pods/faulty", status=503, times=20)
        await one.do(AnnotatePod(uid, "default", "faulty", {}, remove=tuple(told)))
        assert one.failed == [EvictFailed(uid), EvictFailed(uid)]


async def test_an_unusable_template_is_reported_and_the_status_is_written() -> None:
    async with executing() as one:
        container = {"name": "main", "image": "i", "volumeMounts": ["nonsense"]}
        tasks = [{"name": "worker", "template": {"spec": {"containers": [container]}}}]
        broken = {**JOB, "spec": {"tasks": tasks}}
        one.templates["default/train"] = JobTemplates.of(msgspec.Raw(msgspec.json.encode(broken)))
        additions = PodAdditions(mounts=((SSH_FOLDER, "Secret", "train-ssh"),))
        await one.do(
            CreatePod(worker(0), "default/train", additions), SetJobStatus("default/train", "Pending")
        )
        assert job_state(one) == "Pending"
        assert one.api.all(PODS) == []
        (event,) = one.api.all(EVENTS)
        assert (event["reason"], event["involvedObject"]["name"]) == ("FailedCreate", "train")
        assert "the template of task worker cannot be used" in event["message"]


async def test_a_config_map_is_created_or_patched() -> None:
    async with executing() as one:
        for text in ("one", "two"):
            await one.do(Publish("default", "train-svc", {"worker.host": text}))
        found = one.api.get(CONFIG_MAPS, "default/train-svc")
        assert found["data"] == {"worker.host": "two"}
        assert found["metadata"]["ownerReferences"][0]["name"] == "train"
        assert one.api.all(EVENTS) == []
        # The job is gone, and nothing is created that nothing would delete.
        del one.templates["default/train"]
        one.api.remove(CONFIG_MAPS, "default/train-svc")
        await one.do(Publish("default", "train-svc", {"worker.host": "three"}))
        assert one.api.all(CONFIG_MAPS) == []


async def test_host_lists_that_could_not_be_written_are_reported_to_the_controller() -> None:
    async with executing() as one:
        one.api.fault("/configmaps", status=503, times=10)
        await one.do(Publish("default", "train-svc", {"worker.host": "one"}))
        assert one.api.all(CONFIG_MAPS) == []
        (held_up,) = one.held_up
        assert (held_up.key, held_up.uid) == ("default/train", "j1")
        assert "ConfigMap train-svc: 503" in held_up.why
        (event,) = one.api.all(EVENTS)
        assert (event["reason"], event["involvedObject"]["name"]) == ("FailedCreate", "train")


async def test_an_expired_job_is_deleted_by_its_uid() -> None:
    async with executing() as one:
        await one.do(DeleteJob("default/train"), SetJobStatus("default/train", "Completed"))
        assert one.api.all(JOBS) == []


async def test_a_command_object_is_deleted_before_it_is_executed_and_only_by_the_leader() -> None:
    async with server() as (api, client):
        clock = InstantClock()
        fence = Fence(clock)
        fence.open_forever()
        granted: list[ev.Event] = []
        job_commands = JobCommands(client, Retrier(clock, may_write=lambda: fence.is_open), granted.extend)
        reflector = Reflector(
            client, WatchTarget(JOB_COMMANDS, optional=True), job_commands, granted.extend, clock=clock
        )
        # One that another client deletes first is not executed: that client does it, or withdrew it.
        api.fault("DELETE /apis/bus.volcano.sh/v1alpha1/namespaces/team/commands/gone", status=404)
        for name, kind in (("mine", "Job"), ("queue", "Queue"), ("other", "Pod"), ("gone", "Job")):
            api.put(
                COMMANDS,
                {
                    "metadata": {"name": name, "namespace": "team"},
                    "action": "AbortJob",
                    "target": {"kind": kind, "name": "train"},
                },
            )
        reflector.start()
        await reflector.synced.wait()
        assert granted == []
        assert len(api.all(COMMANDS)) == 4
        job_commands.lead()
        await job_commands._work.finish()
        job = ev.JobCommand("team/train", "AbortJob")
        queue = ev.QueueCommand("train", "AbortJob", "team", "queue", "uid-2")
        assert sorted(granted, key=repr) == [job, queue]
        assert [one["metadata"]["name"] for one in api.all(COMMANDS)] == ["other", "gone"]
        await reflector.stop()
        await job_commands.stop()


async def test_a_refused_command_is_told_in_its_own_namespace() -> None:
    """Its author sees it there, and fills no other namespace with events."""
    async with executing() as one:
        asked = ev.QueueCommand("blue", "CloseQueue", "team", "mine", "uid-7")
        await one.do(
            RecordQueueEvent("blue", EventReason.CLOSE_QUEUE, "not here", warning=True, refused=asked)
        )
        await until(lambda: one.api.all(EVENTS))
        (event,) = one.api.all(EVENTS)
        about = event["involvedObject"]
        assert (about["kind"], about["namespace"], about["name"], about["uid"]) == (
            *("Command", "team", "mine"),
            "uid-7",
        )
        assert event["metadata"]["namespace"] == "team"
        assert (event["type"], event["reason"], event["message"]) == ("Warning", "CloseQueue", "not here")


async def test_the_fence_is_checked_before_every_request_of_a_command() -> None:
    """A PodGroup that exists is patched after the creation was refused: the lease may be lost in between."""
    async with executing() as one:
        one.api.put(GROUPS, group("train", 1))
        hold = asyncio.Event()
        one.api.fault("POST /apis/scheduling.volcano.sh", until=hold)
        one.executor.execute([CreateGroup(PodGroup("default", "train", min_member=2))])
        await until(lambda: one.api.count("POST"))
        one.fence.close()
        hold.set()
        await one.executor.finish()
        assert one.writes() == ["POST podgroups"]
