"""All forms of input give the same objects."""

from __future__ import annotations

import json
import os
import threading
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st
from packaging.requirements import Requirement

from ringwise.manifests.bundle import Bundle, read_bundle
from ringwise.manifests.text import json_stream
from ringwise.manifests.text.json_stream import JsonStream
from ringwise.manifests.text.yaml_stream import YamlStream
from tests.examples import examples
from tests.manifests.builders import node, pod, pod_group, text_of, vcjob, write_dump

ROOT = Path(__file__).parents[2]
OBJECTS = [node("node-1"), pod("pod-1"), pod_group("gang-1"), vcjob("job-1")]


def names(bundle: Bundle) -> list[str]:
    assert bundle.errors == []
    names = [node.name for node in bundle.nodes] + [pod.name for pod in bundle.pods]
    return names + [group.name for group in bundle.pod_groups] + [job.name for job in bundle.vcjobs]


def as_list(kind_first: bool) -> dict[str, Any]:
    head, tail = {"apiVersion": "v1", "kind": "List"}, {"metadata": {}, "items": OBJECTS}
    return {**head, **tail} if kind_first else {**tail, **head}


FORMS = {
    "JSON one after the other": text_of(*OBJECTS),
    "JSON with separators": b"\n---\n".join(text_of(one) for one in OBJECTS),
    "JSON with a byte order mark": b"\xef\xbb\xbf" + text_of(*OBJECTS),
    "a compact List": json.dumps(as_list(True), separators=(",", ":")).encode(),
    "a List as kubectl prints it": json.dumps(as_list(False), indent=4, sort_keys=True).encode(),
    "YAML documents": yaml.safe_dump_all(OBJECTS).encode(),
    "YAML with empty documents": b"# nothing\n---\n---\n" + yaml.safe_dump_all(OBJECTS).encode() + b"---\n",
    "YAML in flow style": "\n---\n".join(
        yaml.safe_dump(one, default_flow_style=True) for one in OBJECTS
    ).encode(),
    "a YAML List": yaml.safe_dump(as_list(True)).encode(),
    "a YAML List with the kind behind": yaml.safe_dump(as_list(False), sort_keys=False).encode(),
    "JSON, then YAML": text_of(OBJECTS[0]) + b"\n---\n" + yaml.safe_dump_all(OBJECTS[1:]).encode(),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_objects(form: str) -> None:
    assert names(read_bundle(["-"], stdin=FORMS[form])) == ["node-1", "pod-1", "gang-1", "job-1"]


@pytest.mark.parametrize("kind_first", [True, False])
@pytest.mark.parametrize("writer", [json.dumps, lambda value: yaml.safe_dump(value, sort_keys=False)])
def test_items_of_a_typed_list_need_no_kind(kind_first: bool, writer: Any) -> None:
    bare = {key: value for key, value in pod("bare").items() if key not in ("apiVersion", "kind")}
    head, tail = (
        {"apiVersion": "v1", "kind": "PodList"},
        {"items": [bare, bare | {"metadata": {"name": "b"}}]},
    )
    built = {**head, **tail} if kind_first else {**tail, **head}
    assert names(read_bundle(["-"], stdin=writer(built).encode())) == ["bare", "b"]


def test_an_empty_list_and_an_empty_input_have_no_objects() -> None:
    for data in (
        b"",
        b"  \n",
        b'{"apiVersion":"v1","kind":"List","items":[]}',
        b"kind: List\napiVersion: v1\n",
    ):
        bundle = read_bundle(["-"], stdin=data)
        assert (names(bundle), bundle.notes) == ([], [])


def test_ignored_objects_are_counted() -> None:
    others = [("apps/v1", "Deployment"), ("batch/v1", "Job"), ("apps/v1", "DaemonSet")]
    others += [("v1", "Service"), ("v1", "Service"), ("v1", "Secret")]
    # Misspelt.
    others += [("storage.k8s.io/v1", "storageclasses"), ("topology.volcano.sh/v1alpha1", "HyperNodes")]
    bundle = read_bundle(["-"], stdin=text_of(*({"apiVersion": at, "kind": kind} for at, kind in others)))
    assert bundle.errors == []
    assert bundle.notes == [
        "DaemonSet: 1 object not read; such jobs are scheduled through their pods",
        "HyperNodes: 1 object not read; did you mean HyperNode of topology.volcano.sh?",
        "Secret: 1 object not read",
        "Service: 2 objects not read",
        "storageclasses: 1 object not read; did you mean StorageClass of storage.k8s.io?",
        "Deployment: 1 object not read; placed by another scheduler",
        "Job: 1 object not read; placed by another scheduler",
    ]


def test_folders_are_read_in_natural_order_and_files_once(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    for name in ("node-10", "node-9"):
        (tmp_path / f"{name}.json").write_bytes(text_of(node(name)))
    (inner / "late.yml").write_bytes(yaml.safe_dump(node("late")).encode())
    (tmp_path / "notes.txt").write_text("not a manifest")
    bundle = read_bundle([str(tmp_path), str(tmp_path / "node-9.json")])
    assert names(bundle) == ["late", "node-9", "node-10"]
    assert bundle.nodes[1].origin == f"{tmp_path}/node-9.json: document 1"


def test_a_pipe_is_read(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(text_of(node("piped")),))
    writer.start()
    assert names(read_bundle([str(pipe)])) == ["piped"]
    writer.join()


def test_progress_ends_at_the_total(tmp_path: Path) -> None:
    first, second = tmp_path / "a.yaml", tmp_path / "b.json"
    first.write_bytes(yaml.safe_dump_all(OBJECTS).encode())
    write_dump(str(second), 3, 5)
    reported: list[tuple[int, int]] = []
    read_bundle([str(tmp_path)], progress=lambda done, total: reported.append((done, total)))
    total = first.stat().st_size + second.stat().st_size
    assert reported[-1] == (total, total)
    assert reported == sorted(reported)
    assert (first.stat().st_size, total) in reported


def test_a_dump_is_read_from_a_mapped_file(tmp_path: Path) -> None:
    path = tmp_path / "dump.json"
    write_dump(str(path), 4, 20)
    bundle = read_bundle([str(path)])
    assert bundle.errors == []
    assert (len(bundle.nodes), len(bundle.pods)) == (4, 20)
    assert bundle.pods[5].origin == f"{path}: document 1: items[9]"
    assert len({id(one.cls) for one in bundle.pods}) == 1


def test_the_newest_timestamp_ignores_deletions() -> None:
    old = pod("old", creationTimestamp="2025-01-31T08:00:00Z", deletionTimestamp="2030-01-01T00:00:00Z")
    new = node("new", creationTimestamp="2025-01-31T08:00:01.5Z")
    bundle = read_bundle(["-"], stdin=text_of(old, new))
    assert bundle.newest_timestamp == 1738310401_500000000
    assert bundle.pods[0].deleting


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
OBJECT = st.dictionaries(st.text().filter(lambda key: key not in ("items", "<<")), PLAIN, max_size=4)


@given(st.lists(OBJECT, max_size=4), st.sampled_from([None, 1, 4]), st.sampled_from(["", " ", "\n"]))
@example([{"kind": "x" * 70_000}, {"a": []}], None, "")
def test_json_is_split_into_the_values_that_were_written(
    values: list[dict[str, Any]], indent: int | None, between: str
) -> None:
    written = between.join(json.dumps(value, indent=indent) for value in values).encode()
    stream = JsonStream("x", written)
    assert [json.loads(bytes(found.raw)) for found in stream.values()] == values
    listed = json.dumps({"a": 1, "items": values, "kind": "List"}, indent=indent).encode()
    found = list(JsonStream("x", listed).values())
    assert [json.loads(bytes(one.raw)) for one in found] == values
    assert [one.item for one in found] == list(range(len(values)))


@given(st.lists(OBJECT, min_size=1, max_size=2))
@settings(max_examples=examples(50))
def test_values_longer_than_the_window_are_found(values: list[dict[str, Any]]) -> None:
    written = "".join(json.dumps(value) for value in values).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_stream, "_WINDOW", 1)
        assert [json.loads(bytes(found.raw)) for found in JsonStream("x", written).values()] == values


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b'{"a":1} {', "JSON is malformed: trailing characters (byte 9)"),
        (b"[1]x", "JSON is malformed: trailing characters (byte 4)"),
        (b"1 2", "JSON is malformed: trailing characters (byte 3)"),
        (b'"a"\n\n"b"', "JSON is malformed: trailing characters (byte 6)"),
        (b'{"a" 1}', "JSON is malformed: expected ':' (byte 5)"),
        (b'"\x00"', "JSON is malformed: invalid character (byte 1)"),
        (b'{"a":', "Input data was truncated"),
    ],
)
def test_the_decoder_words_its_errors_as_the_stream_expects(data: bytes, text: str) -> None:
    """The stream reads positions from these texts; they are not part of msgspec's documented interface."""
    with pytest.raises(msgspec.DecodeError) as raised:
        msgspec.json.Decoder(msgspec.Raw).decode(memoryview(data))
    assert str(raised.value) == text


