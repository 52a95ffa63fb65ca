"""What a command changes: a lab or a cluster, which take the same requests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from ringwise.cli.output import complain, spinner
from ringwise.cli.query.queries import (
    asks_clusters,
    check_one_target,
    find_cluster,
    in_cluster_hint,
    lab_client,
    talking_to_cluster,
)

if TYPE_CHECKING:
    from ringwise.kubeclient.config import Access

    InLab = Callable[[Path | None], object]
    InCluster = Callable[[Access], object]


class ChangeTarget(Protocol):
    #: The program with which a person goes on.
    program: str

    def change(self, action: str, request: msgspec.Struct, doing: str = "", document: Any = Any) -> Any:
        """Make a change of the table of requests; what goes wrong ends the command with one line.

        None: it is made, and the target did not answer in time. `doing`: what is shown meanwhile.
        `document`: the type of the answer.
        """

    def carry_out(self, in_lab: InLab, in_cluster: InCluster) -> None:
        """Make a change of several steps with questions between them: a drain, or a plan of moves."""


class LabTarget:
    program = "ringwise"

    def __init__(self, lab: Path | None) -> None:
        self._lab = lab

    def change(self, action: str, request: msgspec.Struct, doing: str = "", document: Any = Any) -> Any:
        from ringwise.apps.lab.client import NoLabError

        acknowledged = False
        with lab_client(self._lab, doing or action, hint=in_cluster_hint()) as client:
            show_progress = client.on_progress

            def progress(tried: int) -> None:
                nonlocal acknowledged
                acknowledged = True
                if show_progress is not None:
                    show_progress(tried)

            client.on_progress = progress
            try:
                return msgspec.convert(client.do(action, request), document)
            except NoLabError:
                if not acknowledged:
                    raise
                return None

    def carry_out(self, in_lab: InLab, in_cluster: InCluster) -> None:
        in_lab(self._lab)


class ClusterTarget:
    program = "kubectl ringwise"

    def __init__(self, access: Access) -> None:
        self._access = access

    def change(self, action: str, request: msgspec.Struct, doing: str = "", document: Any = Any) -> Any:
        from ringwise.apps.live_changes import CHANGES

        with talking_to_cluster(), spinner(doing or action):
            return CHANGES[action](self._access, action, request)

    def carry_out(self, in_lab: InLab, in_cluster: InCluster) -> None:
        in_cluster(self._access)


def change_target(options: dict[str, Any]) -> ChangeTarget:
    """The lab or the cluster that the options choose. The first line of the command names a cluster.

    A kubeconfig that is only there is not enough: a person who uses a lab would change production.
    """
    lab = options.get("lab")
    cluster = [f"--{name}" for name in ("kubeconfig", "context") if options.get(name)]
    check_one_target(lab, cluster)
    if lab is None and (cluster or asks_clusters()):
        with talking_to_cluster():
            access = find_cluster(options)
        complain(
            f"cluster {access.context} ({access.server})" if access.context else f"cluster {access.server}"
        )
        return ClusterTarget(access)
    return LabTarget(lab)
