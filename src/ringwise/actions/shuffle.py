"""shuffle: evicts running pods that plugins want to place again."""

from __future__ import annotations

from ringwise.framework.evictions.candidates import evictable_pods
from ringwise.framework.registry import ActionSpec
from ringwise.framework.session import Session
from ringwise.framework.statement import Eviction

NAME = "shuffle"


def shuffle(session: Session) -> None:
    running = {
        pod.uid: (job, pod) for job, pod in evictable_pods(session, lambda pod: pod.phase == "Running")
    }
    for uid in session.victims(list(running)):
        if uid in running:
            job, pod = running.pop(uid)
            session.evicted.append(Eviction(job, pod, NAME))


SPEC = ActionSpec(NAME, "evicts running pods that plugins select; no plugin of Ringwise selects any", shuffle)
