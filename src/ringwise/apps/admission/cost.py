"""Which reviews are checked: one that takes long would make others wait beyond the API server's time-out.

The check of a job is computation in one process. Its time grows with the bytes of the object, with its
tasks, and with the pods it expands to. All three are known before the check starts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from ringwise.manifests.objects.workloads import OPERATOR_KINDS
from ringwise.manifests.text.readable import readable

#: Limits of one review. Under them a check takes less than a second on one core.
MAX_OBJECT_BYTES = 512 << 10
MAX_TASKS = 200
MAX_PODS = 5_000
#: A review under these waits for no larger one.
_SMALL_BYTES = 32 << 10
_SMALL_PODS = 256


class _Task(msgspec.Struct):
    replicas: Any = None


#: Fields with the roles of the jobs of operators. A Deployment is checked by one of its pods.
_ROLES = tuple(kind.attribute for kind in OPERATOR_KINDS.values())

if TYPE_CHECKING:
    _Spec = Any
else:
    _Spec = msgspec.defstruct(
        "_Spec",
        [
            ("tasks", list[_Task] | None, None),
            *((name, dict[str, _Task | None] | None, None) for name in _ROLES),
        ],
        rename="camel",
    )


def _parts(spec: _Spec) -> list[_Task]:
    """The tasks of a vcjob, the roles of an operator's job."""
    roles = (role or _Task() for name in _ROLES for role in (getattr(spec, name) or {}).values())
    return [*(spec.tasks or ()), *roles]


class _Object(msgspec.Struct):
    spec: _Spec | None = None


class Cost(msgspec.Struct, frozen=True):
    """What decides about the time of a check."""

    bytes: int
    tasks: int = 0
    pods: int = 1

    @property
    def is_small(self) -> bool:
        return self.bytes <= _SMALL_BYTES and self.pods <= _SMALL_PODS

    @property
    def excess(self) -> str:
        """Which limit it exceeds; empty for none."""
        for name, value, limit in (
            ("bytes", self.bytes, MAX_OBJECT_BYTES),
            ("tasks", self.tasks, MAX_TASKS),
            ("pods", self.pods, MAX_PODS),
        ):
            if value > limit:
                return f"{value} {name}, of at most {limit}"
        return ""


def cost_of(raw: msgspec.Raw) -> Cost:
    """The cost of an object. One that cannot be decoded costs its bytes: the check reports the problem."""
    obj = readable(raw, _Object, None)
    if obj is None:
        return Cost(len(bytes(raw)))
    tasks = _parts(obj.spec) if obj.spec is not None else []
    replicas = [task.replicas if isinstance(task.replicas, int) else 1 for task in tasks]
    return Cost(len(bytes(raw)), len(tasks), sum(max(0, count) for count in replicas) or 1)
