"""Convert journals that were written before the leader record had tables, so that they can be replayed.

    python -m tools.convert_journal JOURNAL...

Each file is replaced. The event `ReschedulingRead` with records of version 1 becomes `LeaderRecordRead`
with the same entries in tables. Commands stay: those that wrote records are not compared in a replay.
"""

from __future__ import annotations

import argparse
import base64
import json
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

VERSION = 2
#: Fields of version 1 that had other names.
_NAMES = {
    "deletingSince": "deleting_since",
    "toldToExit": "told_to_exit",
    "hardwareBroke": "hardware_broke",
    "usedRetry": "used_retry",
    "podsOwner": "pods_owner",
    "lastGone": "last_gone",
    "roomLoads": "room_loads",
    "movedNames": "moved_names",
    "hotSwitch": "hot_switch",
    "waited": "counted",
}
_LEVELS = {"POD": 0, "RACK": 1, "BLOCK": 2, "JOB": 3}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("journals", metavar="JOURNAL", nargs="+", type=Path)
    for path in parser.parse_args().journals:
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        path.write_text("".join(map(converted_line, lines)), encoding="utf-8")
    return 0


def converted_line(line: str) -> str:
    if '"ReschedulingRead"' not in line:
        return line
    batch = json.loads(line)
    batch["events"] = [converted_event(*event) for event in batch["events"]]
    return json.dumps(batch, separators=(",", ":"), ensure_ascii=False) + "\n"


