"""Public fakes: build and test your own environments, policies and rules with what tutelage is tested with."""

from tutelage.policies.scripted import ScriptedPolicy
from tutelage.testing.byte_renderer import ByteRenderer
from tutelage.testing.counting import CountingEnv, CountingWorld, counting_task
from tutelage.testing.trajectories import make_trajectory

__all__ = ["ByteRenderer", "CountingEnv", "CountingWorld", "ScriptedPolicy", "counting_task", "make_trajectory"]
