"""Issue 17, 19: a namespace that is being deleted is one line in the log."""

from __future__ import annotations

import json
from functools import partial

import pytest

from ringwise.kube.write.ordered_work import OrderedWork
from ringwise.kube.write.terminating_namespaces import TerminatingNamespaces
from ringwise.kubeclient.retry import GivenUpError


async def test_a_namespace_that_is_being_deleted_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    async def refuse(namespace: str, pod: int) -> None:
        raise GivenUpError(
            f'pods "p-{pod}" is forbidden: unable to create new content in namespace {namespace} because it '
            "is being terminated",
            403,
        )

    async def forbid() -> None:
        raise GivenUpError("pods is forbidden: exceeded quota", 403)

    told = TerminatingNamespaces()
    # Binder, creations and events share what was told.
    for work in (OrderedWork(namespaces=told), OrderedWork(namespaces=told)):
        for number in range(50):
            work.add(str(number), [partial(refuse, f"team-{number % 2}", number)])
        work.add("other", [forbid])
        await work.finish()
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    terminating = [line["namespace"] for line in lines if "namespace" in line]
    assert sorted(terminating) == ["team-0", "team-1"]
    assert [line["why"] for line in lines if "why" in line] == ["pods is forbidden: exceeded quota"] * 2
