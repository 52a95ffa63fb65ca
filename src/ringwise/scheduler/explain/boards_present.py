"""Which boards the nodes of the cluster have, and why a job has the board that it has (N1)."""

from __future__ import annotations

from ringwise.framework.job import Job
from ringwise.reasons import Reason
from ringwise.scheduler.node_states import has_shared_chips
from ringwise.scheduler.view import SchedulerView
from ringwise.state.allocation_modes import NO_CHIPS
from ringwise.state.chip_fractions import chips_of_node, shared_resource
from ringwise.topology.board import Board
from ringwise.topology.policy import PolicyFacts, select_board
from ringwise.wellknown import ACCELERATOR_TYPE, SCHEDULE_POLICY, SP_BLOCK


def boards_present(view: SchedulerView, *, shared: bool = False) -> list[tuple[str, str, Board]]:
    """(resource, accelerator-type, board): by the nodes' labels, else by the jobs, else by size.

    `shared`: also those of nodes on which no pod gets a whole chip, because chips are shared or divided.
    """
    state, catalog = view.cluster, view.catalog
    boards: dict[tuple[str, str], Board] = {}
    used = {job.policy.resource: job.policy.board for job in view.jobs.values() if job.policy is not None}
    for number in state.existing_nodes():
        node = state.nodes[number]
        if node is None or (has_shared_chips(state, number) and not shared):
            continue
        counts, own = node.chips_allocatable, ""
        if shared and (own := shared_resource(node, mode := state.modes.get(number, NO_CHIPS))):
            counts = {**counts, own: chips_of_node(node, own, mode)}
        for resource, count in counts.items():
            label = node.labels.get(ACCELERATOR_TYPE, "")
            if (resource, label) in boards or not catalog.serving(resource):
                continue
            size = count if resource == own else max(count, node.chips_capacity.get(resource, 0))
            board = select_board(catalog, PolicyFacts(resource, accelerator_type=label))
            if isinstance(board, Reason) or size > board.chips_per_node or not label:
                board = used.get(resource) or _by_size(view, resource, size, board, number)
                label = ""
            boards.setdefault((resource, label), board)
    return [
        (resource, label, board) for (resource, label), board in sorted(boards.items(), key=lambda f: f[0])
    ]


def _by_size(view: SchedulerView, resource: str, size: int, board: Board | Reason, number: int) -> Board:
    serving = view.catalog.serving(resource)
    if isinstance(board, Reason) and number in view.racks().rack_of:
        serving = tuple(one for one in serving if one.rack_nodes) or serving
    if isinstance(board, Board) and board.chips_per_node >= size:
        return board
    return next((one for one in serving if one.chips_per_node == size), serving[0])


def board_of_node(view: SchedulerView, resource: str, number: int, otherwise: Board) -> Board:
    """The board that a node has by its own label; `otherwise` where it has none that says so."""
    node = view.cluster.nodes[number]
    label = node.labels.get(ACCELERATOR_TYPE, "") if node is not None else ""
    if node is None or not label:
        return otherwise
    board = select_board(view.catalog, PolicyFacts(resource, accelerator_type=label))
    fits = isinstance(board, Board) and node.chips_capacity.get(resource, 0) <= board.chips_per_node
    return board if isinstance(board, Board) and fits else otherwise


def board_of_job(view: SchedulerView, job: Job) -> Board | Reason | None:
    """The board that a job's chips are chosen by, whether or not it allows the request (N1).

    Pods that select no accelerator-type follow those that do. None for a job without chips.
    """
    asking = job.chip_pods
    if not asking:
        return None
    resource = asking[0].cls.resource or ""
    return select_board(view.catalog, PolicyFacts(resource, job.annotations, job.labels, selected_type(job)))


def selected_type(job: Job) -> str:
    """The accelerator-type that its pods with chips select; empty where none does."""
    selectors = (dict(pod.cls.node_selector) for pod in job.chip_pods)
    return next((one[ACCELERATOR_TYPE] for one in selectors if one.get(ACCELERATOR_TYPE)), "")


def why_this_board(view: SchedulerView, job: Job) -> str | None:
    """Why the board of a job with chips was chosen, in a sentence; None where nothing chooses one."""
    board, label = board_of_job(view, job), selected_type(job)
    if board is None or isinstance(board, Reason):
        return None
    resource = job.chip_pods[0].cls.resource or ""
    if job.annotations.get(SCHEDULE_POLICY) in board.policies:
        return f"board {board.name}: selected by the annotation {SCHEDULE_POLICY}"
    if SP_BLOCK in job.annotations and board.superpod:
        return f"board {board.name}: selected by the annotation {SP_BLOCK}"
    if label:
        return f"board {board.name}: selected by the nodeSelector {ACCELERATOR_TYPE}: {label}"
    if any(job.labels.get(key) == value for key, value in board.job_labels):
        labels = ", ".join(f"{key}: {value}" for key, value in board.job_labels)
        return f"board {board.name}: selected by the labels {labels}"
    present = {one.name: type for offered, type, one in boards_present(view) if offered == resource}
    text = f"board {board.name}: assumed, because the job does not select a board of {resource}"
    others = [f"{name} ({ACCELERATOR_TYPE}: {type})" for name, type in present.items() if type]
    if board.name not in present and others:
        text += f"; the nodes have {', '.join(others)}"
    return text
