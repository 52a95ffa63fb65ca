"""Checks whether a scheduler is active, from the objects of a cluster.

The Lease shows whether there is a leader, the conditions of pending pods whether Bindings are rejected.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from ringwise.durations import duration_text, unix_nanoseconds
from ringwise.grammar import counted
from ringwise.kube.watch.kinds import WatchTarget
from ringwise.kube.write.status import SCHEDULER_ERROR
from ringwise.kubeclient.client import Client, IgnoredStatus
from ringwise.kubeclient.list_watch import page_reader
from ringwise.kubeclient.resources import LEASES
from ringwise.manifests.text.wire import ObjectWire
from ringwise.records import dataclass
from ringwise.scheduler.explain.findings import ERROR, NOTE, WARNING, Finding, named
from ringwise.state.model import Pod
from ringwise.views.written_reasons import WrittenReasons
from ringwise.wellknown import (
    APP,
    APP_COMPONENT,
    APP_NAME,
    SCHEDULER_LEASE,
    SHADOW,
    SYSTEM_NAMESPACES,
    VOLCANO_SCHEDULER_DEPLOYMENT,
    VOLCANO_SYSTEM,
)

#: A leader renews its Lease every few seconds. The clock of the user may differ from that of the cluster.
_OLD = 60_000_000_000
#: Its namespace is that of the installation, which the user need not know.
_TARGET = WatchTarget(LEASES, params={"fieldSelector": f"metadata.name={SCHEDULER_LEASE}"})
_WHERE = "scheduler"
_LOOK = "see the pods of the Deployment ringwise-scheduler and their logs"


class _Spec(msgspec.Struct, rename="camel"):
    holder_identity: str | None = None
    renew_time: str | None = None


class _Lease(ObjectWire):
    spec: _Spec = msgspec.field(default_factory=_Spec)


_PAGE = page_reader(_Lease)


@dataclass(frozen=True, slots=True)
class SchedulerLeases:
    """The Leases of schedulers: where each is, its holder and its last renewal."""

    held: tuple[tuple[str, str, int], ...] = ()
    #: The missing permission if they cannot be read.
    unknown: str = ""


async def read_leases(client: Client) -> SchedulerLeases:
    """Return the Leases of schedulers. Raises ApiError and UnreachableError."""
    held: list[tuple[str, str, int]] = []
    with IgnoredStatus(403):
        async for page in client.pages(_TARGET.path, _TARGET.params, 100, _PAGE):
            for lease in page.items or ():
                spec = lease.spec
                renewed = unix_nanoseconds(spec.renew_time or "") or 0
                held.append((lease.metadata.namespace or "", spec.holder_identity or "", renewed))
        return SchedulerLeases(tuple(held))
    return SchedulerLeases(unknown=_TARGET.permission())


def lease_findings(leases: SchedulerLeases, pods: Iterable[Pod], now: int) -> list[Finding]:
    """Return the problems with the leader; none while it renews its Lease."""
    # Tenants create Leases of any name in their namespaces, which must not make a dead scheduler look alive.
    trusted = [one for one in leases.held if one[0] in SYSTEM_NAMESPACES] or leases.held
    if any(holder and now - renewed <= _OLD for _, holder, renewed in trusted):
        return []
    # Labels of tenants are not trusted.
    system = [pod for pod in pods if pod.namespace in SYSTEM_NAMESPACES and pod.live]
    for pod in system:
        shadow, volcano = SHADOW in pod.labels, pod.labels.get(APP) == VOLCANO_SCHEDULER_DEPLOYMENT
        if shadow or volcano:
            who = "another scheduler" if shadow else "Volcano's scheduler"
            what = f"pods are placed by {who}, not by Ringwise (pod {pod.key})"
            fix = "see docs/guides/migration.md to switch to Ringwise"
            return [Finding(NOTE, "scheduler-shadow", _WHERE, what, fix)]
    if leases.unknown:
        what = f"cannot tell whether a scheduler is running: its Lease cannot be read; {leases.unknown}"
        return [Finding(WARNING, "scheduler-unknown", _WHERE, what, "request that permission")]
    held = [one for one in trusted if one[1]]
    if not held:
        namespace = trusted[0][0] if trusted else VOLCANO_SYSTEM
        what = f"no scheduler holds the Lease {namespace}/{SCHEDULER_LEASE}: no pod is placed"
        return [Finding(ERROR, "no-scheduler", _WHERE, what, _LOOK)]
    namespace, holder, renewed = max(held, key=lambda one: one[2])
    age = f"{duration_text(now - renewed)} ago" if renewed else "at an unknown time"
    what = f"{holder} last renewed the Lease {namespace}/{SCHEDULER_LEASE} {age}: no pod is placed"
    return [Finding(ERROR, "scheduler-not-renewing", _WHERE, what, _LOOK)]


def binding_findings(written: WrittenReasons, jobs: Sequence[tuple[str, str]]) -> list[Finding]:
    """Return a finding if the API server rejects Bindings of these pending jobs (keys and names)."""
    reasons = [(name, reason) for key, name in jobs if (reason := written.of(key)) is not None]
    failed = [(name, reason.message) for name, reason in reasons if reason.reason == SCHEDULER_ERROR]
    if not failed:
        return []
    where = named([name for name, _ in failed], "job")
    fix = "see which rights (docs/reference/rbac.md), admission policies or webhooks refuse the Binding"
    return [Finding(ERROR, "bindings-fail", where, failed[0][1], fix)]


#: The first minor version of Kubernetes whose tokens name the node of their pod.
NODE_IN_TOKENS_SINCE = 30
TOKEN_RISK = (
    "a token of the device plugin that is stolen from one node can change the pods, the Node status and the "
    "device reports of all nodes"
)
_LABELS = {APP_NAME: "ringwise", APP_COMPONENT: "device-plugin"}


def token_findings(minor: int | None, pods: Iterable[Pod]) -> Iterator[Finding]:
    """Yield a finding if our device plugin runs and the API server is older; `minor` is its version."""
    if minor is None or minor >= NODE_IN_TOKENS_SINCE:
        return
    nodes = {pod.node for pod in pods if pod.node and pod.live and _LABELS.items() <= pod.labels.items()}
    if nodes:
        yield Finding(
            WARNING,
            "device-plugin-tokens",
            f"device plugin on {counted(len(nodes), 'node')}",
            f"tokens of this API server (Kubernetes 1.{minor}) do not contain the node of their pod, so no "
            f"admission policy limits them to it: {TOKEN_RISK}",
            f"upgrade to Kubernetes 1.{NODE_IN_TOKENS_SINCE} or newer; "
            "see docs/reference/device-plugin.md#permissions",
        )
