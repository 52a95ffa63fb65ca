"""Words agree with their numbers, in every message."""

from __future__ import annotations

import ast
import re
from string import Formatter

import pytest

from ringwise.grammar import Quantity, agrees, amount_text, counted, first_of, listed
from ringwise.reasons import ReasonKind, Stage, general_form
from ringwise.topology.reasons import SUPERPOD_OVERSIZE
from ringwise_bench.docs.reasons_reference import all_kinds
from tests.checkout import BENCH, SOURCES, nodes_of, source_name

NOUNS = (
    "allocatable|batches|blocks|boards|chips|commands|containers|documents|errors|events|files|gangs|jobs|"
    "machines|meshes|minutes|nodes|objects|pairs|places|pods|queues|racks|replicas|rings|seconds|servers|"
    "SuperPoDs|switches|tasks|terms|units|warnings"
)
ADJECTIVES = "(?:(?:more|free|idle|failed|running|live|shared|complete|completely free|required|logical) )*"
THINGS = "block|chip|container|job|node(?! affinity)|pair|place|pod|rack|server|switch|task"
#: A number with a noun or a verb in the wrong form.
WRONG = (
    re.compile(rf"(?<![\w.,-])1 {ADJECTIVES}(?:{NOUNS})\b"),
    re.compile(rf"(?<![\w.,-])[02] {ADJECTIVES}(?:{THINGS})\b"),
    re.compile(
        rf"(?<!resources for )\b1 {ADJECTIVES}(?:{THINGS}) (?:are|ask|exist|have|match|need|run|wait)\b"
    ),
    re.compile(r"\band 1 are\b|\b1 of \w+ \w+ (?:ask|are|exist|fit|have|lack)\b"),
)
#: Details that are names or lists.
NAMES = frozenset(
    {
        "best",
        "board",
        "family",
        "job",
        "job_class",
        "key",
        "listing",
        "node",
        "origin",
        "pod",
        "queue",
        "resource",
    }
    | {"resources", "ring", "switch", "task", "taint", "what", "wanted"}
)


def test_counted() -> None:
    assert [counted(n, "pod") for n in (0, 1, 2)] == ["0 pods", "1 pod", "2 pods"]
    assert counted(["a"], "pod waits", "pods wait") == "1 pod waits"
    assert counted("1-8", "mesh") == "1-8 meshes"
    assert agrees("1", "is", "are") == "is"
    assert (
        f"{Quantity('1'):chip is|chips are}, {Quantity('2'):=it|them}, {Quantity('0'):#}, {Quantity('3')}"
        == ("1 chip is, them, 0, 3")
    )


@pytest.mark.parametrize("count", [0, 1, 2])
def test_every_reason_agrees_with_its_numbers(count: int) -> None:
    """All details of a kind as the same number: words that do not fit it are found."""
    nothing = re.compile(r"(?:ask for|at most|can start with|minAvailable to|minMember to) 0\b")
    wrong = []
    for kind in all_kinds():
        templates = (kind.sentence, *kind.fixes)
        names = {name for text in templates for name in _names(text)}
        reason = kind(**{name: "mesh" if name in NAMES else count for name in names})
        texts = (reason.message, *reason.fixes)
        wrong += [(kind.code, text) for text in texts if "(s)" in text or any(p.search(text) for p in WRONG)]
        wrong += [(kind.code, fix) for fix in reason.fixes if nothing.search(fix)]
    assert wrong == []


def _names(template: str) -> set[str]:
    found: set[str] = set()
    for _, name, specification, _ in Formatter().parse(template):
        if name:
            found |= {name, *_names(specification or "")}
    return found


def test_a_fix_that_offers_nothing_is_left_out() -> None:
    kinds = {kind.code: kind for kind in all_kinds()}
    none_free = kinds["superpod-not-enough-nodes"](pods=2, free=0, missing=2, listing="there is no SuperPoD")
    assert none_free.fixes == ("free 2 more nodes",)
    no_chips = kinds["cluster-too-small"](needed=8, resource="huawei.com/Ascend910", all=0, missing=8)
    assert no_chips.fixes == ("add nodes for 8 more chips",)


def test_no_job_of_0_pods_is_advised_when_nothing_is_free() -> None:
    kinds = {kind.code: kind for kind in all_kinds()}
    for code in ("one-switch-too-small", "switches-too-full", "switches-full-for-common-job"):
        assert kinds[code](best_free=0, largest=0).fixes == ()
        assert kinds[code](best_free=1, largest=1).fixes != ()


