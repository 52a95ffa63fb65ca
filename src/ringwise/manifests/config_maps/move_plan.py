"""M1: the plan of moves that is to be carried out: the ConfigMap `ringwise-move-plan`."""

from __future__ import annotations

import json
from collections.abc import Mapping

from ringwise.manifests.text.errors import Findings
from ringwise.messages.move_plan import MovePlan, plain_plan, read_plan
from ringwise.versions import RECORD_VERSION, read_record
from ringwise.wellknown import MOVE_PLAN_KEY

_NOTHING = MovePlan("", "", (), (), 0)


def move_plan_data(plan: MovePlan) -> dict[str, str]:
    return {MOVE_PLAN_KEY: json.dumps({"version": RECORD_VERSION, **plain_plan(plan)}, separators=(",", ":"))}


def move_plan_from_data(data: Mapping[str, str], found: Findings) -> MovePlan:
    plan, problem = read_record(data.get(MOVE_PLAN_KEY, ""))
    if not plan:
        found.add_error(f"data.{MOVE_PLAN_KEY}", problem or "Required value")
        return _NOTHING
    try:
        return read_plan(plan)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        found.add_error(f"data.{MOVE_PLAN_KEY}", f"is no plan of moves: {type(error).__name__} {error}")
        return _NOTHING
