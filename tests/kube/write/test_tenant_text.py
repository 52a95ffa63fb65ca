"""Number 11: what tenants read on their objects is short, and names nothing of other namespaces."""

from __future__ import annotations

import inspect

import pytest

from ringwise.framework.reasons import INTERNAL_ERROR, UNKNOWN_QUEUE
from ringwise.kube.write import event_recorder, executor, status
from ringwise.kube.write.event_recorder import ObjectEvent, ObjectReference
from ringwise.kube.write.executor import job_status
from ringwise.kube.write.tenant_text import MAX_TEXT, cut_text, reason_message
from ringwise.kubeclient.resources import POD_GROUPS
from ringwise.messages.commands import SetJobStatus
from ringwise.messages.event_reasons import EventReason
from ringwise.plugins.predicates.reasons import PORT_TAKEN
from ringwise.reasons import Reason, ReasonKind, Stage
from ringwise.state.reasons import UNKNOWN_HOLDER, UNREADABLE_POD

LONG = ReasonKind("long", Stage.GANG, "{problem}")


@pytest.mark.parametrize("text", ["", "short", "x" * MAX_TEXT])
def test_short_text_is_as_it_is(text: str) -> None:
    assert cut_text(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "x" * 709_032,
        "a list: " + ", ".join(f"name-{number}" for number in range(50_000)),
        "芯片" * 2_000,
        "\ud800" * 2_000,
        " " * 5_000,
        "; ".join(["one sentence of several words"] * 90),
    ],
)
def test_long_text_ends_with_a_word_and_says_that_it_was_cut(text: str) -> None:
    found = cut_text(text)
    assert len(found.encode(errors="replace")) <= MAX_TEXT
    assert found.endswith(" ... [cut]")
    begin = found.removesuffix(" ... [cut]")
    # Half of a pair of surrogates cannot be written.
    assert text.replace("\ud800", "?").startswith(begin)
    assert not begin.endswith((" ", ",", ";"))


def test_a_list_is_cut_between_its_items() -> None:
    found = cut_text(", ".join(f"name-{number}" for number in range(50_000)))
    assert found.removesuffix(" ... [cut]").split(", ")[-1] == f"name-{found.count(', ')}"


def test_a_message_names_some_of_a_long_list_and_counts_the_others() -> None:
    known = [f"queue-{number:05}" for number in range(10_000)]
    reason = UNKNOWN_QUEUE(queue="q", known=known, nearest="queue-00000")
    assert reason.message.endswith("queue-00049 and 9,950 more")
    assert len(reason.details["known"]) == 10_000


def test_everything_that_is_written_is_cut() -> None:
    long = "word " * 100_000
    event = ObjectEvent(ObjectReference.to(POD_GROUPS, "team", "a"), EventReason.UNSCHEDULABLE, long)
    job = SetJobStatus("team/a", "Failed", "why", long)
    told = (
        reason_message(LONG(problem=long), "team"),
        event.body(0)["message"],
        job_status(job)["state"]["message"],
    )
    for text in told:
        assert len(text) <= MAX_TEXT
        assert text.endswith("[cut]")


@pytest.mark.parametrize(
    "reason",
    [
        UNKNOWN_HOLDER(pod="rival/secret-0", node="n1", chips=2, resource="chips"),
        UNREADABLE_POD(pod="rival/secret-0", node="n1"),
        PORT_TAKEN(node="n1", port=80, protocol="TCP", pod="rival/secret-0 (nominated)"),
        INTERNAL_ERROR(where="plugin x", error="ChipTaken: rival/secret-0 already has a node"),
    ],
    ids=lambda reason: reason.code,
)
def test_no_object_of_another_namespace_is_named(reason: Reason) -> None:
    """`why` and `doctor` name it (N7)."""
    assert "rival/secret-0" in reason.message
    told = reason_message(reason, "team")
    assert "secret" not in told
    assert "rival" not in told
    if reason.code != INTERNAL_ERROR.code:
        assert "of another namespace" in told
        assert reason_message(reason, "rival") == reason.message


def test_there_is_one_way_to_the_text_of_a_condition() -> None:
    """A message that is written beside it would have no limit."""
    for module in (event_recorder, executor, status):
        source = inspect.getsource(module)
        assert ".reason.message" not in source, module.__name__
        written = [line for line in source.splitlines() if '"message":' in line]
        allowed = ("cut_text(", "reason_message(", '"message": text', "None", '""', "last.message")
        # JSON, with a limit of its own.
        written = [line for line in written if "command.limits" not in line]
        assert all(any(one in line for one in allowed) for line in written), (module.__name__, written)