def test_the_reference_shows_templates_in_the_plural() -> None:
    assert general_form("{free:chip is|chips are} free, {free:=it|them}") == "{free} chips are free, them"
    assert "{nodes} {what}s" in general_form(SUPERPOD_OVERSIZE.sentence)


def test_no_message_has_a_plural_that_a_number_may_contradict() -> None:
    """`{n} pods` in an f-string is wrong for n = 1: `counted` makes both forms."""
    wrong = []
    # What both kinds look like in a source; most have neither, and need not be parsed.
    sign = re.compile(rf"\w\(e?s\)|\}}(?:[\"']\s+f?[\"'])? {ADJECTIVES}(?:{NOUNS})\b")
    # The numbers of the benchmarks are measured and never 1.
    for path in (*SOURCES, *(BENCH / "docs").glob("*.py")):
        name = source_name(path)
        if not sign.search(path.read_text(encoding="utf-8")):
            continue
        for found in nodes_of(path):
            if isinstance(found, ast.Constant) and isinstance(found.value, str):
                if re.search(r"\w\(e?s\)", found.value):
                    wrong.append(f"{name}:{found.lineno}: {found.value.strip()[:80]}")
            elif isinstance(found, ast.JoinedStr):
                for before, after in zip(found.values, found.values[1:], strict=False):
                    if (
                        isinstance(before, ast.FormattedValue)
                        and not _is_constant(before.value)
                        and isinstance(after, ast.Constant)
                        and re.match(rf" {ADJECTIVES}(?:{NOUNS})\b", str(after.value))
                    ):
                        wrong.append(f"{name}:{found.lineno}: {ast.unparse(found)[:120]}")
    assert not wrong, "\n".join(wrong)


def _is_constant(value: ast.expr) -> bool:
    """A limit of the program: MAX_ERRORS."""
    return isinstance(value, ast.Name) and value.id.isupper()


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        ("cpu", 16_000, "16"),
        ("cpu", 1_500, "1.5"),
        ("requests.cpu", 250, "0.25"),
        ("cpu", 0, "0"),
        ("memory", 16 << 30, "16 GiB"),
        ("memory", 3 << 40, "3072 GiB"),
        ("limits.memory", 1536 << 20, "1.5 GiB"),
        ("memory", 200 << 20, "200 MiB"),
        ("memory", 1000, "1000"),
        ("memory", 0, "0"),
        ("hugepages-2Mi", 4 << 20, "4 MiB"),
        ("huawei.com/Ascend910", 16_000, "16000"),
        ("pods", 16_000, "16000"),
    ],
)
def test_amounts_are_in_the_units_of_people(resource: str, amount: int, text: str) -> None:
    assert amount_text(resource, amount) == text


def test_the_details_of_a_reason_stay_numbers() -> None:
    kind = ReasonKind("full", Stage.GANG, "{used} of the {limit} of {resource} are used", ("up to {free:#}",))
    full = kind(resource="cpu", used=16_000, limit=20_000, free=4_000, weight=3)
    assert full.message == "16 of the 20 of cpu are used"
    assert full.fixes == ("up to 4",)
    assert full.as_json()["details"]["used"] == 16_000
    quota = ReasonKind("quota", Stage.ENQUEUE, "used: {used}")(used={"requests.cpu": 2500, "pods": 3000})
    assert quota.message == "used: requests.cpu 2.5, pods 3000"


def test_a_sentence_says_plainly_that_there_is_none() -> None:
    template = "{free:?the best, {best}, has {free}|no switch has one}"
    named = {"free": Quantity("2"), "best": Quantity("a|b")}
    assert template.format_map(named) == "the best, a|b, has 2"
    assert template.format_map({"free": Quantity("0"), "best": Quantity("none")}) == "no switch has one"
    assert general_form(template) == "the best, {best}, has {free}"


@pytest.mark.parametrize(
    ("items", "most", "shown"),
    [
        (["a", "b"], 2, ["a", "b"]),
        (["a", "b", "c"], 2, ["a", "b", "1 more node is hidden"]),
        (["a", "b", "c", "d"], 2, ["a", "b", "2 more nodes are hidden"]),
        ([], 2, []),
    ],
)
def test_the_first_texts_and_the_number_of_the_others(items: list[str], most: int, shown: list[str]) -> None:
    assert first_of(items, most, "{n:more node is|more nodes are} hidden") == shown


def test_a_list_says_how_many_more_there_are() -> None:
    assert listed(["a", "b", "c"], 1) == "a and 2 more"
    assert listed(["a", "b"], 1, word="node") == "a and 1 more node"
    assert listed(["a"], 1, word="node") == "a"
