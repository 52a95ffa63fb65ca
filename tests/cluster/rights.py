"""Reading permissions for a user, by the commands of docs/rbac.md."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.cluster import Cluster

_PAGE = Path(__file__).resolve().parents[2] / "docs" / "rbac.md"
#: Name of the bindings, and the user, in the page.
_NAME, _USER = "ringwise-ana", "--user=ana"


def documented_commands() -> list[list[str]]:
    lines = _PAGE.read_text(encoding="utf-8").splitlines()
    commands = [line.split()[1:] for line in lines if line.startswith("kubectl ")]
    assert len(commands) >= 4
    assert all(command[-1] == _USER and _NAME in command for command in commands)
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
        for command in commands:
            named = command[: command.index(_NAME) + 1]
            cluster.kubectl(
                *("delete" if part == "create" else part for part in named),
                "--ignore-not-found",
                "--wait=false",
            )
