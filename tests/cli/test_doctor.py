"""The verb `doctor`: versions, missing extras, conflicts that apply, and the probe of a server."""

from __future__ import annotations

import json

import pytest

from tutelage.cli import doctor
from tutelage.cli.main import main
from tutelage.policies.endpoint.config import EndpointConfig
from tutelage.policies.endpoint.probe import probe, table_of
from tutelage.testing.fault_server import FaultServer


def conflicts(**versions: str) -> list[str]:
    found = {"python": "3.11.7", **{name.replace("_", "-"): version for name, version in versions.items()}}
    return [one.text.split(".")[0] for one in doctor.CONFLICTS if one.applies(found)]


def test_a_version_is_its_numbers():
    assert doctor.release("2.13.0+cpu") == (2, 13, 0)
    assert doctor.release("5.24.0.dev0") == (5, 24, 0)
    assert doctor.release("unknown") == ()


def test_only_conflicts_that_apply_are_told():
    assert conflicts(transformers="5.24.0", trl="1.16.0", torch="2.13.0+cpu") == []
    assert conflicts(verl="0.9.1", transformers="5.10.2", tensordict="0.10.0") == []
    assert conflicts(verl="0.9.1", transformers="5.24.0")[0].startswith("verl 0")
    assert len(conflicts(verl="0.9.1", transformers="5.24.0", tensordict="0.12.1")) == 2
    assert len(conflicts(verifiers="0.4.0", openai="3.57.0")) == 1
    assert conflicts(verifiers="0.4.0", openai="2.54.0") == []
    assert len(conflicts(mlflow="3.17.2", pyarrow="26.0.1")) == 1
    assert len(conflicts(harbor="1.0")) == 1
    assert len(conflicts(vllm="0.21.0", transformers="5.3.0")) == 1


def test_an_extra_that_lacks_a_package_is_named_with_the_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(doctor, "extras_of", lambda: {"": ["numpy"], "serve": ["numpy", "nowhere-package"]})
    assert main(["doctor"]) == 0
    said = capsys.readouterr().out
    assert 'lacks nowhere-package. Run: pip install "tutelage[serve]"' in said
    assert said.startswith("tutelage ")
    assert main(["doctor", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["missing"] == {"serve": ["nowhere-package"]}


def test_the_real_extras_are_read(capsys: pytest.CaptureFixture[str]):
    extras = doctor.extras_of()
    assert "numpy" in extras[""]
    assert "torch" in extras["train"]
    main(["doctor", "--json"])
    assert json.loads(capsys.readouterr().out)["versions"]["numpy"]


def test_the_probe_of_a_server(capsys: pytest.CaptureFixture[str]):
    with FaultServer() as server:
        main(["doctor", "--endpoint", server.url, "--json"])
    found = {one["name"]: one["works"] for one in json.loads(capsys.readouterr().out)["endpoint"]["capabilities"]}
    assert found == {
        "models": True,
        "chat": True,
        "chat: usage": True,
        "chat: tools": None,
        "chat: JSON by schema": False,
        "completions of text": True,
        "completions of ids": True,
        "ids back (vllm)": True,
        "ids back (sglang)": True,
        "ids back (llama_cpp)": False,
        "log-probabilities of prompts (vllm)": True,
        "log-probabilities of prompts (sglang)": True,
        "log-probabilities of prompts (openai)": True,
        "their 5 most probable ids (vllm)": False,
        "their 5 most probable ids (sglang)": False,
    }


def test_a_server_that_is_not_there_ends_with_1(capsys: pytest.CaptureFixture[str]):
    assert main(["doctor", "--endpoint", "http://127.0.0.1:9/v1"]) == 1
    assert "models  no       transport: " in capsys.readouterr().out


def test_a_wrong_key_is_said_once_and_never_shown(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TUTELAGE_TEST_KEY", "sk-wrong-0123456789abcdef")
    with FaultServer(
        key="another-key-0123456789", status=(401, {"error": "sk-wrong-0123456789abcdef is no key"})
    ) as server:
        found = probe(EndpointConfig(url=server.url, model="fake", api_key_env="TUTELAGE_TEST_KEY"))
    assert "sk-wrong" not in table_of(found)
    assert any("auth" in one.detail for one in found)
