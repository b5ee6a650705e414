"""What comes before what."""


class Circle(Exception):
    """The graph has a circle where none may be."""


def nodes_of(graph):
    """All nodes, sorted, also those without edges of their own."""
    nodes = set(graph)
    for neighbours in graph.values():
        nodes.update(neighbours)
    return sorted(nodes)


def indegrees(graph):
    counts = {node: 0 for node in nodes_of(graph)}
    for neighbours in graph.values():
        for node in neighbours:
            counts[node] += 1
    return counts


def sort(graph):
    """Every node after those that point to it; the smallest first where there is a choice."""
    counts = indegrees(graph)
    ready = sorted(node for node, count in counts.items() if count == 0)
    ordered = []
    while ready:
        node = ready.pop(0)
        ordered.append(node)
        for neighbour in graph.get(node, {}):
            counts[neighbour] -= 1
            if counts[neighbour] == 0:
                ready.append(neighbour)
                ready.sort()
    if len(ordered) < len(counts):
        raise Circle
    return ordered


def levels(graph):
    """Length of the longest chain that leads to each node."""
    level = {node: 0 for node in nodes_of(graph)}
    for node in sort(graph):
        for neighbour in graph.get(node, {}):
            level[neighbour] = max(level[neighbour], level[node] + 1)
    return level


def finish_times(graph, durations, workers=None):
    """When each task ends if it starts as soon as those before it have ended."""
    ends = {}
    for node in sort(graph):
        before = [ends[other] for other in ends if node in graph.get(other, {})]
        ends[node] = max(before, default=0) + durations.get(node, 1)
    return ends


def critical_path(graph, durations):
    """A chain of tasks that nothing can make shorter, from first to last."""
    ends = finish_times(graph, durations)
    if not ends:
        return []
    node = min(ends, key=lambda name: (-ends[name], name))
    chain = [node]
    while True:
        start = ends[node] - durations.get(node, 1)
        before = sorted(other for other in ends if node in graph.get(other, {}) and ends[other] == start)
        if not before:
            return chain[::-1]
        node = before[0]
        chain.append(node)
