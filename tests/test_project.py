"""What must hold for the project itself: its files, its pins, its packages, its pages."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

import ringwise
from ringwise import wellknown
from ringwise.plugins import PLUGINS

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "ringwise"
SOURCES = sorted(PACKAGE.rglob("*.py"))
CORE = (
    "grammar",
    "reasons",
    "wellknown",
    "topology",
    "state",
    "placement",
    "framework",
    "messages",
    "actions",
    "plugins",
    "scheduler",
    "controller",
)
#: A file over this many lines wants a reason; those that have one are listed here with it.
LONG_SOURCE = 500
LONG_FOR_A_REASON: dict[str, str] = {
    "state/cluster.py": "the only writer of the state: events, decisions and their log share its arrays",
}

# Written in pieces, so that this file does not find itself.
# The folder of a container's ssh keys is the same everywhere: it says nothing about a machine.
MACHINE_PATH = re.compile(r"(?<![\w.:/-])/(?:work|root|home|Users)" + r"/(?!\.ssh\b)[\w.-]")
REGISTRY_HOST = re.compile(
    r"\bpypi" + r"\.org|python" + r"hosted|registry" + r"\.npmjs|/simple" + r"/\s*$", re.M
)
UNFINISHED = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")


@cache
def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@cache
def project_files() -> tuple[Path, ...]:
    """Everything that is or could be committed; all of the folder where there is no git."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listing.returncode == 0:
        names = [name for name in listing.stdout.decode().split("\0") if name]
        return tuple(path for name in names if (path := ROOT / name).is_file())
    hidden = {".git", ".venv", "__pycache__", "build", "dist"}
    found = [path for path in ROOT.rglob("*") if path.is_file() and not hidden & set(path.parts)]
    return tuple(path for path in found if ".egg-info" not in str(path) and "_cache" not in str(path))


def findings(pattern: re.Pattern[str], text: str) -> list[str]:
    return [line.strip()[:120] for line in text.splitlines() if pattern.search(line)]


def is_vendored(path: Path) -> bool:
    """Whether it is a file of a library, copied as it is; SHA256SUMS beside it has its hash."""
    sums = path.parent / "SHA256SUMS"
    return sums.is_file() and f"  {path.name}\n" in sums.read_text(encoding="utf-8")


def findings_in_project(pattern: re.Pattern[str]) -> dict[str, list[str]]:
    found = {}
    for path in project_files():
        # The bytes of a picture are no text, and may look like anything.
        if is_vendored(path) or path.suffix == ".png":
            continue
        lines = findings(pattern, path.read_bytes().decode("utf-8", errors="replace"))
        if lines:
            found[str(path.relative_to(ROOT))] = lines
    return found


@pytest.mark.parametrize(
    ("pattern", "caught", "passed"),
    [
        (MACHINE_PATH, "open('/ro" + "ot/x.txt')", "the queue root/a/b"),
        (MACHINE_PATH, "open('/ro" + "ot/.sshd')", "mounted at /root/.ssh/authorized_keys"),
        (MACHINE_PATH, "cd /ho" + "me/me/ringwise", "https://example.com/home/page"),
        (REGISTRY_HOST, "--index-url https://py" + "pi.org/simple", "pip install --require-hashes"),
        (UNFINISHED, "# TO" + "DO: later", "todos are a different word"),
    ],
)
def test_the_patterns_can_find_something(pattern: re.Pattern[str], caught: str, passed: str) -> None:
    assert findings(pattern, caught)
    assert not findings(pattern, passed)


def test_the_search_sees_the_project() -> None:
    names = {str(path.relative_to(ROOT)) for path in project_files()}
    assert {"README.md", "Makefile", "src/ringwise/reasons.py", "tests/test_project.py"} <= names
    assert not any(name.startswith((".venv/", ".git/")) for name in names)


def test_no_file_names_a_folder_of_somebody_s_machine() -> None:
    assert findings_in_project(MACHINE_PATH) == {}


def test_no_file_names_a_package_registry() -> None:
    assert findings_in_project(REGISTRY_HOST) == {}


def test_nothing_is_left_unfinished() -> None:
    assert findings_in_project(UNFINISHED) == {}


# -- imports


