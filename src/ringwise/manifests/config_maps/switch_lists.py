"""Lists of switch and server addresses (CSV or YAML) into a topology.

CSV has a switch and a server per line. YAML has either a list of such rows, or a map of switches to their
servers.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator

import yaml

from ringwise.manifests.config_maps.switches import tor_config_map
from ringwise.manifests.text.errors import ManifestError, invalid
from ringwise.manifests.text.yaml_stream import YamlStream
from ringwise.topology.switches import Server, SwitchTopology, make_topology

#: Allowed headings of the columns of a CSV file, and names of the fields of a YAML row.
SWITCH_NAMES = ("switch", "switch_ip", "tor_ip", "leaf")
SERVER_NAMES = ("server", "server_ip", "node_ip", "address")
SERVERS_NAMES = ("servers", "server")

Row = tuple[str, str]


def topology_from_list(
    text: str, origin: str, nodes_per_switch: int | None = None, *, single_layer: bool = False
) -> SwitchTopology:
    """A topology from a CSV or YAML list. Without `nodes_per_switch` the largest switch gives it."""
    rows = list(_yaml_rows(text, origin) if _is_yaml(text, origin) else _csv_rows(text, origin))
    if not rows:
        raise ManifestError(origin, "", "does not list servers; expected one `switch,server` per line")
    servers: dict[str, list[Server]] = {}
    for switch, address in rows:
        under = servers.setdefault(switch, [])
        under.append(Server(address, len(under), len(under)))
    width = nodes_per_switch or max(len(under) for under in servers.values())
    return make_topology(servers.items(), width, single_layer=single_layer, origin=origin)


def _is_yaml(text: str, origin: str) -> bool:
    name = origin.lower()
    if name.endswith(".csv"):
        return False
    if name.endswith((".yaml", ".yml", ".json")):
        return True
    lines = (line.strip() for line in text.splitlines())
    first = next((line for line in lines if line and not line.startswith("#")), "")
    return first.startswith(("-", "{", "[")) or first.endswith(":")


def _csv_rows(text: str, origin: str) -> Iterator[Row]:
    lines = (line if not line.lstrip().startswith("#") else "" for line in text.lstrip("\ufeff").splitlines())
    columns = (0, 1)
    headed = False
    reader = csv.reader(lines, skipinitialspace=True, strict=True)
    try:
        for cells in reader:
            values = [cell.strip() for cell in cells]
            if not any(values):
                continue
            where = f"line {reader.line_num}"
            if not headed:
                headed = True
                heading = _heading(values, origin, where)
                if heading is not None:
                    columns = heading
                    continue
            if len(values) <= max(columns) or not all(values[column] for column in columns):
                message = invalid(",".join(cells), "must have a switch and a server")
                raise ManifestError(origin, where, message)
            yield values[columns[0]], values[columns[1]]
    except csv.Error as problem:
        raise ManifestError(origin, f"line {reader.line_num}", f"invalid CSV: {problem}") from None


def _heading(values: list[str], origin: str, where: str) -> tuple[int, int] | None:
    """The columns of switch and server, when this line is a heading."""
    words = [value.lower().replace(" ", "_") for value in values]
    switch = next((place for place, word in enumerate(words) if word in SWITCH_NAMES), None)
    server = next((place for place, word in enumerate(words) if word in SERVER_NAMES), None)
    if switch is None and server is None:
        return None
    if switch is None or server is None:
        missing, allowed = ("switch", SWITCH_NAMES) if switch is None else ("server", SERVER_NAMES)
        raise ManifestError(
            origin, where, f"the header does not have the column {missing}; allowed: {', '.join(allowed)}"
        )
    return switch, server


def _yaml_rows(text: str, origin: str) -> Iterator[Row]:
    documents = [one.value for one in YamlStream(origin, text.encode()).values()]
    if len(documents) > 1:
        raise ManifestError(origin, "", f"must be one YAML document, got {len(documents)}")
    value = documents[0] if documents else []
    if isinstance(value, dict) and isinstance(value.get("switches"), (list, dict)):
        value = value["switches"]
    if isinstance(value, dict):
        for switch, servers in value.items():
            yield from _servers_of(_name(switch, origin, "switch"), servers, origin, switch)
    elif isinstance(value, list):
        for place, row in enumerate(value):
            yield from _row(row, origin, f"[{place}]")
    else:
        raise ManifestError(origin, "", invalid(value, "must be a list of rows or a map of switches"))


def _row(row: object, origin: str, field: str) -> Iterator[Row]:
    if not isinstance(row, dict):
        raise ManifestError(origin, field, invalid(row, "must be an object with switch and server"))
    switch = next((row[word] for word in SWITCH_NAMES if word in row), None)
    name = _name(switch, origin, f"{field}.switch")
    servers = next((row[word] for word in (*SERVERS_NAMES, *SERVER_NAMES) if word in row), None)
    yield from _servers_of(
        name, [servers] if isinstance(servers, str) else servers, origin, f"{field}.server"
    )


def _servers_of(switch: str, servers: object, origin: str, field: str) -> Iterator[Row]:
    if not isinstance(servers, list):
        raise ManifestError(origin, field, invalid(servers, "must be a list of server addresses"))
    for place, server in enumerate(servers):
        yield switch, _name(server, origin, f"{field}[{place}]")


def _name(value: object, origin: str, field: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ManifestError(origin, field, invalid(value, "must be a string"))
    return value.strip()


# -- writing


class BlockDumper(yaml.SafeDumper):
    """Long texts as blocks, as a person writes them."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


BlockDumper.add_representer(str, _text)


def render_tor_configmap(topology: SwitchTopology) -> str:
    """The manifest of `basic-tor-node-cm`, ready for `kubectl apply`."""
    return yaml.dump(
        tor_config_map(topology), Dumper=BlockDumper, sort_keys=False, allow_unicode=True, width=1 << 30
    )
