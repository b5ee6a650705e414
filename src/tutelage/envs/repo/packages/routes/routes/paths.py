"""Ways from one node to another."""

import heapq
from collections import deque


def hops(graph, start):
    """Fewest edges from a node to each node it reaches."""
    found = {start: 0}
    queue = deque([start])
    while queue:
        node = queue.popleft()
        for neighbour in sorted(graph.get(node, {})):
            if neighbour not in found:
                found[neighbour] = found[node] + 1
                queue.append(neighbour)
    return found


def shortest(graph, start, goal):
    """Length and nodes of the shortest way, or None; of equal ones the first in the order of nodes."""
    heap = [(0, [start])]
    done = set()
    while heap:
        length, way = heapq.heappop(heap)
        node = way[-1]
        if node == goal:
            return length, way
        if node in done:
            continue
        done.add(node)
        for neighbour, weight in graph.get(node, {}).items():
            if weight < 0:
                raise ValueError("a weight below 0")
            if neighbour not in done:
                heapq.heappush(heap, (length + weight, way + [neighbour]))
    return None


def all_ways(graph, start, goal, most=None):
    """All ways without a circle, of at most `most` edges."""
    ways = []
    stack = [[start]]
    while stack:
        way = stack.pop()
        if way[-1] == goal:
            ways.append(way)
            continue
        if most is not None and len(way) > most:
            continue
        for neighbour in graph.get(way[-1], {}):
            if neighbour not in way:
                stack.append(way + [neighbour])
    return sorted(ways)


def length_of(graph, way):
    """Sum of the weights along a way, or None if an edge is missing."""
    total = 0
    for index in range(len(way) - 1):
        weight = graph.get(way[index], {}).get(way[index + 1])
        if weight is None:
            return None
        total += weight
    return total


def widest(graph, start, goal):
    """Largest weight that all edges of some way have at least; 0 if there is no way."""
    best = {start: float("inf")}
    heap = [(-best[start], start)]
    while heap:
        width, node = heapq.heappop(heap)
        if node == goal:
            return -width
        for neighbour, weight in graph.get(node, {}).items():
            wide = min(-width, weight)
            if wide > best.get(neighbour, 0):
                best[neighbour] = wide
                heapq.heappush(heap, (-wide, neighbour))
    return 0