@cache
def imports() -> dict[str, set[str]]:
    """Module -> the modules of the package it imports, also those only for types or inside functions."""
    modules = {}
    for path in SOURCES:
        name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        modules[name.removesuffix(".__init__")] = path
    found: dict[str, set[str]] = {}
    for name, path in modules.items():
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        found[name] = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found[name] |= {alias.name for alias in node.names if alias.name in modules}
            elif isinstance(node, ast.ImportFrom):
                base = ".".join(package.split(".")[: len(package.split(".")) - node.level + 1])
                origin = node.module or "" if not node.level else f"{base}.{node.module or ''}".rstrip(".")
                for alias in node.names:
                    full = f"{origin}.{alias.name}"
                    found[name] |= {one for one in (full if full in modules else origin,) if one in modules}
    return found


def circles(graph: Mapping[str, Collection[str]]) -> list[list[str]]:
    """Sets of modules of which each reaches each other, by Tarjan's algorithm."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        index[module] = low[module] = len(index)
        stack.append(module)
        for other in graph[module]:
            if other not in index:
                visit(other)
                low[module] = min(low[module], low[other])
            elif other in stack:
                low[module] = min(low[module], index[other])
        if low[module] == index[module]:
            circle = stack[stack.index(module) :]
            del stack[stack.index(module) :]
            if len(circle) > 1 or module in graph[module]:
                found.append(sorted(circle))

    for module in graph:
        if module not in index:
            visit(module)
    return found


def test_the_search_for_circles_finds_them() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set(), "e": {"e"}}
    assert circles(graph) == [["b", "c"], ["e"]]
    assert "ringwise.scheduler.core.machine" in imports()["ringwise.apps.extensions"]
    assert "ringwise.reasons" in imports()["ringwise.scheduler.view"]


def test_only_one_place_makes_schedulers() -> None:
    """It gives them the plugins and actions of installed packages, so no command is left without them."""
    makers = [
        str(path.relative_to(PACKAGE))
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Scheduler"
    ]
    assert makers == ["apps/extensions.py"]


def test_no_two_modules_import_each_other_in_a_circle() -> None:
    assert circles(imports()) == []


def string_constants(source: str) -> set[str]:
    return {
        node.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def test_the_framework_names_no_plugin() -> None:
    """Plugins declare themselves: the framework has the mechanism, and no plugin's name or arguments."""
    names = {spec.name for spec in PLUGINS} | {spec.alias_prefix for spec in PLUGINS if spec.alias_prefix}
    names |= {row.name for spec in PLUGINS for row in spec.arguments or ()}
    assert {"gang", "topology910", "volcano-npu", "binpack.weight"} <= names
    # Ordinary words that are something else in the framework: a value of a setting, an attribute.
    names -= {"strict", "capacity"}
    assert string_constants("x = {'gang': 1}\ny = f'{z} gang'") == {"gang", " gang"}
    found = {
        str(path.relative_to(PACKAGE)): named
        for path in SOURCES
        if path.relative_to(PACKAGE).parts[0] == "framework"
        if (named := string_constants(path.read_text(encoding="utf-8")) & names)
    }
    assert found == {}


@pytest.mark.parametrize("package", ["plugins", "actions"])
def test_plugins_and_actions_do_not_import_each_other(package: str) -> None:
    """The contract holds for every file and folder of the package, those to come included."""
    contracts = project()["tool"]["importlinter"]["contracts"]
    modules = [one["modules"] for one in contracts if one["type"] == "independence"]
    assert [f"ringwise.{package}.*"] in modules


# -- requirements


def pins(name: str) -> dict[str, tuple[str, list[str]]]:
    """Package -> (version, hashes). A package may be pinned twice under different markers."""
    text = (ROOT / name).read_text(encoding="utf-8").replace("\\\n", " ")
    found: dict[str, tuple[str, list[str]]] = {}
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = re.match(r"([A-Za-z0-9._-]+)==([^\s;]+)(?:\s*;[^\\]*?)?((?:\s+--hash=\S+)*)\s*$", line)
        assert match is not None, f"{name}: not a pin: {line[:80]}"
        found[match[1].lower().replace("_", "-")] = (match[2], match[3].split())
    return found


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-dev.txt", "requirements-browser.txt"])
def test_requirements_are_pinned_and_hashed_and_name_no_address(name: str) -> None:
    for package, (_, hashes) in pins(name).items():
        assert hashes, f"{package} has no hash"
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", item) for item in hashes), package
    text = (ROOT / name).read_text(encoding="utf-8")
    assert not re.search(r"://|--(?:extra-)?index-url|--find-links|--trusted-host|^-[ei] ", text, re.M)


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-dev.txt"])
def test_what_is_pinned_is_what_the_project_asks_for(name: str) -> None:
    pinned = pins(name)
    wanted = [Requirement(text) for text in project()["project"]["dependencies"]]
    if name == "requirements-dev.txt":
        lines = (ROOT / "requirements-dev.in").read_text(encoding="utf-8").splitlines()
        wanted += [Requirement(line) for line in lines if line and not line.startswith("#")]
        wanted += [Requirement(text) for text in project()["build-system"]["requires"]]
    for requirement in wanted:
        version, _ = pinned[requirement.name.lower().replace("_", "-")]
        assert requirement.specifier.contains(version, prereleases=True), requirement


