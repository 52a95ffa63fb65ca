"""The rules against the requests that the components really send: nothing missing, nothing to spare."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from ringwise.apps.admission.objects import webhook_configuration
from ringwise.apps.admission.serving_certificate import SERVER_LIFETIME, Keeper
from ringwise.apps.install.deployment import access_rules
from ringwise.kube.run.leader_election import Fence, LeaderElection, LeaseSettings
from ringwise.kube.watch.kinds import standard_kinds
from ringwise.kube.write.binder import Binder
from ringwise.kube.write.executor import Executor
from ringwise.kube.write.ordered_work import Persistence
from ringwise.kube.write.pod_templates import JobTemplates, TemplateStore
from ringwise.kube.write.queue_status import QueueNote
from ringwise.kube.write.status import StatusWriter
from ringwise.kubeclient.client import Client
from ringwise.messages import commands as do
from ringwise.reasons import Reason
from ringwise.scheduler.reasons import POD_GROUP_MISSING
from ringwise.state.model import Owner, PodClass, PodGroup
from ringwise.state.model import Pod as CorePod
from tests.kube.harness import GROUPS, JOBS, PODS, JumpingClock, group, pod, run, server
from tests.kube.standin import StandIn

Call = tuple[str, str, str]
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_PATH = re.compile(
    r"/apis?/(?:(?P<group>[a-z0-9.]+\.[a-z0-9.]+)/)?v[^/]+(?:/namespaces/[^/]+)?/(?P<plural>[a-z]+)"
    r"(?:/(?P<name>[^/]+))?(?:/(?P<sub>[a-z]+))?$"
)


def called(standin: StandIn) -> set[Call]:
    """(verb, group, resource) of every request."""
    calls = set()
    for method, path in standin.requests:
        match = _PATH.match(path)
        assert match is not None, path
        verb = _VERBS.get(method) or ("get" if match["name"] else "list")
        resource = match["plural"] + (f"/{match['sub']}" if match["sub"] else "")
        calls.add((verb, match["group"] or "", resource))
    return calls


def granted(*names: str) -> set[Call]:
    """Lists go with watches: whoever lists here follows."""
    rules = [rule for name in names for rule in access_rules()[name]]
    calls = {
        (verb, group, resource)
        for rule in rules
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    listed = {call[1:] for call in calls if call[0] == "list"}
    assert listed == {call[1:] for call in calls if call[0] == "watch"}
    return {call for call in calls if call[0] != "watch"}


def read_by(*, jobs_only: bool) -> set[Call]:
    kinds = standard_kinds(TemplateStore(), {}, ("volcano-system", "conf"), jobs_only=jobs_only)
    return {("list", place.resource.version.rpartition("/")[0], place.resource.plural) for place, _ in kinds}


async def written(
    client: Client, commands: Iterable[do.Command], raw_job: dict[str, Any] | None = None
) -> None:
    clock = JumpingClock()
    fence = Fence(clock)
    fence.open_for_good()
    templates = TemplateStore()
    if raw_job is not None:
        templates.put("default/job", JobTemplates.of(msgspec.Raw(json.dumps(raw_job).encode())))
    binder = Binder(
        client, fence, clock=clock, failed=lambda failure: None, bound=lambda bind: status.bound(bind)
    )
    queues = {"default": QueueNote("", frozenset())}
    status = StatusWriter(client, fence, {}, clock=clock, queues=queues, binding=binder.idle)
    executor = Executor(client, binder, status, templates, Persistence(fence, clock))
    for command in commands:
        executor.carry_out([command])
        await executor.finish()
    await executor.stop()


async def elected(client: Client, name: str) -> None:
    clock = JumpingClock()
    election = LeaderElection(client, Fence(clock), "me", clock=clock, settings=LeaseSettings(name=name))
    task = asyncio.create_task(election.run())
    await election.leading.wait()
    await asyncio.sleep(0.02)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await election.release()


def test_the_scheduler_has_what_it_needs_and_no_more() -> None:
    async def test() -> None:
        async with server() as (standin, client):
            standin.put(GROUPS, group("gang", 1))
            standin.without_status.add("podgroups")
            uids = [standin.put(PODS, pod(name))["metadata"]["uid"] for name in ("a", "b")]
            standin.fault("POST /api/v1/namespaces/default/pods/a/binding", status=500)
            await written(
                client,
                [
                    do.Bind(uids[0], "default", "a", "node-1", (0,), {}),
                    do.SetGroupStatus("default/gang", "Running", None, 1, 0, 0),
                    do.TellPod(uids[1], "default", "b", _some_reason()),
                    do.SetQueueStatus("default", "Open", {}, {}),
                    do.Evict(uids[1], "default", "b", "preempt"),
                    do.Publish("volcano-system", "tor-share-cm", {"x": "y"}),
                ],
            )
            await elected(client, "ringwise-scheduler")
            sets = ("reader", "scheduler", "reports", "configuration", "switches", "schedulerLease")
            assert called(standin) | read_by(jobs_only=False) == granted(*sets)

    run(test())


def test_the_controller_has_what_it_needs_and_no_more() -> None:
    async def test() -> None:
        async with server() as (standin, client):
            job = {
                "metadata": {"name": "job", "namespace": "default", "uid": "u"},
                "spec": {
                    "volumes": [{"mountPath": "/data", "volumeClaim": {"accessModes": ["ReadWriteMany"]}}],
                    "tasks": [{"name": "t", "template": {"spec": {"containers": [{"name": "c"}]}}}],
                },
            }
            standin.put(JOBS, json.loads(json.dumps(job)))
            standin.without_status.add("jobs")
            gang = PodGroup("default", "job-u", "g", owner=Owner("Job", "job", "u"))
            made = CorePod("p", "default", "job-t-0", PodClass(), task="t", owner=Owner("Job", "job", "u"))
            additions = do.PodAdditions(
                subdomain="job", mounts=(("/root/.ssh", "Secret", "job-ssh"),), isolated=True
            )
            await written(
                client,
                [
                    do.CreateGroup(gang),
                    do.CreateGroup(gang),
                    do.CreatePod(made, "default/job", additions),
                    do.Publish("default", "job-svc", {"t.host": "job-t-0.job"}),
                    do.SetJobStatus("default/job", "Running"),
                    do.DeletePod("", "default", "job-t-0", "over"),
                    do.DeleteGroup("default/job-u"),
                    do.DeleteJob("default/job"),
                ],
                job,
            )
            await elected(client, "ringwise-controller")
            wishes = {(verb, "bus.volcano.sh", "commands") for verb in ("list", "delete")}
            # Asked for by admission plugins on what we send, not by a request of its own; a failed creation
            # of a pod is told in an event.
            besides = {("update", "batch.volcano.sh", "jobs/finalizers"), ("create", "", "events")}
            sent = called(standin) | read_by(jobs_only=True) | wishes | besides
            assert sent == granted("controller", "controllerLease")

    run(test())


def test_the_webhook_has_what_it_needs_and_no_more() -> None:
    async def test() -> None:
        async with server() as (standin, client):
            hooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
            standin.put(hooks, webhook_configuration("volcano-system", {}))
            clock = JumpingClock()
            keeper = Keeper(client, "volcano-system", clock=clock)
            await keeper.step()
            clock.moment += SERVER_LIFETIME.total_seconds()
            await keeper.step()
            reads = {("list", "scheduling.volcano.sh", "queues"), ("list", "", "configmaps")}
            sets = ("admission", "admissionSecret", "admissionTopology", "configuration")
            assert called(standin) | reads == granted(*sets)

    run(test())


@pytest.mark.parametrize("name", sorted(access_rules()))
def test_no_rule_is_a_blank_cheque(name: str) -> None:
    for rule in access_rules()[name]:
        assert "*" not in (*rule["verbs"], *rule["resources"], *rule["apiGroups"])
        assert rule.keys() <= {"apiGroups", "resources", "resourceNames", "verbs"}


def _some_reason() -> Reason:
    return POD_GROUP_MISSING(group="default/gang")
