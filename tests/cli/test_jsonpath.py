"""`-o jsonpath=TEMPLATE`, in kubectl's syntax."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from ringwise.cli.commands import cli
from ringwise.cli.jsonpath import JsonPathError, values_of
from tests.checkout import ROOT

DOCUMENT = {
    "jobs": [
        {"name": "bert", "chips": 16, "node": "node-0", "labels": {"example.com/team": "nlp"}, "held": False},
        {"name": "llama", "chips": 32, "labels": {}, "held": None},
    ],
    "empty": [],
    "now": 7,
}


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{.now}", "7"),
        ("{$.now}{@.now}", "77"),
        ("{.jobs[0].name}", "bert"),
        ("{.jobs[-1].name}", "llama"),
        ("{.jobs[*].name}", "bert llama"),
        ("{.jobs[*].node}", "node-0"),
        ("{.empty[*].name}", ""),
        (r"{.jobs[0].labels.example\.com/team}", "nlp"),
        ("{.jobs[0].labels['example.com/team']}", "nlp"),
        (r'{.jobs[0].labels["example\.com/team"]}', "nlp"),
        ("{.jobs[0].labels}", '{"example.com/team": "nlp"}'),
        ("{.jobs[*].held}", "false null"),
        ("{ .now } jobs: {.jobs[*].chips}", "7 jobs: 16 32"),
        (r'{range .jobs[*]}{.name}{"\t"}{.chips}{"\n"}{end}', "bert\t16\nllama\t32\n"),
        ("{range .jobs[*]}{.name}@{$.now} {.node};{end}", "bert@7 node-0;llama@7 ;"),
        ('{.jobs[?(@.name=="llama")].chips}', "32"),
        ("{.jobs[?(@.chips == 16)].name}", "bert"),
        ('{.jobs[?(@.node!="node-1")].name}', "bert"),
        ("{range .jobs[*].labels.*}[{@}]{end}", "[nlp]"),
        # A value that cannot be read as JSON is text.
        ("{.jobs[?(@.name==" + "[" * 50_000 + ")].chips}", ""),
    ],
)
def test_values(template: str, text: str) -> None:
    assert values_of(template, DOCUMENT) == text


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{.jobs", 'invalid jsonpath "{.jobs": a closing brace or quote is missing'),
        (".now", 'invalid jsonpath ".now": expected an expression in braces, such as {.name}'),
        ("", 'invalid jsonpath "": expected an expression in braces, such as {.name}'),
        ("{}", "invalid jsonpath \"\": expected .field, ['field'], [0], [*]"),
        ("{" + " " * 60_000, "a closing brace or quote is missing"),
        ("{'" + r"\'" * 60_000, "a closing brace or quote is missing"),
        ("{range .jobs}" * 10_000, "{range} is nested more than 10 times"),
        ("{.jobs[" + "9" * 5000 + "]}", "expected .field, ['field'], [0], [*]"),
        ("{.jobs[?(@" + "[?(@" * 9000 + "==1)]}", "expected .field, ['field'], [0], [*]"),
        ("{.empty[?(@..name==1)]}", 'invalid jsonpath "@..name": expected .field'),
        ("{.jobs[x]}", "invalid jsonpath \".jobs[x]\": expected .field, ['field'], [0], [*]"),
        ("{end}", "invalid jsonpath \"end\": expected .field, ['field'], [0], [*]"),
        ("{range .jobs[*]}{.name}", 'invalid jsonpath "{range .jobs[*]}{.name}": {end} is missing'),
        ("{.items[*]}", 'jsonpath "{.items[*]}": ".items" not found; the fields there are jobs, empty, now'),
        ("x" * 90_000 + "{.items}", f'jsonpath "{"x" * 57}...": ".items" not found; the fields there are'),
        (
            "{.jobs[*].metadata.name}",
            '".metadata" not found; the fields there are name, chips, labels, held',
        ),
        ("{.jobs.name}", '".name" not found; there is a list of 2: use [*] for all, or [0] for the first'),
        ("{.jobs[2].name}", '"[2]" not found; there is a list of 2'),
        ("{.now.seconds}", '".seconds" not found; the value there has no fields'),
        ('{.jobs[?(@.phase=="Running")].name}', '".phase" not found; the fields there are name'),
    ],
)
def test_errors_say_what_is_there(template: str, message: str) -> None:
    with pytest.raises(JsonPathError) as error:
        values_of(template, DOCUMENT)
    assert message in str(error.value)


def test_errors_do_not_list_all_fields_of_large_objects() -> None:
    with pytest.raises(JsonPathError, match=r"the fields there are 0, 1, .*, 49 and 950 more$"):
        values_of("{.name}", {str(number): 0 for number in range(1000)})


@pytest.mark.parametrize(
    ("typed", "text"),
    [
        ("get job default/pretrain -f F -o jsonpath='{.name} {.state}'", "pretrain scheduled"),
        ("get jobs -f F --output=jsonpath='{.jobs[*].name}'", None),
        ("get node node-1 -f F -o=jsonpath='{.name}'", "node-1"),
        ("get node node-1 node-2 -f F -ojsonpath='{.nodes[*].name}'", "node-1 node-2"),
        ("describe node node-1 -f F -o jsonpath='{.name}'", None),
        ("boards show 910-x8 -o=jsonpath={.name}", "910-x8"),
        ("get nodes node-1 -f=F -o=name", "node-1\n"),
    ],
)
def test_commands_with_json_take_it(typed: str, text: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    words = shlex.split(
        typed.replace("-f F", "-f examples/cluster.yaml").replace("=F", "=examples/cluster.yaml")
    )
    ran = CliRunner(env={"RINGWISE_LAB": "/absent"}).invoke(cli, words)
    assert ran.exit_code == 0, ran.output
    assert ran.stdout == text or (text is None and ran.stdout)


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (".name", "Invalid value for '-o' / '--output': invalid jsonpath \".name\": expected an expression"),
        (
            "{.metadata.name}",
            'ringwise: jsonpath "{.metadata.name}": ".metadata" not found; the fields there are',
        ),
    ],
)
def test_a_wrong_template_is_bad_input(template: str, message: str) -> None:
    file = Path(ROOT, "examples/cluster.yaml")
    ran = CliRunner().invoke(cli, ["get", "node", "node-1", "-f", str(file), "-o", f"jsonpath={template}"])
    assert (ran.exit_code, ran.stdout, message in ran.stderr) == (2, "", True), ran.output