def test_developers_run_what_users_run() -> None:
    developer = pins("requirements-dev.txt")
    differing = {
        name for name, (version, _) in pins("requirements.txt").items() if developer[name][0] != version
    }
    assert differing == set()


def test_what_drives_the_browser_fits_the_rest() -> None:
    developer = pins("requirements-dev.txt")
    browser = pins("requirements-browser.txt")
    assert "playwright" in browser
    assert "playwright" not in developer
    assert {
        name for name in browser.keys() & developer.keys() if browser[name][0] != developer[name][0]
    } == set()


# -- libraries of the page


@pytest.mark.parametrize("folder", ["src/ringwise/web/page/vendor", "tests/web/browser/axe"])
def test_libraries_of_the_page_are_what_was_copied(folder: str) -> None:
    """`make page-vendor` copies them and writes the hashes; npm checks them against package-lock.json."""
    sums = {}
    for line in (ROOT / folder / "SHA256SUMS").read_text(encoding="utf-8").splitlines():
        expected, _, name = line.partition("  ")
        sums[name] = expected
    for name, expected in sums.items():
        assert hashlib.sha256((ROOT / folder / name).read_bytes()).hexdigest() == expected, name
    there = {path.name for path in (ROOT / folder).iterdir()} - {"SHA256SUMS"}
    assert {name for name in there if not name.endswith(".d.ts")} == set(sums)
    for name in sums:
        if name.endswith(".js"):
            assert f"{name.partition('.')[0].partition('-')[0]}.LICENSE" in sums


def test_libraries_of_the_page_are_pinned_and_hashed() -> None:
    folder = ROOT / "tools" / "page"
    wanted = json.loads((folder / "package.json").read_bytes())
    locked = json.loads((folder / "package-lock.json").read_bytes())["packages"]
    for name, version in {**wanted["dependencies"], **wanted["devDependencies"]}.items():
        assert locked[f"node_modules/{name}"]["version"] == version, name
    assert all(one.get("integrity") for path, one in locked.items() if path)


def test_the_page_names_no_other_host_and_has_no_inline_script_or_style() -> None:
    page = PACKAGE / "web" / "page"
    for path in sorted(page.rglob("*")):
        if path.suffix not in {".html", ".css", ".js"} or is_vendored(path):
            continue
        text = path.read_text(encoding="utf-8")
        assert not re.findall(r"(?:src|href|url|import|from|fetch)\b[\s\"'(=]*(?:https?:)?//\w", text), path
    index = (page / "index.html").read_text(encoding="utf-8")
    assert re.findall(r"<script(?![^>]*\bsrc=)|<style|\bstyle=|\bon[a-z]+=", index) == []


@pytest.mark.parametrize("package", ["aiohttp", "cryptography", "msgspec", "pyyaml"])
def test_compiled_packages_have_hashes_for_many_platforms(package: str) -> None:
    # Three Python versions on two processors, at least.
    assert len(pins("requirements.txt")[package][1]) >= 6


# -- packages


def layers() -> list[set[str]]:
    contract = project()["tool"]["importlinter"]["contracts"][0]
    return [{one.strip().strip("()") for one in re.split(r"[|:]", layer)} for layer in contract["layers"]]


def test_every_package_is_in_the_import_contract() -> None:
    known = set().union(*layers())
    packages = {
        path.stem if path.is_file() else path.name
        for path in PACKAGE.iterdir()
        if (path.suffix == ".py" and not path.stem.startswith("__")) or (path / "__init__.py").is_file()
    }
    assert packages
    assert packages - known == set()


def test_packages_are_in_the_agreed_order() -> None:
    order = [one for layer in layers() for one in sorted(layer)]
    agreed = [
        "cli",
        "apps",
        "manifests",
        "scheduler",
        "framework",
        "placement",
        "state",
        "topology",
        "reasons",
    ]
    assert [one for one in order if one in agreed] == agreed
    assert {"actions", "plugins", "messages"} in layers()
    assert {"scheduler", "controller"} in layers()


