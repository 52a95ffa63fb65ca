"""A pod that comes back to nodes with given scores, through a real session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ringwise.framework.configuration import PluginOption, Settings
from ringwise.framework.extension_points import NODE_SCORE
from ringwise.framework.gangs.gang_placement import place_gang
from ringwise.framework.job import PreviousNode
from ringwise.framework.session import Session
from tests.builders.session_lab import cluster

LABEL = "score"


class ScoreByLabel:
    def __init__(self, option: PluginOption) -> None:
        self._option = option

    def open(self, session: Session) -> None:
        session.register(NODE_SCORE, self.score)

    def score(self, pod_class: Any, shape: Any) -> float:
        return float(shape.node_class.labels[LABEL])


def node_of_returning_pod(
    scores: Mapping[str, float], former: Mapping[int, PreviousNode], rank: int, *, wished: bool = True
) -> str | None:
    """Where the pod with this rank goes; all nodes are free, and only their scores tell them apart."""
    lab = cluster()
    lab.state.watch_labels([LABEL])
    for name, score in scores.items():
        lab.node(name, chips=8, labels={LABEL: str(score)})
    lab.job("train", chips=8)
    job = lab["train"]
    (pod,) = job.in_order
    lab.put(replace(pod, rank=rank), job)
    job.previous_nodes = dict(former)
    session = lab.session(
        "topology910",
        "by-label",
        plugins={"by-label": ScoreByLabel},
        settings=Settings(prefer_previous_node=wished),
    )
    assert session.job_valid(job) is None
    statement = session.statement()
    place_gang(session, job, statement)
    statement.commit()
    number = lab.state.pods[pod.uid].node
    return None if number < 0 else lab.state.names[number]
