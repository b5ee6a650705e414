"""A model behind an endpoint as a policy: student or expert, by chat messages or by prompts of token ids.

    policy = EndpointPolicy(EndpointConfig(url="http://127.0.0.1:8000/v1", model="m"), name="expert")
    run_rollouts(jobs, policies={Actor.EXPERT: policy}, rule=Never())

Episodes that it plays in run in threads. When an episode is over, what was still asked for it is called off.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from tutelage.envs.action_formats import ActionFormat
from tutelage.envs.action_formats.named import FORMAT_NAMES, format_named
from tutelage.envs.registry import load_place
from tutelage.errors import ConfigError, ContextOverflow, EndpointError, EndpointRefused
from tutelage.policies.base import PartialTrajectory, SingleActPolicy
from tutelage.policies.chat_view import ChatView
from tutelage.policies.endpoint.client import EndpointClient
from tutelage.policies.endpoint.completion import Completion
from tutelage.policies.endpoint.config import EndpointConfig
from tutelage.policies.endpoint.tokenizer import renderer_of
from tutelage.rendering.base import Renderer
from tutelage.rendering.context import ContextRule, Full
from tutelage.rendering.episode import render_episode
from tutelage.types import Action, ParseOutcome, stable_hash

REFUSALS: Final = ("auth", "not_found", "quota")
"""Reasons that end the run: they are the user's to mend."""


