"""Checks that look at episodes as they were played: rewards, texts, lists of commands, footprints, progress."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from statistics import fmean
from typing import Final

from tutelage.envs.base import is_no_effect
from tutelage.envs.registry import ADAPTERS, load_place
from tutelage.errors import SupervisionError
from tutelage.evaluation.env_check.case import EXPERT, NO_OP, NONSENSE_PLAYER, RANDOM, TAKE_OVER, Case
from tutelage.evaluation.env_check.play import Recording
from tutelage.evaluation.env_check.report import Fault, Skip, listed, short
from tutelage.record_json import decode_record, encode_record
from tutelage.supervision.dependency_graph import build_graph
from tutelage.supervision.footprints import KINDS, OF_TASK, footprints_of
from tutelage.types import Effect, Footprint, ParseOutcome, Trajectory

SPECIAL_TOKENS: Final = re.compile(
    r"<\|[^|<>\s]{1,40}\|>|<｜[^｜\s]{1,40}｜>|\[/?INST\]|<</?SYS>>|</?s>|<(?:bos|eos|pad|unk)>|<(?:start|end)_of_turn>"
)
"""What chat templates use to tell messages apart."""
_UNPRINTABLE: Final = re.compile("[\0\ud800-\udfff]")


def check_policies(case: Case) -> str:
    """No-op, nonsense, random and expert policies play; the expert also takes over from a random one."""
    counts = {}
    for player, episodes in case.played.items():
        if isinstance(episodes, Exception):
            raise episodes
        counts[player] = len(episodes)
    played = f"{len(case.tasks)} episodes each of {', '.join(counts)}"
    return played if case.has_expert else f"{played}; there is no expert"


def check_reward(case: Case) -> str:
    """Doing nothing is worth 0; the expert reaches what is said of it."""
    for recording in case.recordings(NO_OP, NONSENSE_PLAYER):
        paid = [seen.reward for seen in recording.seen if seen.reward] or [recording.reward or 0.0]
        if any(paid):
            raise Fault(
                recording.where,
                got=f"reward {paid[0]}",
                expected="0",
                remedy="Pay for what the task asks, not for being there: training finds every free reward.",
            )
    if not case.has_expert:
        return "no-op 0; the environment names no expert"
    recordings = case.recordings(EXPERT)
    unscored = [one for one in recordings if one.reward is None]
    if unscored:
        raise Fault(
            unscored[0].where,
            got="reward None",
            expected="a number",
            remedy="Score every episode that was played to its end; None is for failures of the machinery.",
        )
    mean = fmean(one.reward or 0.0 for one in recordings)
    least = case.spec.expert_reward if case.expert_at_least is None else case.expert_at_least
    if mean < least:
        worst = min(recordings, key=lambda one: one.reward or 0.0)
        raise Fault(
            "expert",
            got=f"mean reward {mean:.3f} over {len(recordings)} tasks; {worst.reward} on task {worst.task.task_id} after "
            f"{len(worst.actions)} steps",
            expected=f"at least {least:g}",
            remedy="See what it does there with `tutelage show`; lower the bound (--expert-at-least, or expert_reward "
            "in the EnvSpec) only if the expert is not meant to win.",
        )
    return f"no-op 0, expert {mean:.3f} (at least {least:g}){_others(case)}"


def _others(case: Case) -> str:
    means = []
    for player in (RANDOM, TAKE_OVER):
        try:
            means.append(f"{player} {fmean(one.reward or 0.0 for one in case.recordings(player)):.3f}")
        except Skip:
            continue
    return "".join(f", {one}" for one in means)


def check_expert(case: Case) -> str:
    """The expert's action is a function of the record: another expert says the same, in whatever order it is asked."""
    if not case.has_expert:
        raise Skip("the environment names no expert")
    num_asked = 0
    for recording in case.recordings(EXPERT):
        asks = recording.asks()
        texts = [action.text for action in recording.actions]
        half = len(asks) // 2
        for order in (range(len(asks)), [half, len(asks) - 1, half] if asks else []):
            expert = case.make_expert()
            for index in order:
                _same_text(recording, index, expert.act(asks[index]).text, texts[index], "another expert")
                num_asked += 1
    asked = case.fresh.asked
    if isinstance(asked, str):
        raise Fault(
            "the expert in a fresh process", got=asked, expected="its actions", remedy="Make it importable from there."
        )
    for recording, theirs in zip(case.recordings(EXPERT), asked, strict=True):
        for index, (theirs_text, action) in enumerate(zip(theirs, recording.actions, strict=True)):
            _same_text(recording, index, theirs_text, action.text, "an expert in a fresh process")
            num_asked += 1
    return f"asked again at {num_asked} steps, also out of order and in a fresh process: the same actions"


