"""Board files of one's own on a cluster: in a ConfigMap that scheduler and webhook mount."""

from __future__ import annotations

import hashlib
from typing import Any

from ringwise.wellknown import BOARDS_CHECKSUM, BOARDS_CONFIG_MAP

#: Name of each board and text of its file, by name.
Boards = tuple[tuple[str, str], ...]
_FOLDER = "/etc/ringwise/boards"


def board_config_map(metadata: dict[str, Any], boards: Boards) -> dict[str, Any]:
    files = {f"{name}.toml": text for name, text in boards}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": files}


def give_boards(template: dict[str, Any], boards: Boards) -> None:
    """Let the pods of a template read the boards. They do so when they start: a change starts them anew."""
    text = "".join(f"{name}\n{text}\n" for name, text in boards)
    template["metadata"]["annotations"] = {BOARDS_CHECKSUM: hashlib.sha256(text.encode()).hexdigest()}
    spec = template["spec"]
    (container,) = spec["containers"]
    container["args"] = [
        *container["args"],
        *(f"--board-file={_FOLDER}/{name}.toml" for name, _ in boards),
    ]
    container["volumeMounts"] = [{"name": "boards", "mountPath": _FOLDER, "readOnly": True}]
    spec["volumes"] = [{"name": "boards", "configMap": {"name": BOARDS_CONFIG_MAP}}]
