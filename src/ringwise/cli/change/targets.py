"""The lab or cluster that a command changes; both accept the same requests."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ringwise.cli.exit_codes import ExitCode
from ringwise.cli.output import complain, spinner, stop
from ringwise.cli.query.queries import (
    asks_clusters,
    check_one_target,
    find_cluster,
    in_cluster_hint,
    lab_client,
    talking_to_cluster,
)
from ringwise.durations import SECOND

if TYPE_CHECKING:
    from ringwise.kubeclient.config import Access

#: Interval in seconds at which a lab is polled.
POLL_SECONDS = 0.5
#: Timeout of a MovePlan, in nanoseconds; longer than any takes.
_LONGEST = 2 * 3600 * SECOND


class LabTarget:
    #: The program of the commands that messages suggest.
    program = "ringwise"

    def __init__(self, lab: Path | None) -> None:
        self.lab = lab

    def change(self, action: str, request: msgspec.Struct, doing: str = "", document: Any = Any) -> Any:
        """Make a change and return the answer. Errors end the command with one line.

        Returns None if the change was made, but the target did not answer in time. `doing`: the text
        that is shown meanwhile. `document`: the type of the answer.
        """
        from ringwise.apps.lab.client import NoLabError

        acknowledged = False
        with lab_client(self.lab, doing or action, hint=in_cluster_hint()) as client:
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

    def follow(self, plan: str) -> tuple[str, str]:
        """Wait until the MovePlan ends, and return its state and message."""
        from ringwise.apps.lab.requests import FollowRequest

        with lab_client(self.lab, "moving jobs") as client:
            limit = 0
            while True:
                answer = client.do("follow", FollowRequest(plan, limit))
                if (result := answer["result"]) is not None:
                    return result["state"], result["message"]
                if limit and answer["over"]:
                    raise stop(f"ringwise: the plan {plan} did not end", code=ExitCode.FAILED)
                if limit:
                    time.sleep(POLL_SECONDS)
                limit = limit or answer["now"] + _LONGEST


class ClusterTarget:
    """The same requests, carried out with the rights of the user."""

    program = "kubectl ringwise"

    def __init__(self, access: Access) -> None:
        self.access = access

    def change(self, action: str, request: msgspec.Struct, doing: str = "", document: Any = Any) -> Any:
        from ringwise.apps.live_changes import CHANGES

        with talking_to_cluster(), spinner(doing or action):
            return CHANGES[action](self.access, action, request)

    def follow(self, plan: str) -> tuple[str, str]:
        from ringwise.apps.live_changes import NotFollowedError, follow

        try:
            with talking_to_cluster(), spinner("moving jobs") as progress:
                ended = follow(self.access, plan, progress)
        except NotFollowedError as problem:
            raise stop(f"ringwise: {problem}", code=ExitCode.FAILED) from None
        return ended.state, ended.why


ChangeTarget = LabTarget | ClusterTarget


def change_target(options: dict[str, Any]) -> ChangeTarget:
    """Return the lab or the cluster of the options. If it is a cluster, print its name first.

    A kubeconfig is not used just because it exists: users of a lab would change a production cluster.
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
