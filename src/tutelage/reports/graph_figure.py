"""The dependency graph of one episode as inline SVG: a row per step, an arc from each step that wrote to one that read.

Made for 5 to 50 steps. The arcs of the step with the most credit, the hub, have a colour; the others are grey. Colours
come from CSS variables as in `figures`; `standalone` makes a file of its own that has them.
"""

from __future__ import annotations

from html import escape
from importlib.resources import files
from typing import Final

from tutelage.analysis.episode_graph import EpisodeGraph
from tutelage.evaluation.metrics import is_solved
from tutelage.reports.figures import open_svg
from tutelage.types import Actor, Effect, Step

WIDTH: Final = 760
ROW: Final = 23
"""Height of a step."""
NODE_X: Final = 262
"""Centre of the nodes; arcs are left of it, commands to the right."""
MAX_BULGE: Final = 236
"""How far left the longest arc may reach."""
COMMAND_LENGTH: Final = 52
"""Letters of a command that fit; the whole of it is in the tooltip."""
LETTER: Final = 6.7
"""Mean width of a letter of the legend."""
IDLE: Final = (Effect.NO_EFFECT, Effect.MALFORMED)


def graph_figure(episode: EpisodeGraph, *, heading: bool = False) -> str:
    """One dependency graph.

    heading: with the goal, the id and the outcome above it.
    """
    top = 54.0 if heading else 10.0
    legend, legend_height = _legend(episode, top)
    first = top + legend_height + 40
    height = first + ROW * (len(episode.footprints) - 0.5) + 8
    parts = [open_svg(WIDTH, height), *(_heading(episode) if heading else ()), *legend]
    parts.append(f'<text x="{NODE_X + 50}" y="{first - 20:g}" class="tick">command</text>')
    parts.append(f'<text x="{WIDTH - 6}" y="{first - 20:g}" class="tick" text-anchor="end">credit</text>')
    parts += _arcs(episode, first)
    parts += [_row(episode, index, first + ROW * index) for index in range(len(episode.footprints))]
    return "".join([*parts, "</svg>"])


def standalone(svg: str) -> str:
    """A chart as the text of an SVG file, which carries its own colours for light and dark."""
    end = svg.index(">") + 1
    return f"{svg[:end]}<style>{_theme()}svg {{ background: var(--paper); }}</style>{svg[end:]}\n"


def graph_page(episode: EpisodeGraph) -> str:
    """One dependency graph as the text of an HTML file."""
    title = _text(episode.trajectory.goal or episode.trajectory.task_id)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>{_theme()}'
        "body { margin: 24px; background: var(--paper); } svg { max-width: 100%; height: auto; }</style></head>\n"
        f"<body>{graph_figure(episode, heading=True)}</body></html>\n"
    )


def _theme() -> str:
    return files("tutelage.reports").joinpath("templates/theme.css").read_text("utf-8")


def _arcs(episode: EpisodeGraph, first: float) -> list[str]:
    """The arcs, those of the hub on top."""
    edges = episode.graph.edges
    if not edges:
        return []
    hub = max(episode.aptitude.l_graph)
    hubs = {index for index, credit in enumerate(episode.aptitude.l_graph) if credit == hub}
    longest = max(target - source for source, target, _ in edges)
    reach = min(MAX_BULGE, 0.62 * ROW * longest)
    drawn = []
    for source, target, num_keys in sorted(edges, key=lambda edge: bool(hubs & set(edge[:2]))):
        start, end = first + ROW * source, first + ROW * target
        # Short arcs keep apart from the nodes, long ones from each other.
        x = NODE_X - 9 - 4 / 3 * max(10.0, reach * ((target - source) / longest) ** 0.8)
        look = (
            'stroke="var(--series-2)" opacity="0.85"'
            if hubs & {source, target}
            else 'stroke="var(--soft)" opacity="0.5"'
        )
        keys = ", ".join(sorted(key for key, steps in episode.sources[target].items() if source in steps))
        drawn.append(
            f'<path d="M{NODE_X - 9},{start:g} C{x:.1f},{start:g} {x:.1f},{end:g} {NODE_X - 9},{end:g}" fill="none" {look} '
            f'stroke-width="{min(6.0, 0.4 + num_keys):g}"><title>{_text(f"step {target} read what step {source} wrote: {keys}")}'
            "</title></path>"
        )
    return drawn


