"""The volume claims that controllers make: of vcjobs, of pods of a StatefulSet, of ephemeral volumes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from ringwise.state.model import Pod
from ringwise.state.vcjob import PodTemplate, VcJob, claim_names
from ringwise.state.volumes import ClaimTemplates, PersistentVolumeClaim, StorageClass, ephemeral_claim
from ringwise.state.workload import Role


def pod_claims(
    template: PodTemplate, pod: str, more: Iterable[str] = ()
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """All claims of a pod of this name, and those of its ephemeral volumes; `more`: what its owner adds."""
    own = tuple(ephemeral_claim(pod, volume) for volume, _ in template.ephemeral_volumes)
    return tuple(dict.fromkeys((*template.claims, *more, *own))), own


def claims_of_job(job: VcJob) -> Iterator[PersistentVolumeClaim]:
    """The claims that are made for the job; those of that name which exist are used."""
    for volume, name in zip(job.volumes, claim_names(job), strict=True):
        if volume.claim is not None and not volume.claim_name:
            yield replace(volume.claim, namespace=job.namespace, name=name, origin=job.origin)


def ephemeral_claims_of(pod: Pod, volumes: ClaimTemplates) -> Iterator[PersistentVolumeClaim]:
    """The claims that are made for the generic ephemeral volumes of a pod, and deleted with it."""
    for volume, claim in volumes:
        yield replace(
            claim,
            namespace=pod.namespace,
            name=ephemeral_claim(pod.name, volume),
            owner=pod.uid,
            origin=pod.origin,
        )


def stateful_claim(template: str, pod: str) -> str:
    """The name of the claim that a StatefulSet makes for its pod."""
    return f"{template}-{pod}"


def stateful_claims_of(pod: Pod, role: Role) -> Iterator[PersistentVolumeClaim]:
    """The claims that a StatefulSet makes for its pod."""
    for name, claim in role.claim_templates:
        yield replace(claim, namespace=pod.namespace, name=stateful_claim(name, pod.name), origin=pod.origin)


def with_default_class(
    claim: PersistentVolumeClaim, classes: Iterable[StorageClass]
) -> PersistentVolumeClaim:
    """As the API server completes a new claim: of several default classes one, the same in every run."""
    if not claim.takes_default_class or claim.volume:
        return claim
    default = max((one.name for one in classes if one.default), default=None)
    return claim if default is None else replace(claim, storage_class=default, takes_default_class=False)
