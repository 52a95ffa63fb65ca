"""Ringwise: chip-aware gang scheduling for clusters of Ascend NPUs.

`ringwise.place(objects, configuration)` answers where jobs would be placed, as a `ringwise.Answer`.
"""

from __future__ import annotations

from typing import Any

__version__ = "0.1.0"

#: The API, and where it is defined. It is imported when it is used: `import ringwise` stays cheap.
_API = {"Answer": "ringwise.apps.api", "place": "ringwise.apps.api"}


def __getattr__(name: str) -> Any:
    module = _API.get(name)
    if module is None:
        raise AttributeError(f"module 'ringwise' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(module), name)
