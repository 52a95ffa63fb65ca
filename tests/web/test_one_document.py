"""One document of a job and one of a node: every other shape of them takes its fields from there."""

from __future__ import annotations

import ast
import re
from functools import cache
from typing import Any, get_type_hints

import pytest

from ringwise.scheduler.core.machine import Scheduler
from ringwise.state.model import Isolation, NodeReport
from ringwise.views.cluster import ClusterObjects, job_views, node_documents
from ringwise.views.documents import cluster as documents
from ringwise.views.documents import dashboard
from tests.builders.values import SECOND, gang, isolated, node, pod, report
from tests.checkout import PACKAGE, SOURCES, nodes_in
from tests.scheduler.rig import NOW, scheduler_told
from tests.web.test_rows import rows_of

#: Where something is shown; below it nothing is.
SHOWING = ("cli", "views", "metrics", "web", "apps", "kube")

#: Fields by which a shape is one of a job or of a node that exists, with its state.
OF_JOBS = (frozenset({"namespace", "name", "queue", "phase"}), frozenset({"name", "state", "phase"}))
OF_NODES = (
    frozenset({"name", "states"}),
    frozenset({"name", "schedulable"}),
    frozenset({"name", "ready", "cordoned"}),
    frozenset({"name", "health", "state"}),
)


def fields_of(found: ast.ClassDef) -> set[str]:
    return {
        one.target.id
        for one in found.body
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
    }


def shapes(source: str) -> dict[str, tuple[list[str], set[str]]]:
    """Class with declared fields (TypedDict, dataclass, Struct, NamedTuple) -> its bases and its fields."""
    found: dict[str, tuple[list[str], set[str]]] = {}
    for one in nodes_in(source):
        if isinstance(one, ast.ClassDef):
            found[one.name] = [ast.unparse(base).split(".")[-1] for base in one.bases], fields_of(one)
        elif isinstance(one, ast.Call) and len(one.args) > 1 and ast.unparse(one.func).endswith("TypedDict"):
            keys = one.args[1].keys if isinstance(one.args[1], ast.Dict) else []
            names = {
                key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str)
            }
            found[ast.literal_eval(one.args[0])] = [], names
    return found


@cache
def all_shapes() -> dict[str, tuple[list[str], set[str]]]:
    found: dict[str, tuple[list[str], set[str]]] = {}
    for path in SOURCES:
        if path.relative_to(PACKAGE).parts[0] in SHOWING:
            found |= shapes(path.read_text(encoding="utf-8"))
    return found


def declaring(known: dict[str, tuple[list[str], set[str]]], signs: tuple[frozenset[str], ...]) -> set[str]:
    """The classes that have the signs and do not have all of them from a class above."""

    def inherited(name: str) -> set[str]:
        bases, fields = known.get(name, ([], set()))
        return fields.union(*map(inherited, bases)) if bases else fields

    def has(fields: set[str]) -> bool:
        return any(sign <= fields for sign in signs)

    return {
        name
        for name, (bases, _) in known.items()
        if has(inherited(name)) and not any(has(inherited(base)) for base in bases)
    }


def test_the_search_for_shapes_finds_them() -> None:
    source = """
class Row(TypedDict):
    name: str
    state: str
    phase: str
class Whole(Row):
    pods: int
Second = TypedDict("Second", {"name": str, "state": str, "phase": str})
class Third(Struct):
    name: str
    states: list[str]
"""
    assert declaring(shapes(source), OF_JOBS) == {"Row", "Second"}
    assert declaring(shapes(source), OF_NODES) == {"Third"}


def test_a_shown_job_has_one_shape() -> None:
    """`JobView` is what the document is made from; it is not shown itself."""
    assert declaring(all_shapes(), OF_JOBS) == {"JobRow", "JobView"}


