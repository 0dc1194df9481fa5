"""Breadth-first distances from many sources at once, 64 of them in a word, and means over edges."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]
Floats = NDArray[np.float32]

BEYOND = 6  # what stands for a distance of more than 5
FURTHEST = 5
_WORD = 64


@dataclass(frozen=True, slots=True)
class Incoming:
    """Messages sorted by the node that gets them: `sender` and `edge` of each, whether it goes
    `against` the edge, and where those of each `receiver` (a node with any) begin."""

    sender: Indices
    edge: Indices
    against: NDArray[np.bool_]
    receiver: Indices
    starts: Indices
    counts: Indices
    nodes: int

    def mean(self, messages: Floats) -> Floats:
        """(messages, width) in the order of this -> (nodes, width); 0 where none comes in."""
        result = np.zeros((self.nodes, messages.shape[1]), np.float32)
        if len(messages):
            sums = np.add.reduceat(messages, self.starts, axis=0)
            result[self.receiver] = sums / self.counts[:, None].astype(np.float32)
        return result


def both_ways(head: Indices, tail: Indices, nodes: int) -> Incoming:
    """Every edge as a message from its head and one from its tail."""
    count = len(head)
    sender, receiver = np.concatenate([head, tail]), np.concatenate([tail, head])
    order = np.argsort(receiver, kind="stable")
    receivers, starts, counts = np.unique(receiver[order], return_index=True, return_counts=True)
    return Incoming(
        sender[order], order % max(count, 1), order >= count, receivers, starts, counts, nodes
    )


def distances(around: Incoming, sources: Indices) -> NDArray[np.int8]:
    """(sources, nodes): hops along edges in either direction, 6 beyond 5."""
    found = np.zeros((len(sources), around.nodes), np.int8)
    words = -(-len(sources) // _WORD)
    reached = np.zeros((around.nodes, words), "<u8")
    place = np.arange(len(sources), dtype=np.uint64)
    bits = np.left_shift(np.uint64(1), place % np.uint64(_WORD))
    np.bitwise_or.at(reached, (sources, (place // np.uint64(_WORD)).astype(np.int64)), bits)
    for _ in range(BEYOND):
        octets = reached.view(np.uint8).reshape(around.nodes, -1)
        within = np.unpackbits(octets, axis=1, count=len(sources), bitorder="little")
        found += (within == 0).T
        if len(around.sender):
            near = np.bitwise_or.reduceat(reached[around.sender], around.starts, axis=0)
            reached = reached.copy()
            reached[around.receiver] |= near
    return found


def mean_over(values: Floats, sender: Indices, receiver: Indices) -> Floats:
    """Mean of the senders' values at each node; 0 where no edge comes in."""
    nodes = len(values)
    sums = np.bincount(receiver, weights=values[sender], minlength=nodes)
    counts = np.bincount(receiver, minlength=nodes)
    return (sums / np.maximum(counts, 1)).astype(np.float32)
