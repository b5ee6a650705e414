"""What an endpoint section may say, and what it must never hold."""

from __future__ import annotations

import re

import pytest

from tutelage.errors import ConfigError
from tutelage.policies.endpoint import EndpointClient, EndpointConfig

URL = "http://127.0.0.1:8000/v1"
SECRET = "sk-verysecret0123456789"


def test_the_address_is_read_with_and_without_v1():
    assert EndpointConfig(url=URL, model="m").root == "http://127.0.0.1:8000"
    assert EndpointConfig(url="https://api.example.com/", model="m").root == "https://api.example.com"
    assert EndpointConfig(url=URL, model="m").is_local
    assert not EndpointConfig(url="https://api.example.com/v1", model="m").is_local


@pytest.mark.parametrize(
    "url",
    [f"http://user:{SECRET}@host/v1", f"http://{SECRET}@host", f"https://host/v1?key={SECRET}", f"https://h/#{SECRET}"],
)
def test_an_address_with_a_key_in_it_is_refused_and_not_repeated(url: str):
    with pytest.raises(ConfigError) as error:
        EndpointConfig(url=url, model="m")
    assert SECRET not in str(error.value)


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://host", "http://", "http://host:notaport/", ""])
def test_an_address_that_is_none_is_refused(url: str):
    with pytest.raises(ConfigError, match="base address"):
        EndpointConfig(url=url, model="m")


@pytest.mark.parametrize("value", [SECRET, "abcdef", "A" * 60, "KEY=1", ""])
def test_a_key_in_place_of_a_variables_name_is_refused_and_not_repeated(value: str):
    with pytest.raises(ConfigError, match="name of an environment variable") as error:
        EndpointConfig(url=URL, model="m", api_key_env=value)
    assert not value or value not in str(error.value)


@pytest.mark.parametrize("key", ["api_key", "Authorization", "apikey", "access_token"])
def test_a_key_among_the_further_keys_is_refused(key: str):
    with pytest.raises(ConfigError, match=re.escape(f"extra_body.{key} looks like a key")):
        EndpointConfig(url=URL, model="m", extra_body={key: SECRET})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"server": "vlm"}, "Did you mean 'vllm'"),
        ({"api": "responses"}, "expected chat or completions"),
        ({"max_tries": 0}, "max_tries is 0"),
        ({"max_run_cost": 1.0}, "needs price_prompt"),
        ({"temperature": -1.0}, "temperature is -1.0"),
        ({"top_p": 0.0}, "top_p is 0.0"),
    ],
)
def test_impossible_values_are_refused(options: dict, words: str):
    with pytest.raises(ConfigError, match=re.escape(words)):
        EndpointConfig(url=URL, model="m", **options)


def test_a_variable_that_is_not_set_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("TUTELAGE_TEST_KEY", raising=False)
    with pytest.raises(ConfigError, match="TUTELAGE_TEST_KEY is not set"):
        EndpointClient(EndpointConfig(url=URL, model="m", api_key_env="TUTELAGE_TEST_KEY"))
    monkeypatch.setenv("TUTELAGE_TEST_KEY", "two words")
    with pytest.raises(ConfigError, match="no header can carry"):
        EndpointClient(EndpointConfig(url=URL, model="m", api_key_env="TUTELAGE_TEST_KEY"))


def test_prices_are_for_a_million_tokens():
    config = EndpointConfig(url=URL, model="m", price_prompt=3.0, price_completion=15.0)
    assert config.cost(1000, 100) == pytest.approx(0.0045)


def test_what_decides_an_answer_is_told_from_how_it_is_fetched():
    config = EndpointConfig(url=URL, model="m", concurrency=3, max_run_tokens=7)
    other = EndpointConfig(url="http://other/v1", model="m", api_key_env="SOME_KEY")
    assert config.identity == other.identity
    assert config.identity != EndpointConfig(url=URL, model="n").identity
