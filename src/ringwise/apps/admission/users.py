"""The webhook that writes who created a job: the annotation `ringwise.io/user` of the topmost owner.

Its pod templates get it, too, because whatever creates the pods (Kubernetes' controllers, Volcano's, an
operator) copies the annotations of a template and nothing else. What others wrote there is overwritten, so
that a copied manifest runs; where this webhook did not answer, the admission policy `ringwise-users` refuses
another's name.

The user of an object never changes. An update that loses the annotation (`kubectl replace`) gets it back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from ringwise.apps.admission.defaults import Operation, Patch, escaped, mapping
from ringwise.manifests.objects.workloads import (
    APPS_GROUP,
    KUBERNETES_BATCH_GROUP,
    OPERATOR_KINDS,
    REPLICATED_KINDS,
)
from ringwise.messages.move_plan import PENDING
from ringwise.wellknown import (
    APPROVED_BY,
    BATCH_GROUP,
    OPERATOR_GROUP,
    SCHEDULER_NAMES,
    SCHEDULING_GROUP,
    USER,
)

#: Characters of a user name that is written. A longer one is not: cut off, it could be somebody else's.
MAX_USER_NAME = 1024

#: A template, or another part with metadata, and its path.
_Part = tuple[dict[str, Any], str]


def _of_tasks(spec: dict[str, Any]) -> Iterator[_Part]:
    tasks = spec.get("tasks")
    for position, task in enumerate(tasks if isinstance(tasks, list) else ()):
        if isinstance(task, dict) and isinstance(task.get("template"), dict):
            yield task["template"], f"/spec/tasks/{position}/template"


def _of_replicas(spec: dict[str, Any]) -> Iterator[_Part]:
    if isinstance(spec.get("template"), dict):
        yield spec["template"], "/spec/template"


def _of_cron_job(spec: dict[str, Any]) -> Iterator[_Part]:
    made = spec.get("jobTemplate")
    if isinstance(made, dict):
        yield made, "/spec/jobTemplate"
        for template, path in _of_replicas(mapping(made.get("spec"))):
            yield template, f"/spec/jobTemplate{path}"


def _of_roles(field: str) -> Callable[[dict[str, Any]], Iterator[_Part]]:
    def parts(spec: dict[str, Any]) -> Iterator[_Part]:
        for name, role in mapping(spec.get(field)).items():
            if isinstance(role, dict) and isinstance(role.get("template"), dict):
                yield role["template"], f"/spec/{field}/{escaped(name)}/template"

    return parts


def _none(_: dict[str, Any]) -> Iterator[_Part]:
    return iter(())


_PARTS: Mapping[tuple[str, str], Callable[[dict[str, Any]], Iterator[_Part]]] = {
    ("", "Pod"): _none,
    (SCHEDULING_GROUP, "PodGroup"): _none,
    (OPERATOR_GROUP, "Isolation"): _none,
    (OPERATOR_GROUP, "MovePlan"): _none,
    (OPERATOR_GROUP, "NodeReservation"): _none,
    (OPERATOR_GROUP, "UsageLimit"): _none,
    (BATCH_GROUP, "Job"): _of_tasks,
    **dict.fromkeys(REPLICATED_KINDS, _of_replicas),
    (APPS_GROUP, "DaemonSet"): _of_replicas,
    (KUBERNETES_BATCH_GROUP, "CronJob"): _of_cron_job,
    **{kind: _of_roles(form.field) for kind, form in OPERATOR_KINDS.items()},
}


def name_user(
    kind: tuple[str, str],
    made: dict[str, Any],
    before: dict[str, Any] | None,
    requester: str,
    scheduler_names: Collection[str] = SCHEDULER_NAMES,
) -> list[Operation]:
    """Write the user of an object that is created (`before` is None) or changed, in place."""
    parts = _PARTS.get(kind)
    if parts is None:
        return []
    user = _user(made, before, requester if len(requester) <= MAX_USER_NAME else "", scheduler_names)
    patch = Patch()
    _write(patch, made, "", user)
    if kind == (OPERATOR_GROUP, "MovePlan"):
        _write(patch, made, "", _approver(made, before, requester), APPROVED_BY)
    for part, path in parts(mapping(made.get("spec"))):
        _write(patch, part, path, user)
    return patch.operations


def _user(
    made: dict[str, Any], before: dict[str, Any] | None, requester: str, scheduler_names: Collection[str]
) -> str:
    if before is None:
        return requester
    there = _named(before)
    if there or _named(made) == requester:
        # A requester that sets its own name on an object without a user is charged for it.
        return there or requester
    # A Deployment that another scheduler served before is new here. The creator of other objects is unknown.
    schedulers = _scheduler(made), _scheduler(before)
    return requester if schedulers[0] in scheduler_names and schedulers[1] not in scheduler_names else ""


def _approver(made: dict[str, Any], before: dict[str, Any] | None, requester: str) -> str:
    """Who set the approval of a MovePlan; the policy `ringwise-move-plans` checks that this was allowed."""
    if _approval(made) != _approval(before or {}):
        return requester if len(requester) <= MAX_USER_NAME else ""
    return "" if before is None else _named(before, APPROVED_BY)


def _approval(plan: dict[str, Any]) -> str:
    return mapping(plan.get("spec")).get("approval") or PENDING


def _named(made: dict[str, Any], annotation: str = USER) -> str:
    name = mapping(mapping(made.get("metadata")).get("annotations")).get(annotation)
    return name if isinstance(name, str) else ""


def _scheduler(made: dict[str, Any]) -> Any:
    """Of a template of Kubernetes' own kinds, where the API server has filled it in."""
    spec = mapping(made.get("spec"))
    for template, _ in (*_of_replicas(spec), *_of_cron_job(spec)):
        if "schedulerName" in (inner := mapping(template.get("spec"))):
            return inner["schedulerName"]
    return None


def _write(patch: Patch, part: dict[str, Any], path: str, user: str, annotation: str = USER) -> None:
    if _named(part, annotation) == user and user:
        return
    meta = part.get("metadata")
    annotations = meta.get("annotations") if isinstance(meta, dict) else None
    if not user:
        if isinstance(annotations, dict) and annotation in annotations:
            patch.remove(annotations, f"{path}/metadata/annotations", annotation)
        return
    if not isinstance(meta, dict):
        patch.set(part, path, "metadata", {})
    if not isinstance(annotations, dict):
        patch.set(part["metadata"], f"{path}/metadata", "annotations", {})
    patch.set(part["metadata"]["annotations"], f"{path}/metadata/annotations", annotation, user)
