"""`ringwise support-bundle -f`: options, errors, exit codes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ringwise.cli.commands import cli

CLUSTER = "examples/cluster.yaml"


def run(*arguments: str) -> Result:
    return CliRunner(env={"COLUMNS": "80"}).invoke(cli, arguments)


def test_what_is_in_it_is_a_document_and_is_in_the_file(tmp_path: Path) -> None:
    path = str(tmp_path / "bundle.tar.gz")
    made = run("support-bundle", path, "-f", CLUSTER, "-o", "json")
    assert made.exit_code == 0, made.output
    document = json.loads(made.stdout)
    assert document["schema"] == "ringwise.io/support-bundle/v1"
    assert document["objects"]["Node"] == 16
    assert made.stderr == f"written: {path}\n"


def test_a_bundle_of_a_bundle_has_other_names_and_the_same_answers(tmp_path: Path) -> None:
    first, second = str(tmp_path / "first.tar.gz"), str(tmp_path / "second.tar.gz")
    assert run("support-bundle", first, "-f", CLUSTER).exit_code == 0
    assert run("support-bundle", second, "-f", first).exit_code == 0
    counts = [json.loads(run("capacity", "-f", path, "-o", "json").stdout) for path in (first, second)]
    assert counts[0] == counts[1]


def test_objects_that_cannot_be_read_are_left_out_and_counted(tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: umbrella}\nspec: {containers: 7}\n---\n"
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: umbrella}\ndata: {word: sesame}\n---\n"
        "apiVersion: v1\nkind: Secret\nmetadata: {name: umbrella}\nstringData: {word: sesame}\n"
    )
    path = tmp_path / "bundle.tar.gz"
    made = run("support-bundle", str(path), "-f", CLUSTER, "-f", str(bad), "-o", "json")
    assert made.exit_code == 1, made.output
    document = json.loads(made.stdout)
    assert document["missing"] == ["1 object that cannot be read"]
    others = ["1 object of the kind ConfigMap", "1 object of the kind Secret"]
    assert document["omitted"] == ["messages and other free text", *others]
    assert run("doctor", "-f", str(path)).exit_code in (0, 1)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("x.zip", "-f", CLUSTER), "the name of a bundle must end with .tar.gz"),
        (("x.tar.gz", "-f", CLUSTER, "--journal", "none.jsonl"), "none.jsonl: journal not found"),
        (
            ("x.tar.gz", "-f", CLUSTER, "--keep-names", "--mapping-file", "m"),
            "--keep-names and --mapping-file cannot be combined",
        ),
        (("no-such-folder/x.tar.gz", "-f", CLUSTER), "no such file or directory"),
        (("x.tar.gz", "-f", "no-such-file.yaml"), "nothing to put into a bundle"),
    ],
)
def test_wrong_arguments_are_one_line(arguments: tuple[str, ...], told: str) -> None:
    made = run("support-bundle", *arguments)
    assert made.exit_code == 2, made.output
    assert told in made.stderr
    assert not Path("x.tar.gz").exists()


def test_a_folder_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    if os.getuid() == 0:
        (tmp_path / "folder").write_text("a file")
    else:
        (tmp_path / "folder").mkdir(mode=0o500)
    made = run("support-bundle", str(tmp_path / "folder" / "x.tar.gz"), "-f", CLUSTER)
    assert made.exit_code == 2
    assert sorted(one.name for one in tmp_path.iterdir()) == ["folder"]


def test_replay_of_a_bundle_without_a_journal_is_one_line(tmp_path: Path) -> None:
    path = str(tmp_path / "bundle.tar.gz")
    run("support-bundle", path, "-f", CLUSTER)
    made = run("replay", path)
    assert made.exit_code == 2
    assert made.stderr == f"ringwise: {path}: does not contain a journal\n"
