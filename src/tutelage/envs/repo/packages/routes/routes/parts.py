"""Parts of a graph; edges count in both directions where it says so."""


def both_ways(graph):
    result = {}
    for node, neighbours in graph.items():
        result.setdefault(node, {})
        for other, weight in neighbours.items():
            result[node][other] = weight
            result.setdefault(other, {})[node] = weight
    return result


def components(graph):
    """Sets of nodes that hang together, edges in both directions, as sorted lists."""
    links = both_ways(graph)
    seen = set()
    parts = []
    for start in sorted(links):
        if start in seen:
            continue
        stack = [start]
        part = []
        while stack:
            node = stack.pop()
            if node in seen:
                continue
            seen.add(node)
            part.append(node)
            stack.extend(links[node])
        parts.append(sorted(part))
    return parts


def has_circle(graph):
    """Whether some way along the edges comes back to its start."""
    state = {}

    def visit(node):
        if state.get(node) == 1:
            return True
        if state.get(node) == 2:
            return False
        state[node] = 1
        found = any(visit(neighbour) for neighbour in graph.get(node, {}))
        state[node] = 2
        return found

    return any(visit(node) for node in sorted(graph))


def spanning_tree(graph):
    """Cheapest edges that connect what hangs together, and their sum; edges in both directions."""
    edges = sorted(
        {(weight, min(a, b), max(a, b)) for a, others in both_ways(graph).items() for b, weight in others.items()}
    )
    leader = {}

    def find(node):
        while leader.get(node, node) != node:
            node = leader[node]
        return node

    chosen = []
    total = 0
    for weight, a, b in edges:
        first, second = find(a), find(b)
        if first != second:
            leader[first] = second
            chosen.append((a, b))
            total += weight
    return chosen, total


def two_colours(graph):
    """Nodes in two groups with no edge inside a group, or None; edges in both directions."""
    links = both_ways(graph)
    colour = {}
    for start in sorted(links):
        if start in colour:
            continue
        colour[start] = 0
        stack = [start]
        while stack:
            node = stack.pop()
            for other in links[node]:
                if other not in colour:
                    colour[other] = 1 - colour[node]
                    stack.append(other)
                elif colour[other] == colour[node]:
                    return None
    return colour


def reversed_graph(graph):
    result = {node: {} for node in graph}
    for node, neighbours in graph.items():
        for other, weight in neighbours.items():
            result.setdefault(other, {})[node] = weight
    return result


def degree_of(graph, node, direction="out"):
    """Number of edges that leave a node (out), enter it (in), or both."""
    out = len(graph.get(node, {}))
    into = sum(1 for neighbours in graph.values() if node in neighbours)
    if direction == "out":
        return out
    if direction == "in":
        return into
    return out + into
