"""How students of the main setting fail: commands that were refused, and how many repeat one refused before.

    python studies/corrections/refusals.py --seeds 2

Reads the models that run.py left in its cache; greedy play of the panel.
"""

from __future__ import annotations

import argparse

from arms import SETTINGS
from chain import Chain
from lab import Lab
from run import CACHE

from tutelage.envs.base import is_no_effect
from tutelage.evaluation.run import evaluate
from tutelage.policies.local import LocalPolicy
from tutelage.tasks.registry import load_tasks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=2)
    setting = SETTINGS["main/n500"]
    panel = load_tasks("household", "test", 0, setting.panel, size=setting.size, max_steps=setting.max_steps)
    for seed in range(parser.parse_args().seeds):
        student, _ = Chain(Lab(setting, seed, CACHE)).student()
        _, summary = evaluate(LocalPolicy(student, temperature=0.0, num_threads=1), panel, concurrency=128)
        refused = repeated = 0
        for one in summary.trajectories:
            replies = [step.observation.text for step in one.steps[1:]]
            replies.append(one.final_observation.text if one.final_observation else "")
            before: set[str | None] = set()
            for step, reply in zip(one.steps, replies, strict=True):
                if is_no_effect(reply):
                    refused += 1
                    repeated += step.action.command in before
                    before.add(step.action.command)
        print(f"seed {seed}: {refused} commands refused, {repeated / refused:.1%} of them refused before", flush=True)


if __name__ == "__main__":
    main()
