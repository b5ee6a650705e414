"""The role-token format: ids, lossless text, literal special tokens, parsing."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models

from tutelage.errors import ConfigError, RenderError
from tutelage.rendering.base import Renderer
from tutelage.rendering.load import load_renderer
from tutelage.rendering.role_tokens import SPECIAL_TOKENS, RoleTokenRenderer
from tutelage.students import student_path
from tutelage.types import Action, Message, Observation, ParseOutcome

FOLDER = student_path("builtin:household_tiny")
RENDERER = RoleTokenRenderer.from_folder(FOLDER)
SPECIAL_IDS = {token: index for index, token in enumerate(SPECIAL_TOKENS)}
PIECES = ["drawer 3", "apple", "apple 12", "go to ", "<|obs|>", "<|end|>", "<0x41>", "\x00", "ü", "\n", ", a ", "."]
texts = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=4)), max_size=8).map("".join)


def spelled(ids):
    return [RENDERER.decode([one]) for one in ids]


def test_it_is_a_renderer():
    assert isinstance(RENDERER, Renderer)
    assert (
        load_renderer(FOLDER).vocab_size
        == RENDERER.vocab_size
        == json.loads((FOLDER / "config.json").read_text())["vocab_size"]
    )


def test_first_observation_action_and_next_observation():
    intro = Observation.of("You arrive at drawer 3. The drawer 3 is closed.")
    assert spelled(RENDERER.observation_ids(intro, after=None)) == [
        "<|bos|>", "<|obs|>", "You arrive at ", "drawer 3", ". The ", "drawer 3", " is closed.", "<|act|>",
    ]  # fmt: skip
    assert spelled(RENDERER.action_ids(Action.of("open drawer 3"))) == ["open ", "drawer 3", "<|end|>"]
    assert spelled(RENDERER.observation_ids(Observation.of("Nothing happens."), after=Action.of("look"))) == [
        "<|obs|>", "Nothing happens.", "<|act|>",
    ]  # fmt: skip
    assert RENDERER.stop_token_id == SPECIAL_IDS["<|end|>"]
    assert RENDERER.pad_token_id == SPECIAL_IDS["<|pad|>"] == 0


def test_each_message_has_its_role():
    both = Observation(messages=(Message(role="system", content="look"), Message(role="tool", content="help")))
    assert spelled(RENDERER.observation_ids(both, after=None)) == [
        "<|bos|>", "<|system|>", "look", "<|obs|>", "help", "<|act|>",
    ]  # fmt: skip


def test_sampled_ids_are_kept_and_other_authors_are_written_as_their_command():
    sampled = Action(text="look", command="look", token_ids=(7, 8, 9))
    assert RENDERER.action_ids(sampled) == [7, 8, 9]
    thoughtful = Action(text="I should look. <action>look</action>", command="look")
    assert RENDERER.action_ids(thoughtful) == [*RENDERER.encode("look"), RENDERER.stop_token_id]
    malformed = Action(text="look", parse=ParseOutcome.MALFORMED)
    assert RENDERER.action_ids(malformed) == [*RENDERER.encode("look"), RENDERER.stop_token_id]


@given(texts)
def test_text_comes_back_byte_for_byte_without_special_tokens(text):
    ids = RENDERER.encode(text)
    assert RENDERER.decode(ids) == text
    assert not set(ids) & set(SPECIAL_IDS.values())


@given(texts)
def test_an_observation_cannot_fake_a_turn(text):
    ids = RENDERER.observation_ids(Observation.of(text), after=Action.of("look"))
    assert ids[0] == SPECIAL_IDS["<|obs|>"]
    assert ids[-1] == SPECIAL_IDS["<|act|>"]
    assert not set(ids[1:-1]) & set(SPECIAL_IDS.values())
    assert RENDERER.decode(ids[1:-1]) == text


def test_lone_surrogates_survive():
    text = "a\ud800b drawer 3\udfff"
    assert RENDERER.decode(RENDERER.encode(text)) == text


def test_a_tokenizer_that_read_special_tokens_would_have_failed_this():
    ids = RENDERER.encode("<|end|>")
    assert len(ids) == 7
    assert RENDERER.stop_token_id not in ids


def test_parse_reads_a_command_and_keeps_the_ids():
    ids = RENDERER.action_ids(Action.of("go to drawer 3"))
    assert RENDERER.parse(ids, stopped=True) == Action(
        text="go to drawer 3", command="go to drawer 3", token_ids=tuple(ids)
    )


def test_parse_strips_the_command_but_not_the_text():
    ids = [*RENDERER.encode(" look\n"), RENDERER.stop_token_id]
    action = RENDERER.parse(ids, stopped=True)
    assert (action.text, action.command, action.parse) == (" look\n", "look", ParseOutcome.CLEAN)


def test_parse_without_stop():
    ids = RENDERER.encode("go to ")
    action = RENDERER.parse(ids, stopped=False)
    assert (action.text, action.command, action.parse) == ("go to ", "go to", ParseOutcome.ENDED_WITHOUT_STOP)
    assert action.token_ids == tuple(ids)


@pytest.mark.parametrize("text", ["", " \n"])
def test_parse_of_nothing_is_malformed(text):
    ids = [*RENDERER.encode(text), RENDERER.stop_token_id]
    action = RENDERER.parse(ids, stopped=True)
    assert (action.text, action.command, action.parse) == (text, None, ParseOutcome.MALFORMED)
    assert action.token_ids == tuple(ids)


def test_sampled_bytes_that_are_no_text_are_shown_as_such():
    first_byte_of_two = RENDERER.encode("ü")[0]
    assert RENDERER.decode([first_byte_of_two, *RENDERER.encode("look")]) == "\ufffdlook"


def test_a_folder_without_tokenizer_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"no tokenizer.json, expected a model folder"):
        load_renderer(tmp_path)


def test_another_format_is_refused(tmp_path):
    Tokenizer(models.BPE(vocab={"a": 0}, merges=[])).save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(RenderError, match=r"no <\|pad\|>, <\|bos\|>, .* in the vocabulary"):
        load_renderer(tmp_path)
