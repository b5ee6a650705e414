"""Is an environment sound? ``check_env(name)`` proves it, or says what is wrong, where, and what to do."""

from tutelage.evaluation.env_check.check import CHECKS, check_env
from tutelage.evaluation.env_check.report import CheckReport, CheckResult, Outcome, Problem

__all__ = ["CHECKS", "CheckReport", "CheckResult", "Outcome", "Problem", "check_env"]
