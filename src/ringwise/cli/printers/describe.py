"""All fields of one node, job, queue, pod or HyperNode."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import starmap
from typing import Any

from rich.console import Console
from rich.markup import escape

from ringwise.cli.printers.chips import OTHER_STATES, chip_list, chip_picture
from ringwise.cli.printers.cluster import (
    HYPER_NODES,
    JOBS,
    PODS,
    amounts_text,
    decision_text,
    job_fault_text,
    limit_text,
    node_state,
)
from ringwise.cli.printers.lines import print_line, print_reason
from ringwise.cli.printers.name_lists import name_list
from ringwise.cli.printers.tables import Column, Table
from ringwise.durations import duration_text, time_text
from ringwise.grammar import agrees, counted
from ringwise.topology.numbers import UINT64
from ringwise.views.documents.cluster import (
    ChipTotals,
    JobDocument,
    NodeDocument,
    PodDocument,
    PodFields,
    QueueDocument,
    SubGroupFields,
)
from ringwise.views.documents.hyper_nodes import HyperNodeDocument, HyperNodeMemberFields
from ringwise.wellknown import PREDICATE_TIME

#: Expressions and selectors of a HyperNode that are shown.
_MEMBERS = 8
#: Pods with a share or a vNPU of one chip that are shown.
_SHARES = 8


def print_node(console: Console, node: NodeDocument) -> None:
    _facts(
        console,
        f"node {node['name']}",
        {
            "state": node_state(node, node["now"]),
            "address": node["address"],
            "leaf switch": node["switch"],
            "SuperPoD": node["superpod"],
            "labels": ", ".join(f"{key}={value}" for key, value in node["labels"].items()),
            "taints": ", ".join(node["taints"]),
        },
    )
    for chips in node["chips"]:
        kind = node.get("allocation_mode") or chips["board"] or "no board"
        print_line(
            console,
            f"  {escape(chips['resource'])} ({kind})  {escape(chip_picture(chips))}  "
            f"{len(chips['free'])} of {chips['count']} free",
        )
        for chip, percent in zip(chips["used"], chips.get("used_percent", ()), strict=False):
            on = [pod for pod in node["pod_details"] if chip in pod["chips"]]
            names = [f"{pod['namespace']}/{pod['name']} ({_request(pod)})" for pod in on[:_SHARES]]
            names += [f"{len(on) - _SHARES} more"] if len(on) > _SHARES else []
            print_line(console, escape(f"  chip {chip}: {percent}% used: {', '.join(names)}"))
        marks, whole = chips["marks"], any(one["state"] == "isolated" for one in node["states"])
        for word, numbers, more in (
            ("faulty", marks["faulty"], "details: ringwise fault list"),
            ("network faulty", marks["network_faulty"], "details: ringwise fault list"),
            ("PreSeparateNPU", marks["pre_separated"], "new pods do not get them"),
            (
                "isolated",
                [] if whole else marks["isolated"],
                f"details: ringwise get chips --node {node['name']}",
            ),
        ):
            if numbers:
                print_line(console, escape(f"  {word}: {chip_list(numbers)} ({more})"), style="yellow")
    for one in node["states"]:
        if one["message"]:
            print_line(console, f"  {escape(one['message'])}", style="yellow")
    _pods(console, node["pod_details"], node["now"])


def _request(pod: PodFields) -> str:
    return pod["part"]["message"] if "part" in pod else counted(pod["requested_chips"], "chip")


def print_job(console: Console, job: JobDocument) -> None:
    _facts(
        console,
        f"job {job['namespace']}/{job['name']} ({job['kind']})",
        {
            "phase": job["phase"],
            "queue": job["queue"],
            "priority": job["priority"] or None,
            "tasks": ", ".join(f"{task['replicas']} x {task['name']}" for task in job["tasks"]),
            "pods": f"{job['scheduled']} of {job['pods']} placed, {job['min_available']} needed to start",
            "sub-groups": "; ".join(map(_sub_groups, job["sub_groups"])),
            "chips": job["chips"],
            "retries": job["retries"] or None,
            "message": job["message"],
            "submitted": time_text(job["created"]),
        },
    )
    for fault in job["faults"]:
        print_line(console, f"  affected by {escape(job_fault_text(fault, job['now']))}", style="red")
    for note in job.get("notes", ()):
        print_line(console, f"  {escape(note)}", style="yellow")
    print_reason(console, job["reason"], job["board_reason"], style="yellow")
    for line in decision_text(job):
        print_line(console, f"  {escape(line)}", style="yellow")
    if job["expected_start"] is not None:
        print_line(console, f"  expected start: {escape(job['expected_start']['message'])}")
    _pods(console, job["pod_details"], job["now"])


def _sub_groups(row: SubGroupFields) -> str:
    text = f"{row['complete']} of {row['sub_groups']} of {row['policy'] or '(no name)'} complete"
    return f"{text}, {row['needed']} needed to start; {counted(row['size'], 'pod')} each"


def print_queue(console: Console, queue: QueueDocument) -> None:
    _facts(
        console,
        f"queue {queue['name']}",
        {
            "state": queue["state"],
            "weight": queue["weight"],
            "used": amounts_text(queue["used"]),
            "share": amounts_text(queue["fair_share"]),
            "reserved": _reserved_text(queue),
            "limit": limit_text(queue),
            "guaranteed": amounts_text(queue["guarantee"]),
            "reclaimable": "yes" if queue["reclaimable"] else "no",
        },
    )
    if queue["job_details"]:
        console.print()
        JOBS.draw(console, queue["job_details"], queue["now"])


def _reserved_text(queue: QueueDocument) -> str | None:
    """What counts as used although no pod uses it (F6)."""
    if not queue["reserved_quota"]:
        return None
    until = queue["reserved_quota_until"]
    limit = "" if until is None else f", for at most {duration_text(until - queue['now'])}"
    jobs = ", ".join(queue["reserved_quota_jobs"])
    return f"{amounts_text(queue['reserved_quota'])} for {jobs}, which lost pods{limit}"


def print_pod(console: Console, pod: PodDocument) -> None:
    _facts(
        console,
        f"pod {pod['namespace']}/{pod['name']}",
        {
            "phase": pod["phase"],
            "job": pod["job"],
            "node": pod["node"],
            "would be placed on": pod.get("would_be_scheduled_on"),
            "requests": pod["request"],
            "chips": ", ".join(map(str, pod["chips"])),
            "rank": pod["rank"],
            "exit code": pod["exit_code"],
            "created": time_text(pod["created"]),
        },
    )
    print_reason(console, pod["reason"], style="yellow")
    if pod["container"] is not None:
        _container(console, pod["container"])
    for title, pairs in (("annotations", pod["annotations"]), ("environment", pod["environment"])):
        if pairs:
            console.print(f"  {title}:")
            # The device plugin sets this time once it has served the pod.
            served = (PREDICATE_TIME, str(UINT64))
            for name, value in sorted(pair for pair in pairs.items() if pair != served):
                print_line(console, f"    {escape(name)}: {escape(value)}")


def print_hyper_node(console: Console, one: HyperNodeDocument) -> None:
    _facts(
        console,
        f"HyperNode {one['name']}",
        {
            "state": one["state"],
            "tier": f"{one['tier']} ({one['tier_name']})" if one["tier_name"] else one["tier"],
            "tree": " > ".join((*reversed(one["above"]), one["name"])),
            "members": "; ".join(_members(one["members"])),
            "nodes": f"{one['nodes']}: {name_list(one['node_names'])}" if one["nodes"] else "none",
            "chips": "; ".join(starmap(_chips, one["resources"].items())),
            "labels": ", ".join(f"{key}={value}" for key, value in one["labels"].items()),
        },
    )
    for problem in one["problems"]:
        print_line(console, f"  {escape(problem['message'])}", style="yellow")
    if one["below"]:
        console.print()
        HYPER_NODES.draw(console, one["below"])
    if one["job_details"]:
        console.print()
        JOBS.draw(console, one["job_details"], one["now"])
    partly = [job for job in one["job_details"] if job["pods_inside"] < job["scheduled"]]
    for job in partly:
        counts = (
            f"{job['pods_inside']} of {counted(job['scheduled'], 'pod')} of {job['namespace']}/{job['name']}"
        )
        print_line(console, f"  only {escape(counts)} {agrees(job['pods_inside'], 'is', 'are')} inside")


def _members(members: Iterable[HyperNodeMemberFields]) -> Iterator[str]:
    """Those by name in one part: there may be thousands."""
    names: dict[str, list[str]] = {}
    for member in members:
        if member["selector"] == "exactMatch":
            names.setdefault(member["type"], []).append(member["value"])
    for kind, several in names.items():
        yield f"{kind} {name_list(several)}"
    others = [one for one in members if one["selector"] != "exactMatch"]
    for member in others[:_MEMBERS]:
        yield f"{member['type']} {member['selector']} {member['value'] or '(empty)'}"
    if len(others) > _MEMBERS:
        yield f"{len(others) - _MEMBERS} more"


def _chips(resource: str, chips: ChipTotals) -> str:
    counts: Mapping[str, Any] = chips
    others = ", ".join(f"{counts[state]} {state}" for state in ("used", *OTHER_STATES) if counts[state])
    return f"{resource}: {chips['free']} of {chips['chips']} free" + (f" ({others})" if others else "")


def _container(console: Console, container: Mapping[str, Any]) -> None:
    """What the device plugin's answer brought into the container."""
    if container["refused"]:
        print_line(console, f"  UnexpectedAdmissionError: {escape(container['refused'])}", style="red")
        return
    nodes = [
        one["container"] if one["container"] == one["host"] else f"{one['container']} (host {one['host']})"
        for one in container["devices"]
    ]
    for title, names in (
        ("kubelet's ids", container["ids"]),
        ("device nodes", nodes),
        ("CDI devices", container["cdi_devices"]),
        ("mounts, read only", container["mounts"]),
    ):
        if names:
            console.print(f"  {title}:")
            for name in names:
                print_line(console, f"    {escape(name)}")


def _facts(console: Console, title: str, facts: Mapping[str, Any]) -> None:
    print_line(console, f"[bold]{escape(title)}[/]")
    shown = {name: value for name, value in facts.items() if value not in (None, "")}
    table = Table([Column(""), Column("", wraps=True)], indent=2, gap=2, headings=False)
    for name, value in shown.items():
        table.add(name, str(value))
    table.print(console)


def _pods(console: Console, pods: Sequence[PodFields], now: int) -> None:
    if pods:
        console.print()
        PODS.draw(console, pods, now)
