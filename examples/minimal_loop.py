"""Expert corrections from start to end on one page, without tutelage's records, runner and trainer.

Only the game, its expert and the tiny student are imported; everything that the method is stands below, top to bottom:
expert episodes -> imitation -> the student acts and the expert takes over in the live game -> filter -> mask by author
-> training on the expert's part -> evaluation on unseen games.

    python examples/minimal_loop.py                     about four minutes on one core
    python examples/minimal_loop.py --games 12 --updates 4 --panel 6        a few seconds, to see it run
"""

from __future__ import annotations

import argparse
import random
from dataclasses import dataclass

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from tutelage.envs.household.engine import Engine
from tutelage.envs.household.generator import generate_game
from tutelage.policies.base import PartialTrajectory
from tutelage.policies.experts.household import HouseholdExpert
from tutelage.students import student_path
from tutelage.types import Action, Actor, Observation, Step, Task

MAX_STEPS = 40
MAX_COMMAND_TOKENS = 10


@dataclass
class Episode:
    """One play. `authors[i]` made `commands[i]` after seeing `texts[i]`; texts has one more entry, the last reply."""

    texts: list[str]
    commands: list[str]
    authors: list[str]
    won: bool


def play(game_seed: int, student: Student | None, expert: HouseholdExpert, switch_step: int) -> Episode:
    """The student acts until `switch_step`, then the expert goes on in the same game."""
    engine = Engine(generate_game(game_seed))
    episode = Episode([engine.reset()], [], [], False)
    while not engine.won and len(episode.commands) < MAX_STEPS:
        if student is not None and len(episode.commands) < switch_step:
            command, author = student.act(episode), "student"
        else:
            command, author = ask(expert, game_seed, episode), "expert"
        episode.texts.append(engine.step(command))
        episode.commands.append(command)
        episode.authors.append(author)
    episode.won = engine.won
    return episode


def ask(expert: HouseholdExpert, game_seed: int, episode: Episode) -> str:
    """The expert sees the texts and commands so far, and not who made them."""
    steps = tuple(
        Step(observation=Observation.of(text), action=Action.of(command), actor=Actor.EXPERT)
        for text, command in zip(episode.texts, episode.commands, strict=False)
    )
    name = f"game-{game_seed}"
    task = Task(task_id=name, env="household", goal="")
    now = Observation.of(episode.texts[-1])
    action = expert.act(PartialTrajectory(trajectory_id=name, task=task, steps=steps, observation=now, seed=game_seed))
    return action.command or "look"


class Student:
    """A causal LM over `<|bos|> <|obs|> text <|act|> command <|end|> <|obs|> text <|act|> ...`"""

    def __init__(self, folder: str, learning_rate: float) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.model = AutoModelForCausalLM.from_pretrained(folder)
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=learning_rate, betas=(0.9, 0.98), weight_decay=0.05
        )
        tokens = ("<|bos|>", "<|obs|>", "<|act|>", "<|end|>")
        self.bos, self.obs, self.act_id, self.end = self.tokenizer.convert_tokens_to_ids(list(tokens))

    def encode(self, text: str) -> list[int]:
        return self.tokenizer(text, add_special_tokens=False)["input_ids"]

    def tokens(self, episode: Episode, trained_author: str | None = None) -> tuple[list[int], list[bool]]:
        """The whole episode as ids, and which of them are trained: the commands of one author, each with its end."""
        ids, mask = [self.bos], [False]
        for index, text in enumerate(episode.texts):
            seen = [self.obs, *self.encode(text), self.act_id]
            ids += seen
            mask += [False] * len(seen)
            if index < len(episode.commands):
                said = [*self.encode(episode.commands[index]), self.end]
                ids += said
                mask += [episode.authors[index] == trained_author] * len(said)
        return ids, mask

    @torch.no_grad()
    def act(self, episode: Episode) -> str:
        """Greedy. The past is read again at every step; tutelage's own policy keeps it and plays many games at once."""
        ids, _ = self.tokens(episode)
        self.model.eval()
        prompt = torch.tensor([ids])
        everything = torch.ones_like(prompt)
        out = self.model.generate(prompt, attention_mask=everything, max_new_tokens=MAX_COMMAND_TOKENS, do_sample=False)
        said = [token for token in out[0, len(ids) :].tolist() if token != self.end]
        return self.tokenizer.decode(said)

    def update(self, episodes: list[Episode], trained_author: str) -> float:
        """One step of AdamW on the mean loss of all trained tokens in the batch."""
        rows = [self.tokens(episode, trained_author) for episode in episodes]
        length = max(len(ids) for ids, _ in rows)
        # Padding comes last, and a causal model never looks ahead: no attention mask is needed.
        ids = torch.tensor([row + [self.end] * (length - len(row)) for row, _ in rows])
        mask = torch.tensor([row + [False] * (length - len(row)) for _, row in rows])
        self.model.train()
        logits = self.model(ids[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits[mask[:, 1:]], ids[:, 1:][mask[:, 1:]])
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return float(loss.detach())

    def train(self, episodes: list[Episode], num_updates: int, seed: int, trained_author: str = "expert") -> None:
        rng = random.Random(seed)
        for update in range(num_updates):
            loss = self.update(rng.sample(episodes, min(8, len(episodes))), trained_author)
            if update % max(1, num_updates // 5) == 0:
                print(f"  update {update:4d}  loss {loss:.3f}")


def success(student: Student, panel: range) -> float:
    expert = HouseholdExpert(search="list")
    return sum(play(seed, student, expert, switch_step=MAX_STEPS).won for seed in panel) / len(panel)


def has_loop(episode: Episode) -> bool:
    """Three equal commands of the expert in a row; the student's part is not trained, so it is not judged."""
    said = [c if a == "expert" else None for c, a in zip(episode.commands, episode.authors, strict=True)]
    return any(a is not None and a == b == c for a, b, c in zip(said, said[1:], said[2:], strict=False))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", type=int, default=200, help="expert episodes, and corrected episodes")
    parser.add_argument("--updates", type=int, default=400, help="updates of each of the two trainings")
    parser.add_argument("--panel", type=int, default=60, help="unseen games")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    rng = random.Random(options.seed)
    expert = HouseholdExpert(search="list")
    panel = range(1_000_000, 1_000_000 + options.panel)

    shown = [play(seed, None, expert, switch_step=0) for seed in range(options.games)]
    print(f"expert     {len(shown)} episodes, {sum(e.won for e in shown)} won")
    student = Student(str(student_path("builtin:household_tiny")), learning_rate=2e-3)
    student.train([e for e in shown if e.won], options.updates, options.seed)
    print(f"imitation  success {success(student, panel):.2f} on {len(panel)} unseen games")

    drawn = [play(seed, student, expert, rng.randint(0, 30)) for seed in range(options.games, 2 * options.games)]
    kept = [e for e in drawn if e.won and "expert" in e.authors and not has_loop(e)]
    print(f"corrected  {len(drawn)} drawn, {len(kept)} kept")
    student.train([e for e in shown if e.won] + kept, options.updates, options.seed + 1)
    print(f"corrected  success {success(student, panel):.2f} on {len(panel)} unseen games")


if __name__ == "__main__":
    main()