def test_the_core_contract_covers_the_core() -> None:
    contract = project()["tool"]["importlinter"]["contracts"][1]
    assert set(contract["source_modules"]) == {f"ringwise.{one}" for one in CORE}


def in_core(path: Path) -> bool:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py") in CORE


def imported_by(source: str) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module.partition(".")[0])
    return names


def test_the_core_needs_the_standard_library_only() -> None:
    assert imported_by("import yaml.nodes\nfrom msgspec import Struct") == {"yaml", "msgspec"}
    allowed = sys.stdlib_module_names | {"ringwise"}
    foreign = {
        str(path.relative_to(PACKAGE)): others
        for path in SOURCES
        if in_core(path) and (others := imported_by(path.read_text(encoding="utf-8")) - allowed)
    }
    assert foreign == {}


#: Ways to a clock or to random numbers through modules that are otherwise harmless.
SIDE_DOORS = frozenset(
    {"now", "utcnow", "today", "uuid1", "uuid4", "urandom", "getnode", "environ", "getenv"}
)


def side_doors_in(source: str) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, (ast.Name, ast.Attribute)):
            owner = node.value.id if isinstance(node.value, ast.Name) else node.value.attr
            if node.attr in SIDE_DOORS and owner in {"datetime", "date", "uuid", "os"}:
                found.add(f"{owner}.{node.attr}")
        elif isinstance(node, ast.ImportFrom) and node.module in {"uuid", "os"}:
            found |= {f"{node.module}.{alias.name}" for alias in node.names if alias.name in SIDE_DOORS}
    return found


def test_the_core_reads_no_clock_and_no_random_numbers() -> None:
    sample = "from os import environ\ndatetime.datetime.now()\nuuid.uuid4()\nuuid.uuid5(a, b)"
    assert side_doors_in(sample) == {"datetime.now", "uuid.uuid4", "os.environ"}
    found = {
        str(path.relative_to(PACKAGE)): doors
        for path in SOURCES
        if in_core(path) and (doors := side_doors_in(path.read_text(encoding="utf-8")))
    }
    assert found == {}


def test_sources_stay_short_and_say_what_they_are_for() -> None:
    assert SOURCES
    complaints = []
    for path in SOURCES:
        text = path.read_text(encoding="utf-8")
        name = str(path.relative_to(PACKAGE))
        if len(text.splitlines()) > LONG_SOURCE and name not in LONG_FOR_A_REASON:
            complaints.append(f"{name} has {len(text.splitlines())} lines: split it, or say here why not")
        if text.strip() and ast.get_docstring(ast.parse(text)) is None:
            complaints.append(f"{path.relative_to(ROOT)} does not say what it is for")
    assert complaints == []


# -- well-known names


def is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def names_spelled_in(source: str) -> list[str]:
    """Well-known names that stand in the source as strings, or as the beginning of an f-string.

    A sentence that mentions a name is no finding: it has more words. Neither is the name of a document's
    schema: the type checker compares it with the type of the document.
    """
    names = {value for name, value in vars(wellknown).items() if name.isupper() and isinstance(value, str)}
    prefixes = tuple(name for name in names if name.endswith("/"))
    tree = ast.parse(source)
    docstrings = {id(node.value) for node in ast.walk(tree) if is_docstring(node)}  # type: ignore[attr-defined]
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or id(node) in docstrings:
            continue
        text = node.value.strip(" :=")
        path = re.split("[/=]", text)[0]
        if re.fullmatch(r"ringwise\.io/[a-z-]+/v[0-9]+", text):
            continue
        if " " not in text and (text in names or path in names or text.startswith(prefixes)):
            found.append(f"line {node.lineno}: {node.value!r}")
    return found


@pytest.mark.parametrize(
    ("source", "finds"),
    [
        ('LABEL = "tor-affinity"', True),
        ('f"{resource}-Unhealthy"', True),
        ('f"huawei.com/{kind}"', True),
        ('KEY = "huawei.com/something-new"', True),
        ('select("mx-consumer-cim=true")', True),
        ('MAP = "volcano-system/volcano-scheduler-configmap"', True),
        ('f"huawei.com/schedule_policy: {policy}"', True),
        ('cure("remove the annotation huawei.com/schedule_policy")', False),
        ('CODE = "sp-block-not-a-number"', False),
        ('def f():\n    "tor-affinity"', False),
    ],
)
def test_the_search_for_well_known_names_finds_them(source: str, finds: bool) -> None:
    assert bool(names_spelled_in(source)) is finds