def _row(episode: EpisodeGraph, index: int, y: float) -> str:
    """Node, number, mark, command and credit of one step."""
    footprint, credit = episode.footprints[index], episode.aptitude.l_graph
    step = episode.trajectory.steps[index]
    low, high = min(credit), max(credit)
    share = (credit[index] - low) / (high - low) if high > low else 0.0
    outline = "--student" if step.actor is Actor.STUDENT else "--expert"
    command = command_of(step)
    shown = command if len(command) <= COMMAND_LENGTH else f"{command[: COMMAND_LENGTH - 1]}…"
    told = [
        f"{index} {step.actor.value}: {command} ({footprint.effect.value})",
        f"reads {', '.join(sorted(footprint.reads)) or 'nothing'}",
        f"writes {', '.join(sorted(footprint.writes)) or 'nothing'}",
    ]
    faded = ' opacity="0.42"' if footprint.effect in IDLE else ""
    mark = _diamond(NODE_X + 38, y) if episode.chosen.step_mask[index] else ""
    return (
        f'<g{faded} data-step="{index}"><title>{_text(chr(10).join(told))}</title>{_node(NODE_X, y, share, outline)}'
        f'<text x="{NODE_X + 28}" y="{y + 4:g}" class="tick" text-anchor="end">{index}</text>{mark}'
        f'<text x="{NODE_X + 50}" y="{y + 4:g}" class="command">{_text(shown)}</text>'
        f'<text x="{WIDTH - 6}" y="{y + 4:g}" class="tick" text-anchor="end">{signed(credit[index])}</text></g>'
    )


def _node(x: float, y: float, share: float, outline: str) -> str:
    # The lower circle hides the arcs that end here.
    return (
        f'<circle cx="{x:g}" cy="{y:g}" r="7" fill="var(--paper)" stroke="var({outline})" stroke-width="2"/>'
        f'<circle cx="{x:g}" cy="{y:g}" r="6" fill="var(--series-2)" fill-opacity="{share:.2f}"/>'
    )


def _diamond(x: float, y: float) -> str:
    return f'<path d="M{x:g},{y - 5:g} l5,5 l-5,5 l-5,-5 z" fill="var(--series-4)"/>'


def _legend(episode: EpisodeGraph, top: float) -> tuple[list[str], float]:
    """What the marks mean, of those that occur; and its height."""
    actors = {step.actor for step in episode.trajectory.steps}
    items = [(_node(7, 0, 0.0, f"--{actor.value}"), 14, f"{actor.value}'s step") for actor in Actor if actor in actors]
    items += [
        (_node(7, 0, 0.1, "--soft") + _node(23, 0, 1.0, "--soft"), 30, "little, much credit"),
        (_diamond(5, 0), 10, "chosen by structure"),
    ]
    if episode.graph.edges:
        items += [
            (_sign("--soft", 2), 12, "read what the upper wrote; thick: many keys"),
            (_sign("--series-2", 2), 12, "the same at the step with most credit"),
        ]
    if any(one.effect in IDLE for one in episode.footprints):
        items.append((f'<g opacity="0.42">{_node(7, 0, 0.0, "--soft")}</g>', 14, "without effect"))
    parts, x, y = [], 6.0, top + 8
    for sign, wide, text in items:
        end = x + wide + 6 + LETTER * len(text)
        if end > WIDTH:
            x, y, end = 6.0, y + 20, 6.0 + end - x
        parts.append(
            f'<g transform="translate({x:.0f},{y:g})">{sign}<text x="{wide + 6}" y="4" class="tick">{_text(text)}</text></g>'
        )
        x = end + 18
    return parts, y - top + 8


def _sign(colour: str, width: float) -> str:
    return f'<path d="M12,-7 C-4,-7 -4,7 12,7" fill="none" stroke="var({colour})" stroke-width="{width:g}"/>'


def _heading(episode: EpisodeGraph) -> list[str]:
    one = episode.trajectory
    ending = "solved" if is_solved(one) else one.stop_reason.value
    return [
        f'<text x="6" y="20" class="group">{_text(one.goal or one.task_id)}</text>',
        f'<text x="6" y="38" class="tick">{_text(f"{one.trajectory_id}, {ending}, {len(one.steps)} steps")}</text>',
    ]


def command_of(step: Step) -> str:
    """The executed command on one line; what was said instead, where there was none."""
    action = step.action
    return " ".join(action.command.split()) if action.command is not None else f"{action.text!r} (no command)"


def signed(value: float) -> str:
    """Example: ``+1.20``, ``−0.38``, ``0.00``"""
    text = f"{value:+.2f}"
    return "0.00" if float(text) == 0.0 else text.replace("-", "−")


def _text(text: str) -> str:
    """Escaped; what XML cannot hold is replaced."""
    return escape("".join(one if one.isprintable() or one == "\n" else "\ufffd" for one in text))
