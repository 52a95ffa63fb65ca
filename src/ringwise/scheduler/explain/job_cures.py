"""Cures that change the job itself, or its queue."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from ringwise.grammar import counted
from ringwise.placement.switches.classes import asks_for_switches
from ringwise.plugins.predicates.reasons import SELECTOR_MISMATCH
from ringwise.reasons import Reason
from ringwise.scheduler.explain.boards_present import boards_present
from ringwise.scheduler.explain.cure_search import Cure, CureSearch, Suppose
from ringwise.scheduler.explain.what_if import JobChange
from ringwise.topology.policy import PolicyFacts, select_board
from ringwise.wellknown import ACCELERATOR_TYPE, SP_BLOCK, SUPER_POD_AFFINITY, TOR_AFFINITY


def _change(search: CureSearch, change: JobChange) -> Suppose:
    return partial(search.view.what_if.changed, search.job, change)


def size_cures(search: CureSearch) -> Iterator[Cure]:
    """N2: another valid number of chips in each pod.

    The largest below the present one; where that is invalid, also the next above.
    """
    pods = [pod for pod in search.job.chip_pods if not _is_placed(search, pod.uid)]
    asked = {pod.cls.chips for pod in pods}
    if len(asked) != 1 or len(pods) != len(search.job.chip_pods):
        return
    now = asked.pop()
    sizes = _allowed(search, len(pods))
    below = sorted((size for size in sizes if size < now), reverse=True)
    above = sorted(size for size in sizes if size > now) if now not in sizes else []
    each = " in each pod" if len(pods) > 1 else ""
    for tried in (below, above[:1]):
        for size in tried:
            found = list(
                search.attempt(
                    "size",
                    f"with {size} instead of {counted(now, 'chip')}{each}",
                    _change(search, JobChange(chips=size)),
                )
            )
            if found:
                yield found[0]
                break


def _allowed(search: CureSearch, pods: int) -> frozenset[int]:
    job = search.job
    first = job.chip_pods[0]
    facts = PolicyFacts(first.cls.resource or "", job.annotations, job.labels, dict(first.cls.node_selector))
    board = job.policy.board if job.policy else select_board(search.view.catalog, facts)
    if isinstance(board, Reason):
        return frozenset()
    return board.requests(pods, search.view.settings.multi_pod_requests)


def _is_placed(search: CureSearch, uid: str) -> bool:
    return search.view.cluster.pods[uid].node >= 0


def minimum_cures(search: CureSearch) -> Iterator[Cure]:
    """The largest smaller gang that starts, found by bisection."""
    job = search.job
    low, high = 0, job.min_available
    if high <= 1:
        return
    while high - low > 1:
        middle = (low + high) // 2
        if search.holds(_change(search, JobChange(min_available=middle))):
            low = middle
        else:
            high = middle
    if low:
        text = f"with minAvailable {low} instead of {job.min_available}"
        yield search.cure("min-available", text, _change(search, JobChange(min_available=low)))


def label_cures(search: CureSearch) -> Iterator[Cure]:
    job = search.job
    value = job.labels.get(TOR_AFFINITY)
    if asks_for_switches(value):
        change = JobChange(labels={TOR_AFFINITY: None})
        yield from search.attempt(
            "label", f"without the label {TOR_AFFINITY}: {value}", _change(search, change)
        )
    if SP_BLOCK in job.annotations and job.labels.get(SUPER_POD_AFFINITY) != "soft":
        change = JobChange(labels={SUPER_POD_AFFINITY: "soft"})
        yield from search.attempt("label", "with the label super-pod-affinity: soft", _change(search, change))
    if asks_for_switches(value) and SP_BLOCK in job.annotations:
        change = JobChange(annotations={SP_BLOCK: None})
        yield from search.attempt("label", "without the annotation sp-block", _change(search, change))


def board_cures(search: CureSearch) -> Iterator[Cure]:
    """N1: the boards that the nodes have, by their label accelerator-type."""
    job = search.job
    asking = job.chip_pods
    if not asking or any(_is_placed(search, pod.uid) for pod in asking):
        return
    resources = {pod.cls.resource for pod in asking}
    selected = {dict(pod.cls.node_selector).get(ACCELERATOR_TYPE) for pod in asking}
    for resource, label, board in boards_present(search.view):
        if resource not in resources or not label or selected == {label}:
            continue
        change = JobChange(selected=(ACCELERATOR_TYPE, label))
        text = f"with the nodeSelector {ACCELERATOR_TYPE}: {label} (board {board.name})"
        yield from search.attempt("board", text, _change(search, change))


def selector_cures(search: CureSearch) -> Iterator[Cure]:
    if SELECTOR_MISMATCH.code not in search.codes:
        return
    selector = dict(search.job.in_order[0].cls.node_selector)
    for key, value in selector.items():
        change = JobChange(unselected=frozenset({key}))
        yield from search.attempt(
            "selector", f"without the nodeSelector {key}: {value}", _change(search, change)
        )


# -- its queue -----------------------------------------------------------------------------------


def queue_cures(search: CureSearch) -> Iterator[Cure]:
    view, job = search.view, search.job
    reason = job.reason
    if reason is None or "queue" not in reason.code:
        return
    queue = view.queues.get(job.queue)
    if queue is not None:
        used = view.used_by_queue(queue.name)
        needed = {
            name: max(limit, used.get(name, 0) + job.min_asked().get(name, 0))
            for name, limit in queue.capability.items()
        }
        raised = [name for name in needed if needed[name] > queue.capability[name]]
        if raised:
            words = ", ".join(f"{needed[name]} of {name} (now {queue.capability[name]})" for name in raised)
            wider = replace(queue, capability=needed)
            text = f"if the capability of queue {queue.name} were {words}"
            yield from search.attempt("queue", text, partial(view.what_if.queue_is, wider))
        if queue.state != "Open":
            opened = replace(queue, state="Open")
            text = f"if queue {queue.name} were open"
            yield from search.attempt("queue", text, partial(view.what_if.queue_is, opened))
        if "share" in reason.code or "overused" in reason.code:
            yield from _weight_cures(search)
    for other in sorted(view.queues)[:16]:
        if other != job.queue:
            found = list(
                search.attempt("queue", f"in queue {other}", _change(search, JobChange(queue=other)))
            )
            yield from found
            if found:
                return


def _weight_cures(search: CureSearch) -> Iterator[Cure]:
    view = search.view
    queue = view.queues[search.job.queue]
    for factor in (2, 4, 8, 16, 32):
        heavier = replace(queue, weight=max(1, queue.weight) * factor)
        text = f"if the weight of queue {queue.name} were {heavier.weight} (now {queue.weight})"
        found = list(search.attempt("queue", text, partial(view.what_if.queue_is, heavier)))
        if found:
            yield from found
            return
