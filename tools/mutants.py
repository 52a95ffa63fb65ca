"""Plant one small bug at a time in a copy of the tree, and list those that no test notices.

    python -m tools.mutants [PATH ...] [--count 300] [--seed 1] [--only build/mutants/survivors.diff]

A mutant is caught if a test that runs its line fails (see tests/tools/line_records.py). Its tests run in a
process that is forked from this one, which has imported pytest and libraries but no module of Ringwise.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import hashlib
import importlib
import os
import re
import resource
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import accumulate
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.checkout import ROOT
from tests.tools.line_records import BUILD, MARKS, LineRecords, copy_tree, python_path

PACKAGES = (
    "placement",
    "state",
    "framework",
    "plugins",
    "actions",
    "scheduler",
    "controller",
    "device",
    "manifests",
)
LIBRARIES = ("hypothesis", "msgspec", "click", "grpc", "yaml", "rich.table", "aiohttp.web", "jsonschema")
NOT_RUN = ("annotation", "returns", "decorator_list")
#: Seconds of the tests that run before all others are collected.
FIRST_TESTS = 5.0
OPPOSITE = {"<": "<=", ">": ">=", "==": "!=", "in": "not in", "is": "is not", "all": "any", "min": "max"}
OPPOSITE |= {new: old for old, new in OPPOSITE.items()}


@cache
def source_text(path: str) -> bytes:
    return (ROOT / path).read_bytes()


@dataclass(frozen=True)
class Mutant:
    """A change of one span of a source file, by offsets in its bytes."""

    path: str
    scope: str  #: The function; empty for code that runs once, such as that of a module.
    lines: tuple[int, int]  #: The line of the change, and that of its statement.
    span: tuple[int, int]
    new: str
    kind: str
    occurrence: int

    @property
    def text(self) -> bytes:
        return source_text(self.path)

    @cached_property
    def identity(self) -> str:
        """Return a name that stays while other functions change."""
        words = (self.path, self.scope, self.text[slice(*self.span)].decode(), self.new, str(self.occurrence))
        return hashlib.sha256("\0".join(words).encode()).hexdigest()[:10]

    def mutated(self) -> bytes:
        return self.text[: self.span[0]] + self.new.encode() + self.text[self.span[1] :]

    def diff(self) -> str:
        before, after = (text.decode().splitlines() for text in (self.text, self.mutated()))
        return "\n".join(difflib.unified_diff(before, after, self.path, self.path, n=2, lineterm=""))


class Finder:
    """The mutants of one source file."""

    def __init__(self, path: str) -> None:
        self.path, self.text = path, source_text(path)
        self.offsets = [0, *accumulate(map(len, self.text.splitlines(keepends=True)))]
        self.mutants: list[Mutant] = []
        self._seen: Counter[tuple[str, str, str]] = Counter()
        self._visit(ast.parse(self.text), "", False, 1)

    def _span(self, node: Any) -> tuple[int, int]:
        end = self.offsets[node.end_lineno - 1] + node.end_col_offset
        return self.offsets[node.lineno - 1] + node.col_offset, end

    def _source(self, node: ast.AST) -> str:
        return self.text[slice(*self._span(node))].decode()

    def _visit(self, node: Any, name: str, repeated: bool, statement: int) -> None:
        """Find mutants in a node; `repeated` says that it is in a function that each call runs."""
        statement = node.lineno if isinstance(node, ast.stmt) else statement
        for changed, new, kind, *other_span in self._changes(node):
            span = other_span[0] if other_span else self._span(changed)
            words = name if repeated else "", self.text[slice(*span)].decode(), new
            self._seen[words] += 1
            lines, count = (changed.lineno, statement), self._seen[words]
            self.mutants.append(Mutant(self.path, words[0], lines, span, new, kind, count))
        for key, value in ast.iter_fields(node):
            inner = name, repeated
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and key == "body":
                cached = any("cache" in ast.dump(decorator) for decorator in node.decorator_list)
                inner = f"{name}.{node.name}".lstrip("."), not isinstance(node, ast.ClassDef) and not cached
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and key not in NOT_RUN and not isinstance(child, ast.JoinedStr):
                    self._visit(child, *inner, statement)

    def _changes(self, node: Any) -> Iterator[tuple[Any, ...]]:
        match node:
            case ast.Compare():
                for left, right in zip([node.left, *node.comparators], node.comparators, strict=False):
                    start, end = self._span(left)[1], self._span(right)[0]
                    between = self.text[start:end].decode()
                    operator = re.search(r"[<>=!]+|(is\s+not|not\s+in|is|in)\b", between)
                    if operator is not None:
                        old, (begin, stop) = " ".join(operator.group().split()), operator.span()
                        kind = "boundary" if old[0] in "<>" else "negated"
                        yield right, OPPOSITE[old], kind, (start + begin, start + stop)
            case ast.BoolOp():
                for i in range(len(node.values)):
                    rest = node.values[:i] + node.values[i + 1 :]
                    kept = ast.unparse(rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest))
                    yield node, f"({kept})", "dropped condition"
            case ast.UnaryOp(op=ast.Not()):
                yield node, f"({self._source(node.operand)})", "negated"
            case ast.Constant(value=bool()):
                yield node, str(not node.value), "constant"
            case ast.Constant(value=int() | float() as value):
                yield node, str(value + 1), "constant"
            case ast.Name(id="all" | "any" | "min" | "max"):
                yield node, OPPOSITE[node.id], "function"
            case ast.Call(args=[first, second, *_]):
                same = self._source(node.func) in ("isinstance", "min", "max")
                if not same and not any(isinstance(argument, ast.Starred) for argument in (first, second)):
                    span = (self._span(first)[0], self._span(second)[1])
                    yield node, f"{self._source(second)}, {self._source(first)}", "swapped", span
            case ast.Expr(value=ast.Call() | ast.Await()) if not re.match(r"_?log\b", self._source(node)):
                yield node, "pass", "removed"
            case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]) | ast.AugAssign() | ast.Continue():
                yield node, "pass", "removed"
        tests = [node.test] if isinstance(node, ast.If | ast.While | ast.IfExp) else getattr(node, "ifs", [])
        for test in tests:
            if not isinstance(test, ast.Compare | ast.UnaryOp) and self._source(test) != "TYPE_CHECKING":
                yield test, f"(not ({self._source(test)}))", "negated"


class Run:
    """The tests of one mutant in a forked process, in a tree that no other process uses meanwhile."""

    stamp = time.time_ns() // 10**9

    def __init__(self, tree: Path, mutant: Mutant, tests: dict[str, float]) -> None:
        self.tree, self.mutant, self.tests = tree, mutant, tests
        self._write(mutant.mutated())
        seconds = round(30 + 3 * sum(tests.values()))
        self.deadline = time.monotonic() + 10 * seconds
        self.process = os.fork()
        if not self.process:
            self._test(seconds)

    def _write(self, text: bytes) -> None:
        # A compiled file is used while its source has the same size and second: each text gets its own.
        Run.stamp += 1
        (self.tree / self.mutant.path).write_bytes(text)
        os.utime(self.tree / self.mutant.path, (Run.stamp, Run.stamp))

    def _test(self, seconds: int) -> None:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        resource.setrlimit(resource.RLIMIT_DATA, (4 << 30, 4 << 30))
        log = os.open(f"{self.tree}.log", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.chdir(self.tree)
        os.environ["PYTHONPATH"] = python_path(self.tree)
        sys.path[:0] = python_path(self.tree).split(os.pathsep)
        sys.dont_write_bytecode = False
        for name in [name for name in sys.modules if name.split(".")[0] == "tests"]:
            del sys.modules[name]
        place = {name: number for number, name in enumerate(self.tests)}

        def choose(items: list[pytest.Item]) -> None:
            items[:] = sorted((i for i in items if i.nodeid in place), key=lambda i: place[i.nodeid])

        arguments = ["-xq", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
        files = dict.fromkeys(name.split("::")[0] for name in self.tests)
        chosen = SimpleNamespace(pytest_collection_modifyitems=choose)
        code = pytest.main([*arguments, "-m", MARKS, *files], plugins=[chosen])
        sys.stdout.flush()
        os._exit(code)

    def result(self) -> str:
        """Return how the tests ended, with the source as it was; an empty text while they run."""
        if late := time.monotonic() > self.deadline:
            os.killpg(self.process, 9)
        process, status = os.waitpid(self.process, 0 if late else os.WNOHANG)
        if not process:
            return ""
        self._write(self.mutant.text)
        code = os.waitstatus_to_exitcode(status)
        return {0: "survived", 3: "internal error", 4: "usage error", 5: "no tests"}.get(code, "caught")


def results(mutants: list[Mutant], workers: int, limit: float) -> Iterator[tuple[Mutant, str]]:
    """Test all mutants; those that pass the first tests with all others that the limit allows, too."""
    records = LineRecords().updated()
    trees = [copy_tree(f"tree-{number}") for number in range(workers)]
    waiting: list[tuple[Mutant, list[str] | None]] = [(mutant, None) for mutant in reversed(mutants)]
    running: dict[Run, list[str]] = {}
    while waiting or running:
        while trees and waiting:
            mutant, rest = waiting.pop()
            tests = records.tests_of(mutant.path, *mutant.lines, not mutant.scope) if rest is None else rest
            if chosen := records.affordable(tests, FIRST_TESTS if rest is None else limit):
                left = [name for name in tests if name not in chosen] if rest is None else []
                running[Run(trees.pop(), mutant, chosen)] = left
            else:
                yield mutant, "not run by any test"
        for run in [*running]:
            if result := run.result():
                trees.append(run.tree)
                left = running.pop(run)
                if result == "survived" and left:
                    waiting.append((run.mutant, left))
                else:
                    yield run.mutant, result
        time.sleep(0.02)


def find_mutants(paths: list[str], seed: int) -> list[Mutant]:
    """Return all mutants of files and folders, in the order of a seed, which stays while sources change."""
    roots = [ROOT / name for name in paths]
    files = [path for root in roots for path in ([root] if root.is_file() else sorted(root.rglob("*.py")))]
    names = [path.relative_to(ROOT).as_posix() for path in files if "_pb2" not in path.name]
    mutants = [mutant for name in names for mutant in Finder(name).mutants]
    return sorted(mutants, key=lambda m: hashlib.sha256(f"{seed} {m.identity}".encode()).digest())


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("paths", nargs="*", default=[f"src/ringwise/{name}" for name in PACKAGES])
    parser.add_argument("--count", type=int, default=300, help="Number of mutants.")
    parser.add_argument("--skip", type=int, default=0, help="Number of mutants of the seed to leave out.")
    parser.add_argument("--seed", type=int, default=1, help="Selects the mutants.")
    parser.add_argument("--workers", type=int, default=2, help="Number of mutants that are tested at a time.")
    parser.add_argument("--limit", type=float, default=60, help="Seconds of tests for each mutant.")
    parser.add_argument("--only", type=Path, help="Test the mutants whose names are in a file.")
    options = parser.parse_args(arguments)
    mutants = find_mutants(options.paths, options.seed)
    if options.only:
        names = set(re.findall(r"\b[0-9a-f]{10}\b", options.only.read_text()))
        mutants = [mutant for mutant in mutants if mutant.identity in names]
    mutants = mutants[options.skip : options.skip + options.count]
    for name in LIBRARIES:
        importlib.import_module(name)
    totals: dict[str, Counter[str]] = defaultdict(Counter)
    survivors = []
    for number, (mutant, result) in enumerate(results(mutants, options.workers, options.limit), 1):
        line = f"{mutant.identity} {result}: {mutant.path}:{mutant.lines[0]} {mutant.scope} {mutant.kind}"
        print(f"{number}/{len(mutants)} {line}", flush=True)
        totals[Path(mutant.path).parts[2]][result] += 1
        if result != "caught":
            survivors.append(f"{line}\n{mutant.diff()}\n")
            (BUILD / "survivors.diff").write_text("\n".join(survivors))
    print("\n".join(["", *survivors, f"{'package':12} caught  survived  share"]))
    for package, counts in sorted(totals.items()):
        caught, total = counts["caught"], counts.total()
        print(f"{package:12} {caught:6} {total - caught:9} {caught / total:6.0%}")


if __name__ == "__main__":
    main(sys.argv[1:])
