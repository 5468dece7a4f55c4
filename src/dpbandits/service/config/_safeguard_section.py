"""The section [safeguard] of a study file: limits on losses against the option in use today.

[safeguard]
margin = 0.02                # in units of the reward
allowance = 0.05             # in units of the reward
current = 3                  # only without [options], which has its own `current`
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dpbandits.answers import RewardRange
from dpbandits.errors import InvalidValue
from dpbandits.options import Options
from dpbandits.protocol import Safeguard, Study
from dpbandits.service.config._toml_file import TomlFile


def with_safeguard(file: TomlFile, study: Study, options: Options | None) -> Study:
    """Return the study with the safeguard of its file, if the file has one."""
    if not file.has("safeguard"):
        return study
    return file.build("safeguard", lambda **keys: _guarded(study, options, **keys))


def _guarded(study: Study, options: Options | None, *, current: int | None = None, **limits: Any) -> Study:
    if options is not None:
        if current is not None:
            raise InvalidValue("current", current, "none: [options] has the name of the option in use today")
        if options.current is not None:
            current = options.index(options.current)
    if current is None:
        raise InvalidValue(
            "current",
            None,
            "the option in use today: `current` in [options] or, without [options], its row number here",
        )
    half = RewardRange.of(study.reward_range, bound=study.bound).half
    safeguard = Safeguard(current=current, **limits)
    on_scale = {name: value / half for name in limits if (value := getattr(safeguard, name)) is not None}
    safeguard = replace(safeguard, **on_scale)
    safeguard.check(study)
    return replace(study, safeguard=safeguard)
