"""The rules against the requests that the components really send: nothing missing, nothing to spare."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from ringwise.apps.admission.serving_certificate import SERVER_LIFETIME, CertificateManager
from ringwise.apps.live import read_cluster
from ringwise.apps.scheduler_health import read_leases
from ringwise.apps.sources.cluster import read_records
from ringwise.kube.run.leader_election import LeaderElection, LeaseSettings
from ringwise.kube.run.leader_term import create_default_queues
from ringwise.kube.watch.job_templates import JobTemplates, TemplateStore
from ringwise.kube.watch.kinds import watched_kinds
from ringwise.kube.watch.readers import Observed, ObservedHyperNode, ObservedQueue
from ringwise.kube.write.accounts import ConfigMapAccounts
from ringwise.kube.write.binder import Binder
from ringwise.kube.write.context import WriteContext
from ringwise.kube.write.executor import Executor
from ringwise.kube.write.fence import Fence
from ringwise.kube.write.own_config_maps import OwnConfigMaps
from ringwise.kube.write.status import StatusWriter
from ringwise.kube.write.status_queue import Precedence
from ringwise.kubeclient.client import Client
from ringwise.kubeclient.resources import Resource
from ringwise.kubeclient.retry import Retrier
from ringwise.manifests.accounts.ledger import SLOTS
from ringwise.manifests.kinds import Watcher
from ringwise.messages import commands as do
from ringwise.messages.event_reasons import EventReason
from ringwise.reasons import Reason
from ringwise.scheduler.reasons import POD_GROUP_MISSING
from ringwise.state.model import HyperNode, Owner, PodClass, PodGroup
from ringwise.state.model import Pod as CorePod
from ringwise.wellknown import (
    MOVE_PLANS,
    RECORD_CONFIG_MAPS,
    TOPOLOGY_TYPE,
    UNREAD_RECORD_CONFIG_MAP,
    VOLCANO_SYSTEM,
)
from tests.deploy.shipped import access_rules, only, webhooks
from tests.device.rig import rig
from tests.kube.fake_api_server import FakeApiServer
from tests.kube.harness import GROUPS, JOBS, PODS, QUEUES, InstantClock, group, pod, server, until
from tests.web.reviews import GOOD, Reviews, reviewing

Call = tuple[str, str, str]
#: Read when they are asked for, and not followed.
LISTED_ONCE = {("policy", "poddisruptionbudgets"), ("coordination.k8s.io", "leases")}
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_PATH = re.compile(
    r"/apis?/(?:(?P<group>[a-z0-9.]+)/)?v[^/]+(?:/namespaces/[^/]+(?!/status$))?/(?P<plural>[a-z]+)"
    r"(?:/(?P<name>[^/]+))?(?:/(?P<sub>[a-z]+))?$"
)


def called(api: FakeApiServer | Reviews) -> set[Call]:
    """(verb, group, resource) of every request."""
    calls = set()
    for method, path in api.requests:
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
    assert listed - LISTED_ONCE == {call[1:] for call in calls if call[0] == "watch"}
    return {call for call in calls if call[0] != "watch"}


def read_by(component: Watcher) -> set[Call]:
    pod_owners = component is Watcher.CONTROLLER
    kinds = watched_kinds(Observed(), ("volcano-system", "conf"), component=component, pod_owners=pod_owners)
    return {("list", target.resource.group, target.resource.plural) for target, _ in kinds}


async def written(
    client: Client, commands: Iterable[do.Command], raw_job: dict[str, Any] | None = None
) -> None:
    clock = InstantClock()
    fence = Fence(clock)
    fence.open_forever()
    templates: TemplateStore = {}
    if raw_job is not None:
        templates["default/job"] = JobTemplates.of(msgspec.Raw(json.dumps(raw_job).encode()))
    context = WriteContext(client, fence, clock)
    binder = Binder(
        context,
        on_failed=lambda failure: None,
        on_bound=lambda bind: status.events.scheduled(bind),
    )
    observed = Observed(
        queues={"default": ObservedQueue(frozenset())},
        hyper_nodes={"leaf": ObservedHyperNode()},
        conditions=dict.fromkeys(CUSTOM, ()),
    )
    precedence = Precedence(clock, (binder.idle,))
    status = StatusWriter(context, observed, precedence)
    executor = Executor(context, binder, status, templates, Retrier(clock))
    for command in commands:
        executor.execute([command])
        await executor.finish()
    await executor.stop()


CUSTOM = (("Isolation", "fan"), ("MovePlan", "plan"), ("NodeReservation", "night"), ("UsageLimit", "few"))


async def elected(api: FakeApiServer, client: Client, name: str) -> None:
    clock = InstantClock()
    election = LeaderElection(client, Fence(clock), "me", clock=clock, settings=LeaseSettings(name=name))
    task = asyncio.create_task(election.run())
    await election.leading.wait()
    await until(lambda: any(method == "PUT" and "/leases/" in path for method, path in api.requests))
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await election.release()


async def test_the_scheduler_has_what_it_needs_and_no_more() -> None:
    async with server() as (api, client):
        api.put(GROUPS, group("gang", 1))
        api.put("/api/v1/namespaces", {"metadata": {"name": "default"}})
        api.without_status.add("podgroups")
        uids = [api.put(PODS, pod(name))["metadata"]["uid"] for name in ("a", "b")]
        api.put("/api/v1/persistentvolumes", {"metadata": {"name": "disk"}, "spec": {}})
        api.fault("POST /api/v1/namespaces/default/pods/a/binding", status=500)
        await written(
            client,
            [
                do.Bind(uids[0], "default", "a", "node-1", (0,), {}, ("predicate-time",)),
                do.SetGroupStatus("default/gang", "Running", None, 1, 0, 0),
                do.SetPodCondition(uids[1], "default", "b", _some_reason()),
                do.SetQueueStatus("default", {}, {}),
                do.SetHyperNodeStatus(
                    "leaf", 1, False, "Circle", "its member leaf is ignored: it is the HyperNode itself"
                ),
                *(
                    do.SetConditions(kind, name, 1, (do.Condition("Accepted", True, "Accepted"),))
                    for kind, name in CUSTOM
                ),
                do.SetNamespaceLimits("default", "[]"),
                do.DeleteFinished("MovePlan", "plan", "uid"),
                do.RemoveQueueGate(uids[1], "default", "b"),
                do.Evict(uids[1], "default", "b", "preempt"),
                do.DeletePod(uids[1], "default", "b", "node lost", fault=True),
                do.DeletePod(uids[0], "default", "a", "drained", fault=True, together="default/a"),
                do.Publish("volcano-system", "tor-share-cm", {"x": "y"}),
                do.AskJob("default/train", "uid", "TerminateJob", "its time is over"),
                do.SelectNode("default", "data", "uid", "node-1"),
                do.BindVolume("disk", "default", "data", "uid"),
            ],
        )
        await OwnConfigMaps(client).read("mindx-dl", "job-reschedule-reason")
        accounts = ConfigMapAccounts(OwnConfigMaps(client), Retrier(InstantClock()))
        await accounts.read()
        for slot in SLOTS:
            await accounts.write(slot, "{}")
        await client.create_if_missing(Resource(*MOVE_PLANS), None, {"metadata": {"name": "plan"}})
        await create_default_queues(client, Retrier(InstantClock()))
        await elected(api, client, "ringwise-scheduler")
        # For people with the role of the reader.
        await read_leases(client)
        reads = ("reader", "reports", "configuration")
        writes = ("scheduler", "switches", "rescheduling", "rescheduleRecords", "schedulerLease")
        accounts_too = ("accounting", "accountingWriter")
        # The API server asks for it when the scheduler creates a plan that is approved.
        approves = {("approve", "ringwise.io", "moveplans")}
        needed = called(api) | read_by(Watcher.SCHEDULER) | approves
        assert needed == granted(*reads, *writes, *accounts_too)


async def test_the_reader_reads_what_the_scheduler_holds_for_other_jobs() -> None:
    """`place` and `why` count it; no other ConfigMap is granted to users."""
    async with server() as (api, client):
        live = await read_cluster(client)
        for name in RECORD_CONFIG_MAPS:
            meta = {"namespace": VOLCANO_SYSTEM, "name": name}
            api.put("/api/v1/configmaps", {"metadata": meta, "data": {}})
        api.requests.clear()
        await read_records(client, live)
        names = [path.rpartition("/")[2] for _, path in api.requests]
        assert names == [*RECORD_CONFIG_MAPS, UNREAD_RECORD_CONFIG_MAP]
        rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}
        rules = [one for one in access_rules()["reader"] if "configmaps" in one["resources"]]
        assert rules == [rule | {"resourceNames": names}]


async def test_the_right_for_reset_configurations_is_what_it_needs_and_no_more() -> None:
    async with server() as (api, client):
        data = {"reset.json": "{}"}
        found = {"metadata": {"name": "reset-config-a", "namespace": "default"}, "data": data}
        api.put("/api/v1/configmaps", found)
        await written(client, [do.SetResetConfig("default", "a", graceful_exit=True)])
        assert called(api) == granted("resetConfig")


async def test_the_right_to_check_tokens_is_what_it_needs_and_no_more() -> None:
    async with reviewing() as (reviews, tokens, _):
        await tokens.check(GOOD)
        assert called(reviews) == granted("web")


async def test_the_controller_has_what_it_needs_and_no_more() -> None:
    async with server() as (api, client):
        job = {
            "metadata": {"name": "job", "namespace": "default", "uid": "u"},
            "spec": {
                "volumes": [{"mountPath": "/data", "volumeClaim": {"accessModes": ["ReadWriteMany"]}}],
                "tasks": [{"name": "t", "template": {"spec": {"containers": [{"name": "c"}]}}}],
            },
        }
        api.put(JOBS, json.loads(json.dumps(job)))
        api.put(QUEUES, {"metadata": {"name": "default"}, "spec": {}})
        api.without_status.add("jobs")
        # An earlier job of the name left them.
        owner = {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "name": "job",
            "uid": "earlier",
        }
        for collection, name in (
            ("/api/v1/services", "job"),
            ("/api/v1/persistentvolumeclaims", "job-volume-0"),
            ("/apis/networking.k8s.io/v1/networkpolicies", "job"),
        ):
            meta = {"name": name, "namespace": "default", "ownerReferences": [owner]}
            api.put(collection, {"metadata": meta})
        gang = PodGroup("default", "job-u", "g", owner=Owner("Job", "job", "u"))
        made = CorePod("p", "default", "job-t-0", PodClass(), task="t", owner=Owner("Job", "job", "u"))
        wanted = do.CreateJobResources(
            "default/job", (do.JobService("job"),), isolated=True, keys=do.JobKeys("job-ssh", "")
        )
        await written(
            client,
            [
                do.CreateGroup(gang),
                do.CreateGroup(gang),
                do.AnnotatePod("p", "default", "a", {"scheduling.k8s.io/group-name": "podgroup-u"}),
                wanted,
                do.CreatePod(made, "default/job"),
                do.Publish("default", "job-svc", {"t.host": "job-t-0.job"}),
                do.SetJobStatus("default/job", "Running"),
                do.UpdateQueue("default", "Closed", True, "root"),
                do.RecordQueueEvent("default", EventReason.CLOSE_QUEUE, "Close queue succeed"),
                do.DeletePod("", "default", "job-t-0", "over"),
                do.DeleteGroup("default/job-u"),
                do.DeleteJob("default/job"),
            ],
            job,
        )
        await elected(api, client, "ringwise-controller")
        job_commands = {(verb, "bus.volcano.sh", "commands") for verb in ("list", "delete")}
        # Asked for by admission plugins on what we send, not by a request of its own.
        besides = {("update", "batch.volcano.sh", "jobs/finalizers")}
        # The Secret of an earlier job, where the same process made it: test_job_resources.py shows it.
        besides.add(("delete", "", "secrets"))
        sent = called(api) | read_by(Watcher.CONTROLLER) | job_commands | besides
        assert sent == granted("controller", "controllerLease")


async def test_discovery_has_what_it_needs_and_no_more() -> None:
    async with server() as (api, client):
        ours = HyperNode("rack", 1, labels={TOPOLOGY_TYPE: "A2"})
        done: list[do.Command] = [
            do.PutHyperNode(ours),
            do.PutHyperNode(ours),
            do.DeleteHyperNode("rack"),
        ]
        await written(client, done)
        kinds = watched_kinds(
            Observed(),
            discovery=("volcano-system", "conf"),
            component=Watcher.DISCOVERY,
        )
        reads = {("list", target.resource.group, target.resource.plural) for target, _ in kinds}
        assert called(api) | reads == granted("discovery", "discoveryConfiguration")


async def test_the_webhook_has_what_it_needs_and_no_more() -> None:
    async with server() as (api, client):
        hooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
        api.put(hooks, webhooks("Validating"))
        fills = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
        api.put(fills, webhooks("Mutating"))
        api.put("/api/v1/secrets", only("Secret"))
        clock = InstantClock()
        certificates = CertificateManager(client, "volcano-system", clock=clock)
        await certificates.check()
        clock.moment += SERVER_LIFETIME.total_seconds()
        await certificates.check()
        reads = read_by(Watcher.ADMISSION) | {("list", "", "namespaces")}
        sets = ("admission", "admissionWebhooks", "admissionSecret", "admissionTopology", "configuration")
        assert called(api) | reads == granted(*sets)


async def test_the_device_plugin_has_what_it_needs_and_no_more() -> None:
    async with rig() as node:
        node.bind("a", "Ascend910-0")
        node.bind("b", "Ascend910-1")
        # Kubelet asks for b first, so both are corrected later; then a chip breaks.
        await node.admit("b")
        await node.admit("a")
        await node.until(lambda: node.annotations("b").get("huawei.com/AscendReal") == "Ascend910-0")
        node.driver.change(3, [0x80E18402])
        await node.until(lambda: "Ascend910-3" in node.device_list()["huawei.com/Ascend910-Unhealthy"])
        await node.until(lambda: node.api.all("/api/v1/events"))
        assert called(node.api) == granted("devicePlugin", "deviceReports", "deviceEvents")


@pytest.mark.parametrize("name", sorted(access_rules()))
def test_no_rule_has_a_wildcard(name: str) -> None:
    for rule in access_rules()[name]:
        assert "*" not in (*rule["verbs"], *rule["resources"], *rule["apiGroups"])
        assert rule.keys() <= {"apiGroups", "resources", "resourceNames", "verbs"}


def _some_reason() -> Reason:
    return POD_GROUP_MISSING(group="default/gang")
