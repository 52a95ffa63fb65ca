"""What must hold for the sources: imports, layers, the pure core, names and rules."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from typing import TypeGuard

import pytest

from ringwise import wellknown
from ringwise.plugins import PLUGINS
from ringwise_bench.docs.rules_reference import RULES, rule_files, rule_tests
from tests.checkout import (
    ALL_SOURCES,
    PACKAGE,
    ROOT,
    SOURCES,
    nodes_in,
    nodes_of,
    project,
    source_name,
    tree_of,
)

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


# -- imports


@cache
def imports() -> dict[str, set[str]]:
    """Module -> the modules of both packages it imports, also those only for types or inside functions."""
    modules = {}
    for path in ALL_SOURCES:
        name = source_name(path).removesuffix(".py").replace("/", ".")
        modules[name.removesuffix(".__init__")] = path
    found: dict[str, set[str]] = {}
    for name, path in modules.items():
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        found[name] = set()
        for node in nodes_of(path):
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
        source_name(path)
        for path in ALL_SOURCES
        for node in nodes_of(path)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Scheduler"
    ]
    assert makers == ["ringwise/apps/extensions.py"]


def test_no_two_modules_import_each_other_in_a_circle() -> None:
    assert circles(imports()) == []


def test_what_users_run_does_not_import_the_package_of_the_benchmarks() -> None:
    """The contract of `make lint`, also for imports by name: the command finds it by its entry point."""
    contracts = project()["tool"]["importlinter"]["contracts"]
    assert {"source_modules": ["ringwise"], "forbidden_modules": ["ringwise_bench"]}.items() <= next(
        one for one in contracts if "ringwise_bench" in one.get("forbidden_modules", ())
    ).items()
    naming = [source_name(path) for path in SOURCES if "ringwise_bench" in path.read_text(encoding="utf-8")]
    assert naming == []


def string_constants(source: str) -> set[str]:
    return {
        node.value
        for node in nodes_in(source)
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
    for node in nodes_in(source):
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
    for node in nodes_in(source):
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


def test_sources_say_what_they_are_for() -> None:
    assert ALL_SOURCES
    silent = []
    for path in ALL_SOURCES:
        text = path.read_text(encoding="utf-8")
        if text.strip() and ast.get_docstring(tree_of(text)) is None:
            silent.append(str(path.relative_to(ROOT)))
    assert silent == []


# -- well-known names


def is_docstring(node: ast.AST) -> TypeGuard[ast.Expr]:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def names_spelled_in(source: str) -> list[str]:
    """Well-known names that stand in the source as strings, or as the beginning of an f-string.

    A sentence that mentions a name is not a finding: it has more words. Neither is the name of a document's
    schema: the type checker compares it with the type of the document.
    """
    names = {value for name, value in vars(wellknown).items() if name.isupper() and isinstance(value, str)}
    prefixes = tuple(name for name in names if name.endswith("/"))
    nodes = nodes_in(source)
    docstrings = {id(node.value) for node in nodes if is_docstring(node)}
    found = []
    for node in nodes:
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
        ('fix("remove the annotation huawei.com/schedule_policy")', False),
        ('CODE = "sp-block-not-a-number"', False),
        ('def f():\n    "tor-affinity"', False),
    ],
)
def test_the_search_for_well_known_names_finds_them(source: str, finds: bool) -> None:
    assert bool(names_spelled_in(source)) is finds


def test_well_known_names_are_spelled_in_their_file_only() -> None:
    found = {
        source_name(path): spelled
        for path in ALL_SOURCES
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


# -- one truth

#: What the scheduler knows of nodes beside their states: whoever shows a node may read it.
SHOWN_OF_CLUSTERS = frozenset(
    {
        "amounts",
        "available_chips",
        "closed",
        "failed_vnpus",
        "modes",
        *("names", "node_id", "nodes", "node_count", "existing_nodes", "pods", "pods_on", "position_of"),
        # The entries of operators as they wrote them; whether a node or chip is isolated is a state.
        *("isolations", "isolation_problems", "isolations_of", "node_reservations", "not_served"),
        # What a driver measures: no state follows from it.
        "utilization_of",
        # Which nodes have the same one.
        "addresses",
    }
)
#: What the states of nodes and chips are made of: `scheduler/node_states.py` reads it, with what decides.
FACTS_OF_CLUSTERS = frozenset(
    {
        *("fleets", "reports", "report_of", "node_reports", "left_chips", "node_status", "sub_healthy"),
        *("isolated_nodes", "node_windows"),
    }
)
#: Of nodes and jobs, for the same reason: their states say it.
FACTS_OF_OBJECTS = frozenset({"ready", "unschedulable", "waiting_since"})
#: Functions of `node_states` that give or take a table of chips.
WITH_TABLES = frozenset({"offered", "chip_states"})
SHOWING = (
    "cli",
    "views",
    "metrics",
    "web",
    "apps/lab",
    "apps/sources",
    "apps/web",
    "kube/run",
)
#: (file, fact) -> why it is not a state of a node or job that is shown.
OTHER_MEANINGS = {
    ("apps/lab/faults.py", "ready"): "the faults that the lab makes are read from its own objects",
    ("apps/lab/lab.py", "reports"): "objects that are submitted",
    ("apps/web/kube.py", "ready"): "of the process",
    ("kube/run/runner.py", "ready"): "of the process",
    ("kube/run/core_thread.py", "waiting_since"): "jobs in the pending queue by reason, as their metric says",
    ("views/dashboard_nodes.py", "reports"): "the resources that chips of a node may have, for its board",
    ("views/history.py", "waiting_since"): "of a story",
}


def facts_read_in(source: str) -> set[str]:
    found: set[str] = set()
    for node in nodes_in(source):
        if isinstance(node, ast.Attribute) and node.attr in FACTS_OF_CLUSTERS | FACTS_OF_OBJECTS:
            found.add(node.attr)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").endswith("scheduler.node_states"):
            found |= {alias.name for alias in node.names} & WITH_TABLES
    return found


def test_the_search_for_facts_finds_them() -> None:
    source = (
        "from ringwise.scheduler.node_states import offered, is_open\nx = state.fleets[a].free\ny = node.name"
    )
    assert facts_read_in(source) == {"offered", "fleets"}


def read_of_clusters(source: str) -> set[str]:
    """What a module reads of `view.cluster`, also by a variable."""

    def is_cluster(node: ast.expr) -> bool:
        return (
            isinstance(node, ast.Attribute)
            and node.attr == "cluster"
            and ast.unparse(node.value).endswith("view")
        )

    variables: set[str] = set()
    for node in nodes_in(source):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                names, values = [target], [node.value]
                if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    names, values = target.elts, node.value.elts
                variables |= {
                    ast.unparse(name) for name, value in zip(names, values, strict=True) if is_cluster(value)
                }
    return {
        node.attr
        for node in nodes_in(source)
        if isinstance(node, ast.Attribute)
        and (is_cluster(node.value) or (isinstance(node.value, ast.Name) and node.value.id in variables))
    }


def test_the_search_for_what_is_read_of_clusters_finds_it() -> None:
    source = "state, x = self.view.cluster, 1\nstate.put_node(x)\nlive.view.cluster.pods\nlive.cluster.step()"
    assert read_of_clusters(source) == {"put_node", "pods"}


def test_only_the_scheduler_changes_the_state() -> None:
    """Outside it, what is read of the view's cluster is a fact or shown: nothing that changes it."""
    assert not SHOWN_OF_CLUSTERS & FACTS_OF_CLUSTERS
    read: set[str] = set()
    for path in SOURCES:
        if path.relative_to(PACKAGE).parts[0] != "scheduler":
            read |= read_of_clusters(path.read_text(encoding="utf-8"))
    assert read <= SHOWN_OF_CLUSTERS | FACTS_OF_CLUSTERS
    assert {"names", "pods"} <= read


