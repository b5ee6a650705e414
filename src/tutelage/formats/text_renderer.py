"""A renderer whose ids are the characters of messages written as JSON: the proof of an export without a model.

Each difference between two messages (a lost call, an argument, a key) is a difference of ids.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from tutelage.formats.write_messages import assistant_message, observation_message
from tutelage.types import Action, Observation, ParseOutcome

_SPECIAL: Final = 0x110000
"""One past the last code point."""


class TextRenderer:
    """Ids below 0x110000 are code points; three more are special.

    Example: ``action_ids`` of "go" is the characters of ``{"role": "assistant", "content": "go"}`` and STOP.
    """

    name = "text"
    observation_token_id = _SPECIAL
    action_token_id = _SPECIAL + 1
    stop_token_id = _SPECIAL + 2
    stop_token_ids: tuple[int, ...] = (_SPECIAL + 2,)
    pad_token_id = _SPECIAL + 3
    vocab_size = _SPECIAL + 4
    vocabulary_id = "code points"
    rewrites_history = False

    def observation_ids(self, observation: Observation, *, after: Action | None) -> list[int]:
        ids: list[int] = []
        for message in observation.messages:
            ids += [self.observation_token_id, *_points(observation_message(message))]
        return [*ids, self.action_token_id]

    def action_ids(self, action: Action, *, followed_by: Sequence[Observation] = ()) -> list[int]:
        return [*_points(assistant_message(action)), self.stop_token_id]

    def parse(self, token_ids: Sequence[int], *, stopped: bool) -> Action:
        text = self.decode(token_ids[:-1] if stopped else token_ids)
        outcome = ParseOutcome.CLEAN if stopped else ParseOutcome.ENDED_WITHOUT_STOP
        return Action(text=text, command=text, parse=outcome)

    def decode(self, token_ids: Sequence[int]) -> str:
        names = ("<observation>", "<action>", "<stop>", "<pad>")
        return "".join(chr(one) if one < _SPECIAL else names[one - _SPECIAL] for one in token_ids)


def _points(message: object) -> list[int]:
    return [ord(character) for character in json.dumps(message, ensure_ascii=False)]
