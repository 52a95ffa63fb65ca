"""Documents of version 2 in their version 1, for programs that read the fields of before; for one release.

What version 1 cannot say is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ringwise.durations import time_text
from ringwise.manifests.text.quantities import rfc3339
from ringwise.messages.commands import FORMER_NAMES

Document = dict[str, Any]

#: What a program may ask for.
VERSIONS = ("1", "2")

_OLD_SUFFIX, _NEW_SUFFIX = "/v1", "/v2"
#: A chip that no pod holds and that works was free, whatever its node was.
_CHIP_STATES = {"faulty": "unhealthy", "reserved": "free", "closed": "free"}
#: States that keep pods from the chips of one resource of a node.
_PARTLY_CLOSED = ("unstable", "unreadable")
#: States that version 1 says in other fields, or that take pods.
_WITH_FIELDS = ("not ready", "cordoned", "sub-healthy", "report pending", "ready")
_NEW_OF_NODES = (
    *("open", "state", "states", "chips", "now", "labels", "taints"),
    *("rack", "numbers", "chip_states", "health", "own_superpod"),
)
_NEW_OF_JOBS = (
    "never",
    "hurt",
    "hurt_by",
    "moves",
    "reason_code",
    "reason_text",
    "condition_of",
    "expected_start",
)
_NEW_OF_WHY = ("now", "refused_pod", "refusal_examples", "pictures")
_REASON_CODES = {"cordoned": "node-cordoned", "draining": "drain-ahead"}


def as_version_1(document: Any, *, of_cluster: bool = False) -> Any:
    """The same answer in version 1; what did not change with version 2 is returned as it is.

    `of_cluster`: `kubectl ringwise get` had documents of its own.
    """
    if not isinstance(document, dict):
        return document
    schema = document.get("schema")
    if of_cluster and schema in OF_CLUSTER:
        return OF_CLUSTER[schema](document)
    change = CHANGES.get(schema) if isinstance(schema, str) else None
    if change is None:
        return document
    return {**change(document), "schema": old_schema(str(schema))}


def _without(document: Document, *names: str) -> Document:
    return {name: value for name, value in document.items() if name not in names}


def old_schema(schema: str) -> str:
    return schema.removesuffix(_NEW_SUFFIX) + _OLD_SUFFIX


# -- nodes ---------------------------------------------------------------------------------------


def _nodes(document: Document) -> Document:
    return {**document, "nodes": [_node(one) for one in document["nodes"]]}


def _node(node: Document) -> Document:
    states = [one["state"] for one in node["states"]]
    ahead = ("draining",) if node["open"] else ()
    found = (one["why"] for one in node["states"] if one["state"] not in (*_WITH_FIELDS, *ahead))
    closed = next(found, None)
    return _without(node, *_NEW_OF_NODES) | {
        "ready": "not ready" not in states,
        "cordoned": "cordoned" in states,
        "superpod": node["own_superpod"],
        "chips": [_chips_of_node(chips, closed) for chips in node["chips"]],
    }


def _chips_of_node(chips: Document, closed: str | None) -> Document:
    marks = chips["marks"]
    return {
        "resource": chips["resource"],
        "board": chips["board"],
        "count": chips["count"],
        "free": sorted([*chips["free"], *chips["closed"]]),
        "held": chips["used"],
        "faulty": marks["faulty"],
        "pre_separated": marks["pre_separated"],
        "network_faulty": marks["network_faulty"],
        "reserved": marks["reserved"],
        "isolated": marks["isolated"],
        "closed": closed,
    }


def _top(document: Document) -> Document:
    status = document["status"]
    kept = _without(status, "resources")
    commands = {FORMER_NAMES.get(name, name): count for name, count in status["commands"].items()}
    # Version 1 adds the chips of all resources.
    chips, held = (sum(one[name] for one in status["resources"].values()) for name in ("chips", "used"))
    # A faulty chip that a pod holds was counted as both.
    faulty = sum(len(chips["marks"]["faulty"]) for node in document["nodes"] for chips in node["chips"])
    return {
        **_nodes(document),
        "status": kept | {"commands": commands, "chips": chips, "held": held, "faulty": faulty},
        "queues": [_without(queue, "share", "max_chips") for queue in document["queues"]],
        "waiting": [_without(job, *_NEW_OF_JOBS) for job in document["waiting"]],
    }


def _capacity(document: Document) -> Document:
    boards = [{**_without(one, "drains"), "chips": _counts(one["chips"])} for one in document["boards"]]
    return {**document, "boards": boards}


def _counts(chips: Document) -> Document:
    made = _without(chips, "used", "isolated", "before_drain")
    # An isolated chip was counted as a faulty one.
    return made | {"held": chips["used"], "faulty": chips["faulty"] + chips["isolated"]}


def _chips(document: Document) -> Document:
    rows = [{**row, "state": _CHIP_STATES.get(row["state"], row["state"])} for row in document["chips"]]
    return {**document, "chips": rows}


# -- clusters ------------------------------------------------------------------------------------


def _live_jobs(document: Document) -> Document:
    jobs = [_live_job(job) for job in document["jobs"] if job["outcome"] not in ("suspended", "ended")]
    return {"schema": LIVE_SCHEMAS[0], "jobs": jobs}


def _live_job(job: Document) -> Document:
    placed = job["outcome"] == "placed"
    return {
        "namespace": job["namespace"],
        "name": job["name"],
        "state": job["outcome"] if not placed else "running" if job["nodes"] else "starting",
        "pods": job["pods"],
        "chips": job["chips"] if placed else 0,
        "nodes": sorted(job["nodes"]),
        "reason": job["reason"],
    }


def _live_nodes(document: Document) -> Document:
    """One row for each resource of a node, resource by resource."""
    rows = [
        {
            "node": node["name"],
            "resource": chips["resource"],
            "chips": chips["count"],
            "held": len(chips["used"]),
            "free": len(chips["free"]) + len(chips["closed"]),
            "isolated": len(chips["marks"]["isolated"]),
        }
        for node in document["nodes"]
        for chips in node["chips"]
    ]
    return {"schema": LIVE_SCHEMAS[1], "nodes": sorted(rows, key=lambda row: str(row["resource"]))}


LIVE_SCHEMAS = ("ringwise.io/live-jobs/v1", "ringwise.io/live-nodes/v1")
#: Documents of clusters -> how they become those of `kubectl ringwise get` before version 2.
OF_CLUSTER: dict[str, Callable[[Document], Document]] = {
    "ringwise.io/jobs/v1": _live_jobs,
    "ringwise.io/nodes/v2": _live_nodes,
}


# -- why -----------------------------------------------------------------------------------------


def _why(document: Document) -> Document:
    """Only one time was an expected start."""
    start = document["expected_start"]
    known = start is not None and start["kind"] == "known" and start["earliest"] == start["latest"]
    old = {"starts": start["latest"], "after": start["after"]} if known and start["after"] else None
    if old is not None:
        old["time"] = time_text(start["latest"])
    return _without(document, *_NEW_OF_WHY) | {"expected_start": old}


# -- dashboard -----------------------------------------------------------------------------------


def _dashboard(document: Document) -> Document:
    made = {
        **document,
        "nodes": [_row(row) for row in document["nodes"]],
        "jobs": [_job_row(row) for row in document["jobs"]],
        "queues": [_queue(queue) for queue in document["queues"]],
        "totals": _totals(document["totals"]),
    }
    if "boards" in document:
        made["boards"] = [_without(one, "resource") for one in document["boards"]]
    return made


def _totals(totals: Document) -> Document:
    """Version 1 adds the chips of all resources."""
    found = list(totals["resources"].values())
    sums = {name: sum(one[name] for one in found) for name in ("chips", "used", "faulty", "isolated", "free")}
    parts = _fragmentation([(one["free"], one["fragmentation"]) for one in found])
    return sums | _job_counts(totals) | {"fragmentation": parts}


def _job_counts(counts: Document) -> Document:
    """Version 1 counts refused jobs with those that wait."""
    return {"waiting": counts["waiting"] + counts["refused"], "running": counts["running"]}


def _fragmentation(parts: list[tuple[int, float]]) -> float:
    free = sum(one for one, _ in parts)
    return round(sum(one * part for one, part in parts) / free, 4) if free else 0.0


def _queue(queue: Document) -> Document:
    limits = queue["capability"].values()
    return (
        _without(queue, "refused", "max_chips")
        | _job_counts(queue)
        | {
            "share": sum(queue["share"].values()),
            "capability": sum(limits) if limits else None,
            "used": sum(queue["used"].values()),
        }
    )


def _series(document: Document) -> Document:
    chips = list(document["resources"].values())
    times = range(len(document["times"]))
    return _without(document, "resources", "refused") | {
        "waiting": [document["waiting"][i] + document["refused"][i] for i in times],
        "used": [sum(one["used"][i] for one in chips) for i in times],
        "free": [sum(one["free"][i] for one in chips) for i in times],
        "fragmentation": [
            _fragmentation([(one["free"][i], one["fragmentation"][i]) for one in chips]) for i in times
        ],
    }


def _row(row: Document) -> Document:
    return {
        "name": row["name"],
        "board": row["board"],
        **_place(row),
        "state": _row_state(row),
        "why": row["states"][0]["why"],
        "numbers": row["numbers"],
        "holders": row["holders"],
        "health": row["health"],
    }


def _place(of: Document) -> Document:
    """Where a node or a pod is; what is not known was an empty text."""
    return {name: "" if of[name] is None else str(of[name]) for name in ("switch", "superpod", "rack")}


def _job_row(row: Document) -> Document:
    return _without(row, "created", *_NEW_OF_JOBS) | {
        "since": rfc3339(row["created"]),
        "reason": row["reason_code"],
        "message": row["reason_text"],
        "condition_of": row["condition_of"],
    }


def _dashboard_job(document: Document) -> Document:
    job = document["job"]
    pods = [{**pod, **_place(pod)} for pod in document["pods"]]
    old = _without(document, "plans")
    return {**old, "job": {**_job_row(job), "hurt": job["hurt_by"]}, "pods": pods}


def _row_state(row: Mapping[str, Any]) -> str:
    state = row["state"]
    if state in ("not ready", "isolated"):
        return "not-ready" if state == "not ready" else "isolated"
    return "ready" if row["open"] and state not in _PARTLY_CLOSED else "unschedulable"


def _dashboard_node(document: Document) -> Document:
    reasons = [
        {**one, "code": one["code"] if one["code"].startswith("taint ") else _old_code(one["code"])}
        for one in document["reasons"]
    ]
    return {**document, "node": _row(document["node"]), "reasons": reasons}


def _old_code(state: str) -> str:
    return _REASON_CODES.get(state, "note")


#: Documents that have a version 2 -> how they become version 1.
CHANGES: dict[str, Callable[[Document], Document]] = {
    "ringwise.io/capacity/v2": _capacity,
    "ringwise.io/chips/v2": _chips,
    "ringwise.io/dashboard/v2": _dashboard,
    "ringwise.io/dashboard-change/v2": _dashboard,
    "ringwise.io/dashboard-job/v2": _dashboard_job,
    "ringwise.io/dashboard-node/v2": _dashboard_node,
    "ringwise.io/node/v2": _node,
    "ringwise.io/nodes/v2": _nodes,
    "ringwise.io/series/v2": _series,
    "ringwise.io/top/v2": _top,
    "ringwise.io/why/v2": _why,
}
