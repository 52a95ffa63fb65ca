"""Which reviews are checked: one that takes long would make others wait beyond the API server's time-out.

The check of a job is computation in one process. Its time grows with the bytes of the object, with its
tasks, and with the pods it expands to. All three are known before the check starts.
"""

from __future__ import annotations

from typing import Any

import msgspec

#: Limits of one review. Under them a check takes less than a second on one core.
MAX_OBJECT_BYTES = 512 << 10
MAX_TASKS = 200
MAX_PODS = 5_000
#: A review under these waits for no larger one.
_SMALL_BYTES = 32 << 10
_SMALL_PODS = 256


class _Task(msgspec.Struct):
    replicas: Any = None


_Roles = dict[str, _Task | None]


class _Spec(msgspec.Struct, rename="camel"):
    """Of a vcjob or of an operator's job. A Deployment is checked by one of its pods."""

    tasks: list[_Task] | None = None
    replica_specs: _Roles | None = None
    pytorch_replica_specs: _Roles | None = None
    tf_replica_specs: _Roles | None = None
    mpi_replica_specs: _Roles | None = None
    paddle_replica_specs: _Roles | None = None
    xgb_replica_specs: _Roles | None = None
    jax_replica_specs: _Roles | None = None

    def parts(self) -> list[_Task]:
        roles = (
            *(self.replica_specs, self.pytorch_replica_specs, self.tf_replica_specs),
            *(self.mpi_replica_specs, self.paddle_replica_specs, self.xgb_replica_specs),
            self.jax_replica_specs,
        )
        return [*(self.tasks or ()), *(role or _Task() for group in roles for role in (group or {}).values())]


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
    try:
        found = msgspec.json.decode(raw, type=_Object)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return Cost(len(bytes(raw)))
    tasks = found.spec.parts() if found.spec is not None else []
    replicas = [task.replicas if isinstance(task.replicas, int) else 1 for task in tasks]
    return Cost(len(bytes(raw)), len(tasks), sum(max(0, count) for count in replicas) or 1)
