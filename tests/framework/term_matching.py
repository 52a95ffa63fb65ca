"""Which pods a term of a pod matches, one pod at a time: what sets of terms must agree with."""

from __future__ import annotations

from collections.abc import Mapping

from ringwise.framework.selectors import ALL_NAMESPACES, all_hold, spaces_of
from ringwise.state.model import EMPTY, Pod, PodTerm


def matches_pod(term: PodTerm, owner_namespace: str, pod: Pod, labels: Mapping[str, str] = EMPTY) -> bool:
    """Whether a term of a pod in `owner_namespace` matches this pod; `labels`: those of its namespace."""
    spaces, selector = spaces_of(term, owner_namespace), term.namespace_selector
    named = pod.namespace in spaces or ALL_NAMESPACES in spaces
    if not named and (selector is None or not all_hold(selector, labels)):
        return False
    return all_hold(term.selector, pod.labels)