def test_answers_about_a_job_say_what_would_happen_to_it() -> None:
    """They name the job and have a state or result of their own, of a run, a drain or an explanation.

    `JobFields` is the shown job itself with its details: it has the state of `JobRow`.
    """
    fields = (frozenset({"namespace", "name", word}) for word in ("outcome", "result"))
    about = declaring(
        all_shapes(), (*fields, frozenset({"namespace", "name", "pods", "state", "reason"}))
    ) - {"JobFields"}
    assert about == {"DrainedJobFields", "PlacedJobFields", "WhyDocument"}


def test_a_shown_node_has_one_shape() -> None:
    assert declaring(all_shapes(), OF_NODES) == {"NodeRow"}


@pytest.mark.parametrize(
    ("row", "document", "whole", "own"),
    [
        (dashboard.DashboardJob, documents.JobRow, documents.JobFields, {"id"}),
        (dashboard.DashboardNode, documents.NodeRow, documents.NodeFields, {"board", "holders"}),
    ],
)
def test_a_row_of_the_dashboard_is_a_part_of_the_document(
    row: type, document: type, whole: type, own: set[str]
) -> None:
    """Its own fields only point into other tables of the same answer."""
    fields, base, all_of_it = (get_type_hints(one, include_extras=True) for one in (row, document, whole))
    # How pods share the chips of a node is drawn from a form of its own.
    assert fields.keys() - base.keys() - get_type_hints(dashboard.DashboardSharing).keys() == own
    assert {name: fields[name] for name in base} == base
    assert {name: all_of_it[name] for name in base} == base
    assert not own & all_of_it.keys()


def scheduler() -> Scheduler:
    return scheduler_told(
        node("n1", superpod=0, faulty=1),
        report("n1", range(1, 8), unhealthy=1),
        node("n2", unschedulable=True),
        node("n3"),
        NodeReport("n3", "switch", "UnHealthy"),
        node("n4"),
        node("n5", devices=None),
        node("n6", ready=False),
        isolated(
            Isolation("n4", ("Ascend910-3",)),
            Isolation("n4", start=NOW + SECOND),
            Isolation("n5", reason="drain"),
        ),
        pod("held", 2, on="n3", holds=[0, 1]),
        gang("runs", 1, 4),
        gang("waits", 4, 8),
        gang("wrong", 2, 3),
    )


def test_the_dashboard_shows_the_values_of_the_documents() -> None:
    told = scheduler()
    view, shown = told.view, rows_of(told)
    nodes = [one for one in view.cluster.nodes if one is not None]
    pods = [one.pod for one in view.cluster.pods.values()]
    groups = [job.group for job in view.jobs.values() if job.group is not None]
    objects = ClusterObjects(view, view.history.now, nodes, pods, groups, [], list(view.vcjobs.values()))
    made: dict[str, Any] = {one["name"]: dict(one) for one in node_documents(objects)}
    assert len(made) == 6
    for node_row in shown.nodes():
        document = made[node_row["name"]]
        assert {**document, **node_row} == {**node_row, **document}
    # Rows have the reasons of the last attempt; lists ask anew.
    made = {one.name: dict(one.document()) for one in job_views(objects)}
    rows = {row["name"]: row for row in shown.jobs()}
    assert rows.keys() == made.keys() == {"held", "runs", "waits", "wrong"}
    assert {row["state"] for row in rows.values()} == {"scheduled", "pending", "rejected"}
    for name, job_row in rows.items():
        assert {**made[name], **job_row} == {**job_row, **made[name]}


def page_types(name: str) -> set[str]:
    """The properties of a type of the page."""
    text = (PACKAGE / "web/page/types.js").read_text(encoding="utf-8")
    (block,) = re.findall(rf"/\*\*((?:(?!\*/).)*?@typedef {{object}} {name}\n.*?)\*/", text, re.DOTALL)
    return set(re.findall(r"@property {[^}]*} \[?(\w+)", block))


@pytest.mark.parametrize(
    ("name", "row"), [("JobRow", dashboard.DashboardJob), ("NodeRow", dashboard.DashboardNode)]
)
def test_the_page_knows_the_same_fields(name: str, row: type) -> None:
    assert page_types(name) == get_type_hints(row).keys()
