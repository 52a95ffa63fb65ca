"""HyperNodes from labels of nodes in a lab: by the ConfigMap of Volcano's controller, as on a cluster."""

from __future__ import annotations

from pathlib import Path

from ringwise.apps.lab.api import LabServer
from ringwise.state.model import HyperNode
from tests.lab.rig import Terminal, nodes, running

MARK = "ringwise.io/topology-type"


def setting(text: str) -> str:
    body = "\n".join(f"    {line}" for line in text.strip("\n").splitlines())
    return f"""apiVersion: v1
kind: ConfigMap
metadata: {{name: volcano-controller-configmap, namespace: volcano-system}}
data:
  volcano-controller.conf: |
{body}
"""


GOOD = """
networkTopologyDiscovery:
- source: ufm
  enabled: true
- source: label
  enabled: true
  config:
    networkTopologyTypes:
      racks:
      - nodeLabel: example.com/row
      - nodeLabel: example.com/rack
      - nodeLabel: kubernetes.io/hostname
"""


def labeled(name: str, rack: str, row: str = "one") -> str:
    return f"""apiVersion: v1
kind: Node
metadata:
  name: {name}
  labels: {{example.com/rack: {rack}, example.com/row: {row}, accelerator: huawei-Ascend910}}
status:
  allocatable: {{cpu: "8", memory: 16Gi, huawei.com/Ascend910: "8", pods: "110"}}
  conditions: [{{type: Ready, status: "True"}}]
"""


def domains(lab: LabServer) -> dict[str, tuple[str, ...]]:
    found = [one for one in lab.live.cluster.all(HyperNode) if MARK in one.labels]
    value = {one.name: one.labels[one.tier_name] for one in found}
    return {
        value[one.name]: tuple(sorted(value.get(member.name, member.name) for member in one.members))
        for one in found
    }


def test_hyper_nodes_follow_the_labels_of_nodes_also_after_a_restart(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, columns=80)
    with running(tmp_path, nodes(0)) as lab:
        terminal.submit(labeled("n0", "a"), labeled("n1", "a"), labeled("n2", "b"))
        terminal.ok("advance 5s")
        assert domains(lab) == {}
        ran = terminal.run("submit -", setting(GOOD))
        assert "discovery of HyperNodes volcano-controller-configmap created" in ran.stdout
        assert "the source ufm is not supported and has no effect; allowed: label" in ran.stderr
        terminal.ok("advance 5s")
        assert domains(lab) == {"a": ("n0", "n1"), "b": ("n2",), "one": ("a", "b")}
        names = {one.name for one in lab.live.cluster.all(HyperNode)}
    with running(tmp_path, nodes(0)) as lab:
        terminal.ok("advance 5s")
        assert {one.name for one in lab.live.cluster.all(HyperNode)} == names
        terminal.submit(labeled("n1", "b"))
        terminal.ok("advance 5s")
        assert domains(lab) == {"a": ("n0",), "b": ("n1", "n2"), "one": ("a", "b")}
        assert {one.name for one in lab.live.cluster.all(HyperNode)} == names


def test_a_wrong_setting_is_refused_and_the_last_one_stays(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, columns=80)
    with running(tmp_path, nodes(0)) as lab:
        terminal.submit(labeled("n0", "a"), setting(GOOD))
        wrong = terminal.refused("submit -", setting(GOOD.replace("enabled: true", "enabled: maybe")))
        assert "data.volcano-controller.conf: line 3: networkTopologyDiscovery[0].enabled: Inv" in wrong
        assert 'Invalid value: "maybe": must be true or false' in wrong
        terminal.submit(labeled("n1", "a"))
        terminal.ok("advance 5s")
        assert domains(lab) == {"a": ("n0", "n1"), "one": ("a",)}


def test_a_hyper_node_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, columns=80)
    made = """apiVersion: topology.volcano.sh/v1alpha1
kind: HyperNode
metadata: {name: rack}
spec:
  tier: 1
  members: [{type: Node, selector: {exactMatch: {name: a}, regexMatch: {pattern: a}}}]
"""
    with running(tmp_path, nodes(0)):
        wrong = terminal.refused("submit -", made)
        assert "cannot specify more than one selector type, has exactMatch and regexMatch" in wrong
