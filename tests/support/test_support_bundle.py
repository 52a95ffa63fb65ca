"""Support bundles: the same answers under other names, and no name of the original."""

from __future__ import annotations

import gzip
import io
import json
import random
import re
import tarfile
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ringwise.apps.journal.format import JournalWriter, header_line, open_journal
from ringwise.apps.loading import from_bundle
from ringwise.apps.place import place
from ringwise.apps.queries import explain_job
from ringwise.apps.replay import replay
from ringwise.apps.support.bundle_file import (
    JOURNAL,
    BundleError,
    Contents,
    lines_of,
    read_support_bundle,
    unpacked_bundle,
    write_bundle,
)
from ringwise.apps.support.pseudonyms import Pseudonyms, TextRole
from ringwise.apps.support.vocabulary import FIXED_RUNS, vocabulary
from ringwise.manifests.bundle import Bundle, read_text
from ringwise.manifests.settings.boards import shipped_catalog
from ringwise.scheduler.defaults import default_configuration
from ringwise.scheduler.journal import Journal, TurnMark
from ringwise.scheduler.view import SchedulerView
from ringwise.topology.natural import natural_key
from ringwise.views.explain import explanation_document
from ringwise.views.place import place_document
from tests.builders.values import CHIP
from tests.examples import examples, sample

CATALOG = shipped_catalog(())
#: Put into every field that people fill.
SECRETS = ("umbrella", "blackmesa", "tyrellcorp", "weyland", "omnicorp", "aperture")

# -- random clusters -----------------------------------------------------------------------------------


