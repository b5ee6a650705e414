"""What the training study compares: every arm goes on from the same student, on the same games, with the same draws."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

ROUNDS = 12
TASKS_PER_ROUND = 16
GROUP_SIZE = 8
EVALUATE_EVERY = 3
PANEL = 204
"""Unseen games on which every arm is measured in the end."""
VALIDATION = 100
"""Games of the learning curve; other layouts than the panel's."""
FIRST_GAME = 1000
"""Train games from here on, in each seed's stretch: beyond those of the imitation."""
GAMES_PER_SEED = 20_000
COEFFICIENTS = {"some steps": 0.03, "all steps": 0.1}
"""Of the distillation: for arms that teach some of the steps, and for those that teach all of them. Chosen on a seed of its
own (``--tune``), by as many trials for one as for the other."""
TUNED = (0.01, 0.03, 0.1, 0.3)
TUNING_SEED = 9
TUNING_ARMS = ("graphopd", "uniform")


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One way to go on from the student."""

    label: str
    step_weights: str | None = None
    """A name of `STEP_WEIGHTS`. None: no teacher."""
    settings: dict[str, Any] = field(default_factory=dict)
    """What differs from that name."""
    rounds: int = ROUNDS
    """0: the student as it is."""
    taught: str = "some steps"

    @property
    def coefficient(self) -> float:
        return COEFFICIENTS[self.taught] if self.step_weights else 0.0


ARMS: dict[str, Arm] = {
    "vanilla": Arm(label="the student itself", rounds=0),
    "grpo": Arm(label="GRPO"),
    "uniform": Arm(label="GRPO + uniform distillation", step_weights="uniform", taught="all steps"),
    "graphopd": Arm(label="GraphOPD", step_weights="graphopd"),
    # Ablations of the method
    "soft_pruning": Arm(label="soft pruning", step_weights="soft_pruning", taught="all steps"),
    "divergence_only": Arm(label="divergence only (alpha 1)", step_weights="divergence_only"),
    "structural_only": Arm(label="structure only (alpha 0)", step_weights="structural_only"),
    "shuffled_centrality": Arm(label="shuffled centrality", step_weights="shuffled_centrality"),
    # As many steps as GraphOPD keeps in the same episode, chosen otherwise
    "random_matched": Arm(label="random steps", step_weights="random_matched"),
    "divergence_matched": Arm(
        label="steps of highest divergence", step_weights="random_matched", settings={"order": "divergence"}
    ),
    "position_early": Arm(label="first steps", step_weights="position_early"),
    "position_late": Arm(label="last steps", step_weights="position_late"),
    # Exactly five steps of every episode
    "graph_k5": Arm(label="5 steps of highest aptitude", step_weights="graph_topk", settings={"k": 5}),
    "divergence_k5": Arm(label="5 steps of highest divergence", step_weights="topk_divergence", settings={"k": 5}),
    "random_k5": Arm(label="5 random steps", step_weights="random_k", settings={"k": 5}),
    "late_k5": Arm(label="the last 5 steps", step_weights="late_k", settings={"k": 5}),
    # The mix of structure and divergence
    "alpha_0.2": Arm(label="GraphOPD, alpha 0.2", step_weights="graphopd", settings={"alpha": 0.2}),
    "alpha_0.7": Arm(label="GraphOPD, alpha 0.7", step_weights="graphopd", settings={"alpha": 0.7}),
    # Better credit in the audit: does it teach better?
    "graph_audited": Arm(label="GraphOPD, audited credit", step_weights="graph_audited"),
    "replay_impact": Arm(label="true causal impact", step_weights="replay_impact"),
}
"""In the order in which a seed's arms are run."""

ALPHA_SWEEP = {0.0: "structural_only", 0.2: "alpha_0.2", 0.5: "graphopd", 0.7: "alpha_0.7", 1.0: "divergence_only"}
PRIMARY = "graphopd"
"""The arm that the others are compared with."""
