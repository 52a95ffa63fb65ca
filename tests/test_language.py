"""What people read follows the rules of language: terms of Kubernetes, whole sentences, no private words."""

from __future__ import annotations

import ast
import os
import re
import shlex
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from string import Formatter
from typing import cast

import click
import pytest
from click.testing import CliRunner

from ringwise.cli.commands import LazyGroup, cli
from ringwise.cli.examples import EXAMPLES
from ringwise.reasons import ReasonKind
from ringwise_bench.docs.reasons_reference import all_kinds
from tests.checkout import ALL_SOURCES, PACKAGE, ROOT, nodes_of
from tests.cli.command_tree import command_paths
from tests.test_project import is_vendored, project_files

#: What no text may say, with what it says instead.
BANNED = {
    r"(?<![Tt]here )\b(?:is|are) no (?!longer\b|more\b)\w+": "negate the verb: X is not a directory",
    r"\bnobody\b": "no user, no job, no pod",
    r"\bhurts?\b": "affects, affected by",
    r"\bwish(?:es)?\b": "request",
    r"\bcur(?:es?|ed)\b": "fix",
    r"\btold\b": "recorded, printed, reported",
    r"\bgoes with\b": "requires",
    r"\bas kubectl (?:has|does)\b": "as in kubectl",
    r"\b[Ww]here no\b": "if no",
    r"\bset aside\b": "backed off (a job), excluded (a chip)",
    r"\bheld up\b": "blocked",
    r"\bknown are\b": "must be one of",
    r"\bnames? no\b": "does not name",
    r"\banew\b": "again",
    r"\bmend(?:s|ed|ing)?\b": "repair",
    r"\bgive one of them\b": "are mutually exclusive",
    r"\bway round\b": "in reverse order",
    r"\b(?:hears?|heard) of\b": "is notified of, handles",
    r"\b[Ll]et (?:[A-Z]{2,}|the (?:job|running|suspended))\b": "imperative: Resume a suspended job",
    r"\b[Pp]ractise": "use the lab",
    r"\b(?:dis)?honours?\b|\b(?:mis)?behaviours?\b|\bcolours?\b": "American spelling",
    r"\bneighbours?\b|\bfavours?\b|\b(?:modelled|signalled|travelled)\b": "American spelling",
    r"\b(?:un)?(?:cancelled|cancelling|labelled|labelling)\b": "American spelling",
    r"\blicen[c]es?\b|\bartefacts?\b|\bgrey\b|\bcentres?\b|\bcatalogues?\b": "American spelling",
    r"\b(?:organ|initial|recogn|normal|serial|summar|author|minim|optim)is(?:e[sd]?|ing|ation)\b": "American",
}
PATTERNS = {pattern: re.compile(pattern) for pattern in BANNED}
#: Texts that may say it: of another program, or about the word itself.
ALLOWED = Path(__file__).with_name("language_allowed.txt")
#: Pages about words, and what other projects define.
ABOUT_WORDS = {"docs/develop/vocabulary.md", "docs/develop/public-names.md", "LICENSE"}
#: A reason fits on one line of a terminal, an Event and a table.
LONGEST_REASON = 120


def _strings(path: Path) -> Iterator[str]:
    """Return the texts of a source file: string literals with a blank that are not docstrings."""
    commands = path.is_relative_to(PACKAGE / "cli")
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    skipped: set[ast.AST] = set()
    for node in nodes_of(path):
        if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None:
            # The docstring of a command is its help.
            if not (commands and isinstance(node, ast.FunctionDef) and node.decorator_list):
                skipped.add(node.body[0].value)  # type: ignore[attr-defined]
        elif isinstance(node, ast.JoinedStr):
            skipped |= set(node.values)
    for node in nodes_of(path):
        if node in skipped:
            continue
        if isinstance(node, ast.JoinedStr):
            # Names in expressions are code.
            yield re.sub(r"\{[^{}]*\}", "{}", joined(node))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.value


def joined(node: ast.JoinedStr) -> str:
    """An f-string as a template: `{name!r}` and the like stand for their expressions."""
    return "".join(
        value.value
        if isinstance(value, ast.Constant) and isinstance(value.value, str)
        else f"{{{ast.unparse(value.value)}}}"
        if isinstance(value, ast.FormattedValue)
        else ""
        for value in node.values
    )