def test_only_tested_versions_of_the_decoder_are_admitted() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (wanted,) = [
        requirement
        for text in project["dependencies"]
        if (requirement := Requirement(text)).name == "msgspec"
    ]
    assert "<" in {specifier.operator for specifier in wanted.specifier}
    assert wanted.specifier.contains(version("msgspec"))


@given(OBJECT.filter(bool))
def test_yaml_values_are_those_that_were_written(value: dict[str, Any]) -> None:
    # Everything quoted and with a tag: the writer's rules for quotes differ from those of Kubernetes.
    written = yaml.safe_dump(value, allow_unicode=False, default_style='"').encode()
    (found,) = YamlStream("x", written).values()
    assert found.value == value


SCALARS: dict[str, object] = {
    "yes": True,
    "Off": False,
    "~": None,
    "": None,
    "0x1F": 31,
    "010": 8,
    "0b11": 3,
    "-7": -7,
    "1e3": 1000.0,
    ".5": 0.5,
    "-.inf": float("-inf"),
    "2025-01-31T08:00:00Z": "2025-01-31T08:00:00Z",
    "2025-01-31": "2025-01-31",
    "1:30": "1:30",
    "1_000": "1_000",
    "10.0.0.1": "10.0.0.1",
    "'3'": "3",
    '"yes"': "yes",
    "!!str 3": "3",
    "! 3": 3,
    "!!int 3": 3,
}


@pytest.mark.parametrize("text", SCALARS)
def test_yaml_scalars_are_read_as_kubernetes_reads_them(text: str) -> None:
    (found,) = YamlStream("x", f"a: {text}".encode()).values()
    assert found.value == {"a": SCALARS[text]}
    assert type(found.value["a"]) is type(SCALARS[text])


def test_yaml_anchors_and_merges() -> None:
    text = b"base: &b {a: 1, b: 2}\nmine: {b: 3, <<: *b}\nmore: {<<: [*b, {c: 4}]}\non: *b\n"
    (found,) = YamlStream("x", text).values()
    assert found.value == {
        "base": {"a": 1, "b": 2},
        "mine": {"a": 1, "b": 3},
        "more": {"a": 1, "b": 2, "c": 4},
        "on": {"a": 1, "b": 2},
    }
