"""Changes of valid documents for fuzz tests: fast, and the same for the same seed."""

from __future__ import annotations

import copy
import os
import random
from collections.abc import Iterator
from typing import Any

from tests.examples import sample

#: Documents per kind; RINGWISE_FUZZ asks for more, and the first are the same.
COUNT = int(os.environ.get("RINGWISE_FUZZ", len(sample(range(100), 3))))
SEED = int(os.environ.get("RINGWISE_FUZZ_SEED", "13"))

STRANGE: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1.5, 2**31, 2**63, 2**64, 2**64 + 1, -(2**63) - 1, 10**15, 10**400, 1e300),
    *("", "-", "0", "-1", "1e999", "NaN", "1e15", "9" * 20, "9" * 5000, "٣", "1_000", " 7 ", "+5", "0x10"),
    *(
        "{",
        "[]",
        "{}",
        "null",
        '{"a":',
        '{"DeviceInfo":null}',
        '[{"a":1}]',
        "a" * 300,
        "\x00",
        "\ud7ff",
        "\n",
    ),
    *("Ascend910-0", "Ascend910-0,Ascend910-0", "Ascend910-" + "9" * 5000, "huawei.com/Ascend910", "true"),
    *(
        "2025-01-31T08:00:00Z",
        "9999-99-99T99:99:99Z",
        "1h",
        "Always",
        "Running",
        "Failed",
        "node-1",
        "10.0.0.1",
    ),
    *([], [None], [1], [[]], {}, {"": None}, {"a": 1}, {"a": {"b": []}}, [{"name": 1}]),
)


def _places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if path:
        yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _places(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _places(inner, (*path, index))


def changed_documents(valid: list[Any], count: int = COUNT, seed: int = SEED) -> Iterator[Any]:
    """So many documents, each a valid one with up to three values replaced, removed, repeated or added."""
    chance = random.Random(seed)
    for _ in range(count):
        document = copy.deepcopy(chance.choice(valid))
        for _ in range(chance.randint(1, 3)):
            places = list(_places(document))
            if not places:
                break
            last: Any
            *way, last = chance.choice(places)
            holder: Any = document
            for key in way:
                holder = holder[key]
            action = chance.randrange(8)
            if action == 0:
                del holder[last]
            elif action == 1 and isinstance(holder, list):
                holder.append(copy.deepcopy(holder[last]))
            elif action == 1:
                holder[str(chance.choice(STRANGE))[:400]] = chance.choice(STRANGE)
            else:
                holder[last] = copy.deepcopy(chance.choice(STRANGE))
        yield document
