"""How the answers of several plugins are combined: a table for each extension point."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ringwise.framework.configuration import PluginOption
from ringwise.framework.extension_points import (
    ALLOCATABLE,
    ALLOCATED,
    DEALLOCATED,
    EXTENSION_POINTS,
    JOB_ENQUEUEABLE,
    JOB_ORDER,
    JOB_PIPELINED,
    JOB_PLAN,
    JOB_READY,
    JOB_STARVING,
    JOB_VALID,
    NODE_SCORE,
    OVERUSED,
    PREEMPTABLE,
    PREEMPTIVE,
    QUEUE_SHARE,
    RECLAIMABLE,
    VICTIM_QUEUE_ORDER,
    ExtensionPoint,
    Vote,
    agreed_victims,
)
from ringwise.framework.registry import PluginBuilder
from ringwise.framework.session import Session
from ringwise.reasons import Reason, ReasonKind, Stage
from tests.builders.session_lab import Lab, cluster

R, A, P = Vote.REJECT, Vote.ABSTAIN, Vote.PERMIT
NO = ReasonKind("no", Stage.VALIDATE, "number {n} refuses", ("ask another one",))


class Voice:
    """A plugin that gives one prepared answer at one point."""

    def __init__(self, point: ExtensionPoint[Any], answer: Any) -> None:
        self._point = point
        self._answer = answer

    def open(self, session: Session) -> None:
        session.register(self._point, lambda *asked: self._answer)


def assembly(point: ExtensionPoint[Any], *tiers: list[Any], lab: Lab | None = None) -> Session:
    """A session in which every answer of every tier is a plugin of its own."""
    voices: dict[str, Voice] = {}
    rows = []
    for tier in tiers:
        row = []
        for answer in tier:
            name = f"voice{len(voices)}"
            voices[name] = Voice(point, answer)
            row.append(PluginOption.of(name))
        rows.append(row)

    def builder(option: PluginOption) -> Voice:
        return voices[option.name]

    return (lab or cluster().job("job")).session(*rows, plugins=dict.fromkeys(voices, builder))


@pytest.mark.parametrize(
    ("tiers", "first"),
    [
        ([[(1, 2)]], "a"),
        ([[(2, 1)]], "b"),
        ([[(5, 5), (2, 1)]], "b"),  # the first plugin sees no difference, the second decides
        ([[(1, 2)], [(2, 1)]], "a"),  # the earlier tier decides
        ([[(5, 5)], [(7, 7)]], "a"),  # no plugin sees a difference: the older job
        ([[]], "a"),
    ],
)
def test_order_the_first_plugin_that_sees_a_difference_decides_then_age(
    tiers: list[list[tuple[int, int]]], first: str
) -> None:
    lab = cluster().job("a").job("b")
    keys = [[{"a": left, "b": right} for left, right in tier] for tier in tiers]
    options: list[list[PluginOption]] = []
    builders: dict[str, PluginBuilder] = {}
    for tier in keys:
        options.append([])
        for table in tier:
            name = f"order{len(builders)}"

            class Order:
                def __init__(self, option: PluginOption, table: dict[str, int] = table) -> None:
                    self._table = table

                def open(self, session: Session) -> None:
                    session.register(JOB_ORDER, lambda job: self._table[job.name])

            builders[name] = Order
            options[-1].append(PluginOption.of(name))
    session = lab.session(*options, plugins=builders)
    assert min(lab.jobs.values(), key=session.job_key).name == first


@pytest.mark.parametrize(
    ("tiers", "refusal"),
    [
        ([[None, None]], None),
        ([[None, 1, 2]], 1),
        ([[None], [3]], 3),
        ([[2], [1]], 2),
    ],
)
@pytest.mark.parametrize("point", [JOB_VALID, ALLOCATABLE])
def test_validity_the_first_failing_result_is_returned(
    point: ExtensionPoint[Any], tiers: list[list[int | None]], refusal: int | None
) -> None:
    lab = cluster().job("job")
    answers: list[list[Reason | None]] = [[None if n is None else NO(n=n) for n in tier] for tier in tiers]
    session = assembly(point, *answers, lab=lab)
    if point is JOB_VALID:
        found = session.job_valid(lab["job"])
    else:
        found = session.allocatable(lab.queues["default"], lab.pod("job-0"))
    assert found == (None if refusal is None else NO(n=refusal))


@pytest.mark.parametrize(
    ("tiers", "expected"),
    [
        ([], True),
        ([[True, True], [True]], True),
        ([[True, True], [False]], False),
        ([[False], [True]], False),
    ],
)
def test_ready_and_preemptive_all_plugins_must_agree(tiers: list[list[bool]], expected: bool) -> None:
    lab = cluster().job("job")
    assert assembly(JOB_READY, *tiers, lab=lab).job_ready(lab["job"]) is expected
    session = assembly(PREEMPTIVE, *tiers, lab=lab)
    assert session.preemptive(lab.queues["default"], lab.pod("job-0")) is expected


@pytest.mark.parametrize(
    ("tiers", "expected"),
    [([], False), ([[False], [False]], False), ([[False], [True]], True), ([[True]], True)],
)
def test_overused_one_plugin_is_enough(tiers: list[list[bool]], expected: bool) -> None:
    lab = cluster()
    assert assembly(OVERUSED, *tiers, lab=lab).overused(lab.queues["default"]) is expected


@pytest.mark.parametrize(
    ("tiers", "expected"),
    [
        ([], True),  # no permit and no rejection
        ([[A, A]], True),
        ([[R]], False),
        ([[P, R]], False),  # a rejection inside the tier being walked counts at once
        ([[R, P]], False),
        ([[P], [R]], True),  # a tier with a permit ends it; later tiers are not asked
        ([[A], [R]], False),
        ([[A], [P], [R]], True),
    ],
)
def test_votes_a_rejection_ends_it_and_so_does_a_tier_with_a_permit(
    tiers: list[list[Vote]], expected: bool
) -> None:
    lab = cluster().job("job")
    ballots = [[(vote, NO(n=1) if vote is R else None) for vote in tier] for tier in tiers]
    assert assembly(JOB_PIPELINED, *ballots, lab=lab).job_pipelined(lab["job"]) is expected
    allowed, reason = assembly(JOB_ENQUEUEABLE, *ballots, lab=lab).job_enqueueable(lab["job"])
    assert allowed is expected
    assert (reason is None) is expected


@pytest.mark.parametrize(
    ("tiers", "expected"),
    [
        ([], False),  # no answer
        ([[True, True]], True),
        ([[True, False]], False),
        ([[], [True]], True),  # the first tier that has any answer
        ([[False], [True]], False),
        ([[True], [False]], True),
    ],
)
def test_starving_the_first_tier_with_an_answer_decides(tiers: list[list[bool]], expected: bool) -> None:
    lab = cluster().job("job")
    assert assembly(JOB_STARVING, *tiers, lab=lab).job_starving(lab["job"]) is expected


@pytest.mark.parametrize(
    ("tiers", "expected"),
    [
        ([], []),
        ([[["a", "b"]]], ["a", "b"]),
        ([[["a", "b"], ["b", "c"]]], ["b"]),  # inside a tier only what all voters name
        ([[["a"], None]], ["a"]),  # an abstention is skipped
        ([[["a"], ["b"]], [["c"]]], ["c"]),  # an empty tier: the next one is tried
        ([[[]], [["c"]]], ["c"]),
        ([[["a"]], [["b"]]], ["a"]),  # the first tier that names a victim decides
        ([[None], [None]], []),
    ],
)
def test_victims_are_what_all_voters_of_the_first_deciding_tier_name(
    tiers: list[list[list[str] | None]], expected: list[str]
) -> None:
    lab = cluster().job("job")
    job, pod = lab["job"], lab.pod("job-0")
    assert assembly(PREEMPTABLE, *tiers, lab=lab).preemptable(job, pod, ["a", "b", "c"]) == expected
    assert assembly(RECLAIMABLE, *tiers, lab=lab).reclaimable(job, pod, ["a", "b", "c"]) == expected


def test_scores_of_all_plugins_are_added_up() -> None:
    lab = cluster().node("n1").job("job")
    session = assembly(NODE_SCORE, [1.5, 2.0], [10.0], lab=lab)
    shape = lab.state.shape_of(0)
    assert shape is not None
    assert session.node_selection(lab["job"], lab.pod("job-0")).score(shape) == 13.5


@pytest.mark.parametrize("point", EXTENSION_POINTS, ids=lambda point: point.name)
def test_an_enable_flag_turns_a_plugin_off_except_where_there_is_none(point: ExtensionPoint[Any]) -> None:
    ungated = {JOB_VALID, JOB_PLAN, QUEUE_SHARE, VICTIM_QUEUE_ORDER, ALLOCATED, DEALLOCATED}
    assert (point.flag is None) is (point in ungated)
    off = {} if point.flag is None else {point.flag: False}

    def builder(option: PluginOption) -> Voice:
        return Voice(point, None)

    for switched, heard in ((off, point in ungated), ({}, True)):
        session = cluster().session(PluginOption.of("voice", switched), plugins={"voice": builder})
        assert bool(session.registered(point)) is heard


def test_a_plugin_that_fails_to_open_is_named_and_the_others_go_on() -> None:
    class Broken:
        def __init__(self, option: PluginOption) -> None: ...

        def open(self, session: Session) -> None:
            raise RuntimeError("out of order")

    lab = cluster().job("job", pods=1, min_available=2)
    with pytest.raises(AssertionError, match="out of order"):
        lab.session("broken", "gang", plugins={"broken": Broken})
    session = lab.session("broken", "gang", plugins={"broken": Broken}, incidents=True)
    assert [incident.where for incident in session.incidents] == ["plugin broken"]
    assert session.job_valid(lab["job"]) is not None


def test_the_answer_of_a_plugin_about_victims_is_read_once_however_many_it_names() -> None:
    reads: list[int] = []

    class Answer(list[str]):
        def __iter__(self) -> Iterator[str]:
            reads.append(len(self))
            return super().__iter__()

    names = [f"pod-{number}" for number in range(50)]
    assert agreed_victims([[Answer(names), Answer(names[10:]), Answer(names[:20])]]) == names[10:20]
    assert len(reads) == 3
