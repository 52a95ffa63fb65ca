"""Text that tenants read: conditions and events on their objects. The one place that limits and clears it.

Whoever may read a PodGroup or a pod reads its conditions and events, and need not be allowed to read other
namespaces. So the text names no object of another namespace, and what a long object or a large cluster makes
long is cut. `why` and `doctor` have all of it.
"""

from __future__ import annotations

from typing import Any

from ringwise.reasons import Reason

#: Bytes: what the API allows for the note of an event. Conditions may be 32 times as long, but there is one
#: for each pod, they are sent to all watchers, and tables show a line.
MAX_TEXT = 1024
_CUT = " ... [cut]"
#: Where a text may be cut without breaking a word, the best first.
_BREAKS = ("; ", ". ", ", ", " ")
#: Details that name a pod: its own by name, another by namespace and name.
_POD = "pod"
#: The text of an exception, which may quote anything.
_ERROR = "error"


def cut_text(text: str) -> str:
    """The text, or its beginning up to the end of a part, and that it was cut."""
    whole = text.encode(errors="replace")
    if len(whole) <= MAX_TEXT:
        return text
    begin = whole[: MAX_TEXT - len(_CUT)].decode(errors="ignore")
    # Not much is left out only to end at the best place.
    ends = (begin.rfind(one, len(begin) * 3 // 4) for one in _BREAKS)
    return begin[: next((end for end in ends if end > 0), len(begin))].rstrip(" ,;:") + _CUT


def problem_text(reason: Reason) -> str:
    """The problem, with the fixes that the rules tried when they decided.

    What helps in general is not named, because it was not tried.
    """
    fixes = reason.verified_fixes
    return f"{reason.message}. What would help now: {'; '.join(fixes)}" if fixes else reason.message


def reason_message(reason: Reason, namespace: str) -> str:
    """The text of a condition or event in this namespace."""
    cleared = {key: _cleared(key, value, namespace) for key, value in reason.details.items()}
    return cut_text(problem_text(reason.with_details(cleared)))


def _cleared(key: str, value: Any, namespace: str) -> Any:
    if key == _POD and isinstance(value, str) and "/" in value and not value.startswith(f"{namespace}/"):
        return "of another namespace"
    if key == _ERROR and isinstance(value, str):
        return value.partition(":")[0]
    return value
