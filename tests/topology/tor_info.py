"""The value of `tor_info` for tests."""

from __future__ import annotations

import json


def info(*switches: tuple[str, list[str]], tor_count: int = 2) -> str:
    return json.dumps(
        {
            "version": "1.0",
            "tor_count": tor_count,
            "server_list": [
                {
                    "tor_id": number,
                    "tor_ip": name,
                    "server": [
                        {"server_ip": server, "npu_count": 8, "slice_id": place}
                        for place, server in enumerate(servers)
                    ],
                }
                for number, (name, servers) in enumerate(switches)
            ],
        }
    )