def converted_event(name: str, content: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    if name != "ReschedulingRead":
        return name, content
    texts = {
        f"{table}.json": json.dumps({"version": VERSION, "entries": entries}, separators=(",", ":"))
        for table, entries in tables_of(content).items()
        if entries
    }
    kept: dict[str, Any] = {
        key: content[key] for key in ("records", "fault_nodes", "takes_over") if key in content
    }
    return "LeaderRecordRead", {"tables": texts, **kept}


def tables_of(content: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The entries of all records, by table and key."""
    document = _read(content, "document")
    runs, moves = _read(content, "run_times"), _read(content, "moves")
    reservations = _read(content, "reservations")
    placements = document.get("placements", ())
    return {
        "fault-jobs": {one["key"]: _fault_job(one) for one in document.get("jobs", ())},
        "previous-placements": {one["owner"]: _placement(one) for one in placements if one["ranks"]},
        "leaving-pods": {uid: pod for one in placements for uid, pod in _leaving(one)},
        "reserved-quota": {one["owner"]: _quota(one) for one in document.get("shares", ())},
        "tolerated-faults": {
            node: [[[chip, code], seen] for chip, code, seen in faults]
            for node, faults in document.get("tolerated", ())
        },
        "clocks": {
            one["key"]: {**_renamed(one, "key"), "level": _LEVELS[one["level"]]}
            for one in document.get("clocks", ())
        },
        "retries": {
            owner: {"job": job, "used": used, "allowed": allowed}
            for owner, (job, used, allowed) in document.get("retries", {}).items()
        },
        "restarts": {
            owner: {"first": first, "last": last, "again": again}
            for owner, first, last, again in document.get("restarts", ())
        },
        "cool-downs": {
            owner: [[[node, chip], one] for node, chip, *one in chips]
            for owner, chips in _read(content, "cool_downs").get("owners", {}).items()
        },
        "rejected-pods": {place: one for place, *one in document.get("rejections", ())},
        "moves": {one["plan"]["id"]: _live(one) for one in moves.get("plans", ())},
        "ended-moves": {one["id"]: _renamed(one) for one in moves.get("ended", ())},
        "moved-jobs": {
            f"{owner}@{at}": {"owner": owner, "at": at, "chips": chips}
            for owner, at, chips in moves.get("moved", ())
        },
        "run-times": {
            key: {"uid": uid, "started": started, "limit": limit, "warned": warned, "queues": queues}
            # The limit was one of a queue; there were no UsageLimits.
            | {"limited_by": ""}
            for key, uid, started, limit, warned, *queues in runs.get("runs", ())
        },
        "pod-queues": dict(runs.get("bound", ())),
        "borrowing-pods": dict.fromkeys(runs.get("lent", ())),
        "users": {} if runs.get("users") is None else {"since": runs["users"]},
        "overruns": {uid: one for uid, *one in _read(content, "overruns").get("pods", ())},
        "preemptions": {
            key: dict(zip(("at", "cause", "by", "pods", "chips", "lost", "back"), one, strict=True))
            for key, *one in _read(content, "preemptions").get("preempted", ())
        },
        "reservations": dict(map(_reservation, reservations.get("reservations", ()))),
        "throttled": dict.fromkeys(reservations.get("throttled", ())),
    }


def _read(content: dict[str, Any], name: str) -> dict[str, Any]:
    found = json.loads(content.get(name) or "{}")
    if isinstance(found, dict) and isinstance(found.get("compressed"), str):
        found = json.loads(zlib.decompress(base64.b64decode(found["compressed"])))
    return found if isinstance(found, dict) and found.get("version") == 1 else {}


def _renamed(given: dict[str, Any], *without: str) -> dict[str, Any]:
    return {_NAMES.get(key, key): value for key, value in given.items() if key not in without}


def _position(given: list[Any]) -> dict[str, Any]:
    return dict(zip(("rank", "block", "rack", "master"), given, strict=True))


def _fault_job(given: dict[str, Any]) -> dict[str, Any]:
    faulty = {}
    for one in given["faulty"]:
        fault = {key: one[key] for key in ("type", "why", "unreachable", "chips")}
        fault["hot_switch"] = one["hotSwitch"]
        pod = {key: one[key] for key in ("uid", "name", "node")}
        faulty[one["uid"]] = {**pod, "position": _position(one["position"]), "fault": fault}
    names = ("name", "position", "sent", "forced", "unreachable", "evict")
    deletions = {uid: dict(zip(names, one, strict=True)) for uid, one in given["deletions"].items()}
    for one in deletions.values():
        one["position"] = _position(one["position"])
    missing = {str(one[0]): _position(one) for one in given["missing"]}
    return {**_renamed(given), "faulty": faulty, "missing": missing, "deletions": deletions}


def _load(given: list[Any]) -> dict[str, Any]:
    cpu, memory, pods, extended = given
    return {
        "cpu_milli": cpu,
        "memory": memory,
        "pods": pods,
        "extended": [[*one] for one in extended.items()],
    }


def _rank(given: list[Any], suspended: bool) -> tuple[dict[str, Any], int, dict[str, Any]]:
    node, annotations, faulty, lost, chips, load = given
    previous = {"node": node, "annotations": annotations, "faulty": faulty, "lost": lost}
    return {**previous, "held": not suspended, "suspended": suspended}, chips, _load(load)


def _placement(given: dict[str, Any]) -> dict[str, Any]:
    ranks = {rank: _rank(one, given["suspended"]) for rank, one in given["ranks"].items()}
    kept = {key: given[key] for key in ("job", "resource", "until", "suspended")}
    parts = ("nodes", "chips", "loads")
    return {
        **kept,
        "pods_owner": given["podsOwner"],
        **{part: {rank: one[number] for rank, one in ranks.items()} for number, part in enumerate(parts)},
    }


def _leaving(given: dict[str, Any]) -> Iterable[tuple[str, dict[str, Any]]]:
    common = {"owner": given["owner"], "job": given["job"], "resource": given["resource"]}
    for uid, (rank, *one) in given["leaving"].items():
        node, chips, load = _rank(one, given["suspended"])
        pod = {"rank": rank, "node": node, "chips": chips, "load": load, "pods_owner": given["podsOwner"]}
        yield uid, {**common, **pod}


def _quota(given: dict[str, Any]) -> dict[str, Any]:
    ranks = {str(rank): amounts for amounts, numbers in given["ranks"] for rank in numbers}
    return {**_renamed(given, "owner"), "ranks": ranks}


def _place(pod: list[Any]) -> list[Any]:
    _, name, node, chips = pod
    return [name.rpartition("/")[2], node, sum(1 << chip for chip in chips)]


def _live(given: dict[str, Any]) -> dict[str, Any]:
    moves = given["plan"]["moves"]
    places = {
        new[0]: (_place(new), _place(old))
        for move in moves
        for new, old in zip(move["pods"], move["old"], strict=True)
    }
    jobs = [
        {
            **_renamed(job),
            "pods": {
                uid: {"target": places[uid][0], "old": places[uid][1], "load": _load(load), "gone": gone}
                for uid, (load, gone) in job["pods"].items()
            },
        }
        for job in given["jobs"]
    ]
    plan = {**given["plan"], "room": [*map(_planned, given["plan"]["room"])]}
    plan["moves"] = [
        {**move, "pods": [*map(_planned, move["pods"])], "old": [*map(_planned, move["old"])]}
        for move in moves
    ]
    loads = {node: _load(load) for node, load in given["roomLoads"].items()}
    return {**_renamed(given), "plan": plan, "jobs": jobs, "room_loads": loads}


def _planned(pod: list[Any]) -> dict[str, Any]:
    return dict(zip(("uid", "name", "node", "chips"), pod, strict=True))


def _reservation(given: list[Any]) -> tuple[str, dict[str, Any]]:
    owner, resource, since, expires, starts, why, evicting, nodes, awaited, nominated = given
    entry = {"resource": resource, "why": why, "since": since, "expires": expires, "starts": starts}
    loads = {node: _load([*amounts[:3], dict(amounts[3])]) for node, _, amounts in nodes}
    return owner, {
        **entry,
        "evicting": evicting,
        "chips": {node: int(chips, 16) for node, chips, _ in nodes if int(chips, 16)},
        "loads": {node: load for node, load in loads.items() if any(load.values())},
        "awaited": awaited,
        "nominated": dict(nominated),
    }


if __name__ == "__main__":
    raise SystemExit(main())
