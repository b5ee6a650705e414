"""An endpoint judge out of what a command line says."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

from tutelage.errors import ConfigError
from tutelage.evaluation.judge.endpoint import EndpointJudge
from tutelage.evaluation.judge.prompt import AnswerForm


def endpoint_judge(
    url: str | None,
    model: str | None,
    *,
    api_key_env: str | None = None,
    server: str = "openai",
    form: str = "json",
    votes: int = 1,
    temperature: float = 0.0,
    max_tokens: int = 512,
    concurrency: int = 8,
    structured: bool = True,
    repair: bool = False,
    folder: Path | None = None,
) -> EndpointJudge:
    """A model on an OpenAI-compatible server as the judge. folder: where the requests are accounted for.

    Its `chat` is an `EndpointClient`; close it when done. Raises ConfigError for what cannot be.
    """
    from tutelage.policies.endpoint.client import EndpointClient
    from tutelage.policies.endpoint.config import SERVERS, EndpointConfig, Server

    if url is None or model is None:
        raise ConfigError(
            "judge: an endpoint needs --url and --model, e.g. --url http://127.0.0.1:8000/v1 --model NAME."
        )
    known_server: Server | None = next((one for one in get_args(Server) if one == server), None)
    if known_server is None:
        raise ConfigError.unknown("judge: server", server, SERVERS)
    forms: dict[str, AnswerForm] = {"json": "json", "line": "line"}
    if form not in forms:
        raise ConfigError.unknown("judge: answer form", form, forms)
    config = EndpointConfig(
        url=url,
        model=model,
        name="judge",
        server=known_server,
        api_key_env=api_key_env,
        temperature=temperature,
        max_tokens=max_tokens,
        concurrency=concurrency,
    )
    return EndpointJudge(
        chat=EndpointClient(config, folder=folder),
        model=model,
        form=forms[form],
        temperature=temperature,
        votes=votes,
        structured=structured,
        repair=repair,
        concurrency=concurrency,
    )
