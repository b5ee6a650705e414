"""Privileged contexts: what they tell, where it goes, and how the policy that is told plays."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tutelage.envs.registry import make_env
from tutelage.errors import ConfigError, FormatError, PolicyError
from tutelage.policies.base import PartialTrajectory, Policy, SingleActPolicy
from tutelage.policies.privileged import (
    PRIVILEGED_CONTEXTS,
    Peer,
    Plan,
    PrivilegedContext,
    PrivilegedPolicy,
    Skills,
    as_text,
    make_context,
    with_privilege,
    with_privileged_context,
)
from tutelage.policies.scripted import ScriptedPolicy
from tutelage.rendering.load import load_renderer
from tutelage.rollout.episode import run_episode
from tutelage.rollout.switch import Never
from tutelage.students import student_path
from tutelage.supervision.samples import build_samples
from tutelage.supervision.step_masks import all_steps
from tutelage.tasks.registry import load_tasks
from tutelage.testing import counting_task, make_trajectory
from tutelage.types import Action, Actor, Message, Observation, StopReason, Task, Trajectory

TASKS = load_tasks("household", "train", 0, 6, size="small")


def of_kind(kind: str) -> Task:
    return Task(task_id="t", env="toy", goal="g", kind=kind)


def test_skills_by_kind_and_by_default() -> None:
    skills = Skills({"heat": "use the microwave", "cool": "use the fridge"})
    assert skills.text(of_kind("heat")) == "use the microwave"
    assert skills.text(of_kind("slice")) is None
    assert Skills({"default": "look around"}).text(of_kind("slice")) == "look around"


def test_skills_from_files(tmp_path: Path) -> None:
    (tmp_path / "skills.json").write_text(json.dumps({"heat": "use the microwave"}))
    (tmp_path / "skills.yaml").write_text("heat: |\n  use the\n  microwave\ndefault: look around\n")
    assert Skills(tmp_path / "skills.json").text(of_kind("heat")) == "use the microwave"
    assert Skills(str(tmp_path / "skills.yaml")).text(of_kind("heat")) == "use the\nmicrowave\n"
    with pytest.raises(ConfigError, match=r"nowhere\.yaml does not exist"):
        Skills(tmp_path / "nowhere.yaml")
    for number, broken in enumerate(("heat: [1, 2]", "- heat", "heat: 3", "a: b: c")):
        path = tmp_path / f"broken{number}.yaml"
        path.write_text(broken)
        with pytest.raises(FormatError, match=path.name):
            Skills(path)


@pytest.mark.parametrize("source", ["expert", "shortest"])
def test_a_plan_wins_its_task(source: str) -> None:
    plan = make_context("plan", source=source)
    for task in TASKS:
        text = plan.text(task)
        assert text is not None
        env = make_env(task)
        env.reset(task.seed)
        results = [env.step(Action.of(command)) for command in text.split("\n")]
        assert [one.terminated for one in results] == [False] * (len(results) - 1) + [True]


def test_a_shortest_plan_is_no_longer_than_the_experts() -> None:
    lengths = [
        [len((Plan(source).text(task) or "").split("\n")) for task in TASKS] for source in ("shortest", "expert")
    ]
    assert all(short <= long for short, long in zip(*lengths, strict=True))
    assert sum(lengths[0]) < sum(lengths[1])


def test_a_plan_is_made_once_and_only_from_a_win() -> None:
    class Counting(ScriptedPolicy):
        num_episodes = 0

        def release(self, trajectory_id: str) -> None:
            self.num_episodes += 1

    loser = Counting([], then="look")
    plan = Plan(expert=loser)
    assert [plan.text(TASKS[0]), plan.text(TASKS[0]), plan.text(TASKS[1])] == [None, None, None]
    assert loser.num_episodes == 2


def test_plans_are_refused_where_there_is_none() -> None:
    with pytest.raises(ConfigError, match="unknown 'best'"):
        make_context("plan", source="best")
    with pytest.raises(ConfigError, match="asks no expert"):
        Plan("shortest", expert=ScriptedPolicy([]))
    with pytest.raises(ConfigError, match="task count-1: environment: unknown 'counting'"):
        Plan("shortest").text(counting_task())
    with pytest.raises(ConfigError, match="expert of an environment: unknown 'counting'"):
        Plan().text(counting_task())


def test_a_peer_is_the_shortest_other_success() -> None:
    task = Task(task_id="task-1", env="counting", goal="g")
    long = make_trajectory("sss", ["add", "look", "add"], sample_index=0)
    short = make_trajectory("ss", ["add", "add"], sample_index=1)
    lost = make_trajectory("s", ["look"], sample_index=2, reward=0.0)
    cut = make_trajectory("s", ["x"], sample_index=3, stop_reason=StopReason.MAX_STEPS)
    crashed = make_trajectory("s", ["y"], sample_index=4, stop_reason=StopReason.ENV_ERROR)
    other = make_trajectory("s", ["z"], task_id="task-2")
    group = [long, short, lost, cut, crashed, other]
    peer = Peer()
    assert peer.text(task, long, group) == "add\nadd"
    assert peer.text(task, short, group) == "add\nlook\nadd"
    assert peer.text(task, lost, group) == "add\nadd"
    assert peer.text(task, short, [short, lost, cut, crashed, other]) is None
    assert peer.text(task, short) is None


def test_contexts_by_name() -> None:
    assert set(PRIVILEGED_CONTEXTS) == {"skills", "plan", "peer"}
    for kind, options in (("skills", {"texts": {}}), ("plan", {}), ("peer", {})):
        context = make_context(kind, **options)
        assert isinstance(context, PrivilegedContext)
        assert context.name == kind
    with pytest.raises(ConfigError, match=r"unknown 'pear'\. Did you mean 'peer'"):
        make_context("pear")
    with pytest.raises(ConfigError, match=r"'peer': options \['texts'\] do not fit"):
        make_context("peer", texts={})


def test_a_plan_costs_few_tokens() -> None:
    """A break between commands is one token; a comma or a full stop with its space would be no cheaper."""
    renderer = load_renderer(student_path("builtin:household_tiny"))
    text = as_text(["go to fridge 1", "open fridge 1", "take apple 1 from fridge 1"])
    assert text == "go to fridge 1\nopen fridge 1\ntake apple 1 from fridge 1"
    plain = Observation.of("On the shelf 1, you see nothing.")
    told = with_privilege(plain, text)
    assert len(renderer.observation_ids(told, after=None)) == len(renderer.observation_ids(plain, after=None)) + 1 + 10


def test_the_text_stands_before_the_first_observation() -> None:
    plain = Observation.of("room")
    assert with_privilege(plain, "plan").messages == (
        Message(role="system", content="plan"),
        Message(role="user", content="room"),
    )
    ruled = Observation(messages=(Message(role="system", content="rules"), Message(role="user", content="room")))
    assert with_privilege(ruled, "plan").messages == (
        Message(role="system", content="rules\n\nplan"),
        Message(role="user", content="room"),
    )


def test_a_told_trajectory_is_a_new_record() -> None:
    trajectory = make_trajectory("se", ["look", "go"])
    told = with_privileged_context(trajectory, "plan")
    assert told.trajectory_id == "task-1.test.s0.n0.a0+privileged"
    assert told.parent_id == trajectory.trajectory_id
    assert [step.observation.text for step in told.steps] == ["plan\nsee 0", "see 1"]
    assert [step.action for step in told.steps] == [step.action for step in trajectory.steps]
    assert trajectory.steps[0].observation.text == "see 0"
    assert with_privileged_context(make_trajectory(""), "plan").steps == ()


def test_samples_of_a_told_trajectory() -> None:
    """The text is never trained, and everything after it is what the plain sample has."""
    renderer = load_renderer(student_path("builtin:household_tiny"))
    trajectory = make_trajectory("ee", ["go to fridge 1", "open fridge 1"], ["room", "The fridge 1 is closed."])
    told = with_privileged_context(trajectory, "go to fridge 1")
    [plain], [more] = [build_samples(one, all_steps(one), renderer) for one in (trajectory, told)]
    added = len(more.token_ids) - len(plain.token_ids)
    assert added == 1 + 2
    assert more.token_ids[added + 1 :] == plain.token_ids[1:]
    assert more.loss_mask == (False,) * added + plain.loss_mask


class Recorder(SingleActPolicy):
    """Notes what it is shown."""

    def __init__(self) -> None:
        self.name, self.version, self.batched = "recorder", "1", True
        self.seen: list[tuple[str, ...]] = []
        self.released: list[str] = []

    def act(self, so_far: PartialTrajectory) -> Action:
        self.seen.append(tuple(one.text for one in (*(step.observation for step in so_far.steps), so_far.observation)))
        return Action.of("go to fridge 1")

    def release(self, trajectory_id: str) -> None:
        self.released.append(trajectory_id)


class ForOdd:
    """Tells every other task its id."""

    name = "odd"

    def text(self, task: Task, trajectory: Trajectory | None = None, group: Sequence[Trajectory] = ()) -> str | None:
        return f"told {task.task_id}" if task.task_id.endswith(("1", "3", "5")) else None


def test_the_told_policy_sees_the_text_and_its_record_does_not() -> None:
    base = Recorder()
    policy = PrivilegedPolicy(base, ForOdd())
    assert isinstance(policy, Policy)
    assert (policy.name, policy.version, policy.batched) == ("recorder+odd", "1+odd", True)
    task = load_tasks("household", "train", 1, 1, size="small", max_steps=2)[0]
    plain = load_tasks("household", "train", 0, 1, size="small", max_steps=2)[0]
    records = [run_episode(one, make_env(one), {Actor.STUDENT: policy}, Never(), seed=0) for one in (task, plain)]
    intro = records[0].steps[0].observation
    assert [one.role for one in intro.messages] == ["user"]
    assert base.seen[0] == (f"told {task.task_id}\n{intro.text}",)
    assert base.seen[1] == (f"told {task.task_id}\n{intro.text}", records[0].steps[1].observation.text)
    assert base.seen[2] == (records[1].steps[0].observation.text,)
    assert policy.num_plain == 1
    assert base.released == [record.trajectory_id for record in records]


def test_the_told_policy_asks_once_and_knows_peers() -> None:
    peer = make_trajectory("s", ["add"], task_id="count-1")
    base = Recorder()
    policy = PrivilegedPolicy(base, Peer(), groups={"count-1": [peer]}, name="informed")
    task = counting_task()
    so_far = PartialTrajectory(
        trajectory_id="a", task=task, steps=(), observation=Observation.of("Count to 3."), seed=0
    )
    assert policy.name == "informed"
    assert [action.command for action in policy.act_batch([so_far])] == ["go to fridge 1"]
    assert base.seen == [("add\nCount to 3.",)]
    policy.release("a")
    assert policy.informed(so_far).observation.text == "add\nCount to 3."


def test_following_its_plan_wins() -> None:
    """A policy that can do nothing but read the plan back wins every game, from the text in its context alone."""

    class Follower(SingleActPolicy):
        name, version = "follower", "1"

        def act(self, so_far: PartialTrajectory) -> Action:
            first = (so_far.steps[0].observation if so_far.steps else so_far.observation).messages[0]
            if first.role != "system":
                raise PolicyError("not told")
            return Action.of(first.content.split("\n")[len(so_far.steps)])

    policy = PrivilegedPolicy(Follower(), Plan("shortest"))
    for task in TASKS:
        assert run_episode(task, make_env(task), {Actor.STUDENT: policy}, Never(), seed=0).reward == 1.0