def _texts_of_page(path: Path) -> Iterator[str]:
    """Texts of the dashboard: its scripts without comments, its document as it is."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".js":
        text = re.sub(r"/\*.*?\*/|(?<!:)//[^\n]*", "", text, flags=re.S)
        text = re.sub(r"\$\{[^{}`]*\}", "${}", text)
        yield from (match for match in re.findall(r"\"[^\"\n]*\"|`[^`]*`|>[^<>{}]+<", text) if " " in match)
    else:
        yield text


@cache
def texts() -> dict[str, list[str]]:
    """All that people read, by file."""
    found = {str(path.relative_to(ROOT)): list(_strings(path)) for path in ALL_SOURCES}
    for path in project_files():
        name = str(path.relative_to(ROOT))
        if name in ABOUT_WORDS or is_vendored(path) or name.startswith(("tests/", "tools/")):
            continue
        if path.suffix == ".md" or path.name == "NOTES.txt":
            found[name] = [path.read_text(encoding="utf-8")]
        elif name.startswith("src/ringwise/web/page/") and path.suffix in (".js", ".html"):
            found[name] = list(_texts_of_page(path))
        elif name.startswith("deploy/helm/") and path.suffix in (".yaml", ".tpl", ".json"):
            found[name] = [path.read_text(encoding="utf-8")]
    return found


def counts() -> dict[tuple[str, str], int]:
    """How often each file says what is banned."""
    return {
        (name, pattern): count
        for name, parts in texts().items()
        for pattern, compiled in PATTERNS.items()
        if (count := sum(len(compiled.findall(text)) for text in parts))
    }


def allowed() -> dict[tuple[str, str], int]:
    rows = (line.split("\t") for line in ALLOWED.read_text(encoding="utf-8").splitlines() if line[:1] != "#")
    return {(name, pattern): int(count) for count, name, pattern in rows}


def test_texts_say_nothing_that_is_banned() -> None:
    """The list of exceptions may only shrink: RINGWISE_WRITE_GOLDEN=1 removes what is not needed any more."""
    found, before = counts(), allowed()
    if os.environ.get("RINGWISE_WRITE_GOLDEN"):
        kept = {key: min(count, found[key]) for key, count in before.items() if key in found}
        head = [line for line in ALLOWED.read_text(encoding="utf-8").splitlines() if line[:1] == "#"]
        lines = [f"{count}\t{name}\t{pattern}" for (name, pattern), count in sorted(kept.items())]
        ALLOWED.write_text("\n".join((*head, *lines)) + "\n", encoding="utf-8")
    more = {
        f"{name}: {match.group()!r}: {BANNED[pattern]}"
        for (name, pattern), count in found.items()
        if count > before.get((name, pattern), 0)
        for text in texts()[name]
        for match in PATTERNS[pattern].finditer(text)
    }
    assert more == set()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{x} is no folder", 1),
        ("there is no lab, and the lab is no longer known", 0),
        ("the job is hurt, as nobody told", 3),
        ("secure procedures", 0),
        ("the jobs that were cancelled, their behaviour", 2),
    ],
)
def test_the_patterns_find_what_is_banned(text: str, said: int) -> None:
    assert sum(len(compiled.findall(text)) for compiled in PATTERNS.values()) == said


# -- commands --------------------------------------------------------------------------------------


def test_the_list_of_commands_has_one_line_for_each() -> None:
    lines = CliRunner().invoke(cli, ["--help"], terminal_width=80).stdout.splitlines()
    assert isinstance(cli, LazyGroup)
    assert {name: entry.help for name, entry in cli.entries.items()} == {
        name: text.strip()
        for name, _, text in (line.strip().partition("  ") for line in lines)
        if name in cli.entries
    }


def test_every_command_has_two_examples_that_can_be_parsed() -> None:
    """The words of an example are those of its command, and its options exist."""
    paths = {path.removeprefix("ringwise ") for path in command_paths()}
    assert set(EXAMPLES) == paths
    for path, examples in EXAMPLES.items():
        assert len(set(examples)) == 2, path
        for example in examples:
            if path != "options":
                assert example.split()[: len(path.split())] == path.split()
            words = shlex.split(example)
            context, command = click.Context(cli), cast("click.Command", cli)
            while isinstance(command, click.Group) and words and not words[0].startswith("-"):
                command = command.get_command(context, words.pop(0)) or pytest.fail(example)
            options = {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
            used = {word for word in words if re.match(r"--?[a-z]", word) and word[1:] not in ("free",)}
            assert used <= options, example
            if path != "options":
                assert example in (command.epilog or ""), example


# -- reasons ---------------------------------------------------------------------------------------

#: Details as they usually are; all others are numbers.
USUAL: dict[str, object] = {
    "board": "910-x8",
    "by": " by ann",
    "claim": "team-a/data-0",
    "class_name": "standard",
    "group": "",
    "hyper_node": "leaf-3",
    "job": "team-a/train",
    "key": "topology.kubernetes.io/zone",
    "label": "huawei.com/topotree.rackid",
    "listing": "",
    "refusals": "6 insufficient chips, 2 cordoned",
    "limit": 2,
    "namespace": "team-a",
    "node": "node-12",
    "origin": "basic-tor-node-cm",
    "pod": "train-worker-3",
    "queue": "research",
    "resource": "huawei.com/Ascend910",
    "rings": "3, 2",
    "ring": "ring",
    "scope": "namespace team-a",
    "seconds": "2m30s",
    "setting": "ringwise.io/limit",
    "wanted": "app=train",
    "what": "node-12",
    "why": "",
}
#: Other components read these words.
FIXED_WORDS = {"cluster-overcommitted", "node-group-limit", "queue-quota-insufficient"}


def _names(template: str) -> set[str]:
    found: set[str] = set()
    for _, name, specification, _ in Formatter().parse(template):
        if name:
            found |= {name, *_names(specification or "")}
    return found


@pytest.mark.parametrize("kind", all_kinds(), ids=lambda kind: kind.code)
def test_a_reason_fits_on_a_line(kind: ReasonKind) -> None:
    details = {name: USUAL.get(name, 16) for name in _names(kind.sentence)}
    if kind.code not in FIXED_WORDS:
        assert len(kind(**details).message) <= LONGEST_REASON, kind(**details).message


def test_a_reason_offers_each_fix_once() -> None:
    repeated = {kind.code: fix for kind in all_kinds() for fix, n in Counter(kind.fixes).items() if n > 1}
    assert repeated == {}
