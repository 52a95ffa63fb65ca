"""Reads the text of the ConfigMap `ringwise-limits`, or all errors in it, like the configuration.

namespaces:
  team-a: {max-chips: 64, burst-chips: 16}
  "*": {max-running-jobs: 20}
"""

from __future__ import annotations

import yaml

from ringwise.framework.arguments import quoted
from ringwise.manifests.settings.configuration_text import MapReader, noun, open_text
from ringwise.state.limits import ANY_NAMESPACE, BURST, CHIPS, NAMES, NUMBER_TEXT, Limits, NamespaceLimits
from ringwise.topology.nearest import did_you_mean
from ringwise.topology.numbers import INT32, whole_number

TOP_KEY = "namespaces"
#: What a namespace's name may be, as Kubernetes has it.
_LONGEST_NAME = 63
_TEXT_TAG = "tag:yaml.org,2002:str"


def read_limits(text: bytes | str, origin: str, first_line: int = 1) -> NamespaceLimits:
    """Raises `ConfigurationError` with all errors."""
    document = open_text(text, origin, "limits of namespaces", f"the key {TOP_KEY}", first_line)
    return NamespaceLimits() if document is None else _Reader(document).limits()


class _Reader(MapReader):
    def limits(self) -> NamespaceLimits:
        found: dict[str, Limits] = {}
        for key, node, value in self.entries(self.document.root, ""):
            if key != TOP_KEY:
                near = did_you_mean(key[:60], (TOP_KEY,))
                self.wrong(node, "", f"unknown key {quoted(key)}{near}; allowed: {TOP_KEY}")
                continue
            for namespace, name_node, entry in self.entries(value, TOP_KEY):
                place = f"{TOP_KEY}.{namespace[:_LONGEST_NAME]}"
                if not _is_name(namespace):
                    allowed = f'a name of up to 63 letters a-z, digits and "-", or "{ANY_NAMESPACE}"'
                    self.wrong(name_node, place, f"is no namespace; allowed: {allowed}")
                    continue
                found[namespace] = self._limits_of(entry, place, name_node)
        self.stop_if_wrong()
        return NamespaceLimits(found)

    def _limits_of(self, node: yaml.Node, place: str, name_node: yaml.Node) -> Limits:
        numbers: dict[str, int] = {}
        for name, key, value in self.entries(node, place):
            if name not in NAMES:
                near = did_you_mean(name[:60], NAMES)
                self.wrong(key, place, f"unknown limit {quoted(name)}{near}; allowed: {', '.join(NAMES)}")
                continue
            written = str(value.value) if isinstance(value, yaml.ScalarNode) else ""
            number = whole_number(written, 0, INT32)
            if number is None or value.tag == _TEXT_TAG:
                self.wrong(value, f"{place}.{name}", f"is {noun(value)}; allowed: {NUMBER_TEXT}")
            else:
                numbers[name] = number
        if BURST in numbers and CHIPS not in numbers and not self.problems:
            self.wrong(name_node, place, f"has {BURST} without {CHIPS}; allowed: both, or {CHIPS} alone")
        return Limits.named(numbers)


def _is_name(text: str) -> bool:
    plain = text.replace("-", "a")
    return text == ANY_NAMESPACE or (
        0 < len(text) <= _LONGEST_NAME
        and plain.isascii()
        and plain.isalnum()
        and plain == plain.lower()
        and not text.startswith("-")
        and not text.endswith("-")
    )
