"""Tables of a cluster: nodes, jobs, queues, pods, chips, what was submitted, and the frame of `top`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.columns import Columns
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from ringwise.cli.printers.chips import STATES_LEGEND, chip_list, chip_picture
from ringwise.cli.printers.lines import print_line
from ringwise.cli.printers.name_lists import name_list
from ringwise.cli.printers.tables import Column, Table
from ringwise.durations import duration_text, time_text
from ringwise.grammar import agrees, amount_text, counted
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
from ringwise.views.documents.hyper_nodes import HyperNodeFields
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
_OUTCOME_COLORS = {
    "scheduled": "green",
    "pending": "yellow",
    "rejected": "red",
    "suspended": "magenta",
    "finished": "dim",
}
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


#: Numbers of the rows that are drawn, without headings, as they stand in the whole table; None: the table.
Only = Collection[int] | None
#: Columns that `-o wide` adds: the heading, and the cell of a row.
Extra = Mapping[str, Callable[[Any], str]]
_NONE: Extra = {}


def _columns(extra: Extra) -> list[Column]:
    return [Column(name, moves=True) for name in extra]


def _cells(extra: Extra, row: Any) -> list[str]:
    return [cell(row) for cell in extra.values()]


def node_state(node: NodeFields, now: int) -> str:
    """The worst of its states; of a drain or a later reservation with the time when it begins or began."""
    worst = node["states"][0]
    if worst["start"] is None or (worst["state"] == "reserved" and worst["start"] <= now):
        return worst["state"]
    start = time_text(worst["start"])
    return f"{worst['state']} from {start} on" if node["schedulable"] else f"{worst['state']} since {start}"


def _current_state(node: NodeFields, now: int) -> str:
    """The worst of its states apart from drains and reservations that lie ahead; the note shows these."""
    return next((one["state"] for one in node["states"] if (one["start"] or 0) <= now), "ready")


def _window_note(node: NodeFields, now: int) -> str:
    """Of a node with a drain or a reservation as its worst state: from when on, and for whom."""
    worst = node["states"][0]
    if worst["start"] is None:
        return ""
    if worst["state"] == "reserved":
        return worst["message"].removeprefix(f"{node['name']} is ")
    return node_state(node, now) + ("; takes only jobs that end before then" if node["schedulable"] else "")


def draw_nodes(
    console: Console, shown: Sequence[NodeFields], now: int, only: Only = None, extra: Extra = _NONE
) -> None:
    columns = [Column(name) for name in ("node", "state", "chips", "free", "faulty")]
    columns += [Column("board", moves=True), Column("pods")]
    isolated = any(one["isolated"] for node in shown for one in node["chips"])
    columns += [Column("isolated", moves=True)] if isolated else []
    switches = any(node["switch"] for node in shown)
    superpods = any(node["superpod"] is not None for node in shown)
    columns += [Column("switch", moves=True)] if switches else []
    columns += [Column("SuperPoD", moves=True)] if superpods else []
    table = Table([*columns, *_columns(extra)])
    for node in shown:
        chips = node["chips"]
        row = [
            node["name"],
            _current_state(node, now),
            " ".join(map(chip_picture, chips)),
            ", ".join(str(len(one["free"])) for one in chips),
            ", ".join(chip_list(one["faulty"]) for one in chips if one["faulty"]),
            ", ".join(_kind_of_chips(node, one["board"]) for one in chips) or "-",
            str(node["pods"]),
        ]
        away = ", ".join(chip_list(one["isolated"]) for one in chips if one["isolated"])
        row += [away] if isolated else []
        row += [node["switch"] or "-"] if switches else []
        row += ["-" if node["superpod"] is None else str(node["superpod"])] if superpods else []
        table.add(*row, *_cells(extra, node), note=_window_note(node, now))
    table.print(console, only)


def _kind_of_chips(node: NodeFields, board: str | None) -> str:
    """The board, or the allocation mode of a node whose chips are shared or divided."""
    mode = node.get("allocation_mode")
    return f"({mode})" if mode in ("soft", "dynamic") else board or "-"


def draw_jobs(
    console: Console, jobs: Sequence[JobFields], now: int, only: Only = None, extra: Extra = _NONE
) -> None:
    """With a column for the faults that affect jobs, and one for when they start, if there are any."""
    fault_column = [Column("affected by")] if any(job["faults"] for job in jobs) else []
    starts = [Column("starts in")] if any(job.get("expected_start") for job in jobs) else []
    columns = [Column("job"), Column("queue", moves=True), Column("phase"), *fault_column]
    note = "why pending, or affected by" if fault_column else "why it waits"
    columns += [Column("pods"), Column("chips"), Column("age"), *starts, *_columns(extra)]
    table = Table(columns, note=note)
    for job in jobs:
        faults = [counted(job["faults"], "fault") if job["faults"] else ""] if fault_column else []
        table.add(
            job_key(job),
            job["queue"],
            _state_text(job),
            *(Text(text, "red") for text in faults),
            f"{job['scheduled']}/{job['pods']}",
            str(job["chips"]),
            duration_text(now - job["created"]),
            *([_starts_in(job, now)] if starts else []),
            *_cells(extra, job),
            note="; ".join(_notes(job, now)),
        )
    table.print(console, only)


def _state_text(job: JobFields) -> Text:
    """Its phase, except where the phase of the object tells less than what became of the job."""
    outcome = job["state"]
    if outcome in ("rejected", "suspended"):
        return Text(outcome.capitalize(), _OUTCOME_COLORS[outcome])
    return phase_text(job["phase"])


def _starts_in(job: JobFields, now: int) -> str:
    start = job.get("expected_start")
    if start is None:
        return ""
    kind = StartKind(start["kind"])
    return ExpectedStart(kind, start["earliest"], start["latest"], guess=start["estimated"]).short(now)


def _notes(job: JobFields, now: int) -> Iterator[str]:
    if job["reason"] is not None:
        yield job["reason"]["message"]
    yield from decision_text(job)
    for fault in job["faults"][:_SHOWN_FAULTS]:
        yield job_fault_text(fault, now)
    if len(job["faults"]) > _SHOWN_FAULTS:
        yield f"and {counted(len(job['faults']) - _SHOWN_FAULTS, 'more fault')}"


def decision_text(job: JobFields) -> Iterator[str]:
    """What a decision would give a job that has no nodes for some of its pods."""
    if nodes := job.get("would_be_scheduled_on"):
        yield would_be_placed(nodes, partly=job["scheduled"] > 0)


def job_fault_text(fault: JobFaultFields, now: int) -> str:
    age = "" if fault["since"] is None else f", for {duration_text(now - fault['since'])}"
    return f"{fault['message']}{age}"


def job_key(job: Mapping[str, Any]) -> str:
    return f"{job['namespace']}/{job['name']}"


def draw_reservations(
    console: Console, shown: Sequence[ReservationFields], now: int, only: Only = None
) -> None:
    """And below it, what is the matter with nodes of a reservation, and who still runs on them."""
    columns = ("reservation", "for", "from", "to", "state")
    table = Table([Column(name, moves=name == "state") for name in columns], note="nodes")
    for one in shown:
        holder = f"queue {one['queue']}" if one["queue"] else f"namespace {one['namespace']}"
        table.add(
            one["name"],
            holder,
            time_text(one["start"]),
            time_text(one["end"]),
            _reserved(one, now),
            note=f"{counted(one['nodes'], 'node')}: {name_list(one['nodes'])}",
        )
    table.print(console, only)
    if only is not None:
        return
    for one in shown:
        for trouble in one["problems"][:_SHOWN_FAULTS]:
            print_line(console, Text(one_line(f"{one['name']}: {trouble['message']}")))
        if one["running"]:
            jobs = ", ".join(job["job"] for job in one["running"][:_SHOWN_FAULTS])
            more = len(one["running"]) - _SHOWN_FAULTS
            jobs += f" and {more} more" if more > 0 else ""
            still = "still on its nodes" if one["start"] <= now else "that may still be running at its start"
            print_line(console, Text(one_line(f"{one['name']}: jobs of others {still}: {jobs}")))


def draw_isolations(console: Console, shown: Sequence[IsolationFields], now: int, only: Only = None) -> None:
    columns = ("isolation", "target", "state", "by")
    table = Table([Column(name, moves=name == "state") for name in columns], note="reason")
    for one in shown:
        state = "isolated"
        if one["start"] is not None:
            state = f"drain {'since' if one['start'] <= now else 'at'} {time_text(one['start'])}"
        target = " ".join((one["target"], *one["chips"]))
        table.add(one["name"], target, state, one["created_by"] or "-", note=one["reason"])
    table.print(console, only)


def _reserved(one: ReservationFields, now: int) -> str:
    if one["start"] <= now:
        return f"{duration_text(one['end'] - now)} left"
    return f"begins in {duration_text(one['start'] - now)}"


def draw_queues(
    console: Console, queues: Iterable[QueueFields], _now: int = 0, only: Only = None, extra: Extra = _NONE
) -> None:
    table = Table(
        [
            *(Column(name) for name in ("queue", "state", "weight")),
            *(Column(name, wraps=True) for name in ("used", "share", "limit")),
            *(Column(name) for name in ("jobs", "pending")),
            *_columns(extra),
        ]
    )
    for queue in queues:
        table.add(
            queue["name"],
            queue["state"],
            str(queue["weight"]),
            used_text(queue),
            amounts_text(queue["fair_share"]),
            limit_text(queue),
            str(queue["jobs"]),
            str(queue["pending"]),
            *_cells(extra, queue),
        )
    table.print(console, only)


_HYPER_NODE_STYLES = {"partial": "yellow", "invalid": "red"}


def draw_hyper_nodes(
    console: Console, hyper_nodes: Iterable[HyperNodeFields], _now: int = 0, only: Only = None
) -> None:
    names = ("hypernode", "tier", "tier name", "parent", "nodes", "state")
    table = Table([Column(name) for name in names], note="problem")
    for one in hyper_nodes:
        table.add(
            one["name"],
            str(one["tier"]),
            one["tier_name"] or "-",
            one["parent"] or "-",
            str(one["nodes"]),
            Text(one["state"], _HYPER_NODE_STYLES.get(one["state"], "")),
            note="; ".join(problem["message"] for problem in one["problems"]),
        )
    table.print(console, only)


def draw_pods(
    console: Console, pods: Iterable[PodFields], now: int, only: Only = None, extra: Extra = _NONE
) -> None:
    moving = ("requests", "chips", "rank")
    names = ("pod", "phase", "node", *moving, "age")
    table = Table([*(Column(name, moves=name in moving) for name in names), *_columns(extra)])
    for pod in pods:
        table.add(
            f"{pod['namespace']}/{pod['name']}",
            phase_text(pod["phase"]),
            pod["node"] or "-",
            pod["part"]["message"] if "part" in pod else str(pod["requested_chips"]),
            chip_list(pod["chips"]),
            "-" if pod["rank"] is None else str(pod["rank"]),
            duration_text(now - pod["created"]),
            *_cells(extra, pod),
        )
    table.print(console, only)


def share_text(share: ShareFields) -> str:
    """`team/serve-0 (30%)`: what a pod has of a chip."""
    return f"{share['pod']} ({share['message']})"


#: Pods of a chip that a row names.
_SHOWN_SHARES = 3


def draw_chips(console: Console, chips: Iterable[ChipFields], _now: int = 0, only: Only = None) -> None:
    columns = [Column("node"), Column("chip"), Column("state"), Column("network"), Column("pod", moves=True)]
    table = Table([*columns, Column("faults", moves=True)], note="note")
    for chip in chips:
        network = "ok" if chip["network_healthy"] else "unhealthy"
        shares = chip.get("shares", ())
        pods = ", ".join(share_text(one) for one in shares[:_SHOWN_SHARES]) or chip["pod"] or ""
        pods += f" and {len(shares) - _SHOWN_SHARES} more" if len(shares) > _SHOWN_SHARES else ""
        row = (chip["node"], chip["chip"], chip["state"], network, pods, chip["faults"] or "")
        table.add(*row, note="; ".join(filter(None, (chip.get("use"), chip["note"]))))
    table.print(console, only)


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
        counts: dict[str, int] = {}
        for job in answer.jobs:
            counts[job["state"]] = counts.get(job["state"], 0) + 1
        words = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
        print_line(console, f"... all {counted(answer.jobs, 'job')}: {words}")


def _draw_submitted_job(console: Console, job: JobFields) -> None:
    outcome, reason = job["state"], job["reason"]
    nodes = job["nodes"]
    where = ""
    color = _OUTCOME_COLORS[outcome]
    if outcome == "scheduled" and nodes:
        outcome = "running" if job["phase"] == "Running" else outcome
        some = ", ".join(nodes[:4]) + (f" and {len(nodes) - 4} more" if len(nodes) > 4 else "")
        where = f" on {some}"
    print_line(console, f"{escape(job_key(job))}: [{color}]{outcome}[/]{escape(where)}")
    if reason is not None:
        print_line(console, f"  {escape(reason['message'])}")
        if job["board_reason"] is not None:
            print_line(console, f"  {escape(job['board_reason'])}")
        for fix in reason["fixes"]:
            print_line(console, f"  - {escape(fix)}")


# -- one frame of top ----------------------------------------------------------------------------


def draw_top(console: Console, document: TopDocument, height: int | None = None) -> None:
    """Chips of all nodes, queues, pending jobs. In a terminal of this height each part shows what fits."""
    status = document["status"]
    alarms = [*status["alarms"], *status["incidents"]]
    queues, jobs, rows = len(document["queues"]), _WAITING, None

    def draw_rest() -> None:
        console.print()
        draw_queues(console, document["queues"][:queues])
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
