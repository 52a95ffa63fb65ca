"""Why a job waits although room is being made for it."""

from __future__ import annotations

from ringwise.reasons import ROOM, ReasonKind, Stage, Trigger

MAKING_ROOM = ReasonKind(
    "making-room",
    Stage.GANG,
    "{victims} pod(s) leave to make room for it ({why}); {chips} chip(s) on {nodes} are kept for it",
    ("wait until they are gone", "it is tried anew if they are not gone after {seconds} s"),
    ROOM | {Trigger.TIME_PASSED},
)