def _same_text(recording: Recording, index: int, got: str, expected: str, who: str) -> None:
    if got != expected:
        raise Fault(
            f"{recording.where}, step {index}",
            got=f"{short(got)} of {who}",
            expected=f"{short(expected)}, as when it played",
            remedy="Compute the action from the texts of the record each time; keep nothing between calls that changes it.",
        )


def check_texts(case: Case) -> str:
    """Observations hold text, and nothing that a chat template would take for the edge of a message."""
    num_texts = 0
    for where, text in _texts(case):
        num_texts += 1
        if not text.strip():
            raise Fault(
                where, got="an empty text", expected="words", remedy="Say in a fixed sentence that nothing came."
            )
        if found := SPECIAL_TOKENS.search(text) or _UNPRINTABLE.search(text):
            raise Fault(
                where,
                got=f"{found[0]!r} in {short(text[max(0, found.start() - 40) : found.end() + 40])}",
                expected="no special token of a chat template, no NUL, no lone surrogate",
                remedy="Write such text in another way (escape it) before it becomes an observation.",
            )
    return f"{num_texts} texts without special tokens"


def _texts(case: Case) -> Iterator[tuple[str, str]]:
    if case.spec.instructions is not None:
        yield "instructions", load_place(case.spec.instructions)
    if case.action_format is not None:
        yield "help of the action format", case.action_format.help
    for task in case.tasks:
        if task.goal:
            yield f"task {task.task_id}, goal", task.goal
    for recording in case.recordings():
        for where, seen in recording.moments():
            yield where, seen.observation.text


def check_admissible(case: Case) -> str:
    """The list of commands is sorted, without repeats, there always or never, and what it lists does something."""
    lists = 0
    for recording in case.recordings():
        moments = list(recording.moments())
        for index, (where, seen) in enumerate(moments):
            if seen.admissible is None:
                continue
            lists += 1
            commands = list(seen.admissible)
            if commands != sorted(set(commands)) or not all(isinstance(one, str) and one for one in commands):
                out = next((b for a, b in itertools.pairwise(commands) if b <= a), commands)
                raise Fault(
                    where,
                    got=f"{len(commands)} commands, {short(out)} out of order or twice",
                    expected="a sorted tuple of different texts, or None where the list is open",
                    remedy="Return tuple(sorted(set(commands))).",
                )
            # A clean action that was listed before it was made, and came to nothing.
            action = recording.actions[index] if index < len(recording.actions) else None
            reply = moments[index + 1][1].observation.text if action is not None else ""
            if action is not None and action.command in commands and is_no_effect(reply):
                raise Fault(
                    f"{moments[index + 1][0]}: {action.command!r}",
                    got=f"the reply {reply!r}",
                    expected="an effect, since the command was listed as admissible",
                    remedy="List only what would do something now.",
                )
    total = sum(1 + len(recording.seen) for recording in case.recordings())
    if lists == 0:
        return "open list (None) at every moment"
    if lists < total:
        raise Fault(
            "admissible",
            got=f"a list at {lists} of {total} moments",
            expected="a list always, or None always",
            remedy="Return an empty tuple where nothing can be done, None only if the list is open in principle.",
        )
    return f"{lists} lists, sorted and without repeats"


