"""Permissions of users, as docs/reference/rbac.md names them."""

from __future__ import annotations

from pathlib import Path

from tests.cluster.cluster import Cluster
from tests.cluster.objects import Object

_PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "rbac.md"
#: Name of the bindings, and the user, in the page.
_NAME, _USER = "ringwise-ana", "--user=ana"
OPERATOR = "operator"
OPERATOR_ROLES = ("isolation-editor", "moveplan-approver", "moveplan-editor", "nodereservation-editor")


def documented_commands() -> list[list[str]]:
    blocks = _PAGE.read_text(encoding="utf-8").split("```")[1::2]
    lines = (line for block in blocks for line in block.splitlines())
    commands = [line.split()[1:] for line in lines if line.startswith("kubectl ")]
    # Those for other purposes have other names.
    commands = [command for command in commands if _NAME in command]
    assert len(commands) >= 4
    assert all(command[-1] == _USER for command in commands)
    return commands


def grant_reading(cluster: Cluster, subject: str = _USER) -> None:
    """`subject` as kubectl names it, `--user=...` or `--serviceaccount=...`."""
    for command in documented_commands():
        cluster.kubectl(*command[:-1], subject)


def operator_config(cluster: Cluster) -> Path:
    """The kubeconfig of an account with what docs/reference/rbac.md adds to reading, without eviction."""
    account, api = {"name": OPERATOR, "namespace": cluster.namespace}, "rbac.authorization.k8s.io/v1"
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole"}
    subjects = [{"kind": "ServiceAccount", **account}]
    cluster.apply(
        [
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account},
            *(
                {
                    "apiVersion": api,
                    "kind": "ClusterRoleBinding",
                    "metadata": {"name": f"test-operator-{kind}"},
                    "subjects": subjects,
                    "roleRef": role | {"name": f"ringwise-{kind}"},
                }
                for kind in OPERATOR_ROLES
            ),
        ]
    )
    grant_reading(cluster, f"--serviceaccount={cluster.namespace}:{OPERATOR}")
    return cluster.plane.kubeconfig(OPERATOR, cluster.plane.account_token(cluster.namespace, OPERATOR))


def may_evict(cluster: Cluster) -> list[Object]:
    """What lets the operator evict."""
    api, metadata = "rbac.authorization.k8s.io/v1", {"name": "test-operator-evicts"}
    evicting = {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", **metadata}
    subjects = [{"kind": "ServiceAccount", "name": OPERATOR, "namespace": cluster.namespace}]
    return [
        {"apiVersion": api, "kind": "ClusterRole", "metadata": metadata, "rules": [evicting]},
        {
            "apiVersion": api,
            "kind": "ClusterRoleBinding",
            "metadata": metadata,
            "subjects": subjects,
            "roleRef": role,
        },
    ]
