"""Tokens of the device plugin that do not name the node of their pod.

The admission policy of the device plugin compares objects with the node in the token. If a token does not
contain its node, the policy has no effect.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ringwise.grammar import counted
from ringwise.scheduler.explain.findings import WARNING, Finding
from ringwise.state.model import Pod
from ringwise.wellknown import APP_COMPONENT, APP_NAME

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
