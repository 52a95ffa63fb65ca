"""What is refused of queues, and what may be deleted."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringwise.state.model import Queue
from ringwise.state.queue_rules import MAX_LEVELS, QueueTable, children_of, deletion_problem, queue_problems
from ringwise.wellknown import HIERARCHY, HIERARCHY_WEIGHTS

GI = 1 << 30


def table(*queues: Queue) -> dict[str, Queue]:
    return {queue.name: queue for queue in queues}


def cpu(cores: int) -> dict[str, int]:
    return {"cpu": cores * 1000}


def chain(length: int) -> dict[str, Queue]:
    return table(
        *(Queue(f"q{one}", parent=f"q{one - 1}" if one > 1 else "root") for one in range(1, length + 1))
    )


def path(name: str, steps: str, weights: str) -> Queue:
    return Queue(name, annotations={HIERARCHY: steps, HIERARCHY_WEIGHTS: weights})


KNOWN = table(
    Queue("root"),
    Queue("default"),
    Queue("dept", capability=cpu(10), deserved=cpu(8), guarantee=cpu(4)),
    Queue("team", parent="dept", capability=cpu(6), deserved=cpu(5), guarantee=cpu(3)),
    Queue("busy", parent="root"),
    path("sci", "root/sci/dev", "1/2/3"),
)
PODS = {"busy": 2, "dept": 7}


@pytest.mark.parametrize(
    "queue",
    [
        Queue("new"),
        Queue("new", parent="root"),
        Queue("new", parent="default"),
        Queue("new", parent="team"),
        # The parent has queues below it, so that its pods are theirs.
        Queue("new", parent="dept", capability=cpu(10), deserved=cpu(3), guarantee=cpu(1)),
        Queue("new", capability=cpu(4), deserved=cpu(4), guarantee=cpu(4)),
        # No limit: 0 cores of capability, or none.
        Queue("new", capability={"cpu": 0, "memory": 0}, deserved={"cpu": 5, "memory": GI}),
        Queue("new", deserved=cpu(1000)),
        path("new", "root/sci/ops", "1/2/0.5"),
        path("new", "root/sci/development", "1/2/3"),
        path("new", "root/sci/dev/a", "1/2/3/1"),
    ],
)
def test_queues_that_are_allowed(queue: Queue) -> None:
    assert queue_problems(queue, KNOWN, PODS) == ()


@pytest.mark.parametrize(
    ("queue", "said"),
    [
        (Queue("new", parent="new"), "cannot be its own parent"),
        (Queue("new", parent="taem"), 'its parent taem does not exist; did you mean "team"?'),
        (Queue("new", parent="busy"), "its parent busy has 2 pods"),
        (Queue("root", parent="dept"), "root cannot have a parent"),
        (Queue("new", guarantee=cpu(1)), "guaranteed 1 of cpu and deserves 0"),
        (Queue("new", guarantee=cpu(3), deserved=cpu(2)), "guaranteed 3 of cpu and deserves 2"),
        (Queue("new", deserved={"memory": 3 * GI}, capability={"memory": GI}), "3 GiB of memory"),
        (Queue("new", parent="dept", capability=cpu(11)), "that of queue dept above it 10"),
        # The nearest above that has a limit counts.
        (Queue("new", parent="team", capability=cpu(7)), "that of queue team above it 6"),
        (Queue("new", parent="dept", deserved=cpu(4)), "9 of cpu together in spec.deserved"),
        (
            Queue("new", parent="dept", deserved=cpu(2), guarantee=cpu(2)),
            "5 of cpu together in spec.guarantee",
        ),
        # A parent that has none of it has 0.
        (Queue("new", parent="dept", deserved={"memory": GI}), "dept itself has 0"),
        (path("new", "root/a", "1"), "each step needs one weight"),
        (path("new", "root/a", "1/0"), 'must be a number above 0, got "0"'),
        (path("new", "root/a", "1/nan"), "must be a number above 0"),
        (path("new", "root/sci", "1/2"), "queue sci has the path root/sci/dev"),
        (path("new", "root/sci/dev", "1/2/3"), "queue sci has the path root/sci/dev"),
    ],
)
def test_queues_that_are_refused(queue: Queue, said: str) -> None:
    (problem,) = queue_problems(queue, KNOWN, PODS)
    assert said in problem


def test_levels_are_counted_with_the_queues_below() -> None:
    assert queue_problems(Queue("new", parent=f"q{MAX_LEVELS - 1}"), chain(MAX_LEVELS - 1)) == ()
    (problem,) = queue_problems(Queue("new", parent=f"q{MAX_LEVELS}"), chain(MAX_LEVELS))
    assert "depth of 5: the queues would be below each other in 6 levels" in problem
    queues = chain(3) | table(Queue("top"), Queue("middle", parent="top"), Queue("low", parent="middle"))
    moved = replace(queues["q1"], parent="low")
    (problem,) = queue_problems(moved, queues, before=queues["q1"])
    assert "6 levels" in problem


def test_parents_in_a_circle() -> None:
    queues = chain(3)
    (problem,) = queue_problems(replace(queues["q1"], parent="q3"), queues, before=queues["q1"])
    assert "its parents lead back to it: q1 -> q3 -> q2 -> q1" in problem


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"capability": cpu(5)}, "that of queue team below it 6"),
        ({"deserved": cpu(4)}, "5 of cpu together in spec.deserved"),
        ({"guarantee": cpu(2)}, "3 of cpu together in spec.guarantee"),
    ],
)
def test_a_parent_stays_above_its_children(change: dict[str, dict[str, int]], said: str) -> None:
    problems = queue_problems(replace(KNOWN["dept"], **change), KNOWN, before=KNOWN["dept"])  # type: ignore[arg-type]
    assert any(said in problem for problem in problems)


@pytest.mark.parametrize("names", [("low", "lower"), ("lower", "low")])
def test_the_queue_below_with_the_largest_capability_counts(names: tuple[str, str]) -> None:
    """Where several are above the new capability of their parent."""
    below = (Queue(name, parent="top", capability=cpu({"low": 7, "lower": 9}[name])) for name in names)
    queues = table(Queue("top", capability=cpu(10)), *below)
    for most, allowed in ((8, False), (9, True)):
        problems = queue_problems(replace(queues["top"], capability=cpu(most)), queues, before=queues["top"])
        assert (problems == ()) is allowed
        assert all("that of queue lower below it 9" in problem for problem in problems)


def test_only_what_a_change_makes_wrong_is_refused() -> None:
    wrong = Queue("old", guarantee=cpu(5), parent="gone")
    queues = {**KNOWN, "old": wrong}
    assert queue_problems(wrong, queues) != ()
    assert queue_problems(replace(wrong, weight=3), queues, before=wrong) == ()
    assert queue_problems(replace(wrong, guarantee=cpu(4)), queues, before=wrong) == ()
    (problem,) = queue_problems(
        replace(wrong, parent="root", deserved=cpu(6), capability=cpu(5)), queues, before=wrong
    )
    assert "deserved[cpu] must be <= capability[cpu]: spec.deserved is 6 of cpu" in problem


def test_the_resources_of_the_root_are_fixed() -> None:
    root = KNOWN["root"]
    assert queue_problems(replace(root, weight=2), KNOWN, before=root) == ()
    for field in ("capability", "deserved", "guarantee"):
        problems = queue_problems(replace(root, **{field: cpu(1)}), KNOWN, before=root)  # type: ignore[arg-type]
        assert any("of the queue root cannot be changed" in problem for problem in problems)


@pytest.mark.parametrize(
    ("name", "pods", "why"),
    [
        ("default", 0, "`default` queue can not be deleted: it exists in every cluster"),
        ("root", 0, "`root` queue can not be deleted: it exists in every cluster"),
        (
            "dept",
            0,
            "queue dept can not be deleted because it has 1 child queues: it has the 1 queue team below it",
        ),
        ("team", 0, ""),
        ("team", 3, "queue team cannot be deleted because it has allocated Pods: it has 3 pods"),
        ("unknown", 0, ""),
    ],
)
def test_which_queues_must_stay(name: str, pods: int, why: str) -> None:
    assert deletion_problem(name, KNOWN, pods=pods) == why


NAMES = ("root", "default", "a", "b", "c", "d")
ANY_QUEUE = st.builds(
    Queue,
    name=st.sampled_from(NAMES),
    parent=st.sampled_from(("", *NAMES, "gone")),
    capability=st.dictionaries(st.sampled_from(("cpu", "memory")), st.integers(0, 4)),
    guarantee=st.dictionaries(st.sampled_from(("cpu", "memory")), st.integers(0, 4)),
    deserved=st.dictionaries(st.sampled_from(("cpu", "memory")), st.integers(0, 4)),
)


@given(st.lists(ANY_QUEUE, max_size=12), ANY_QUEUE)
def test_queues_that_are_allowed_form_a_tree(known: list[Queue], wanted: Queue) -> None:
    """Queues that come and change one by one, each change allowed, lead to the root, and children have no
    more than parents.
    """
    queues: dict[str, Queue] = {}
    queue_problems(wanted, table(*known), {"a": 1})
    for queue in (*known, wanted):
        before = queues.get(queue.name)
        changed = queue if before is None else replace(queue, parent=before.parent)
        if not queue_problems(changed, queues, before=before):
            queues[queue.name] = changed
    for name, queue in queues.items():
        steps = 0
        upper = queue
        while upper.name != "root" and upper.parent not in ("", "root"):
            upper = queues[upper.parent]
            steps += 1
            assert steps < MAX_LEVELS
        for field in ("guarantee", "deserved"):
            below = [] if name == "root" else children_of(name, queues)
            for resource in ("cpu", "memory"):
                total = sum(getattr(queues[child], field).get(resource, 0) for child in below)
                assert total <= getattr(queue, field).get(resource, 0) or not below
        for above in QueueTable(queues, queue).above(queue):
            for resource, most in above.limits.items():
                assert queue.limits.get(resource, 0) <= most
