"""A renderer whose tokens are bytes, so that every id of a test can be read."""

from __future__ import annotations

from collections.abc import Sequence

from tutelage.types import Action, Observation, ParseOutcome


class ByteRenderer:
    """Ids 0..255 are the bytes of the text (UTF-8, lone surrogates included); four more are special.

    Example:
      observation_ids("hi", after=None)    BOS OBS 104 105 ACT
      action_ids("go")                     103 111 STOP
      observation_ids("ok", after=go)      OBS 111 107 ACT
    """

    name = "bytes"
    bos_token_id = 256
    observation_token_id = 257
    action_token_id = 258
    stop_token_id = 259
    stop_token_ids: tuple[int, ...] = (259,)
    rewrites_history = False
    pad_token_id = 260
    vocab_size = 261
    vocabulary_id = "bytes"

    def observation_ids(self, observation: Observation, *, after: Action | None) -> list[int]:
        opening = [self.bos_token_id] if after is None else []
        return [*opening, self.observation_token_id, *_bytes(observation.text), self.action_token_id]

    def action_ids(self, action: Action, *, followed_by: Sequence[Observation] = ()) -> list[int]:
        return list(action.token_ids) if action.token_ids is not None else [*_bytes(action.text), self.stop_token_id]

    def parse(self, token_ids: Sequence[int], *, stopped: bool) -> Action:
        """An empty reply is malformed; special ids inside are skipped."""
        text = _text(bytes(token_id for token_id in token_ids if token_id < 256))
        outcome = ParseOutcome.CLEAN if stopped else ParseOutcome.ENDED_WITHOUT_STOP
        command = text.strip() or None
        return Action(
            text=text,
            command=command,
            parse=outcome if command else ParseOutcome.MALFORMED,
            token_ids=tuple(token_ids),
        )

    def decode(self, token_ids: Sequence[int]) -> str:
        names = {256: "<bos>", 257: "<obs>", 258: "<act>", 259: "<stop>", 260: "<pad>"}
        return _text(b"".join(bytes([i]) if i < 256 else names[i].encode() for i in token_ids))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return data.decode("utf-8", "surrogateescape")
