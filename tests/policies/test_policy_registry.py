from __future__ import annotations

import pytest

from tutelage.errors import ConfigError
from tutelage.policies.experts.household import HouseholdExpert
from tutelage.policies.registry import make_expert


def test_an_expert_is_made_by_the_name_of_its_environment():
    expert = make_expert("household", search="list", skip=True)
    assert isinstance(expert, HouseholdExpert)
    assert (expert.search, expert.skip) == ("list", True)
    assert expert.version == "household_expert-1/list/skip"


def test_an_unknown_environment_is_refused_with_a_suggestion():
    with pytest.raises(ConfigError, match=r"unknown 'houshold'\. Did you mean 'household'"):
        make_expert("houshold")


def test_an_unknown_option_is_refused():
    with pytest.raises(ConfigError, match=r"expert of 'household': options \['order'\] do not fit"):
        make_expert("household", order="list")


def test_scripted_is_the_usual_expert_of_the_environment():
    assert isinstance(make_expert("scripted", env="household", search="list"), HouseholdExpert)
    with pytest.raises(ConfigError, match="unknown 'scripted'"):
        make_expert("scripted")


def test_an_environment_may_be_played_by_the_expert_of_another():
    assert isinstance(make_expert("household", env="alfworld"), HouseholdExpert)
