"""Renderer of a model folder with a chat template: what the template writes, with the sampled ids in it.

Nothing is known of a template by its name. It is tried when the folder is loaded, and its pieces are proved against its
wholes: if they join to the same text, an episode is the join of its pieces; if not, whole views are rendered.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from tutelage.errors import RenderError
from tutelage.rendering.base import plain_text
from tutelage.rendering.chat_messages import Accepted, what_is_accepted
from tutelage.rendering.chat_probes import probes
from tutelage.rendering.chat_template import ChatTemplate
from tutelage.rendering.chat_tokens import ChatTokens, Hiding, Place, any_of
from tutelage.types import Action, Message, Observation, ParseOutcome

FAMILIES: Final = {
    "<|im_end|>": "chatml",
    "<|eot_id|>": "llama3",
    "<end_of_turn>": "gemma",
    "<|user|>": "glm",
    "</s>": "mistral",
}
"""Stop token -> what the format is called. It names a renderer in records; nothing is decided by it."""

_WORD: Final = "probe0word"
"""A text that no template writes by itself."""

_KEYS: Final = ("name", "tool_call_id")
"""Keys of a foreign message that a template may write."""

Turn = tuple[Observation, Action]
Told = tuple[tuple[str, str, tuple[tuple[str, str], ...]], ...]
"""Messages as a key of a cache: role, content, further keys of each."""


@dataclass(frozen=True, slots=True)
class Written:
    """Text of a template, with the private characters that hide control strings in it."""

    text: str
    hiding: Hiding
    stop: str = ""
    """Of an answer: the stop token after the text."""
    within: bool = False
    """It begins after other text, not after a control token."""

    @property
    def shown(self) -> str:
        """The text with nothing hidden. As long as `text`."""
        return self.hiding.show(self.text)


class ChatRenderer:
    """Renderer of one chat template over one tokenizer.

    Example, ChatML, an observation from the user and one from a tool:
      observation_ids(o0, after=None)  <|im_start|>user\\n text of o0 <|im_end|>\\n<|im_start|>assistant\\n
      action_ids(a0)                   text of a0 <|im_end|>
      observation_ids(o1, after=a0)    \\n<|im_start|>user\\n<tool_response>\\n ... <|im_start|>assistant\\n
    """

    def __init__(
        self,
        template: ChatTemplate,
        tokens: ChatTokens,
        *,
        eos_token_ids: Sequence[int] = (),
        pad_token_id: int | None = None,
        instructions: str | None = None,
        text_of: Callable[[Action], str] | None = None,
    ) -> None:
        """`eos_token_ids` end an answer beside the stop tokens that the template writes.

        `instructions` open every conversation as a system message, before a system message of the task itself.
        `text_of`: the text of an action that the model did not sample.

        Raises RenderError if the template has no stop token, or its pieces cannot be given the ids of the whole.
        """
        self._template, self._tokens = template, tokens
        self._instructions: str | None = None
        self._text_of: Callable[[Action], str] = plain_text
        self._accepted: Accepted = what_is_accepted(template)
        self._answered_by = "tool" if self._accepted.tool else "user"
        self._opening = lru_cache(maxsize=1024)(self._write_opening)
        self._answer = lru_cache(maxsize=4096)(self._write_answer)
        self._made = lru_cache(maxsize=16384)(self._write_action)
        stops = self._template_stops()
        ids = dict.fromkeys([*(tokens.controls[stop] for stop in stops), *eos_token_ids])
        self.stop_token_id: int = tokens.controls[stops[0]]
        self.stop_token_ids: tuple[int, ...] = tuple(ids)
        spelled = {index: token for token, index in tokens.vocabulary.items()}
        stop_texts = {spelled[index] for index in ids if index in spelled}
        self._stop_pattern = any_of(stop_texts)
        # An author may write the other controls, e.g. <think>: they belong to the language of the model.
        self._never_written = any_of(tokens.specials | stop_texts)
        self.pad_token_id = self.stop_token_ids[-1] if pad_token_id is None else pad_token_id
        self.vocab_size, self.vocabulary_id = tokens.vocab_size, tokens.vocabulary_id
        self.family = FAMILIES.get(stops[0], "template")
        self.name = f"chat:{self.family}"
        one = self._as_seen(_WORD)
        self._prefix, _, self._suffix = one.text.partition(_WORD)
        self._spaced = tokens.prepends_space and not one.within
        self._owned = self._opens_a_message(stops)
        glued = [self._proved(turns, newest) for turns, newest in probes(self._accepted, template.source)]
        self.rewrites_history = self._owned or not all(glued)
        # Not before the proof, which is of the template alone.
        self._instructions = instructions
        self._text_of = plain_text if text_of is None else text_of

    # What a policy and the sample builder ask for

    def observation_ids(self, observation: Observation, *, after: Action | None) -> list[int]:
        if after is None:
            opening = self._opening(self._told(observation, opening=True))
            return self._tokens.encode(opening.text, opening.hiding, place="start")
        answer = self._answer(self._told(observation))
        if not self._stopped(after):
            return self._tokens.encode(answer.text, answer.hiding, place="within")
        return self._tokens.encode(answer.text[self._stop(answer.text).end() :], answer.hiding)

    def action_ids(self, action: Action, *, followed_by: Sequence[Observation] = ()) -> list[int]:
        if followed_by and self.rewrites_history:
            messages = tuple(message for observation in followed_by for message in observation.messages)
            return self.view_ids([(Observation.of("x"), action)], Observation(messages=messages))[1]
        if action.token_ids is not None:
            return list(action.token_ids)
        ids = self._encoded(self._made(self._text(action)), stopped=False)
        return [*ids, self.stop_token_id] if self._stopped(action) else ids

    def view_ids(self, turns: Sequence[Turn], newest: Observation) -> list[list[int]]:
        """The context before the next action in pieces, as the template writes the whole of it.

        An action that stands there as it was made keeps its ids. One that the template writes otherwise is encoded.
        """
        whole = self._whole(turns, newest)
        text, shown = whole.text, whole.shown
        starts: dict[int, int] | None = None
        pieces: list[list[int]] = []
        position = 0
        after: Action | None = None
        for number, (observation, action) in enumerate(turns):
            expected = self._expected(observation, after)
            start = position + _common_length(shown[position : position + len(expected)], expected)
            if start < position + len(expected):
                starts = self._starts(turns, newest, whole) if starts is None else starts
                start = starts.get(number, start)
            found = self._stop(text, start)
            written = Written(text[start : found.start()], whole.hiding, found[0], self._is_within(text, start))
            kept = shown[position:start] == expected and written.shown == self._made(self._text(action)).shown
            place: Place = "start" if after is None else "section" if self._stopped(after) else "within"
            pieces.append(self._tokens.encode(text[position:start], whole.hiding, place=place))
            stopped = self._stopped(action) or not kept
            pieces.append(self._standing(action, written) if kept else self._encoded(written, stopped=True))
            position, after = found.end() if stopped else found.start(), action if kept else Action.of(action.text)
        place = "start" if after is None else "section" if self._stopped(after) else "within"
        return [*pieces, self._tokens.encode(text[position:], whole.hiding, place=place)]

    def parse(self, token_ids: Sequence[int], *, stopped: bool) -> Action:
        text = self._tokens.decode(token_ids[:-1] if stopped else token_ids)
        text = text.removeprefix(" " if self._spaced else "").removeprefix(self._prefix)
        text = text.removesuffix(self._suffix) if stopped else text
        command = text.strip()
        if not command:
            return Action(text=text, parse=ParseOutcome.MALFORMED, token_ids=tuple(token_ids))
        outcome = ParseOutcome.CLEAN if stopped else ParseOutcome.ENDED_WITHOUT_STOP
        return Action(text=text, command=command, parse=outcome, token_ids=tuple(token_ids))

    def decode(self, token_ids: Sequence[int]) -> str:
        return self._tokens.decode(token_ids)

    # Pieces as text

    def _write_opening(self, told: Told) -> Written:
        """What stands before the first action."""
        hiding, messages = self._fitted(told, opening=True)
        return Written(self._template.render(messages), hiding)

    def _write_answer(self, told: Told) -> Written:
        """What stands between the text of an action and that of the next one, after a question of no interest."""
        hiding, messages = self._fitted(told)
        mark = hiding.marker(0)
        text = self._template.render([_message("user", "x"), _message("assistant", mark), *messages])
        return Written(text[text.index(mark) + len(mark) :], hiding)

    def _write_action(self, text: str) -> Written:
        """How an action is written that has just been made: as it will be seen, if the template then shows all of it.

        If it leaves something out at once, or reads it as something else, only the author's text is whole.
        """
        seen = self._as_seen(text)
        if _letters(text) in (_letters(seen.shown), _letters(seen.shown.removeprefix(self._prefix))):
            return seen
        prompt = self._opening((("user", "x", ()),)).text
        hidden = seen.hiding.hide(text, self._never_written)
        overlap = next(size for size in range(len(hidden), -1, -1) if prompt.endswith(hidden[:size]))
        bare = hidden[overlap:] + self._suffix
        return Written(bare, seen.hiding, seen.stop, self._is_within(prompt, len(prompt)))

    def _as_seen(self, text: str) -> Written:
        """An action as the template writes it before the next observation, of a tool if the template knows any."""
        hiding = self._tokens.hiding([text])
        hidden = hiding.hide(text, self._never_written)
        asked = [_message("user", "x")]
        told = [*asked, _message("assistant", hidden), _message(self._answered_by, "x")]
        whole, prompt = self._template.render(told), self._template.render(asked)
        start = _common_length(whole, prompt)
        if start < len(prompt):
            told[1] = _message("assistant", hiding.marker(0) + hidden.lstrip())
            marked = self._template.render(told)
            if hiding.marker(0) in marked and marked.replace(hiding.marker(0), "") == whole:
                start = marked.index(hiding.marker(0))
        found = self._stop(whole, start)
        return Written(whole[start : found.start()], hiding, found[0], self._is_within(whole, start))

    # Wholes as text

    def _whole(self, turns: Sequence[Turn], newest: Observation, *, marked: bool = False) -> Written:
        """What the template writes of a conversation. `marked`: with marker i before the text of action i."""
        told = [
            self._told(one, opening=number == 0) for number, one in enumerate([*(seen for seen, _ in turns), newest])
        ]
        texts = [self._text(action) for _, action in turns]
        hiding = self._tokens.hiding([content for one in told for _, content, _ in one] + texts)
        messages: list[dict[str, str]] = []
        for number, one in enumerate(told):
            messages += self._fitted(one, opening=number == 0, hiding=hiding)[1]
            if number < len(texts):
                hidden = hiding.hide(texts[number], self._never_written)
                messages.append(_message("assistant", hiding.marker(number) + hidden.lstrip() if marked else hidden))
        return Written(self._template.render(messages), hiding)

    def _starts(self, turns: Sequence[Turn], newest: Observation, whole: Written) -> dict[int, int]:
        """Where the texts of actions begin in the whole, as far as the template lets them be followed."""
        text = self._whole(turns, newest, marked=True).text
        starts: dict[int, int] = {}
        for number in range(len(turns)):
            mark = whole.hiding.marker(number)
            if (place := text.find(mark)) >= 0:
                starts[number] = place
                text = text.replace(mark, "")
        return starts if text == whole.text else {}

    def _expected(self, observation: Observation, after: Action | None) -> str:
        """What stands before an action, if the template writes pieces as it writes wholes."""
        if after is None:
            return self._opening(self._told(observation, opening=True)).shown
        answer = self._answer(self._told(observation))
        return answer.shown[self._stop(answer.text).end() if self._stopped(after) else 0 :]

    # Ids of an action

    def _standing(self, action: Action, written: Written) -> list[int]:
        """Of an action that stands as it was made; where the next message owns the stop token, with that one."""
        if action.token_ids is None:
            return self._encoded(written, stopped=self._stopped(action))
        ids = list(action.token_ids)
        if self._owned and self._stopped(action):
            ids[-1] = self._tokens.vocabulary[written.stop]
        return ids

    def _encoded(self, written: Written, *, stopped: bool) -> list[int]:
        place: Place = "within" if written.within else "section"
        ids = self._tokens.encode(written.text, written.hiding, place=place)
        return [*ids, self._tokens.vocabulary[written.stop]] if stopped else ids

    def _stopped(self, action: Action) -> bool:
        """Whether the ids of an action end with a stop token. One of another author does, unless it was cut off."""
        if action.token_ids is None:
            return action.parse is not ParseOutcome.ENDED_WITHOUT_STOP
        return bool(action.token_ids) and action.token_ids[-1] in self.stop_token_ids

    def _text(self, action: Action) -> str:
        return self._text_of(action) if action.token_ids is None else action.text

    # Places in a text

    def _stop(self, text: str, start: int = 0) -> re.Match[str]:
        found = self._stop_pattern.search(text, start)
        if found is None:
            raise RenderError(f"{self._template.where}: the chat template ends an answer without a stop token.")
        return found

    def _is_within(self, text: str, start: int) -> bool:
        return start > 0 and not text.endswith(tuple(self._tokens.controls), 0, start)

    # Messages

    def _told(self, observation: Observation, *, opening: bool = False) -> Told:
        """The messages of an observation, the instructions before those that open a conversation."""
        messages = list(observation.messages)
        if opening and self._instructions is not None:
            text = self._instructions
            if messages and messages[0].role == "system":
                text = f"{text}\n\n{messages.pop(0).content}"
            messages.insert(0, Message(role="system", content=text))
        return tuple(
            (one.role, one.content, tuple((key, str(one.extra[key])) for key in _KEYS if key in one.extra))
            for one in messages
        )

    def _fitted(
        self, told: Told, *, opening: bool = False, hiding: Hiding | None = None
    ) -> tuple[Hiding, list[dict[str, str]]]:
        """The messages as the template takes them, control strings hidden."""
        hiding = self._tokens.hiding(content for _, content, _ in told) if hiding is None else hiding
        messages = [Message(role=role, content=content, extra=dict(extra)) for role, content, extra in told]
        fitted = self._accepted.fit(messages, opening=opening)
        pattern = self._tokens.control_pattern
        return hiding, [
            {key: hiding.hide(str(value), pattern) for key, value in one.extra.items()}
            | _message(one.role, hiding.hide(one.content, pattern))
            for one in fitted
        ]

    # What the template is like

    def _template_stops(self) -> list[str]:
        """The control token right after an answer: before the user speaks, then before a tool does."""
        stops = []
        for role in ("user", *(["tool"] if self._accepted.tool else [])):
            text = self._answer(((role, "x", ()),)).text
            found = self._tokens.control_pattern.search(text)
            if found is None or text[: found.start()].strip():
                raise RenderError(
                    f"{self._template.where}: the chat template writes {text[:40]!r} after an answer, expected a special "
                    "token that ends it. Use a template with an end-of-turn token."
                )
            stops.append(found[0])
        return list(dict.fromkeys(stops))

    def _opens_a_message(self, stops: Sequence[str]) -> bool:
        """Whether an answer is ended by the token that begins the next message."""
        prompt = self._opening((("user", _WORD, ()),)).text
        before = self._tokens.control_pattern.findall(prompt[: prompt.index(_WORD)])
        return len(stops) > 1 or before[-1:] == [stops[0]]

    def _proved(self, turns: Sequence[Turn], newest: Observation) -> bool:
        """Whether the pieces of a conversation join to the whole, as text.

        Raises RenderError if they do and their ids are not those of the whole, or if the ids of the whole itself differ
        from the tokenizer's: a tokenizer that reads a text otherwise when it is cut.
        """
        whole = self._whole(turns, newest)
        text, ids = "", list[int]()
        after: Action | None = None
        for seen, action in turns:
            made = self._made(self._text(action))
            text += self._expected(seen, after) + made.text + made.stop
            ids += self.observation_ids(seen, after=after) + self._encoded(made, stopped=True)
            after = action
        glued = text + self._expected(newest, after) == whole.text
        if glued:
            ids += self.observation_ids(newest, after=after)
        else:
            ids = [index for piece in self.view_ids(turns, newest) for index in piece]
        reference = self._tokens.encode_whole(whole.text)
        uncut = self._tokens.encode(whole.text, whole.hiding, place="start")
        # A tokenizer may merge the end of a prompt with what comes after it. Whoever samples has to cut there.
        if uncut != reference or (ids != reference and self.decode(ids) != self.decode(reference)):
            wrong = ids if uncut == reference else uncut
            at = _common_length(wrong, reference)
            raise RenderError(
                f"{self._template.where}: ids {wrong[at : at + 4]} at position {at} of a conversation, but the tokenizer "
                f"gives {reference[at : at + 4]} for the whole of {whole.text[:60]!r}.... Its pieces cannot be joined; "
                "play this model behind an endpoint."
            )
        return glued


def _message(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def _letters(text: str) -> str:
    """The text without white space."""
    return "".join(text.split())


def _common_length(left: Sequence[object], right: Sequence[object]) -> int:
    """Length of the common start of two texts, or of two lists."""
    length = 0
    for a, b in zip(left, right, strict=False):
        if a != b:
            break
        length += 1
    return length
