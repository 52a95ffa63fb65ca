"""`reset.json` of `reset-config-<job>`, as Huawei's components read it, with a change made."""

from __future__ import annotations

import json
from typing import Any

from ringwise.manifests.text.go_json import compact, digest
from ringwise.messages.commands import SetResetConfig
from ringwise.topology.numbers import INT32
from ringwise.wellknown import CHECK_CODE_KEY, POD_RESCHEDULE, RESET_KEY, RESTART_TYPE_KEY


def changed(text: str, command: SetResetConfig) -> dict[str, str] | None:
    """The data keys with the change made; None where the text is not JSON object.

    The fields are those that Huawei's components know, in their order: the checksum is over them.
    """
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(content, dict):
        return None
    ranks = content.get("RankList")
    reset: dict[str, Any] = {
        "RankList": ranks if isinstance(ranks, list) else None,
        "UpdateTime": _number(content.get("UpdateTime"), 1 << 62),
        "RetryTime": _number(content.get("RetryTime"), INT32 - 1),
        "FaultFlushing": content.get("FaultFlushing") is True,
        "GracefulExit": _number(content.get("GracefulExit"), INT32),
        "RestartFaultProcess": content.get("RestartFaultProcess") is True,
    }
    written: dict[str, str] = {}
    if command.graceful_exit is not None:
        reset["GracefulExit"] = int(command.graceful_exit)
    if command.whole_job_restarted is not None:
        reset["RankList"] = []
        reset["UpdateTime"] = command.seconds
        reset["RetryTime"] = 0 if command.whole_job_restarted else reset["RetryTime"] + 1
        written[RESTART_TYPE_KEY] = POD_RESCHEDULE
    try:
        return {RESET_KEY: compact(reset), CHECK_CODE_KEY: digest(reset), **written}
    except (RecursionError, UnicodeEncodeError):
        return None


def _number(value: Any, most: int) -> int:
    return value if type(value) is int and 0 <= value <= most else 0