def test_what_shows_nodes_chips_and_jobs_asks_for_their_states() -> None:
    """Tables, drawings, documents, metrics and dashboard have no second idea of a state."""
    found: set[tuple[str, str]] = set()
    for path in SOURCES:
        name = path.relative_to(PACKAGE).as_posix()
        if name.startswith(SHOWING):
            found |= {(name, fact) for fact in facts_read_in(path.read_text(encoding="utf-8"))}
    assert found == set(OTHER_MEANINGS)


def test_states_have_an_import_contract() -> None:
    (contract,) = (
        one for one in project()["tool"]["importlinter"]["contracts"] if one["name"].startswith("States: ")
    )
    packages = {f"ringwise.{one.replace('/', '.')}" for one in SHOWING}
    assert set(contract["source_modules"]) == packages - {"ringwise.kube.run"}
    assert {"ringwise.state.cluster", "ringwise.state.fleet"} <= set(contract["forbidden_modules"])


# -- names of classes


def test_no_two_classes_have_the_same_name() -> None:
    """A name means one thing. Private classes are seen in their module only, generated ones have packages."""
    found: dict[str, list[str]] = {}
    for path in ALL_SOURCES:
        if path.name.endswith("_pb2.py"):
            continue
        for node in nodes_of(path):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(source_name(path))
    assert found
    assert {name: where for name, where in found.items() if len(where) > 1} == {}


