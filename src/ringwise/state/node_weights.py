"""A whole number for each node, and the nodes with the highest one, without looking at single nodes.

The numbers are kept in binary: one set of nodes (`node_labels`) for each binary digit, the nodes whose number
has that digit. A weight is added to all nodes of a set at once, digit by digit with carry, and the highest
number is found from the first digit to the last: both take as many operations on sets as there are digits.

    n0: 5   n1: 4   n2: 1        digits: 1 -> {n0, n2}   2 -> {}   4 -> {n0, n1}
"""

from __future__ import annotations

from ringwise.state.node_labels import members_of

#: So many nodes whose number changed are forgotten one by one.
_FEW = 64


class NodeWeights:
    """0 for every node at first."""

    __slots__ = ("_digits", "_nodes", "_offset", "_weights")

    def __init__(self, nodes: int) -> None:
        #: All nodes that are asked for.
        self._nodes = nodes
        self._digits: list[int] = []
        #: What is to be added to every number: those in digits are never negative.
        self._offset = 0
        self._weights: dict[int, int] = {}

    @property
    def digits(self) -> int:
        """How many operations on sets a question takes."""
        return len(self._digits)

    def add(self, weight: int, nodes: int) -> None:
        """Add a weight to the numbers of these nodes."""
        if len(self._weights) and nodes.bit_count() <= _FEW:
            for node in members_of(nodes):
                self._weights.pop(node, None)
        else:
            self._weights.clear()
        if weight < 0:
            # The same as adding to all others what these lose.
            self._offset += weight
            weight, nodes = -weight, self._nodes & ~nodes
        digits = self._digits
        for first in range(weight.bit_length()):
            place, carry = first, nodes if weight >> first & 1 else 0
            while carry:
                if place >= len(digits):
                    digits += [0] * (place + 1 - len(digits))
                digits[place], carry = digits[place] ^ carry, digits[place] & carry
                place += 1

    def add_times(self, weight: int, other: NodeWeights) -> None:
        """Add to each number a weight times the other number of the node."""
        self.add(weight * other._offset, self._nodes)
        for place, having in enumerate(other._digits):
            self.add(weight << place, having)

    def of(self, node: int) -> int:
        weight = self._weights.get(node)
        if weight is None:
            weight = self._offset
            for place, having in enumerate(self._digits):
                weight += (having >> node & 1) << place
            self._weights[node] = weight
        return weight

    def total(self, nodes: int) -> int:
        """The sum of the numbers of these nodes."""
        total = self._offset * nodes.bit_count() if self._offset else 0
        for place, having in enumerate(self._digits):
            total += (having & nodes).bit_count() << place
        return total

    def highest(self, nodes: int) -> tuple[int, int]:
        """The highest number among these nodes (at least one), and those that have it."""
        number = 0
        for having in reversed(self._digits):
            number <<= 1
            heavier = nodes & having
            if heavier:
                nodes, number = heavier, number + 1
        return number + self._offset, nodes

    def lowest(self, nodes: int) -> int:
        number = 0
        for having in reversed(self._digits):
            number <<= 1
            lighter = nodes & ~having
            if lighter:
                nodes = lighter
            else:
                number += 1
        return number + self._offset

    def split(self, nodes: int) -> tuple[int, int] | None:
        """The nodes with the higher and with the lower numbers; None where all have the same."""
        for having in reversed(self._digits):
            heavier = nodes & having
            if heavier and heavier != nodes:
                return heavier, nodes & ~having
        return None
