"""JSON as Huawei's components write it, and the checksum over it that they verify."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def compact(value: Any) -> str:
    """JSON as Go writes it: no blanks, `<`, `>` and `&` escaped."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    for sign in ("<", ">", "&", "\u2028", "\u2029"):
        if sign in text:
            text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def digest(value: Any) -> str:
    """`CheckCode`."""
    return hashlib.sha256(compact(value).encode()).hexdigest()
