"""Checks for users' own parts: `check_env`, `check_agent`, `check_protocol`.

Each raises ConfigError in words: what was found, and what would be right.
"""

from opentinker.testing.agents import VIEWS, check_agent
from opentinker.testing.envs import check_env, env_faults
from opentinker.testing.protocols import check_protocol

__all__ = ["VIEWS", "check_agent", "check_env", "check_protocol", "env_faults"]
