"""Tables of a cluster: nodes, jobs, queues, pods, chips, what was submitted, and the frame of `top`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

from rich.columns import Columns
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from ringwise.cli.printers.chips import STATES_LEGEND, chip_list, chip_picture
from ringwise.cli.printers.lines import STATE_COLORS, print_line, print_reason
from ringwise.cli.printers.name_lists import holder_text, name_list, states_text
from ringwise.cli.printers.tables import Column, KindTable
from ringwise.durations import duration_text, time_text
from ringwise.grammar import agrees, amount_text, counted, listed
from ringwise.manifests.text.errors import one_line
from ringwise.messages.expected_start import ExpectedStart, StartKind
from ringwise.scheduler.job_states import would_be_placed
from ringwise.views.documents.changes import SubmitDocument
from ringwise.views.documents.cluster import (
    ChipFields,
    JobFaultFields,
    JobFields,
    NodeFields,
    PodFields,
    QueueFields,
    ShareFields,
    StatusFields,
    TopDocument,
)
from ringwise.views.documents.reservations import ReservationFields
from ringwise.views.documents.topology import IsolationFields

_COLORS = {
    "Running": "green",
    "Completed": "dim",
    "Succeeded": "dim",
    "Failed": "red",
    "Aborted": "red",
    "Terminated": "red",
    "Pending": "yellow",
    "Inqueue": "yellow",
    "Starting": "cyan",
    "Terminating": "magenta",
}
_HYPER_NODE_STYLES = {"partial": "yellow", "invalid": "red"}
#: More objects of one kind than this are counted, not listed.
_LISTED = 10
#: Without a terminal to fill, so many nodes are drawn.
_NODES = 200
_WAITING = 10
#: Faults of one job in a list.
_SHOWN_FAULTS = 3
#: In a low terminal waiting jobs leave so many rows to the nodes, above the legend and a line of the rest.
_NODE_ROWS = 4
_BELOW_NODES = 3


def node_state(node: NodeFields, now: int) -> str:
    """The worst of its states; of a drain or a later reservation with the time when it begins or began."""
    worst = node["states"][0]
    if worst["start"] is None or (worst["state"] == "reserved" and worst["start"] <= now):
        return worst["state"]
    return _since(worst["state"], worst["start"], now)


def _since(state: str, start: int, now: int) -> str:
    return f"{state} {'since' if start <= now else 'from'} {time_text(start)}{'' if start <= now else ' on'}"


def _current_state(node: NodeFields, now: int) -> str:
    """Return the worst of its current states. The note shows scheduled drains and later reservations."""
    return next((one["state"] for one in node["states"] if (one["start"] or 0) <= now), "ready")


def _window_note(node: NodeFields, now: int) -> str:
    """Of a node with drains or reservations: from when on, and for whom."""
    notes = []
    for one in node["states"]:
        if one["start"] is not None and one["state"] == "reserved":
            notes.append(one["message"].removeprefix(f"{node['name']} is "))
        elif one["start"] is not None:
            ahead = "; takes only jobs that end before then" if node["schedulable"] else ""
            notes.append(_since(one["state"], one["start"], now) + ahead)
    return "; ".join(notes)


def _chips_in(state: Literal["faulty", "isolated"]) -> Callable[[NodeFields, int], str]:
    return lambda node, now: ", ".join(chip_list(one[state]) for one in node["chips"] if one[state])


def _kind_of_chips(node: NodeFields, board: str | None) -> str:
    """The board, or the allocation mode of a node whose chips are shared or divided."""
    mode = node.get("allocation_mode")
    return f"({mode})" if mode in ("soft", "dynamic") else board or "-"


def _state_text(job: JobFields, _now: int) -> Text:
    """Its phase, except where the phase of the object tells less than what became of the job."""
    outcome = job["state"]
    if outcome in ("rejected", "suspended"):
        return Text(outcome.capitalize(), STATE_COLORS[outcome])
    return phase_text(job["phase"])


def _starts_in(job: JobFields, now: int) -> str:
    start = job.get("expected_start")
    if start is None:
        return ""
    kind = StartKind(start["kind"])
    return ExpectedStart(kind, start["earliest"], start["latest"], guess=start["estimated"]).short(now)


def _fault_count(job: JobFields, _now: int) -> Text:
    return Text(counted(job["faults"], "fault") if job["faults"] else "", "red")


def _notes(job: JobFields, now: int) -> Iterator[str]:
    if job["reason"] is not None:
        yield job["reason"]["message"]
    yield from decision_text(job)
    for fault in job["faults"][:_SHOWN_FAULTS]:
        yield job_fault_text(fault, now)
    if len(job["faults"]) > _SHOWN_FAULTS:
        yield f"and {counted(len(job['faults']) - _SHOWN_FAULTS, 'more fault')}"


def _requested(pod: PodFields, _now: int) -> str:
    return pod["part"]["message"] if "part" in pod else str(pod["requested_chips"])


def _boards_of(node: NodeFields, _now: int) -> str:
    return ", ".join(_kind_of_chips(node, one["board"]) for one in node["chips"]) or "-"


def decision_text(job: JobFields) -> Iterator[str]:
    """What a decision would give a job that has no nodes for some of its pods."""
    if nodes := job.get("would_be_scheduled_on"):
        yield would_be_placed(nodes, partly=job["scheduled"] > 0)


def job_fault_text(fault: JobFaultFields, now: int) -> str:
    age = "" if fault["since"] is None else f", for {duration_text(now - fault['since'])}"
    return f"{fault['message']}{age}"


def job_key(job: Mapping[str, Any]) -> str:
    return f"{job['namespace']}/{job['name']}"


def _print_remarks(console: Console, shown: Sequence[ReservationFields], now: int) -> None:
    """Print the problems of the nodes of each reservation, and the jobs that still run on them."""
    for one in shown:
        for trouble in one["problems"][:_SHOWN_FAULTS]:
            print_line(console, Text(one_line(f"{one['name']}: {trouble['message']}")))
        if one["running"]:
            jobs = listed([job["job"] for job in one["running"]], _SHOWN_FAULTS)
            still = "still on its nodes" if one["start"] <= now else "that may still be running at its start"
            print_line(console, Text(one_line(f"{one['name']}: jobs of others {still}: {jobs}")))


def _reserved(one: ReservationFields, now: int) -> str:
    if one["start"] <= now:
        return f"{duration_text(one['end'] - now)} left"
    return f"begins in {duration_text(one['start'] - now)}"


def share_text(share: ShareFields) -> str:
    """`team/serve-0 (30%)`: what a pod has of a chip."""
    return f"{share['pod']} ({share['message']})"


#: Pods of a chip that a row names.
_SHOWN_SHARES = 3


def _pods_of_chip(chip: ChipFields, _now: int) -> str:
    return listed([share_text(one) for one in chip.get("shares", ())], _SHOWN_SHARES) or chip["pod"] or ""


def phase_text(phase: str) -> Text:
    return Text(phase, _COLORS.get(phase, ""))


def used_text(queue: QueueFields) -> str:
    """`16 Ascend910, and 8 Ascend910 kept`"""
    used = amounts_text(queue["used"])
    return f"{used}, and {amounts_text(queue['reserved_quota'])} kept" if queue["reserved_quota"] else used


def limit_text(queue: QueueFields) -> str:
    """`16 Ascend910`: the smaller of its capability and of its UsageLimits."""
    limits = dict(queue["capability"])
    for name, most in queue["limit"].items():
        limits[name] = min(most, limits.get(name, most))
    return amounts_text(limits)


def amounts_text(amounts: Mapping[str, int | float]) -> str:
    """`16 Ascend910, 4 cpu, 8 GiB`"""
    parts = []
    for name, amount in sorted(amounts.items(), key=lambda item: (item[0] in ("cpu", "memory"), item[0])):
        short = "" if name == "memory" else f" {name.rpartition('/')[2]}"
        parts.append(f"{amount_text(name, amount)}{short}")
    return ", ".join(parts) or "-"


def _isolation_state(one: IsolationFields, now: int) -> str:
    start = one["start"]
    return "isolated" if start is None else f"drain {'since' if start <= now else 'at'} {time_text(start)}"


def _age(row: Mapping[str, Any], now: int) -> str:
    return duration_text(now - row["created"])


# -- the tables ----------------------------------------------------------------------------------

#: With a column for the faults that affect jobs, and one for when they start, if there are any.
JOBS = KindTable(
    (
        Column("job", lambda job, now: job_key(job)),
        Column("queue", "queue", moves=True),
        Column("phase", _state_text),
        Column("affected by", _fault_count, optional=True),
        Column("pods", lambda job, now: f"{job['scheduled']}/{job['pods']}"),
        Column("chips", "chips"),
        Column("age", _age),
        Column("starts in", _starts_in, optional=True),
        Column("kind", "kind", moves=True, wide=True),
        Column("user", "user", moves=True, wide=True),
        Column("priority", "priority", moves=True, wide=True),
        Column("nodes", lambda job, now: name_list(job["nodes"]) or "-", moves=True, wide=True),
    ),
    lambda jobs: "why pending, or affected by" if any(job["faults"] for job in jobs) else "why it waits",
    lambda job, now: "; ".join(_notes(job, now)),
)
NODES = KindTable(
    (
        Column("node", "name"),
        Column("state", _current_state),
        Column("chips", lambda node, now: " ".join(map(chip_picture, node["chips"]))),
        Column("free", lambda node, now: ", ".join(str(len(one["free"])) for one in node["chips"])),
        Column("faulty", _chips_in("faulty")),
        Column("board", _boards_of, moves=True),
        Column("pods", "pods"),
        Column("isolated", _chips_in("isolated"), moves=True, optional=True),
        Column("switch", "switch", moves=True, optional=True),
        Column("SuperPoD", "superpod", moves=True, optional=True),
        Column("address", "address", moves=True, wide=True),
        Column("rack", "rack", moves=True, wide=True),
    ),
    notes=_window_note,
)
QUEUES = KindTable(
    (
        Column("queue", "name"),
        Column("state", "state"),
        Column("weight", "weight"),
        Column("used", lambda queue, now: used_text(queue), wraps=True),
        Column("share", lambda queue, now: amounts_text(queue["fair_share"]), wraps=True),
        Column("limit", lambda queue, now: limit_text(queue), wraps=True),
        Column("jobs", "jobs"),
        Column("pending", "pending"),
        Column("guarantee", lambda queue, now: amounts_text(queue["guarantee"]), moves=True, wide=True),
        Column(
            "reclaimable", lambda queue, now: "yes" if queue["reclaimable"] else "no", moves=True, wide=True
        ),
    )
)
PODS = KindTable(
    (
        Column("pod", lambda pod, now: job_key(pod)),
        Column("phase", lambda pod, now: phase_text(pod["phase"])),
        Column("node", "node"),
        Column("requests", _requested, moves=True),
        Column("chips", lambda pod, now: chip_list(pod["chips"]), moves=True),
        Column("rank", "rank", moves=True),
        Column("age", _age),
        Column("job", "job", moves=True, wide=True),
        Column("exit code", "exit_code", moves=True, wide=True),
    )
)
CHIPS = KindTable(
    (
        Column("node", "node"),
        Column("chip", "chip"),
        Column("state", "state"),
        Column("network", lambda chip, now: "ok" if chip["network_healthy"] else "unhealthy"),
        Column("pod", _pods_of_chip, moves=True),
        Column("faults", lambda chip, now: chip["faults"] or "", moves=True),
    ),
    lambda chips: "note",
    lambda chip, now: "; ".join(filter(None, (chip.get("use"), chip["note"]))),
)
RESERVATIONS = KindTable(
    (
        Column("reservation", "name"),
        Column("for", lambda one, now: holder_text(one)),
        Column("from", lambda one, now: time_text(one["start"])),
        Column("to", lambda one, now: time_text(one["end"])),
        Column("state", _reserved, moves=True),
    ),
    lambda reservations: "nodes",
    lambda one, now: f"{counted(one['nodes'], 'node')}: {name_list(one['nodes'])}",
    _print_remarks,
)
ISOLATIONS = KindTable(
    (
        Column("isolation", "name"),
        Column("target", lambda one, now: " ".join((one["target"], *one["chips"]))),
        Column("state", _isolation_state, moves=True),
        Column("by", "created_by"),
    ),
    lambda isolations: "reason",
    lambda one, now: one["reason"],
)
HYPER_NODES = KindTable(
    (
        Column("hypernode", "name"),
        Column("tier", "tier"),
        Column("tier name", "tier_name"),
        Column("parent", "parent"),
        Column("nodes", "nodes"),
        Column("state", lambda one, now: Text(one["state"], _HYPER_NODE_STYLES.get(one["state"], ""))),
    ),
    lambda hyper_nodes: "problem",
    lambda one, now: "; ".join(problem["message"] for problem in one["problems"]),
)

# -- what was submitted --------------------------------------------------------------------------


_JOB_KINDS = ("Job", "Pod", "PodGroup")


def draw_submitted(console: Console, answer: SubmitDocument, *, dry_run: bool) -> None:
    by_kind: dict[tuple[str, str], list[str]] = {}
    for thing in answer.objects:
        by_kind.setdefault((thing.kind, thing.action), []).append(thing.name)
    for (kind, action), names in by_kind.items():
        if kind in _JOB_KINDS and len(names) <= _LISTED:
            continue
        words = f"{len(names)} x {kind}" if len(names) > 1 else f"{kind} {names[0]}".rstrip()
        print_line(console, f"{escape(words)} {escape(action)}{' (dry run)' if dry_run else ''}")
    unchanged = {name for kind in _JOB_KINDS for name in by_kind.get((kind, "unchanged"), ())}
    for job in answer.jobs[:_LISTED] if len(answer.jobs) > 2 * _LISTED else answer.jobs:
        if job_key(job) in unchanged:
            print_line(console, f"{escape(job_key(job))}: unchanged")
        else:
            _draw_submitted_job(console, job)
    if len(answer.jobs) > 2 * _LISTED:
        states = states_text(job["state"] for job in answer.jobs)
        print_line(console, f"... all {counted(answer.jobs, 'job')}: {states}")


def _draw_submitted_job(console: Console, job: JobFields) -> None:
    outcome, nodes = job["state"], job["nodes"]
    where = ""
    color = STATE_COLORS[outcome]
    if outcome == "scheduled" and nodes:
        outcome = "running" if job["phase"] == "Running" else outcome
        where = f" on {listed(nodes, 4)}"
    print_line(console, f"{escape(job_key(job))}: [{color}]{outcome}[/]{escape(where)}")
    print_reason(console, job["reason"], job["board_reason"])


# -- one frame of top ----------------------------------------------------------------------------


def draw_top(console: Console, document: TopDocument, height: int | None = None) -> None:
    """Chips of all nodes, queues, pending jobs. In a terminal of this height each part shows what fits."""
    status = document["status"]
    alarms = [*status["alarms"], *status["incidents"]]
    queues, jobs, rows = len(document["queues"]), _WAITING, None

    def draw_rest() -> None:
        console.print()
        QUEUES.draw(console, document["queues"][:queues])
        _draw_hidden(console, len(document["queues"]) - queues, "more queue")
        _draw_waiting(console, document["pending_jobs"], status["now"], jobs)
        for line in alarms:
            print_line(console, f"[red]{escape(line)}[/]")

    def draw_headline() -> None:
        print_line(console, headline(status))
        console.print()

    if height is not None:
        queues = max(3, height // 4)
        while True:
            with console.capture() as rest:
                draw_headline()
                draw_rest()
            rows = height - rest.get().count("\n") - _BELOW_NODES
            if rows >= _NODE_ROWS or jobs == 1:
                break
            jobs -= 1
    draw_headline()
    _draw_node_grid(console, document["nodes"], rows)
    draw_rest()


def _draw_hidden(console: Console, count: int, one: str, many: str = "") -> None:
    if count > 0:
        console.print(f"... and {counted(count, one, many)}", style="dim")


def headline(status: StatusFields) -> str:
    speed = status["speed"]
    pace = "virtual time" if speed is None else "" if speed == 1 else f"{speed:g} times as fast"
    return (
        f"[bold]{time_text(status['now'])}[/]{', ' + pace if pace else ''}   "
        f"{counted(status['nodes'], 'node')}   "
        f"{use_text(status, ('faulty', 'isolated', 'unschedulable'))}   {counts_text(status)}"
    )


def use_text(status: StatusFields, others: Sequence[str] = ()) -> str:
    """How many chips of each resource are in use, and how many are in the `others` of its states.

    With `others` also how many free ones are only for jobs that end before a drain or a reservation.
    """
    resources = status["resources"]
    if not resources:
        return "0 of 0 chips in use"
    parts = []
    for resource, chips in resources.items():
        kind = f" {resource.rpartition('/')[2]}" if len(resources) > 1 else ""
        counts = {name: count for name, count in chips.items() if name in others and count}
        states = "".join(f", {counts[name]} {name}" for name in others if name in counts)
        if others and chips["until_drain"]:
            states += f", {chips['until_drain']} free only until a drain or a reservation"
        parts.append(f"{chips['used']} of {counted(chips['chips'], 'chip')}{kind} in use{states}")
    return "; ".join(parts)


def counts_text(status: StatusFields) -> str:
    rejected = f", {status['rejected']} rejected" if status["rejected"] else ""
    return f"{counted(status['scheduled'], 'job')} scheduled, {status['pending']} pending{rejected}"


def _draw_node_grid(console: Console, nodes: Sequence[NodeFields], rows: int | None) -> None:
    longest = max((len(node["name"]) for node in nodes), default=0)
    cells = []
    for node in nodes[:_NODES]:
        picture = " ".join(map(chip_picture, node["chips"]))
        mark = " " if node["schedulable"] else "!"
        cells.append(f"{node['name']:>{longest}}{mark}{picture}")
    if cells and rows is not None:
        across = max(1, (console.width + 2) // (max(map(len, cells)) + 2))
        cells = cells[: max(1, rows) * across]
    console.print(Columns([escape(cell) for cell in cells], padding=(0, 2)))
    _draw_hidden(console, len(nodes) - len(cells), "more node")
    for line in STATES_LEGEND:
        print_line(console, line, style="dim")


def _draw_waiting(console: Console, waiting: Sequence[JobFields], now: int, most: int) -> None:
    if not waiting:
        return
    console.print()
    for job in waiting[:most]:
        placed, reason = job["scheduled"], job["reason"]
        message = f"{placed} of {counted(job['pods'], 'pod')} {agrees(placed, 'is', 'are')} placed"
        if reason is not None:
            message = reason["message"]
        message = next(decision_text(job), message)
        # The words of `place` and `why`; the color tells apart what waiting alone will not fix.
        since = job["pending_since"]
        word = "is rejected" if since is None else f"is pending for {duration_text(now - since)}"
        color = "red" if job["requires_change"] else "yellow"
        print_line(console, f"[{color}]{escape(job_key(job))}[/] {word}: {escape(message)}")
    _draw_hidden(console, len(waiting) - most, "more pending job", "more pending jobs")
