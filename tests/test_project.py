"""What must hold for the project itself: its files, its pins, the libraries of its page, its pages."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import ringwise
from tests.checkout import BENCH, PACKAGE, ROOT, project

# Written in pieces, so that this file does not find itself.
# The folder of a container's ssh keys is the same everywhere: it says nothing about a machine.
MACHINE_PATH = re.compile(r"(?<![\w.:/-])/(?:work|root|home|Users)" + r"/(?!\.ssh\b)[\w.-]")
REGISTRY_HOST = re.compile(
    r"\bpypi" + r"\.org|python" + r"hosted|registry" + r"\.npmjs|/simple" + r"/\s*$", re.M
)
UNFINISHED = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")


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
        # The bytes of a picture are not text, and may look like anything.
        if is_vendored(path) or path.suffix == ".png":
            continue
        text = path.read_bytes().decode("utf-8", errors="replace")
        # Most files have none: they are searched as a whole, not line by line.
        if pattern.search(text) and (lines := findings(pattern, text)):
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


def test_no_page_of_a_guide_is_long() -> None:
    lines = {
        path.name: len(path.read_text("utf-8").splitlines()) for path in (ROOT / "docs/guides").iterdir()
    }
    assert {name: count for name, count in lines.items() if count > 250} == {}
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 100


def test_the_list_of_pages_has_every_page() -> None:
    listing = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    pages = [
        str(path.relative_to(ROOT / "docs"))
        for path in sorted((ROOT / "docs").glob("*/*.md"))
        if path.parent.name != "runbooks"
    ]
    assert [name for name in pages if f"({name}" not in listing] == []


def anchors(text: str) -> set[str]:
    """The anchors of the headings of a page, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", text, re.M)
    plain = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain}


def test_links_to_headings_lead_to_a_heading() -> None:
    broken = []
    for page in (path for path in project_files() if path.suffix == ".md"):
        text = page.read_text(encoding="utf-8")
        for target, anchor in re.findall(r"\]\(([^)#\s]*)#([^)\s]+)\)", text):
            if re.match(r"[a-z]+:", target):
                continue
            of = (page.parent / target) if target else page
            if of.suffix == ".md" and anchor not in anchors(of.read_text(encoding="utf-8")):
                broken.append(f"{page.relative_to(ROOT)}: {target}#{anchor}")
    assert broken == []


#: Pages for developers name files from one of these.
NAMED_FROM = (ROOT, PACKAGE.parent, PACKAGE, BENCH.parent)
#: Files that a page lets its reader write.
OF_READERS = {"ringwise_reserved_nodes.py"}


def missing_paths(text: str) -> list[str]:
    """Files and folders named in backticks that do not exist; a file without a folder may be in any.

    A word with a slash is a path if it ends as a file does or begins with a folder; names of labels do not.
    """
    names = {path.name for path in project_files()} | OF_READERS
    found = []
    text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    for word in (word for quoted in re.findall(r"`([^`]+)`", text) for word in quoted.split()):
        is_file = re.fullmatch(r"[\w./-]+\.(?:py|js|md|toml|json|yaml|txt)", word) is not None
        if "NAME" in word or not re.fullmatch(r"[\w./-]+", word):
            continue
        if "/" not in word:
            there = not is_file or word in names
        else:
            top = word.partition("/")[0]
            is_path = is_file or any((base / top).is_dir() for base in NAMED_FROM)
            there = not is_path or any((base / word).exists() for base in NAMED_FROM)
        if not there:
            found.append(word)
    return found


def test_the_search_for_paths_finds_what_is_not_there() -> None:
    text = "`state/model.py`, `bench/`, `model.py`, `huawei.com/npu`, `pytest tests/web`, `plugins/NAME.py`"
    assert missing_paths(text) == []
    assert missing_paths(
        "`state/modell.py` `placement/rule/` `modell.py` `pytest tests/wob` `kuube/x.py`"
    ) == [
        *("state/modell.py", "placement/rule/", "modell.py", "tests/wob", "kuube/x.py"),
    ]


def test_files_and_folders_that_pages_for_developers_name_exist() -> None:
    pages = [ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs" / "develop").rglob("*.md"))]
    missing = {page.name: missing_paths(page.read_text(encoding="utf-8")) for page in pages}
    assert {name: found for name, found in missing.items() if found} == {}


def test_the_page_of_the_architecture_shows_the_layers_that_are_checked() -> None:
    text = (ROOT / "docs" / "develop" / "architecture.md").read_text(encoding="utf-8")
    layers = project()["tool"]["importlinter"]["contracts"][0]["layers"]
    shown = [re.sub(r"[()]", "", layer) for layer in layers]
    assert "```\n" + "\n".join(shown) + "\n```" in text
    packages = {name for layer in shown for name in layer.split(" | ")}
    table = text.partition("| package |")[2].partition("\n\n")[0]
    first_cells = re.findall(r"^\| (`[^|]*`) \|", table, re.M)
    assert sorted(re.findall(r"`(\w+)`", " ".join(first_cells))) == sorted(packages)


def test_decision_records_are_numbered_without_gaps_and_listed() -> None:
    folder = ROOT / "docs" / "develop" / "decisions"
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
    assert "HYPOTHESIS_PROFILE=full make test" in lines


def test_the_makefile_has_the_promised_targets() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+):", text, re.M))
    assert {"demo", "test", "bench", "lint", "requirements"} <= targets
    assert '"--require-hashes", *(f"-r{name}"' in (ROOT / "tools" / "set_up.py").read_text(encoding="utf-8")


#: Stands for tools/set_up.py: notes what is asked for, and makes the program that the demo starts.
NOTES = """
import pathlib, sys
print("set up", *sys.argv[2:])
program = pathlib.Path(sys.argv[1], "bin", "ringwise")
program.parent.mkdir(parents=True, exist_ok=True)
program.write_text("#!/bin/sh\\necho ringwise $@\\n")
program.chmod(0o755)
"""
USERS = "set up -r requirements.txt -r requirements-build.txt -e ."
DEVELOPERS = "set up -r requirements-dev.txt -e ./bench"


@pytest.mark.parametrize("first", ["demo", "setup"])
def test_the_demo_installs_what_users_run_and_setup_the_rest(first: str, tmp_path: Path) -> None:
    """In any order, and once: a target that is made again installs nothing."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "bench").mkdir()
    (tmp_path / "tools" / "set_up.py").write_text(NOTES)
    for name in (
        *("Makefile", "pyproject.toml", "bench/pyproject.toml"),
        *("requirements.txt", "requirements-build.txt", "requirements-dev.txt"),
    ):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())

    def make(target: str) -> list[str]:
        command = ["make", "--no-print-directory", f"PYTHON={sys.executable}", target]
        environment = {"PATH": os.environ["PATH"]}
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
        )
        return [line for line in done.stdout.splitlines() if not line.startswith("make:")]

    demo = "ringwise demo"
    if first == "demo":
        assert make("demo") == [USERS, demo]
        assert make("demo") == [demo]
        assert make("setup") == [DEVELOPERS]
    else:
        assert make("setup") == [USERS, DEVELOPERS]
    assert make("setup") == []
    assert make("demo") == [demo]


def test_the_license_is_complete_and_the_one_we_name() -> None:
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert project()["project"]["license"] == "Apache-2.0"
    assert "Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text
