"""The lab shows what the processes of a job would be told about its rescheduling."""

from __future__ import annotations

import json

from ringwise.embed.cluster import EmbeddedCluster
from ringwise.messages.commands import SetResetConfig


def test_reset_configs_are_shown_as_config_maps() -> None:
    cluster = EmbeddedCluster()
    cluster.apply(SetResetConfig("team", "train", graceful_exit=True))
    told = json.loads(cluster.published("team", "reset-config-train", "reset.json"))
    assert told["GracefulExit"] == 1
    cluster.apply(SetResetConfig("team", "train", graceful_exit=False, whole_job_restarted=False, seconds=7))
    told = json.loads(cluster.published("team", "reset-config-train", "reset.json"))
    assert (told["GracefulExit"], told["RetryTime"], told["UpdateTime"]) == (0, 1, 7)
    assert cluster.published("team", "reset-config-train", "restartType") == "podReschedule"
    assert cluster.published("team", "reset-config-train", "checkCode")
