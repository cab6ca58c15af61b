"""The hyper-parameters of the CBOpt rules, which are written and checked in Rust."""

from __future__ import annotations

import json
from typing import Any

from ._maxitive import Rule


def rule(identifier: str, given: dict[str, Any]) -> tuple[Rule, dict[str, Any]]:
    """The rule with these hyper-parameters, and all of them; `None` stands for the default."""
    chosen = {name: value for name, value in given.items() if value is not None}
    try:
        built = Rule(json.dumps({"rule": identifier, **chosen}))
    except TypeError as error:
        raise TypeError(f"{identifier}: hyper-parameters are numbers: {error}") from None
    everything: dict[str, Any] = json.loads(built.parameters())
    return built, {"clip_radius": None, **everything}