class EndpointPolicy(SingleActPolicy):
    """Asks an endpoint for each action.

    keep_token_ids: keep the ids and log-probabilities that the server gives for what it sampled. Right for a student, and
    only if the server's vocabulary is the student's; the text of an expert is encoded later, by the student's renderer.
    Where a server gives none, `token_ids` of the action is None, and `num_retokenised` counts it.

    A reply cut off by `max_tokens` is `ENDED_WITHOUT_STOP`. One that the model or its host refused is whatever its text
    is, in general `MALFORMED`, and its `raw` holds the finish reason.

    Raises on `act`: `ContextOverflow`, `EndpointError`, `EpisodeBudgetSpent`; `RunBudgetSpent` and `EndpointRefused` (key, model
    or account) for the run as a whole.
    """

    blocking = True

    def __init__(
        self,
        config: EndpointConfig,
        *,
        name: str = "expert",
        client: EndpointClient | None = None,
        folder: str | Path | None = None,
        context_rule: ContextRule = Full(),
        temperature: float | None = None,
        announce: str | None = None,
        keep_token_ids: bool = True,
        renderer: Renderer | None = None,
        action_format: ActionFormat | None = None,
        env_format: ActionFormat | None = None,
        seed: int = 0,
    ) -> None:
        """temperature: None, the config's. folder: of the ledger, where no client is given. renderer: None, from the
        config's tokenizer. action_format: of the style text, where the config names none. env_format: of the environment that it will play, whose calls a format of calls has
        that the config names."""
        self.config = config
        self.name = name
        self.version = f"{config.name}:{config.model}"
        self.client = client or EndpointClient(config, folder=folder)
        self.context_rule = context_rule
        self.temperature = config.temperature if temperature is None else temperature
        self.keep_token_ids = keep_token_ids
        self.seed = seed
        self.num_retokenised = 0
        """Actions whose ids the server did not give, or gave for another prompt than the renderer's."""
        self.view = ChatView(
            style=config.style,
            action_format=format_of(config, env_format) or action_format,
            instructions=config.instructions,
            announce=announce,
            context_rule=context_rule,
        )
        needs_renderer = config.api == "completions" or (keep_token_ids and config.tokenizer is not None)
        self.renderer = renderer if renderer is not None else (renderer_of(config) if needs_renderer else None)

    def act(self, so_far: PartialTrajectory) -> Action:
        """The next action of one episode."""
        drawn = stable_hash(self.seed, so_far.seed, len(so_far.steps))
        options: dict[str, Any] = {
            # Greedy answers need no seed, and not every server takes one.
            "seed": drawn % 2**31 if self.temperature > 0.0 else None,
            "temperature": self.temperature,
            "episode": so_far.trajectory_id,
            "draw": f"{self.name}/{drawn}",
        }
        try:
            if self.config.api == "completions":
                action, completion = self._complete(so_far, options)
            else:
                action, completion = self._chat(so_far, options)
        except EndpointError as error:
            if error.reason == "context_overflow":
                raise ContextOverflow(str(error), trajectory_ids=(so_far.trajectory_id,), role=self.name) from error
            if error.reason in REFUSALS:
                # No other episode would fare better, and each would try several times.
                raise EndpointRefused(str(error)) from error
            raise
        if completion.model:
            # Names such as "latest" move on; what answered is what is recorded.
            self.version = f"{self.config.name}:{completion.model}"
        return _marked(action, completion)

    def release(self, trajectory_id: str) -> None:
        """The episode is over: call off what is still under way for it."""
        self.client.cancel(trajectory_id)

    def close(self) -> None:
        """End the client's thread."""
        self.client.close()

    def _chat(self, so_far: PartialTrajectory, options: Mapping[str, Any]) -> tuple[Action, Completion]:
        completion = self.client.chat(self.view.messages(so_far), tools=self.view.tools(so_far.task), **options)
        action = self.view.read({**completion.raw, "role": "assistant"}, so_far.task)
        ids = completion.token_ids
        if self.keep_token_ids:
            # A server's own template may differ from ours; ids of another prompt would be trained in a wrong context.
            fits = (
                self.renderer is not None
                and ids is not None
                and completion.prompt_token_ids == tuple(self._context_ids(so_far))
            )
            if fits:
                return replace(action, token_ids=ids, rollout_logprobs=completion.logprobs), completion
            self.num_retokenised += 1
        return action, completion

    def _complete(self, so_far: PartialTrajectory, options: Mapping[str, Any]) -> tuple[Action, Completion]:
        assert self.renderer is not None
        context = self._context_ids(so_far)
        if len(context) + self.config.max_tokens > self.config.max_context:
            raise ContextOverflow(
                f"trajectory {so_far.trajectory_id}: {len(context)} context tokens and up to {self.config.max_tokens} of the "
                f"action exceed max_context {self.config.max_context}.",
                trajectory_ids=(so_far.trajectory_id,),
                role=self.name,
            )
        renderer, action_format = self.renderer, self.view.action_format
        # Of the servers that give no ids back, this one reads none either.
        prompt = renderer.decode(context) if self.config.server == "transformers" else context
        completion = self.client.complete(prompt, stop_token_ids=renderer.stop_token_ids, **options)
        ids = completion.token_ids
        if ids:
            action = renderer.parse(ids, stopped=ids[-1] in renderer.stop_token_ids)
            if action_format is not None:
                action = action_format.apply(action)
            if self.keep_token_ids:
                return replace(action, rollout_logprobs=completion.logprobs), completion
            return replace(action, token_ids=None, rollout_logprobs=None), completion
        self.num_retokenised += self.keep_token_ids
        command = completion.text.strip()
        if not command:
            return Action(text=completion.text, parse=ParseOutcome.MALFORMED), completion
        action = Action(text=completion.text, command=command)
        return action if action_format is None else action_format.apply(action), completion

    def _context_ids(self, so_far: PartialTrajectory) -> list[int]:
        assert self.renderer is not None
        segments = render_episode(so_far.steps, so_far.observation, self.renderer, self.context_rule)
        return [token_id for segment in segments for token_id in segment.token_ids]


def endpoint_expert(**options: Any) -> EndpointPolicy:
    """An expert by the keys of `EndpointConfig`, e.g. ``make_expert("endpoint", url=..., model=...)``."""
    return EndpointPolicy(EndpointConfig(**options), keep_token_ids=False)


def format_of(config: EndpointConfig, env_format: ActionFormat | None) -> ActionFormat | None:
    """The format that a config names for the actions of its model. None: the environment's own."""
    name, where = config.action_format, f"endpoint '{config.name}': action_format"
    if name is None:
        return None
    if ":" not in name:
        if name not in FORMAT_NAMES:
            raise ConfigError.unknown(where, name, [*FORMAT_NAMES, "module:NAME"])
        return format_named(name, env_format, where)
    found: Any = load_place(name)
    made: ActionFormat = found() if isinstance(found, type) else found
    return made


def _marked(action: Action, completion: Completion) -> Action:
    """With what the finish reason says: a cut reply is never whole, and a refusal is told from nonsense."""
    if completion.cut and action.parse is ParseOutcome.CLEAN:
        action = replace(action, parse=ParseOutcome.ENDED_WITHOUT_STOP)
    if completion.cut or completion.refused:
        action = replace(action, raw={**(action.raw or {}), "finish_reason": completion.finish_reason})
    return action