def test_well_known_names_are_spelled_in_their_file_only() -> None:
    found = {
        str(path.relative_to(PACKAGE)): spelled
        for path in SOURCES
        if path.name != "wellknown.py" and (spelled := names_spelled_in(path.read_text(encoding="utf-8")))
    }
    assert found == {}


def test_well_known_names_are_defined_once_and_explained() -> None:
    lines = (PACKAGE / "wellknown.py").read_text(encoding="utf-8").splitlines()
    values = [value for name, value in vars(wellknown).items() if name.isupper() and isinstance(value, str)]
    assert len(values) == len(set(values))
    explained = False
    bare = []
    for line in lines:
        if not line:
            explained = False
        elif line.startswith("#"):
            explained = True
        elif re.match(r"[A-Z_0-9]+ = ", line) and not explained:
            bare.append(line)
    assert bare == []


# -- names of classes


def test_no_two_classes_have_the_same_name() -> None:
    """A name means one thing. Private classes are seen in their module only, generated ones have packages."""
    found: dict[str, list[str]] = {}
    for path in SOURCES:
        if path.name.endswith("_pb2.py"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(str(path.relative_to(PACKAGE)))
    assert found
    assert {name: where for name, where in found.items() if len(where) > 1} == {}


# -- rules

#: The rules that are implemented. A rule of a later issue is added when it is done.
RULES = (
    *(f"N{number}" for number in range(1, 9)),
    "N3a",
    *(f"S{number}" for number in range(1, 13)),
    *(f"P{number}" for number in range(1, 8)),
    *(f"R{number}" for number in range(1, 4)),
    "D1",
    "F1",
    "F2",
    "K",
)


def docstrings() -> str:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = (node for path in SOURCES for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    return "\n".join(ast.get_docstring(node) or "" for node in nodes if isinstance(node, documented))


def test_every_rule_is_found_in_the_docstring_of_what_implements_it() -> None:
    text = docstrings()
    assert [rule for rule in RULES if not re.search(rf"\b{rule}\b", text)] == []


def test_every_rule_is_found_in_the_name_of_a_test() -> None:
    tests = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "tests").rglob("test_*.py"))]
    names = re.findall(r"def (test_\w+)\(", "\n".join(tests))
    known = {part for name in names for part in name.split("_")}
    assert [rule for rule in RULES if rule not in known] == []


def test_every_rule_is_found_on_a_page() -> None:
    pages = "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").glob("*.md")))
    assert [rule for rule in RULES if not re.search(rf"\b{rule}\b", pages)] == []


# -- pages and commands


def test_the_changelog_begins_with_this_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (\S+)", text, re.M)
    assert headings[0] == ringwise.__version__


def test_links_between_pages_lead_somewhere() -> None:
    pages = [path for path in project_files() if path.suffix == ".md"]
    broken = []
    seen = 0
    for page in pages:
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8")):
            if re.match(r"[a-z]+:", target):
                continue
            seen += 1
            if not (page.parent / target).exists():
                broken.append(f"{page.relative_to(ROOT)}: {target}")
    assert seen
    assert broken == []


def test_decision_records_are_numbered_without_gaps_and_listed() -> None:
    folder = ROOT / "docs" / "decisions"
    records = sorted(path.name for path in folder.glob("[0-9]*.md"))
    assert [int(name[:4]) for name in records] == list(range(1, len(records) + 1))
    listing = (folder / "README.md").read_text(encoding="utf-8")
    assert [name for name in records if f"]({name})" not in listing] == []
    for name in records:
        text = (folder / name).read_text(encoding="utf-8")
        assert text.startswith(f"# {name[:4]}. "), name


def test_the_readme_shows_the_two_commands_first() -> None:
    top = (ROOT / "README.md").read_text(encoding="utf-8")[:1500]
    assert "make demo" in top
    assert "make test" in top


def test_the_check_before_a_change_goes_in_is_make_test() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    lines = script.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "#!/usr/bin/env bash"
    assert "set -euo pipefail" in lines
    assert "make test" in lines


def test_the_makefile_has_the_promised_targets() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+):", text, re.M))
    assert {"demo", "test", "bench", "lint", "requirements"} <= targets
    assert "tools/set_up.py $(VENV) requirements-dev.txt" in text
    assert '"--require-hashes", "-r", requirements' in (ROOT / "tools" / "set_up.py").read_text(
        encoding="utf-8"
    )


def test_the_licence_is_complete_and_the_one_we_name() -> None:
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert project()["project"]["license"] == "Apache-2.0"
    assert "Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text
