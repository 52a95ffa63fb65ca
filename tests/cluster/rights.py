"""Reading permissions for a user, by the commands of docs/rbac.md."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.cluster import Cluster
from tests.cluster.objects import Object

_PAGE = Path(__file__).resolve().parents[2] / "docs" / "rbac.md"
#: Name of the bindings, and the user, in the page.
_NAME, _USER = "ringwise-ana", "--user=ana"


def documented_commands() -> list[list[str]]:
    blocks = _PAGE.read_text(encoding="utf-8").split("```")[1::2]
    lines = (line for block in blocks for line in block.splitlines())
    commands = [line.split()[1:] for line in lines if line.startswith("kubectl ")]
    # Those for other purposes have other names.
    commands = [command for command in commands if _NAME in command]
    assert len(commands) >= 4
    assert all(command[-1] == _USER for command in commands)
    return commands


@contextmanager
def reading_rights(cluster: Cluster, subject: str = _USER) -> Iterator[None]:
    """While the block is open; `subject` as kubectl names it, `--user=...` or `--serviceaccount=...`."""
    commands = documented_commands()
    try:
        for command in commands:
            cluster.kubectl(*command[:-1], subject)
        yield
    finally:
        cluster.remove(map(_binding, commands))


def _binding(command: list[str]) -> Object:
    """The object that a command creates."""
    kind = {"clusterrolebinding": "ClusterRoleBinding", "rolebinding": "RoleBinding"}[
        command[command.index("create") + 1]
    ]
    metadata = {"name": _NAME}
    if command[0] == "-n":
        metadata["namespace"] = command[1]
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": metadata}
