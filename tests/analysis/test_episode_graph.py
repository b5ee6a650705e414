"""The graph of one stored episode: who enabled whom, and what the structure alone would choose."""

import pytest

from tutelage.analysis.episode_graph import episode_graph, structural_way
from tutelage.errors import ConfigError
from tutelage.supervision.step_credit import step_weights
from tutelage.testing import make_trajectory
from tutelage.types import Action, Effect, Fallback, ParseOutcome

COMMANDS = [
    "go to fridge 1",
    "open fridge 1",
    "take egg 1 from fridge 1",
    "dance",
    "go to table 1",
    "move egg 1 to table 1",
]
REPLIES = [
    "You are in the middle of a room. You see a fridge 1, a table 1.",
    "You arrive at fridge 1. The fridge 1 is closed.",
    "You open the fridge 1. The fridge 1 is open. In it, you see a egg 1.",
    "You pick up the egg 1 from the fridge 1.",
    "Nothing happens.",
    "You arrive at table 1. On the table 1, you see nothing.",
    "You move the egg 1 to the table 1.",
]  # fmt: skip


def fridge_episode(actors="ssssss", **fields):
    return make_trajectory(
        actors, COMMANDS, REPLIES, **{"env": "household", "goal": "put an egg on the table", **fields}
    )


def test_who_enabled_whom():
    episode = episode_graph(fridge_episode())
    # 0 is where 1 and 2 act and what 4 leaves; 1 shows the egg to 2; 2 gives it to 5; 4 is where 5 acts; 3 does nothing.
    assert [edge[:2] for edge in episode.graph.edges] == [(0, 1), (0, 2), (0, 4), (1, 2), (2, 5), (4, 5)]
    assert episode.degree == (3, 2, 3, 0, 2, 2)
    assert episode.sources[5] == {"holding:egg 1": [2], "location:table 1": [4]}
    assert episode.footprints[3].effect is Effect.NO_EFFECT
    # By the walk, 0 and 2 with three edges have the most credit, 3 without any the least.
    credit = episode.aptitude.l_graph
    assert credit[0] == pytest.approx(credit[2])
    assert max(credit) == pytest.approx(credit[0])
    assert min(credit) == credit[3]
    assert episode.aptitude.divergence == (None,) * 6
    assert episode.aptitude.aptitude == credit


def test_the_structure_can_be_chosen():
    # Degrees 3 2 3 0 2 2 have mean 2: only 0 and 2 are above it.
    episode = episode_graph(fridge_episode(), "degree")
    assert episode.chosen.step_mask == (True, False, True, False, False, False)
    assert episode_graph(fridge_episode(), writer="first").graph.writer_rule == "first"


def test_only_the_students_steps_are_chosen_unless_there_are_none():
    assert episode_graph(fridge_episode("sseeee"), "uniform").chosen.step_mask == (True, True, *(False,) * 4)
    assert episode_graph(fridge_episode("eeeeee"), "uniform").chosen.step_mask == (True,) * 6


def test_a_step_without_command_is_there_without_an_edge():
    mute = Action(text="er", parse=ParseOutcome.MALFORMED)
    episode = episode_graph(
        make_trajectory("ss", [mute, "go to fridge 1"], [*REPLIES[:2], "Nothing."], env="household")
    )
    assert episode.footprints[0].effect is Effect.MALFORMED
    assert episode.graph.edges == ()
    assert {Fallback.NO_EDGES, Fallback.CONSTANT_STRUCTURE} <= episode.chosen.fallbacks


def test_the_divergence_is_left_out():
    assert structural_way("graphopd")[0].alpha == 0.0
    assert structural_way(step_weights("graphopd", alpha=0.2, damping=0.5))[0].damping == 0.5


def test_the_weights_name_their_kind_of_footprints():
    # To take the egg, the agent has to be there and the fridge open; that it was seen is of kind `text` alone.
    needed = {"location:fridge 1", "container_state:fridge 1"}
    assert episode_graph(fridge_episode()).footprints[2].reads == needed | {"visible_at:fridge 1"}
    assert episode_graph(fridge_episode(), "graph_audited").footprints[2].reads == needed
    with pytest.raises(ConfigError, match="structure 'walk' of exact footprints rest on a teacher or a replay"):
        episode_graph(fridge_episode(), step_weights("graphopd", footprints="exact"))


@pytest.mark.parametrize("name", ["divergence_only", "topk_divergence", "drift_ratio", "replay_impact"])
def test_weights_without_structure_are_refused(name):
    with pytest.raises(ConfigError, match=f"'{name}' rest on a teacher or a replay.*Take one of: graphopd, "):
        episode_graph(fridge_episode(), name)


def test_what_has_no_graph_is_refused():
    with pytest.raises(ConfigError, match="1 steps, expected two or more"):
        episode_graph(make_trajectory("s", env="household"))
    with pytest.raises(ConfigError, match="environment 'counting' has no footprints; household, alfworld"):
        episode_graph(make_trajectory("ss"))
    with pytest.raises(ConfigError, match="Did you mean 'degree'"):
        episode_graph(fridge_episode(), "degre")
