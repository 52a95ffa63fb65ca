"""`docs/schemas.md`: the documents that commands print with `-o json`, from the table of their schemas."""

from __future__ import annotations

from ringwise.views.schemas import DOCUMENTS, PRINT_KUBERNETES_OBJECTS, find_kind, schema_text
from ringwise.views.version1 import CHANGES

_INTRODUCTION = """\
# JSON documents

Every document that a command prints with `-o json`, and every one that the
[dashboard's API](dashboard.md) answers with, names its schema in the field `schema`, like
`ringwise.io/place/v1`; with `-o yaml` it has the same fields. The JSON schemas (draft 2020-12) are part of
the package, and `ringwise schema NAME` prints one.

Fields may be added under the same version, so a reader must pass over fields that it does not know. To remove
or rename a field, or to change its type, needs a new version and a line in the changelog. Texts (`message`,
`sentence`, `cures`, `what`) are for people and may be worded differently in any version; programs read the
codes. This page is made from the code (`make docs`).

| name | schema | printed by, or the answer to | contains |
|---|---|---|---|
"""

_EXAMPLE = """
## A schema

```
$ ringwise schema advance
{text}```
"""

_KUBERNETES = """
Commands that print Kubernetes objects add no field: `apiVersion` and `kind` say what these are. They are
{commands}.
"""


_VERSIONS = """
## Version 2 and version 1

These documents have a version 2: {documents}. All others have only version 1. With `--schema-version 1` a
command prints version 1, and with `?schema-version=1` the HTTP APIs of dashboard and lab answer with it; both
stay for one release. `ringwise schema ringwise.io/nodes/v1` prints the old schema.

In version 2 a node has a list of states, and a chip counts in the first that applies of used, faulty,
isolated, reserved, closed and free; free means that a new pod may have it now. The sum of the six is the
number of chips. Version 1 is made from version 2. `kubectl ringwise get jobs` and `get nodes` had documents
of their own, `live-jobs` and `live-nodes`, and print them with `--schema-version 1`; without it they print
the same as `ringwise get` does for a lab:

| documents | version 2 | version 1 |
|---|---|---|
{rows}
"""

_MAPPED = (
    ("`node`, `nodes`, `top`", "`states` has no `not ready`", "`ready` is true"),
    ("", "`states` has `cordoned`", "`cordoned` is true"),
    (
        "",
        "`why` of the worst state that keeps pods away and is none of these two",
        "`closed` of the chips, or null",
    ),
    ("", "`used`", "`held`"),
    ("", "`free` and `closed`", "`free`: also on nodes that take no pods"),
    (
        "",
        "`marks`: chips with a property, in whatever state they count",
        "`faulty`, `pre_separated`, `network_faulty`, `reserved` and `isolated`",
    ),
    ("", "`own_superpod`; `superpod` counts device reports, too", "`superpod`"),
    ("", "`open`, `state`, `states`, `rack`, `numbers`, `chip_states`, `health`", "not there"),
    (
        "`top`",
        "`status.resources`: chips by resource",
        "`status.chips`, `status.held`: `used` of all resources",
    ),
    ("", "`share` of a queue", "not there"),
    ("", "`marks.faulty` of all nodes", "`status.faulty`: also chips that pods hold"),
    ("`capacity`", "`used`", "`held`"),
    ("", "`faulty` and `isolated`", "`faulty`: their sum"),
    ("", "`before_drain`, `drains`", "not there"),
    ("`chips`", "`faulty`", "`unhealthy`"),
    ("", "`reserved`, `closed`", "`free`"),
    ("`nodes` of a cluster", "one entry for a node", "`live-nodes`: a row for each resource of a node"),
    ("", "`count`; `used`; `free` and `closed`", "`chips`; `held`; `free`"),
    ("`jobs` of a cluster", "`outcome` `placed`", "`state` of `live-jobs`: `running` or `starting`"),
    ("", "`ended` jobs", "not there"),
    (
        "`dashboard`, `dashboard-change`, `dashboard-node`",
        "`state` of a node: the words of `nodes` documents",
        "`not-ready`, `isolated`, `unschedulable` where it takes no pods, or `ready`",
    ),
    ("", "`open`, `states`, `chip_states` of a node", "not there; `why` is that of the worst state"),
    ("", "`switch`, `superpod`, `rack`: null, or a number", "texts, empty where there is none"),
    (
        "",
        "`totals.resources`: chips by resource",
        "in `totals`, added up, without `reserved`, `closed`, `before_drain`",
    ),
    ("", "`share`, `used`, `capability` of a queue, by resource", "added up; null without a limit"),
    ("", "`resource` of a board", "not there"),
    ("`dashboard`, `dashboard-change`, `dashboard-job`", "`created` of a job", "`since`, in RFC 3339"),
    ("", "`reason_code`, `reason_text`", "`reason`, `message`"),
    ("", "`hurt_by`", "`hurt`, of `dashboard-job` only"),
    ("`series`", "`resources`: chips by resource", "`used`, `free` and `fragmentation` of all chips"),
    (
        "`why`",
        "`expected_start` of the kind `known` with one time",
        "`starts` and `time`; every other one is null",
    ),
    ("`dashboard-node`", "`code` of a reason: a state", "`node-cordoned`, `drain-ahead` or `note`"),
)


def _versions() -> str:
    names = [f"`{schema.split('/')[1]}`" for schema in CHANGES]
    rows = "\n".join(f"| {' | '.join(row)} |" for row in _MAPPED)
    return _VERSIONS.format(documents=", ".join(names), rows=rows)


def schemas_page() -> str:
    """The whole of `docs/schemas.md`."""
    rows = [
        f"| {kind.name} | `{kind.schema}` "
        f"| {', '.join(f'`{one}`' for one in (*kind.commands, *kind.requests))} | {kind.summary} |\n"
        for kind in DOCUMENTS
    ]
    commands = " and ".join(f"`{command}`" for command in PRINT_KUBERNETES_OBJECTS)
    example = _EXAMPLE.format(text=schema_text(find_kind("advance")))
    return _INTRODUCTION + "".join(rows) + _KUBERNETES.format(commands=commands) + _versions() + example
