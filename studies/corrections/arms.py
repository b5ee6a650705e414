"""What the study compares: settings (a world and a student) and, in each, the arms that are trained.

Everything that changes between two rows of a table stands in this file.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A world, a student and how much it may learn from. One chain of arms is run for each setting and seed."""

    part: str
    """The question it belongs to."""
    name: str
    num_episodes: int = 500
    """N: expert episodes behind the student, and episodes added by each arm."""
    size: str = "small"
    """Of the games: ``small`` or ``real``."""
    max_steps: int = 40
    switch_high: int = 30
    """The expert takes over at a step drawn uniformly from 0 to this."""
    temperature: float = 0.4
    """At which the student plays when corrections are collected."""
    student_tokens: int = 1_800_000
    """Tokens (all, not only trained ones) of the student's own training."""
    arm_tokens: int = 600_000
    """The same for each arm, which goes on from the student: equal for all arms."""
    rounds_before: int = 0
    """Rounds of corrections that the student has had: 0 is a student of imitation, 1 goes on from corrections."""
    panel: int = 204
    """Unseen games on which every arm is measured."""
    arms: tuple[str, ...] = ()


MAIN_ARMS = (
    "imitation",
    "more_training",
    "double",
    "corrections",
    "corrections_no_mask",
    "double_equal_steps",
    "self_rollouts",
    "corrections_no_filter",
    "corrections_equal_steps",
    "corrections_equal_tokens",
    "corrections_filter_all",
)
CORE_ARMS = ("imitation", "double", "corrections", "double_equal_steps")

MAIN = Setting(part="main", name="n500", arms=MAIN_ARMS)

SETTINGS: dict[str, Setting] = {
    one.part + "/" + one.name: one
    for one in (
        MAIN,
        # How strong must the student be?
        *(replace(MAIN, part="strength", name=f"n{n}", num_episodes=n, arms=CORE_ARMS) for n in (100, 250, 1000)),
        # Students stronger than imitation alone makes them here: those that were corrected before.
        *(
            replace(
                MAIN,
                part="stronger",
                name=f"corrected{rounds}",
                rounds_before=rounds,
                arms=("imitation", "more_training", "double", "corrections", "double_equal_steps"),
            )
            for rounds in (1, 2)
        ),
        # How far may the student go before the expert takes over?
        *(
            replace(
                MAIN,
                part="switch",
                name=f"high{high}",
                switch_high=high,
                arms=("imitation", "double", "corrections", "corrections_no_mask"),
            )
            for high in (5, 15, 40)
        ),
        # Larger games.
        replace(MAIN, part="size", name="real", size="real", max_steps=50, arms=CORE_ARMS),
        # Greedy and hotter play during collection.
        replace(MAIN, part="temperature", name="t0", temperature=0.0, arms=("imitation", "double", "corrections")),
        replace(MAIN, part="temperature", name="t1", temperature=1.0, arms=("imitation", "double", "corrections")),
        # Three rounds instead of one; arms from the warmed-up model instead of the student.
        replace(MAIN, part="rounds", name="three", arms=("imitation", "double", "corrections", "three_rounds")),
        replace(MAIN, part="start", name="scratch", arms=("imitation", "scratch_double", "scratch_corrections")),
    )
}