class _Cluster:
    """Objects as manifests, with secrets in all that is free."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.objects: list[dict[str, Any]] = []
        chance = self.random
        stems = chance.sample(SECRETS, 3)
        self.nodes = [
            f"{chance.choice(stems)}{chance.choice(['-', '.', ''])}{number}" for number in range(1, 13)
        ]
        self.nodes = list(dict.fromkeys(self.nodes))
        self.teams = [f"team-{secret}" for secret in SECRETS[:3]] + ["10", "9", "1000"]
        self.key = f"{chance.choice(SECRETS)}.example/rack"
        for number, name in enumerate(self.nodes):
            self._node(name, number)
        for queue in ("zeta-omnicorp", "alpha-weyland"):
            self.objects.append(
                {
                    "apiVersion": "scheduling.volcano.sh/v1beta1",
                    "kind": "Queue",
                    "metadata": {"name": queue},
                    "spec": {"weight": chance.randint(1, 3)},
                }
            )
        for number in range(14):
            self._job(number)

    def _node(self, name: str, number: int) -> None:
        chance = self.random
        address = f"10.{chance.randint(0, 3)}.{number}.{chance.randint(1, 250)}"
        chips = [f"Ascend910-{chip}" for chip in range(8) if chance.random() > 0.2]
        self.objects += [
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {
                    "name": name,
                    "labels": {
                        "accelerator": "huawei-Ascend910",
                        "kubernetes.io/hostname": name,
                        self.key: chance.choice(self.teams),
                        "umbrella": chance.choice(("ouix", "nonx")),
                    },
                    "annotations": {"aperture.example/owner": "weyland", "ringwise.io/omnicorp": "weyland"},
                },
                "spec": {"taints": _taints(chance)},
                "status": {
                    "capacity": {CHIP: "8", "cpu": "192", "memory": "1Ti", "pods": "110"},
                    "allocatable": {CHIP: str(len(chips)), "cpu": "192", "memory": "1Ti", "pods": "110"},
                    "addresses": [{"type": "InternalIP", "address": address}],
                    "conditions": [{"type": "Ready", "status": "True", "message": "omnicorp is ready"}],
                },
            },
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {
                    "name": f"mindx-dl-deviceinfo-{name}",
                    "namespace": "kube-system",
                    "labels": {"mx-consumer-cim": "true"},
                },
                "data": {
                    "DeviceInfoCfg": json.dumps(
                        {
                            "DeviceInfo": {
                                "DeviceList": {CHIP: ",".join(chips), f"{CHIP}-Unhealthy": ""},
                                "UpdateTime": 1_750_000_000,
                            },
                            "CheckCode": "0",
                        }
                    )
                },
            },
        ]

    def _job(self, number: int) -> None:
        chance = self.random
        secret = chance.choice(SECRETS)
        name = chance.choice([f"{secret}-train-{number}", f"run{number}{secret}", f"default-{number}"])
        spec: dict[str, Any] = {
            "schedulerName": "volcano",
            "containers": [
                {
                    "name": "tyrellcorp",
                    "image": f"registry.{secret}.example/{secret}:1",
                    "command": [secret],
                    "args": [secret],
                    "env": [{"name": "TOKEN", "value": secret}],
                    "resources": {"limits": {CHIP: str(chance.choice((1, 1, 2, 2, 4, 8, 3))), "cpu": "1"}},
                }
            ],
        }
        choice = chance.randint(0, 5)
        if choice == 0:
            spec["nodeSelector"] = {"umbrella": chance.choice(("ouix", "nonx", "blackmesa"))}
        elif choice < 4:
            operator = chance.choice(("In", "NotIn", "Exists", "Gt", "Lt"))
            values = {"Gt": ["9"], "Lt": ["1000"], "Exists": []}.get(operator, chance.sample(self.teams, 2))
            expression = {"key": self.key, "operator": operator, "values": values}
            spec["affinity"] = {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{"matchExpressions": [expression]}]
                    }
                }
            }
        elif choice == 4:
            spec["affinity"] = {
                "podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {
                            "topologyKey": "kubernetes.io/hostname",
                            "labelSelector": {"matchLabels": {"weyland": "aperture"}},
                        }
                    ]
                }
            }
        if chance.random() < 0.5:
            spec["tolerations"] = [{"key": "omnicorp/only", "operator": "Equal", "value": "umbrella"}]
        replicas = chance.randint(1, 3)
        self.objects.append(
            {
                "apiVersion": "batch.volcano.sh/v1alpha1",
                "kind": "Job",
                "metadata": {
                    "name": name,
                    "namespace": chance.choice(("default", f"ns-{secret}")),
                    "labels": {"weyland": "aperture"},
                    "annotations": {"tyrellcorp": "weyland"},
                    "creationTimestamp": f"2026-01-01T00:00:{chance.randint(0, 3):02}Z",
                },
                "spec": {
                    "minAvailable": replicas,
                    "queue": chance.choice(
                        ("default", "zeta-omnicorp", "alpha-weyland", "default", "missing-umbrella")
                    ),
                    "schedulerName": "volcano",
                    "tasks": [
                        {
                            "name": chance.choice(("worker", "aperture")),
                            "replicas": replicas,
                            "template": {"metadata": {"labels": {"weyland": "aperture"}}, "spec": spec},
                        }
                    ],
                },
            }
        )

    @property
    def text(self) -> bytes:
        return json.dumps({"apiVersion": "v1", "kind": "List", "items": self.objects}).encode()


def _taints(chance: random.Random) -> list[dict[str, str]]:
    taint = {"key": "omnicorp/only", "value": chance.choice(("umbrella", "weyland")), "effect": "NoSchedule"}
    return [taint] if chance.random() < 0.3 else []


# -- asking ----------------------------------------------------------------------------------------------


def _read(text: bytes) -> Bundle:
    bundle = read_text(text, "cluster.json")
    assert not bundle.errors, bundle.errors
    return bundle


def _answers(bundle: Bundle) -> tuple[Any, SchedulerView]:
    answer = place(bundle, bundle.configured or default_configuration(), CATALOG, everything=True)
    assert not answer.errors
    return _spelled(place_document(answer)), answer.view


def _spelled(document: Any) -> Any:
    """Without guesses at what was meant: names that are spelled alike have pseudonyms that are not."""
    text = re.sub(r"; did you mean [^\"?]*\?", "", json.dumps(msgspec.to_builtins(document)))
    return json.loads(re.sub(r'"nearest": "[^"]*"', '"nearest": ""', text))


def _explanations(bundle: Bundle) -> dict[str, Any]:
    loaded = from_bundle(bundle, bundle.configured or default_configuration(), CATALOG)
    keys = [job.key for job in loaded.view.jobs.values()]
    return {
        key: _spelled(explanation_document(explain_job(loaded.view, loaded.now, key), loaded.now))
        for key in sorted(keys)
    }


class _Mapping:
    """The mapping file, read for itself: pairs of words give pairs of runs of letters."""

    def __init__(self, words: dict[str, str]) -> None:
        self.runs: dict[str, str] = {}
        letters = re.compile(r"[^\W\d]+")
        for old, new in words.items():
            self.runs |= zip(letters.findall(old), letters.findall(new), strict=True)
        self._words = words

    def of(self, value: Any) -> Any:
        if isinstance(value, str):
            return re.sub(r"[\w.-]+", lambda found: self._of_word(found[0]), value)
        if isinstance(value, dict):
            return {self.of(key): self.of(item) for key, item in value.items()}
        return [self.of(item) for item in value] if isinstance(value, list) else value

    def _of_word(self, word: str) -> str:
        end = word[len(word.rstrip(".")) :]
        word = word.rstrip(".")
        if word in self._words:
            return self._words[word] + end
        if any(secret in word for secret in SECRETS):
            word = re.sub(r"[^\W\d]+", lambda found: self.runs.get(found[0], found[0]), word)
        return word + end


def _bundle_of(folder: Path, bundle: Bundle, **more: Any) -> tuple[Path, _Mapping, Any]:
    path, mapping = folder / "bundle.tar.gz", folder / "mapping.json"
    configuration = bundle.configured or default_configuration()
    lines = lines_of(bundle, configuration, bundle.newest_timestamp)
    document = msgspec.to_builtins(
        write_bundle(path, Contents("files", lines, **more), CATALOG, mapping=mapping)
    )
    return path, _Mapping(json.loads(mapping.read_bytes())), document


def _without_origins(document: Any) -> Any:
    return json.loads(re.sub(r"[^\"]*cluster\.json[^\"]*", "", json.dumps(document)))


@pytest.mark.parametrize("seed", sample(range(8), 4))
def test_place_why_and_replay_give_the_same_answers_under_other_names(seed: int, tmp_path: Path) -> None:
    text = _Cluster(seed).text
    journal = tmp_path / "journal.jsonl"
    with journal.open("wb") as file:
        configuration = default_configuration()
        writer = JournalWriter(file, configuration, ("volcano", "ringwise"))
        recorded = Journal(configuration, sink=writer)
        place(_read(text), configuration, CATALOG, journal=recorded)
    path, mapping, _ = _bundle_of(tmp_path, _read(text), journals=((JOURNAL, journal),))

    document, _ = _answers(_read(text))
    again, _ = _answers(read_support_bundle(path))
    assert any(job["state"] == "scheduled" for job in document["jobs"])
    assert mapping.of(document) == again
    assert mapping.of(_explanations(_read(text))) == _explanations(read_support_bundle(path))
    with unpacked_bundle(path, lambda name: name.startswith(JOURNAL)) as folder:
        repeated = replay(open_journal(folder / JOURNAL), CATALOG)
    assert repeated.difference is None
    before = replay(open_journal(journal), CATALOG)
    assert (repeated.events, repeated.commands) == (before.events, before.commands)
    content = gzip.decompress(path.read_bytes()).decode()
    assert [secret for secret in SECRETS if secret in content.lower()] == []


# -- the names -----------------------------------------------------------------------------------------------


def _names(*texts: str) -> Pseudonyms:
    names = Pseudonyms(vocabulary(CATALOG), FIXED_RUNS)
    for text in texts:
        names.rename(text, TextRole.NAME)
    names.close()
    return names


def _random_name(chance: random.Random) -> str:
    parts = ["node", "nodes", "no", "N", "Zeta", "a", "ab", "abc", "default", "root", "zz", "kube", "système"]
    joints = ["-", ".", "", "_", "-0", "/"]
    return "".join(
        chance.choice(parts) + chance.choice(joints) + chance.choice(["", "2", "10", "007"])
        for _ in range(chance.randint(1, 3))
    )


@pytest.mark.parametrize("seed", range(examples(20)))
def test_natural_order_equality_and_joints_stay(seed: int) -> None:
    chance = random.Random(seed)
    texts = [_random_name(chance) for _ in range(60)]
    names = _names(*texts)
    replaced = {text: names.rename(text, TextRole.NAME) for text in texts}
    assert len(set(replaced.values())) == len(replaced)
    assert [replaced[text] for text in sorted(replaced, key=natural_key)] == sorted(
        replaced.values(), key=natural_key
    )
    assert [replaced[text] for text in sorted(replaced)] == sorted(replaced.values())
    for first, second in pairwise(texts):
        for joint in ("-", "/", "."):
            assert (
                names.rename(f"{first}{joint}{second}", TextRole.NAME)
                == f"{replaced[first]}{joint}{replaced[second]}"
            )


def test_addresses_keep_their_natural_order() -> None:
    texts = ["10.0.0.2", "10.0.0.10", "10.0.10.1", "192.168.1.1", "9.9.9.9", "fd12::1", "fd12::a"]
    names = _names(*texts)
    replaced = [names.rename(text, TextRole.NAME) for text in texts]
    assert not set(replaced) & set(texts)
    short = replaced[:5]
    assert [short[place] for place in (4, 0, 1, 2, 3)] == sorted(short, key=natural_key)
    assert replaced[5] < replaced[6]
    assert (
        names.rename("switch/10.0.0.2", TextRole.NAME)
        == f"{names.rename('switch', TextRole.NAME)}/{replaced[0]}"
    )


def test_a_name_that_looks_like_a_pseudonym_is_replaced_and_given_to_nobody() -> None:
    first = _names("alpha", "beta")
    lookalike = first.rename("alpha", TextRole.NAME)
    names = _names("alpha", "beta", lookalike)
    replaced = {text: names.rename(text, TextRole.NAME) for text in ("alpha", "beta", lookalike)}
    assert lookalike not in replaced.values()
    assert len(set(replaced.values())) == 3


def test_names_that_rules_read_stay_wherever_they_stand() -> None:
    names = _names("default", "root", "kube-system", "default-worker-0", "acme", "zoo")
    assert [names.rename(text, TextRole.NAME) for text in ("default", "root", "kube-system")] == [
        "default",
        "root",
        "kube-system",
    ]
    assert names.rename("default/default-worker-0", TextRole.NAME).startswith("default/default-")
    assert names.rename("acme", TextRole.NAME) < "default" < "root" < names.rename("zoo", TextRole.NAME)


@pytest.mark.parametrize(
    "text",
    ["90s", "1h30m", "7d", "0.5", "16", "100%", "768Gi", "Ascend910-3,Ascend910-12", "2026-01-31T08:00:00Z"],
)
def test_numbers_spans_amounts_chips_and_times_stay(text: str) -> None:
    assert _names(text, "acme").rename(text, TextRole.WORD) == text


def test_no_pseudonym_is_a_word_of_the_vocabulary_or_a_kept_run() -> None:
    words = [f"w{chr(97 + number % 26)}{chr(97 + number // 26)}" for number in range(600)]
    names = _names(*words)
    replaced = {names.rename(word, TextRole.NAME) for word in words}
    assert not replaced & (vocabulary(CATALOG) | FIXED_RUNS | set(words))
    assert len(replaced) == len(words)


# -- what can be wrong ---------------------------------------------------------------------------------------


def _small(tmp_path: Path, **more: Any) -> tuple[Path, Any]:
    bundle = _read(_Cluster(1).text)
    path, _, document = _bundle_of(tmp_path, bundle, **more)
    return path, document


def test_equal_contents_are_equal_files_which_only_their_owner_reads(tmp_path: Path) -> None:
    path, _ = _small(tmp_path)
    first = path.read_bytes()
    _small(tmp_path)
    assert path.read_bytes() == first
    assert path.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "mapping.json").stat().st_mode & 0o777 == 0o600
    assert sorted(one.name for one in tmp_path.iterdir()) == ["bundle.tar.gz", "mapping.json"]


def test_the_mapping_is_not_in_the_bundle_and_the_contents_are_listed_in_it(tmp_path: Path) -> None:
    path, document = _small(tmp_path)
    with tarfile.open(path) as archive:
        assert archive.getnames() == ["README.txt", "MANIFEST.json", "objects.jsonl"]
        manifest = archive.extractfile("MANIFEST.json")
        assert manifest is not None
        assert json.loads(manifest.read()) == document
    assert document["objects"]["Node"] == len(_Cluster(1).nodes)
    assert document["missing"] == []


@cache
def _recorded_journal() -> bytes:
    file, configuration = io.BytesIO(), default_configuration()
    recorded = Journal(configuration, sink=JournalWriter(file, configuration, ("volcano",)))
    place(_read(_Cluster(1).text), configuration, CATALOG, journal=recorded)
    place(_read(_Cluster(1).text), configuration, CATALOG, journal=recorded)
    return file.getvalue()


def _written_journal(tmp_path: Path) -> Path:
    journal = tmp_path / "journal.jsonl"
    journal.write_bytes(_recorded_journal())
    return journal


def test_a_journal_that_was_cut_off_counts_up_to_there(tmp_path: Path) -> None:
    journal = _written_journal(tmp_path)
    whole = journal.read_bytes()
    journal.write_bytes(whole[:-100])
    path, document = _small(tmp_path, journals=((JOURNAL, journal),))
    assert document["missing"] == ["journal.jsonl: line 3 is truncated and skipped"]
    assert document["journals"][0]["batches"] == 1
    with unpacked_bundle(path, lambda name: name.startswith(JOURNAL)) as folder:
        assert replay(open_journal(folder / JOURNAL), CATALOG).difference is None


@pytest.mark.parametrize("first", [0, 7])
def test_a_journal_of_the_scheduler_is_in_the_bundle(first: int, tmp_path: Path) -> None:
    journal = _written_journal(tmp_path)
    _, *lines = journal.read_bytes().splitlines(keepends=True)
    header = header_line(default_configuration(), ("volcano",), "scheduler-0", first)
    journal.write_bytes(b"".join((header, *lines)))
    path, document = _small(tmp_path, journals=((JOURNAL, journal),))
    assert (document["missing"], document["journals"][0]["batches"]) == ([], 2)
    with unpacked_bundle(path, lambda name: name.startswith(JOURNAL)) as folder:
        assert json.loads((folder / JOURNAL).read_bytes().splitlines()[0])["first"] == first


def test_the_journal_of_a_scheduler_from_its_first_turn_on_is_in_the_bundle(tmp_path: Path) -> None:
    journal = _written_journal(tmp_path)
    begin = header_line(default_configuration(), ("volcano",), "ringwise-0", 0)
    assert begin.endswith(b',"scheduler":"ringwise-0","first":0}\n')
    _, batch, _ = journal.read_bytes().splitlines(keepends=True)
    # As readers of journals do, a header without the number is accepted.
    for header in (begin, begin.replace(b',"first":0', b"")):
        journal.write_bytes(header + batch)
        path, document = _small(tmp_path, journals=((JOURNAL, journal),))
        assert document["missing"] == []
        assert document["journals"][0]["batches"] == 1
        with unpacked_bundle(path, lambda name: name.startswith(JOURNAL)) as folder:
            assert replay(open_journal(folder / JOURNAL), CATALOG).difference is None


def test_a_journal_without_its_beginning_tells_no_names_in_details(tmp_path: Path) -> None:
    """Commands of a scheduler whose start was rotated away may name what no event of the file has."""
    journal = _written_journal(tmp_path)
    header, first, _ = journal.read_bytes().splitlines()
    line = json.loads(first)
    line["number"] = 7
    line["events"] = []
    journal.write_bytes(header + b"\n" + json.dumps(line).encode() + b"\n")
    path, _ = _small(tmp_path, journals=((JOURNAL, journal),))
    content = gzip.decompress(path.read_bytes()).decode().lower()
    assert [secret for secret in SECRETS if secret in content] == []


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "is empty"),
        (b"no journal\n", "is not a journal"),
        (b'{"format":"ringwise-journal","version":1}\n', "line 1 and what follows: cannot be read"),
        (
            b'{"format":"ringwise-journal","version":2,"ringwise":"9"}\n',
            "line 1 and what follows: unsupported version 2: this Ringwise reads version 1",
        ),
    ],
)
def test_what_is_no_journal_is_left_out_and_listed(tmp_path: Path, content: bytes, told: str) -> None:
    journal = tmp_path / "journal.jsonl"
    journal.write_bytes(content)
    _, document = _small(tmp_path, journals=((JOURNAL, journal),))
    assert len(document["missing"]) == 1
    assert told in document["missing"][0]


def test_choices_that_depended_on_processor_time_name_the_same_jobs(tmp_path: Path) -> None:
    journal = _written_journal(tmp_path)
    header, first, _ = journal.read_bytes().splitlines()
    line = {**json.loads(first), "marks": [["throttled", "ns-umbrella", 3], ["limited", "", 0]]}
    journal.write_bytes(header + b"\n" + json.dumps(line).encode() + b"\n")
    path, mapping, _ = _bundle_of(tmp_path, _read(_Cluster(1).text), journals=((JOURNAL, journal),))
    with unpacked_bundle(path, lambda name: name.startswith(JOURNAL)) as folder:
        (recorded,) = open_journal(folder / JOURNAL).batches
    throttled = TurnMark("throttled", mapping.of("ns-umbrella"), 3)
    assert recorded.marks == (throttled, TurnMark("limited", "", 0))


@pytest.mark.parametrize(
    ("change", "at"),
    [({"node": "umbrella-99"}, "Bind"), ({"chips": [7, 6]}, "Bind"), ({"running": 77}, "SetGroupStatus")],
)
def test_a_difference_is_found_in_a_bundle_where_it_is_found_in_the_journal(
    tmp_path: Path, change: dict[str, Any], at: str
) -> None:
    journal = _written_journal(tmp_path)
    lines = [json.loads(line) for line in journal.read_bytes().splitlines()]
    next(one for one in lines[1]["commands"] if one["type"] == at).update(change)
    journal.write_bytes(b"".join(json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in lines))
    original = replay(open_journal(journal), CATALOG).difference
    path, _ = _small(tmp_path, journals=((JOURNAL, journal),))
    with unpacked_bundle(path, lambda name: name.startswith(JOURNAL)) as folder:
        repeated = replay(open_journal(folder / JOURNAL), CATALOG).difference
    assert original is not None
    assert repeated is not None
    assert (repeated.line, repeated.command) == (original.line, original.command)
    assert repeated.recorded["type"] == at


def test_a_journal_with_text_is_decided_again_the_same(tmp_path: Path) -> None:
    journal, path = _written_journal(tmp_path), tmp_path / "bundle.tar.gz"
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:2]))
    bundle = _read(_Cluster(1).text)
    lines = lines_of(bundle, default_configuration(), bundle.newest_timestamp)
    write_bundle(path, Contents("files", lines, ((JOURNAL, journal),)), CATALOG, with_text=True)
    with unpacked_bundle(path, lambda name: name.startswith(JOURNAL)) as folder:
        assert replay(open_journal(folder / JOURNAL), CATALOG).difference is None
        assert b"umbrella" in (folder / JOURNAL).read_bytes()


@pytest.mark.parametrize("pattern", ["^rack-[a-c]+-0*[12]$", "a.*b", "none", "(?i:RACK)-c", "("])
def test_expressions_of_hyper_nodes_match_the_same_nodes(tmp_path: Path, pattern: str) -> None:
    nodes = [f"rack-{rack}-{number}" for rack in ("a", "abc", "c") for number in (1, 2, 10)]
    made: list[dict[str, Any]] = [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}} for name in nodes
    ]
    member = {"type": "Node", "selector": {"regexMatch": {"pattern": pattern}}}
    spec = {"tier": 1, "members": [member]}
    head = {"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode", "metadata": {"name": "sw"}}
    made.append({**head, "spec": spec})
    bundle = read_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": made}).encode(), "x.json")
    path, _, _ = _bundle_of(tmp_path, bundle)
    original, again = (
        from_bundle(one, default_configuration(), CATALOG).view.hyper_forest()
        for one in (bundle, read_support_bundle(path))
    )
    assert [one.nodes for one in original.domains.values()] == [one.nodes for one in again.domains.values()]
    assert [[one.kind for one in some] for some in original.problems.values()] == [
        [one.kind for one in some] for some in again.problems.values()
    ]


def test_a_broken_line_ends_the_journal(tmp_path: Path) -> None:
    journal = _written_journal(tmp_path)
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([*lines[:2], b'{"number":"umbrella"}\n', lines[2]]))
    _, document = _small(tmp_path, journals=((JOURNAL, journal),))
    assert document["missing"] == ["journal.jsonl: line 3 and what follows: cannot be read"]


@pytest.mark.parametrize("content", [b"", b"\x1f\x8b", b"no gzip", gzip.compress(b"no tar", mtime=0)])
def test_what_is_no_bundle_is_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.tar.gz"
    path.write_bytes(content)
    with pytest.raises(BundleError, match="not a support bundle"):
        read_support_bundle(path)


def test_a_bundle_that_was_cut_off_is_one_line(tmp_path: Path) -> None:
    path, _ = _small(tmp_path)
    path.write_bytes(path.read_bytes()[:-2000])
    with pytest.raises(BundleError, match="or truncated"):
        read_support_bundle(path)


def test_kept_names_give_the_very_same_answers(tmp_path: Path) -> None:
    bundle = _read(_Cluster(3).text)
    path = tmp_path / "bundle.tar.gz"
    lines = lines_of(bundle, default_configuration(), bundle.newest_timestamp)
    document = write_bundle(path, Contents("files", lines), CATALOG, keep_names=True)
    assert document.names == "kept"
    assert _answers(read_support_bundle(path))[0] == _answers(_read(_Cluster(3).text))[0]


def test_priority_classes_and_taints_of_kubernetes_keep_no_part_of_other_names(tmp_path: Path) -> None:
    critical, taint = "system-node-critical", {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}
    made = [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": critical},
            "value": 1,
        },
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}, "spec": {"taints": [taint]}},
    ]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": made}).encode()
    path, mapping, _ = _bundle_of(tmp_path, _read(text))
    assert mapping.of("node-1") != "node-1"
    content = gzip.decompress(path.read_bytes()).decode()
    assert f'"name":"{critical}"' in content
    assert f'"key":"{taint["key"]}"' in content


def test_who_reserved_nodes_is_not_told(tmp_path: Path) -> None:
    """A person writes there what he likes, also a telephone number: digits of names stay."""
    made = {
        "apiVersion": "ringwise.io/v1alpha1",
        "kind": "NodeReservation",
        "metadata": {"name": "visit", "annotations": {"ringwise.io/user": "Zoe, call 555017"}},
        "spec": {
            "nodeNames": ["node-1"],
            "holder": {"queue": "default"},
            "startTime": "2026-11-17T08:00:00Z",
            "endTime": "2026-12-17T08:00:00Z",
            "reason": "desk 555018",
        },
    }
    path, _, document = _bundle_of(tmp_path, _read(json.dumps(made).encode()))
    assert "NodeReservation" in json.dumps(document, default=str)
    assert "55501" not in gzip.decompress(path.read_bytes()).decode()
