"""No text that a user chose survives in a default bundle: markers are in every event and command."""

from __future__ import annotations

import base64
import enum
import gzip
import json
import types
import typing
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from itertools import count
from numbers import Rational
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints
from urllib.parse import quote

import msgspec
import pytest

from ringwise.apps.journal.format import EVENT_TYPES, FORMAT, VERSION
from ringwise.apps.support.bundle_file import JOURNAL, Contents, write_bundle
from ringwise.framework.configuration import Configuration
from ringwise.manifests.settings.boards import shipped_catalog
from ringwise.messages.commands import Command
from ringwise.reasons import Reason, ReasonKind
from ringwise.scheduler.defaults import default_configuration
from tests.examples import sample

#: What names, numbers of persons, addresses and secrets look like.
SHAPES: dict[str, Callable[[int], str]] = {
    "name": lambda number: f"quorvex-{_letters(number)}",
    "public beginning": lambda number: f"huawei.com/Quorvex_{_letters(number)}",
    "number": lambda number: str(7_310_000 + number),
    "address": lambda number: f"10.213.{number >> 8}.{number & 255}",
    "long address": lambda number: f"fd77:1234::{number:x}:7b",
    "like a time": lambda number: f"2026-01-01Tquorvex{_letters(number)}",
    "like a fault code": lambda number: f"BAD{number:05X}",
    "like hexadecimal": lambda number: f"0xbad{number:05x}",
    "base64": lambda number: base64.b64encode(f"quorvex-{_letters(number)}".encode()).decode(),
    "url": lambda number: f"https://quorvex.example/?x=%71{_letters(number)}%2f",
    "sentence": lambda number: f"call quorvex {_letters(number)}, or Zoë",
}
#: Only these stay, where they belong: a user does not choose them.
FAULT_CODES = "code"


def _letters(number: int) -> str:
    return "".join(chr(ord("g") + int(digit)) for digit in f"{number:04}")


class _Planter:
    def __init__(self, shape: Callable[[int], str]) -> None:
        self._shape = shape
        self._numbers = count(1)
        self.markers: list[str] = []

    def marker(self) -> str:
        self.markers.append(self._shape(next(self._numbers)))
        return self.markers[-1]

    def of(self, kind: Any, name: str = "") -> Any:
        """Return a value of this type, as JSON has it, with a new marker for each text."""
        origin, parts = get_origin(kind), get_args(kind)
        if origin in (typing.Union, types.UnionType):
            return self.of(next(part for part in parts if part is not type(None)), name)
        if origin is typing.Literal:
            return parts[0]
        if kind is Configuration:
            return self.configuration()
        if kind is ReasonKind:
            return {"code": self.marker(), "stage": "x", "sentence": self.marker(), "fixes": [self.marker()]}
        if isinstance(kind, type) and issubclass(kind, enum.Enum):
            return next(iter(kind)).value
        if is_dataclass(kind) and isinstance(kind, type):
            hints = get_type_hints(kind)
            return {one.name: self.of(hints[one.name], one.name) for one in fields(kind)}
        if kind in (bool, int, float, Rational):
            return 1
        if origin is tuple:
            return [self.of(part, name) for part in parts if part is not ...]
        if parts:
            # Details of reasons have the names that their kind declares.
            return {"node" if name == "details" else self.marker(): self.of(parts[-1], name)}
        assert kind in (str, Any), kind
        if kind is Any:
            return {"name": [f"quorvex{_letters(next(self._numbers))}"]}
        return "80E01801" if name == FAULT_CODES else self.marker()

    def configuration(self) -> dict[str, Any]:
        configuration = json.loads(msgspec.json.encode(default_configuration()))
        configuration["actions"].append(self.marker())
        plugins = configuration["tiers"][0]["plugins"]
        planted = {self.marker(): self.marker(), "binpack.resources." + self.marker(): [self.marker()]}
        plugins.append({"name": self.marker(), "enabled": {self.marker(): True}, "arguments": planted})
        plugins.append({"name": "binpack", "enabled": {}, "arguments": planted})
        configuration["settings"] |= {"user_label": self.marker(), self.marker(): self.marker()}
        configuration["action_arguments"][self.marker()] = planted
        return {**configuration, self.marker(): self.marker()}

    def lines(self) -> bytes:
        """Return a journal with every event and every command."""
        records = json.dumps({"version": 1, "jobs": [{f"quorvex{_letters(9)}": ["quorvex"]}]})
        events = [
            *([name, {**self.of(kind), self.marker(): self.marker()}] for name, kind in EVENT_TYPES.items()),
            ["LeaderRecordRead", {"tables": {"fault-jobs.json": records}}],
        ]
        commands: list[dict[str, Any]] = [{"type": self.marker(), self.marker(): self.marker()}]
        for kind in get_args(Command):
            commands.append({"type": kind.__name__, **self.of(kind), self.marker(): self.marker()})
            if get_type_hints(kind).get("reason") is Reason:
                reason = {"code": self.marker(), "message": self.marker(), "fixes": [self.marker()]}
                details = {"node": self.marker(), "nodes": [self.marker()], "loads": {self.marker(): 1}}
                commands[-1]["reason"] = {**reason, "details": details, self.marker(): 1}
        header = {
            "format": FORMAT,
            "version": VERSION,
            "ringwise": "0.1.0",
            "first": 0,
            "scheduler": self.marker(),
            "scheduler_names": [self.marker()],
            "configuration": self.configuration(),
            self.marker(): self.marker(),
        }
        batch = {
            "number": 0,
            "now": 1,
            "events": events,
            "commands": commands,
            "marks": [[self.marker(), self.marker(), 1]],
            self.marker(): self.marker(),
        }
        return b"".join(msgspec.json.encode(line) + b"\n" for line in (header, batch))


