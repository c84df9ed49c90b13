"""Values of a command or an environment that depend on which choice of machines the job gets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fray_airflow.resources import ResourceConfig

Render = Callable[[str, Mapping[str, Any]], Any]
"""Renders a template with some variables more."""


@dataclass(frozen=True, slots=True)
class RungFacts:
    """What `{{ rung }}` and a `per_rung` function know.

    index: 0 for resource_config, then those of fallback_resource_configs. chips: of all replicas, 0 for CPUs.
    """

    index: int
    resources: ResourceConfig

    @property
    def chips(self) -> int:
        return self.resources.chip_count()

    @property
    def replicas(self) -> int:
        return self.resources.replicas

    @property
    def slices(self) -> int:
        return self.resources.slice_count()

    @property
    def device(self) -> str:
        """The TPU type, GPU model, or "cpu"."""
        return str(getattr(self.resources.device, "variant", "cpu"))


class PerRung:
    """Not callable, without templates of its own: Airflow's rendering leaves it as it is until the rung is known."""

    def __init__(self, value: str | Callable[[RungFacts], Any]) -> None:
        if not isinstance(value, str) and not callable(value):
            raise ValueError(f"per_rung({value!r}): give a text with a template, or a function of the rung")
        self._value = value

    def __repr__(self) -> str:
        # Stands in the serialized DAG, so it must be the same in every parse.
        return f"per_rung({getattr(self._value, '__qualname__', self._value)!r})"

    def on(self, facts: RungFacts, render: Render) -> Any:
        """The value on this rung, as text."""
        value = render(self._value, {"rung": facts}) if isinstance(self._value, str) else self._value(facts)
        return value if isinstance(value, list) else str(value)


def per_rung(value: str | Callable[[RungFacts], Any]) -> PerRung:
    """A text or a word of `command`, or a value of the environment, that is made when the rung is known.

    >>> command = ["train.py", "--batch", per_rung(lambda rung: 16 * rung.chips)]
    >>> command = ["train.py", per_rung("--batch={{ 16 * rung.chips }}")]
    """
    return PerRung(value)


def on_rung(value: Any, facts: RungFacts, render: Render) -> Any:
    """`value` with every PerRung in it replaced; what holds none is returned as the same object."""
    if isinstance(value, PerRung):
        return value.on(facts, render)
    if isinstance(value, Mapping) and has_per_rung(value):
        return {key: on_rung(each, facts, render) for key, each in value.items()}
    if isinstance(value, list | tuple) and has_per_rung(value):
        return [on_rung(each, facts, render) for each in value]
    return value


def has_per_rung(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(has_per_rung, value.values()))
    return any(map(has_per_rung, value)) if isinstance(value, list | tuple) else isinstance(value, PerRung)