def check_footprints(case: Case) -> str:
    """One footprint per step, from the stored record alone; malformed actions are marked; the expert's steps depend."""
    kinds = [kind for kind in KINDS if kind in case.spec.footprints]
    if not kinds:
        raise Skip("the EnvSpec names none; graph methods will refuse this environment")
    few = {task.task_id for task in case.few_tasks}
    num_steps = 0
    for kind in kinds:
        edges = longest = 0
        for recording in case.recordings():
            if recording.player != EXPERT and recording.task.task_id not in few:
                continue
            try:
                footprints = _footprints(recording, kind)
            except SupervisionError as error:
                # An adapter cannot know whether the world behind it says what a step read and wrote.
                if case.spec.name in ADAPTERS and "footprints" not in recording.task.settings:
                    raise Skip(str(error).splitlines()[0]) from None
                raise
            num_steps += len(footprints)
            if recording.player == EXPERT and footprints:
                graph = build_graph(footprints)
                edges, longest = edges + len(graph.edges), max(longest, graph.num_steps)
        if edges == 0 and longest > 2:
            raise Fault(
                f"footprints of kind '{kind}'",
                got=f"no edge in any expert episode, of up to {longest} steps",
                expected="later steps that read what earlier ones wrote",
                remedy="Let a step read the keys that it needs, under the very names by which others write them.",
            )
    return f"{num_steps} steps read and written, kinds {', '.join(kinds)}"


def _footprints(recording: Recording, kind: str) -> tuple[Footprint, ...]:
    trajectory = recording.trajectory()
    task = recording.task if kind in OF_TASK else None
    footprints = footprints_of(trajectory, kind, task)
    where = f"{recording.where}, footprints of kind '{kind}'"
    if [one.step_index for one in footprints] != list(range(len(trajectory.steps))):
        raise Fault(
            where,
            got=f"step indices {listed((one.step_index for one in footprints), 8)}",
            expected=f"one per step, 0 to {len(trajectory.steps) - 1}",
            remedy="Return a footprint for every step; one that did nothing has no keys.",
        )
    if wrong := [one for one in footprints if one.trajectory_id != trajectory.trajectory_id]:
        raise Fault(
            where,
            got=f"trajectory_id {wrong[0].trajectory_id!r}",
            expected=repr(trajectory.trajectory_id),
            remedy="Copy it from the trajectory.",
        )
    stored = decode_record(Trajectory, json.loads(json.dumps(encode_record(trajectory, exact=True))))
    if footprints_of(stored, kind, task) != footprints:
        raise Fault(
            where,
            got="other footprints of the record after it was written and read",
            expected="the same, as often as they are asked for",
            remedy="Compute them from the record's texts alone, and start from nothing each time.",
        )
    for footprint, step in zip(footprints, trajectory.steps, strict=True):
        if step.action.parse is ParseOutcome.MALFORMED and footprint.effect is not Effect.MALFORMED:
            raise Fault(
                f"{where}, step {footprint.step_index}",
                got=f"effect '{footprint.effect}' of a malformed action",
                expected=f"'{Effect.MALFORMED}'",
                remedy="Ask for action.command is None before reading the command.",
            )
    return footprints


def check_progress(case: Case) -> str:
    """Progress lies in [0, 1], and is 1 exactly when the goal is reached."""
    values = 0
    for recording in case.recordings():
        for where, seen in recording.moments():
            if seen.progress is None:
                continue
            values += 1
            won = seen.terminated and recording.reward == 1.0
            if not 0.0 <= seen.progress <= 1.0 or (seen.progress == 1.0) != won:
                raise Fault(
                    where,
                    got=f"progress {seen.progress}, {'won' if won else 'not won'}",
                    expected="a share in [0, 1], and 1 exactly when the task is won",
                    remedy="Count the conditions of the goal that hold now.",
                )
    if values == 0:
        raise Skip("not offered")
    return f"{values} values in [0, 1], 1 at wins alone"