# -- rules


def implemented() -> list[str]:
    """Parts of chips (V): a rule is listed when the first file names it."""
    return [rule for rule in RULES if not rule.startswith("V") or rule_files()[rule]]


def test_every_rule_is_found_in_the_docstring_of_what_implements_it() -> None:
    assert [rule for rule in implemented() if not rule_files()[rule]] == []


def test_every_rule_is_found_in_the_name_of_a_test() -> None:
    assert [rule for rule in implemented() if not rule_tests()[rule]] == []


#: A rule of the law as a page may write it. Generations of hardware (A2, A3, A5) look alike.
RULE_NUMBER = re.compile(r"\b(?:N3a|[NSPRDF][1-9]|S1[0-3]|M[12])\b")


def test_rules_are_on_the_page_of_rules_and_on_no_page_for_users() -> None:
    pages = {
        str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
        for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    }
    rules = pages["docs/develop/rules.md"]
    assert [rule for rule in implemented() if f"| {rule} |" not in rules] == []
    assert {
        name: found
        for name, text in pages.items()
        if not name.startswith("docs/develop/") and (found := RULE_NUMBER.findall(text))
    } == {}


def builders_in(source: str) -> dict[str, str]:
    """The functions of a module, with what they return."""
    functions = [one for one in tree_of(source).body if isinstance(one, ast.FunctionDef)]
    return {one.name: ast.unparse(one.returns) for one in functions if one.returns is not None}


def test_values_of_the_core_are_built_in_one_place() -> None:
    shared = builders_in((ROOT / "tests/builders/values.py").read_text(encoding="utf-8"))
    # All tests are more than all sources: few of them have a function of such a name at all.
    named = re.compile(rf"^def (?:{'|'.join(shared)})\(", re.MULTILINE)
    tests = {
        str(path): source
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        if named.search(source := path.read_text(encoding="utf-8"))
    }
    assert tests
    assert [name for name, source in tests.items() if shared.items() & builders_in(source).items()] == []


def test_durations_are_written_in_one_place() -> None:
    """`{seconds} s`, `counted(n, "minute")` and the like would be another format than `duration_text`."""
    own = re.compile(
        r"\}\s(?:s|min|h|d)\b|\btimedelta\b.*\bstr\b|counted\(.*['\"](?:second|minute|hour|day)['\"]"
    )
    lines = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in SOURCES
        for line in path.read_text(encoding="utf-8").splitlines()
        if own.search(line) and not line.lstrip().startswith("#")
    ]
    assert lines == []
