"""What Volcano's admission refuses of a Queue: each problem as a sentence that says what is allowed.

A sentence begins with the words that Volcano has for the same fact, because scripts look for them. The
webhook, the lab and `place` all read it from here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from ringwise.grammar import amount_text, counted, quoted
from ringwise.state.model import DEFAULT_QUEUE, ROOT_QUEUE, Queue
from ringwise.topology.nearest import did_you_mean
from ringwise.wellknown import HIERARCHY, HIERARCHY_WEIGHTS, KUBE_SYSTEM, VOLCANO_SYSTEM

#: Namespace of objects that name none; `vcctl queue operate` creates its Commands here.
DEFAULT_NAMESPACE = "default"
#: Namespaces whose Commands open and close queues, where nothing else is set: vcctl's and the system's.
QUEUE_COMMAND_NAMESPACES = (DEFAULT_NAMESPACE, KUBE_SYSTEM, VOLCANO_SYSTEM)
#: Instead of names: Commands of every namespace.
ANY_NAMESPACE = "*"
#: Queues below each other, without the root.
MAX_LEVELS = 5
_NONE: Mapping[str, int] = {}
#: Fields of a Queue that its children share, and their names in the manifest.
_SHARED = {"guarantee": "spec.guarantee.resource", "deserved": "spec.deserved"}


class QueueTable:
    """All queues of a cluster, with one of them as it is to be."""

    def __init__(self, queues: Mapping[str, Queue], wanted: Queue) -> None:
        self.wanted = wanted
        self.all = {**queues, wanted.name: wanted}

    def parent(self, queue: Queue) -> Queue | None:
        """None below the root, for the root, and where the parent does not exist."""
        if queue.name == ROOT_QUEUE or queue.parent in ("", ROOT_QUEUE):
            return None
        return self.all.get(queue.parent)

    def above(self, queue: Queue) -> Iterator[Queue]:
        """The queues above one, nearest first, without the root. It ends where a circle begins again."""
        passed = {queue.name}
        upper = self.parent(queue)
        while upper is not None and upper.name not in passed:
            passed.add(upper.name)
            yield upper
            upper = self.parent(upper)

    def below(self, queue: Queue) -> Iterator[Queue]:
        """The queues below one at any depth."""
        return queues_below(queue.name, queues_by_parent(self.all))


def queues_by_parent(queues: Mapping[str, Queue]) -> dict[str, list[Queue]]:
    """The queues right below each queue that has any; without a parent they are below the root."""
    result: dict[str, list[Queue]] = {}
    for queue in queues.values():
        if queue.name not in (ROOT_QUEUE, queue.parent or ROOT_QUEUE):
            result.setdefault(queue.parent or ROOT_QUEUE, []).append(queue)
    return result


def queues_below(name: str, by_parent: Mapping[str, Sequence[Queue]]) -> Iterator[Queue]:
    """The queues below one at any depth."""
    passed, waiting = {name}, [name]
    while waiting:
        for child in by_parent.get(waiting.pop(), ()):
            if child.name not in passed:
                passed.add(child.name)
                waiting.append(child.name)
                yield child


def children_of(name: str, queues: Mapping[str, Queue]) -> list[str]:
    """The queues right below one. Without a parent a queue is below the root, and the default one always."""
    if name == ROOT_QUEUE:
        below = {one.name for one in queues.values() if one.parent in ("", ROOT_QUEUE)}
        return sorted((below | {DEFAULT_QUEUE}) - {ROOT_QUEUE})
    return sorted(one.name for one in queues.values() if one.parent == name and one.name != name)


def queue_problems(
    queue: Queue,
    queues: Mapping[str, Queue],
    pods: Mapping[str, int] = _NONE,
    before: Queue | None = None,
) -> tuple[str, ...]:
    """Why a new queue, or a change of one, is refused.

    `queues` are those that exist, `pods` how many pods each of them has. A change is refused only for what
    it makes wrong: a queue that was wrong before can still be corrected step by step.
    """
    problems = _problems(queue, queues, pods)
    if before is not None:
        wrong_before = _problems(before, queues, pods)
        problems = {rule: problem for rule, problem in problems.items() if rule not in wrong_before}
        if queue.name == ROOT_QUEUE:
            problems |= _changes_of_root(queue, before)
    return tuple(problems.values())


def deletion_problem(name: str, queues: Mapping[str, Queue], jobs: int = 0, pods: int = 0) -> str:
    """Why a queue must stay; empty if it may be deleted. `jobs`: its PodGroups that have not ended."""
    if name in (DEFAULT_QUEUE, ROOT_QUEUE):
        return f"`{name}` queue can not be deleted: it exists in every cluster"
    below = children_of(name, queues)
    if below:
        what = f"{len(below)} child queues: it has the {counted(below, 'queue')} {', '.join(below)} below it"
        return f"queue {name} can not be deleted because it has {what}"
    held = " and ".join(counted(count, word) for count, word in ((jobs, "job"), (pods, "pod")) if count)
    if pods:
        return f"queue {name} cannot be deleted because it has allocated Pods: it has {held}"
    return f"queue {name} cannot be deleted: it has {held}" if held else ""


def _problems(queue: Queue, queues: Mapping[str, Queue], pods: Mapping[str, int]) -> dict[str, str]:
    """Each problem by the rule that it breaks."""
    table = QueueTable(queues, queue)
    result = {**_own_problems(queue), **_path_problems(queue, queues)}
    place = _place_problems(table, pods)
    result |= place
    if not place and queue.name != ROOT_QUEUE:
        result |= _tree_problems(table)
    return result


# -- a queue alone


def _own_problems(queue: Queue) -> dict[str, str]:
    result = {}
    for name, amount in queue.guarantee.items():
        deserved = queue.deserved.get(name, 0)
        if amount > deserved:
            result[f"guarantee {name}"] = (
                f"deserved[{name}] must be >= guarantee[{name}]: it is guaranteed {_of(name, amount)} and "
                f"deserves {amount_text(name, deserved)}"
            )
    limits = queue.limits
    for field, path in _SHARED.items():
        for name, amount in _amounts(queue, field).items():
            if name in limits and amount > limits[name]:
                result[f"{field} capability {name}"] = (
                    f"{field}[{name}] must be <= capability[{name}]: {path} is {_of(name, amount)} and its "
                    f"capability {amount_text(name, limits[name])}"
                )
    return result


def _path_problems(queue: Queue, queues: Mapping[str, Queue]) -> dict[str, str]:
    """The annotations that drf reads."""
    path, weights = queue.annotations.get(HIERARCHY, ""), queue.annotations.get(HIERARCHY_WEIGHTS, "")
    if not path and not weights:
        return {}
    steps, numbers = path.split("/"), weights.split("/")
    if len(steps) != len(numbers):
        return {
            "path length": f"{HIERARCHY} must have the same length with {HIERARCHY_WEIGHTS}: it has "
            f"{counted(steps, 'step')} and that {counted(numbers, 'weight')}; each step needs one weight"
        }
    for number in numbers:
        if not _is_number(number) or float(number) <= 0:
            return {
                "path weight": f"a weight in the {HIERARCHY_WEIGHTS} "
                f"{'must be larger than 0' if _is_number(number) else 'is invalid number'}: each weight must "
                f"be a number above 0, got {quoted(number, 40)}"
            }
    for other in queues.values():
        theirs = other.annotations.get(HIERARCHY, "")
        if other.name != queue.name and theirs and theirs.split("/")[: len(steps)] == steps:
            return {
                "path prefix": f"{HIERARCHY} is not allowed to be in the sub path of another: queue "
                f"{other.name} has the path {theirs}, which is {path} or below it; only ends of paths can be "
                "queues"
            }
    return {}


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _changes_of_root(queue: Queue, before: Queue) -> dict[str, str]:
    fields = {"capability": "spec.capability", **_SHARED}
    return {
        f"root {field}": "root queue's resource attributes (capability, deserved, guarantee) cannot be "
        f"modified: {path} of the queue {ROOT_QUEUE} cannot be changed, it is the whole cluster"
        for field, path in fields.items()
        if _amounts(queue, field) != _amounts(before, field)
    }


# -- its place in the tree


def _place_problems(table: QueueTable, pods: Mapping[str, int]) -> dict[str, str]:
    queue = table.wanted
    if queue.name == ROOT_QUEUE:
        return {"parent": f"the queue {ROOT_QUEUE} cannot have a parent"} if queue.parent else {}
    if queue.parent == queue.name:
        return {"parent": "it cannot use itself as parent: a queue cannot be its own parent"}
    others = {name: one for name, one in table.all.items() if name != queue.name}
    if queue.parent not in ("", ROOT_QUEUE):
        if queue.parent not in others:
            close = did_you_mean(queue.parent, others)
            return {"parent": f"failed to get parent queue: its parent {queue.parent} does not exist{close}"}
        above = [upper.name for upper in table.above(queue)]
        last = table.all[above[-1]]
        if last.parent == queue.name:
            return {"parent": f"its parents lead back to it: {' -> '.join([queue.name, *above, queue.name])}"}
        levels = 1 + len(above) + _levels_below(table)
        if levels > MAX_LEVELS:
            return {
                "levels": f"it exceeds the maximum allowed depth of {MAX_LEVELS}: the queues would be below "
                f"each other in {counted(levels, 'level')}"
            }
        running = pods.get(queue.parent, 0)
        if running and not children_of(queue.parent, others):
            return {
                "parent with pods": f"queue {queue.parent} cannot be the parent queue of queue {queue.name} "
                f"because it has allocated Pods: its parent {queue.parent} has {counted(running, 'pod')}; "
                "only queues without queues below them have jobs, so it can be a parent when they have ended"
            }
    return {}


def _levels_below(table: QueueTable) -> int:
    """How many levels of queues are below the wanted one."""
    own = len(list(table.above(table.wanted)))
    return max((len(list(table.above(one))) - own for one in table.below(table.wanted)), default=0)


def _tree_problems(table: QueueTable) -> dict[str, str]:
    """Limits of queues above and below each other."""
    queue = table.wanted
    result = {}
    limits = queue.limits
    above = list(table.above(queue))
    for name, amount in limits.items():
        upper = next((one for one in above if name in one.limits), None)
        if upper is not None and amount > upper.limits[name]:
            result[f"capability above {name}"] = (
                f"capability[{name}] exceeds its ancestor's capability: its capability is "
                f"{_of(name, amount)} and that of queue {upper.name} above it "
                f"{amount_text(name, upper.limits[name])}"
            )
    largest: dict[str, Queue] = {}
    for lower in table.below(queue):
        for name, amount in lower.limits.items():
            if name not in largest or amount > largest[name].limits[name]:
                largest[name] = lower
    for name, lower in largest.items():
        if name in limits and limits[name] < lower.limits[name]:
            result[f"capability below {name}"] = (
                f"capability[{name}] is smaller than its descendants' max capability: its capability is "
                f"{_of(name, limits[name])} and that of queue {lower.name} below it "
                f"{amount_text(name, lower.limits[name])}"
            )
    for field, path in _SHARED.items():
        if above:
            result |= _sum_problems(table, above[0], field, path, _amounts(queue, field))
        result |= _sum_problems(table, queue, field, path)
    return result


def _sum_problems(
    table: QueueTable, parent: Queue, field: str, path: str, only: Mapping[str, int] | None = None
) -> dict[str, str]:
    """What the queues right below one have together; only of resources that the wanted queue has itself."""
    children = [table.all[name] for name in children_of(parent.name, table.all)]
    sums: dict[str, int] = {}
    for child in children:
        for name, amount in _amounts(child, field).items():
            sums[name] = sums.get(name, 0) + amount
    own = _amounts(parent, field)
    return {
        f"{field} of {parent.name} {name}": f"sum of children's {field} exceeds parent's {field} limit: the "
        f"{counted(children, 'queue')} below {parent.name} have {_of(name, total)} together in {path}, and "
        f"{parent.name} itself has {amount_text(name, own.get(name, 0))}"
        for name, total in sums.items()
        if total > own.get(name, 0) and (only is None or only.get(name))
    }


def _amounts(queue: Queue, field: str) -> Mapping[str, int]:
    amounts: Mapping[str, int] = getattr(queue, field)
    return amounts


def _of(name: str, amount: int) -> str:
    return f"{amount_text(name, amount)} of {name}"