def _forms(marker: str) -> Iterator[bytes]:
    """Return the marker as somebody may find it: plain, as JSON has it, for addresses, encoded."""
    data = marker.encode()
    yield from (data, json.dumps(marker)[1:-1].encode(), quote(marker, safe="").encode(), data.hex().encode())
    for before in range(3):
        # Without the letters at both ends, which depend on what stands beside it.
        encoded = base64.b64encode(b"-" * before + data).rstrip(b"=")
        yield encoded[(0, 2, 3)[before] : -1]


@pytest.mark.parametrize("shape", sample([*SHAPES]))
def test_no_marker_survives_in_any_form(shape: str, tmp_path: Path) -> None:
    planter = _Planter(SHAPES[shape])
    objects, recorded = planter.lines(), planter.lines()
    journal, path = tmp_path / "journal.jsonl", tmp_path / "bundle.tar.gz"
    journal.write_bytes(recorded)
    document = write_bundle(path, Contents("files", objects, ((JOURNAL, journal),)), shipped_catalog(()))
    assert document.missing == []
    assert msgspec.to_builtins(document.journals) == [
        {"file": JOURNAL, "batches": 1, "events": len(EVENT_TYPES) + 1}
    ]
    content = gzip.decompress(path.read_bytes()).lower()
    found = [marker for marker in planter.markers if any(form.lower() in content for form in _forms(marker))]
    assert (found, len(planter.markers) > 1000) == ([], True)
    assert b"quorvex" not in content
    assert b"80e01801" in content


def test_text_is_in_a_bundle_on_request(tmp_path: Path) -> None:
    planter = _Planter(SHAPES["sentence"])
    path = tmp_path / "bundle.tar.gz"
    document = write_bundle(path, Contents("files", planter.lines()), shipped_catalog(()), with_text=True)
    assert document.omitted == []
    content = gzip.decompress(path.read_bytes()).decode()
    batch = json.loads(next(line for line in content.splitlines() if line.startswith('{"number"')))
    assert (
        next(event for name, event in batch["events"] if name == "JobCommand")["message"] in planter.markers
    )
