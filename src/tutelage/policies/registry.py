"""Experts by the name of their environment. Each is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tutelage.errors import ConfigError
from tutelage.policies.base import Policy


def _household(**options: Any) -> Policy:
    from tutelage.policies.experts.household import HouseholdExpert

    return HouseholdExpert(**options)


EXPERTS: Final[dict[str, Callable[..., Policy]]] = {"household": _household}
"""Name of the environment -> its expert."""


def make_expert(env_name: str, **options: Any) -> Policy:
    """The scripted expert of an environment.

    options: those of the expert, e.g. ``search="list"`` for household. An unknown name or option is a `ConfigError`.
    """
    make = EXPERTS.get(env_name)
    if make is None:
        raise ConfigError.unknown("expert of an environment", env_name, EXPERTS)
    try:
        return make(**options)
    except TypeError as error:
        raise ConfigError(f"expert of '{env_name}': options {sorted(options)} do not fit: {error}") from error
