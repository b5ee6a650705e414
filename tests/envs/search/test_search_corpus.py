"""The generated worlds: true to themselves, apart from each other, told in words that all splits share."""

from __future__ import annotations

import random
import re

import pytest

from tutelage.envs.search.corpus import QUESTIONS, SIZES, World, question_of, world_of
from tutelage.envs.search.names import PARTS, names, split_of
from tutelage.envs.search.relations import CLOSED_VALUES, LISTS, RELATIONS, read_value
from tutelage.types import Split

SPLITS = tuple(Split)


@pytest.fixture(params=["small", "large"])
def world(request: pytest.FixtureRequest) -> World:
    return world_of(request.param, Split.TRAIN, 0, 0)


def test_names_are_two_words_and_belong_to_one_split() -> None:
    for entity_type, (first, second) in PARTS.items():
        of_split = [set(names(entity_type, split)) for split in SPLITS]
        assert sum(map(len, of_split)) == len(set.union(*of_split)) == len(first) * len(second)
        # Enough for the largest world, and every word of a name in every split but for the rare kinds.
        assert min(map(len, of_split)) >= max(size[entity_type] for size in SIZES.values())
    assert split_of("Silent Harbor") is split_of("Silent Harbor")


def test_a_word_of_a_name_tells_its_place_and_nothing_else_uses_it() -> None:
    parts = [word for pair in PARTS.values() for part in pair for word in part]
    assert len(parts) == len(set(parts)) == 408
    values = [value for found in CLOSED_VALUES.values() for value in found]
    assert len(values) == len(set(values))
    assert not set(parts) & set(values)
    told = " ".join(
        [sentence for relations in RELATIONS.values() for relation in relations for sentence in relation.sentences]
        + [phrase for relations in RELATIONS.values() for relation in relations for phrase in relation.phrases]
        + [text for pair in LISTS.values() for text in pair]
    )
    assert not set(re.findall(r"\w+", told)) & {*parts, *values}


def test_sizes(world: World) -> None:
    assert {kind: list(world.types.values()).count(kind) for kind in PARTS} == SIZES[world.size]
    entity_passages = [passage for passage in world.passages if passage.title in world.types]
    assert len(entity_passages) == len(world.types)
    assert len({passage.title for passage in world.passages}) == len(world.passages)
    assert max(len(passage.text.split()) for passage in world.passages) <= 40
    for hops in (2, 3):
        assert len(world.chains(hops)) >= QUESTIONS[world.size]


def test_every_passage_tells_the_facts_of_its_entity_and_no_others(world: World) -> None:
    texts = {passage.title: passage.text for passage in world.passages}
    for name, entity_type in list(world.types.items())[:: len(world.types) // 150]:
        for relation in RELATIONS[entity_type]:
            assert read_value(relation, name, texts[name]) == world.facts[name, relation.name]
    listed = [passage for passage in world.passages if passage.title not in world.types]
    assert len(listed) > 30
    for (entity_type, relation), (title, _) in LISTS.items():
        for passage in listed:
            if match := re.fullmatch(re.escape(title).replace(re.escape("{v}"), "(.+)"), passage.title):
                told = re.findall(r"[A-Z]\w+ [A-Z]\w+", passage.text.partition(" were ")[0])
                assert {world.types[name] for name in told} == {entity_type}
                assert {world.facts[name, relation] for name in told} == {match[1]}


def test_marriage_holds_both_ways_and_capitals_lie_at_home(world: World) -> None:
    facts = world.facts
    people = [name for name, entity_type in world.types.items() if entity_type == "person"]
    assert all(facts[facts[name, "spouse"], "spouse"] == name != facts[name, "spouse"] for name in people)
    countries = [name for name, entity_type in world.types.items() if entity_type == "country"]
    assert all(facts[facts[name, "capital"], "country"] == name for name in countries)
    assert all(value != name for (name, _), value in facts.items())


def test_chains_lead_where_the_facts_lead(world: World) -> None:
    for hops in (2, 3):
        chains = world.chains(hops)
        assert len({(chain.start, chain.relations) for chain in chains}) == len(chains)
        for chain in chains[:500]:
            assert len(chain.relations) == len(chain.path) == hops
            reached = chain.start
            for entity, relation in zip(chain.path, chain.relations, strict=True):
                assert entity == reached
                reached = world.facts[entity, relation.name]
            assert reached == chain.answer
            assert len({*chain.path, chain.answer}) == hops + 1
            question = question_of(chain, random.Random(0))
            assert chain.start in question
            # Nothing on the way is told.
            assert not any(name in question for name in (*chain.path[1:], chain.answer))


def test_no_two_splits_share_an_entity_but_they_share_their_words() -> None:
    worlds = {split: [world_of("small", split, 0, number) for number in range(5)] for split in SPLITS}
    entities = {split: {name for world in of_split for name in world.types} for split, of_split in worlds.items()}
    words = {split: {word for name in found for word in name.split()} for split, found in entities.items()}
    for one in SPLITS:
        for other in SPLITS:
            if one is not other:
                assert not entities[one] & entities[other]
    # 300 training questions show a student the words of other splits' names.
    assert len(words[Split.TEST] - words[Split.TRAIN]) / len(words[Split.TEST]) < 0.02
    texts = " ".join(passage.text + passage.title for world in worlds[Split.TEST] for passage in world.passages)
    assert not any(name in texts for name in entities[Split.TRAIN])


def test_a_world_hangs_on_all_that_names_it() -> None:
    hashes = {
        world_of(*args).content_hash
        for args in [
            ("small", Split.TRAIN, 0, 0),
            ("small", Split.TRAIN, 0, 1),
            ("small", Split.TRAIN, 1, 0),
            ("small", Split.TEST, 0, 0),
        ]
    }
    assert len(hashes) == 4


def test_a_world_by_its_bytes() -> None:
    # Stored tasks name worlds by numbers: a change here changes them all, so bump the task ids with it.
    world = world_of("small", Split.TRAIN, 0, 0)
    assert world.content_hash[:16] == "9b767dd56b05a6f2"
    chain = world.chains(3)[0]
    assert (
        question_of(chain, random.Random(0))
        == "What is the birth year of the person who taught the person who taught Mila Palmer?"
    )
