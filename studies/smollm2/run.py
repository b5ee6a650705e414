"""A pretrained student, before and after imitation and corrections; rows land in results/rows.jsonl.

    make smollm2
    python studies/smollm2/run.py --seeds 1 --workers 2         # half an hour a seed on two cores
    python studies/smollm2/summarize.py

The recipe household_oec_smollm2 as it stands but for its seed. Two measures of every model: games won of a panel of unseen
ones, and the loss on the expert's commands in episodes of another panel, which no model has trained on. Stopped at any
moment and started again it goes on.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

import tutelage as t
from tutelage.evaluation.judge.rules import RulesJudge
from tutelage.evaluation.judge.taxonomy import population
from tutelage.evaluation.metrics import is_solved
from tutelage.pipeline.parts import limits, make_expert, start_folder
from tutelage.pipeline.student_text import student_renderer
from tutelage.policies.base import ScoreRequest, TokenScores
from tutelage.policies.scorer import LocalScorer
from tutelage.recipe import Recipe
from tutelage.rollout.runner import make_jobs, run_rollouts
from tutelage.rollout.summary import latest_attempts
from tutelage.rollout.switch import make_rule
from tutelage.run_dir import RunDir
from tutelage.store import read_records
from tutelage.supervision.samples import build_all_samples
from tutelage.supervision.step_masks import expert_steps
from tutelage.tasks.registry import load_tasks
from tutelage.types import Actor, Split, TrainingSample, Trajectory

HERE = Path(__file__).parent
ROWS = HERE / "results" / "rows.jsonl"
RUNS = HERE.parents[1] / "runs" / "study-smollm2"
HELD_OUT_GAMES = 40
"""Games of the validation panel, played by the expert, whose commands are scored."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2, help="stages side by side, one torch thread each")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="of the recipe, for a trial")
    options = parser.parse_args()
    done = {row["seed"] for row in read_rows()}
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        if seed not in done:
            write_rows(seed, options.workers, options.set)


def write_rows(seed: int, workers: int, overrides: list[str]) -> None:
    started = time.perf_counter()
    recipe = t.load_recipe("household_oec_smollm2", set=[f"seed={seed}", *overrides])
    out = RUNS / f"seed{seed}"
    t.run(recipe, out, workers=workers)
    run = RunDir(out)
    stages: dict[str, Any] = json.loads((out / "run.json").read_text())["stages"]
    held_out = held_out_samples(recipe, run)
    rows = []
    for arm in recipe.evaluated:
        played = latest_attempts(read_records(run.evaluation_trajectories_path(arm), "trajectory"))
        trained = stages.get(f"train:{arm}", {}).get("summary")
        rows.append(
            {
                "seed": seed,
                "arm": arm,
                "outcomes": {one.task_id: int(is_solved(one)) for one in sorted(played, key=lambda one: one.task_id)},
                "mean_steps": sum(len(one.steps) for one in played) / len(played),
                "stop_reasons": {
                    reason: sum(one.stop_reason.value == reason for one in played)
                    for reason in sorted({one.stop_reason.value for one in played})
                },
                "failures": failures(played),
                **losses(start_folder(recipe, arm, run), held_out),
                "train": trained,
                "expert_steps": expert_steps_of(stages, arm),
                "curve": curve(run, arm) if trained else None,
                "stage_seconds": round(sum(stage["seconds"] for stage in stages.values()), 1),
            }
        )
        print(arm, f"{sum(rows[-1]['outcomes'].values())}/{len(played)}", f"loss {rows[-1]['loss']:.3f}", flush=True)
    for row in rows:
        row["wall_seconds"] = round(time.perf_counter() - started, 1)
    ROWS.parent.mkdir(exist_ok=True)
    with ROWS.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def held_out_samples(recipe: Recipe, run: RunDir) -> list[TrainingSample]:
    """The expert's episodes on the first games of the validation panel, as the students read them."""
    assert recipe.expert is not None
    tasks = load_tasks("household", Split.VALIDATION, start=0, count=HELD_OUT_GAMES, **recipe.env.options)
    policies = {Actor.EXPERT: make_expert(recipe, recipe.expert)}
    played: list[Trajectory] = []
    run_rollouts(
        make_jobs(tasks),
        policies=policies,
        rule=make_rule("expert_only"),
        limits=limits(recipe, policies),
        on_trajectory=played.append,
    )
    renderer = student_renderer(recipe, start_folder(recipe, "start", run))
    samples, _ = build_all_samples(played, expert_steps, renderer)
    return samples


def losses(folder: Path, samples: list[TrainingSample]) -> dict[str, float]:
    """Mean over all command tokens, in nats, and the part of commands whose every token is the most probable one."""
    scorer = LocalScorer(folder, dtype="bfloat16", micro_batch_tokens=2048)
    requests = [
        ScoreRequest(
            request_id=sample.sample_id,
            token_ids=np.array(sample.token_ids),
            positions=np.flatnonzero(np.array(sample.loss_mask)),
        )
        for sample in samples
    ]
    values: list[float] = []
    right = steps = 0
    for sample, answer in zip(samples, scorer.score(requests, "topk", k=1), strict=True):
        assert isinstance(answer, TokenScores), answer
        assert answer.top_ids is not None
        values += answer.logprobs.tolist()
        positions = np.flatnonzero(np.array(sample.loss_mask))
        hit = dict(
            zip(
                positions.tolist(),
                (answer.top_ids[:, 0] == np.array(sample.token_ids)[positions]).tolist(),
                strict=True,
            )
        )
        for _, start, end in sample.step_spans:
            steps += 1
            right += all(hit[position] for position in range(start, end))
    return {"loss": -float(np.mean(values)), "commands_right": right / steps, "scored_tokens": len(values)}


def expert_steps_of(stages: dict[str, Any], arm: str) -> dict[str, int]:
    """Expert steps in the data of an arm, by where they come from. Empty: it was not trained."""
    summary = stages.get(f"build:{arm}", {}).get("summary", {"sources": {}})
    return {name: source["expert_steps"] for name, source in summary["sources"].items()}


def failures(played: list[Trajectory]) -> dict[str, int]:
    """Why the lost games were lost, by the rules of the judge."""
    judge = RulesJudge()
    found = Counter(str(judge.judge(one).category) for one in population(played).unresolved)
    return dict(sorted(found.items()))


def curve(run: RunDir, arm: str) -> list[dict[str, float]]:
    """Loss of each update."""
    rows = [json.loads(line) for line in (run.model_dir(arm) / "metrics.jsonl").read_text().splitlines()]
    return [{"update": row["update_index"], "loss": round(row["loss"], 4)} for row in rows]


def read_rows() -> list[dict[str, Any]]:
    return [json.loads(line) for line in ROWS.read_text().splitlines()] if ROWS.is_file() else []


if __name__ == "__main__":
    main()
