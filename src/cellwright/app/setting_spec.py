"""One setting as flags, variables, the configuration file and the documentation see it, and how its texts become values."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from cellwright.app.environment import ENV_PREFIX
from cellwright.app.log import without_credentials
from cellwright.core.arguments import nearest
from cellwright.core.errors import ConfigError
from cellwright.core.types import Secret
from cellwright.system.folders import expanded

AUTOMATIC = "a number or auto"


@dataclass(frozen=True)
class Spec:
    """One setting, as the command line, the environment, the file and the documentation see it."""

    name: str
    parser: Callable[[object], object]
    kind: str
    """What it takes, in words."""
    is_switch: bool
    group: str
    help: str
    default: Any
    low: float | None
    high: float | None
    choices: tuple[str, ...]

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def env(self) -> str:
        return ENV_PREFIX + self.name.upper()

    def parse(self, value: object, where: str) -> object:
        """A value from a flag, a variable or the file, as the setting's own type."""
        try:
            return self.parser(value)
        except (TypeError, ValueError):
            # `from None`: the cause would carry the value, and the value may be a secret.
            value_text = "this" if self.kind == "a secret" else repr(value)
            raise ConfigError(f"{where}: {self.name} takes {self.kind}, not {value_text}", hint=self.help) from None

    def check(self, value: object) -> None:
        if self.choices and value not in self.choices:
            suggestion = nearest(str(value), self.choices)
            raise ConfigError(
                f"{self.flag} cannot be {value!r}",
                hint=f"did you mean {suggestion!r}?" if suggestion else f"it is one of {', '.join(self.choices)}",
            )
        if isinstance(value, int | float) and not isinstance(value, bool):
            if self.low is not None and value < self.low:
                raise ConfigError(f"{self.flag} is {value}, below its least value {self.low}", hint=self.help)
            if self.high is not None and value > self.high:
                raise ConfigError(f"{self.flag} is {value}, above its largest value {self.high}", hint=self.help)

    def text_of(self, value: object) -> str:
        if isinstance(value, Secret):
            return "***"
        if isinstance(value, str) and "://" in value:
            return without_credentials(value)
        if isinstance(value, tuple):
            return ",".join(cast("tuple[str, ...]", value))
        if value is None and self.kind == AUTOMATIC:
            return "auto"
        return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _switch(value: object) -> bool:
    if isinstance(value, bool):
        return value
    switch_values = {
        "1": True,
        "true": True,
        "yes": True,
        "on": True,
        "0": False,
        "false": False,
        "no": False,
        "off": False,
        "": False,
    }
    text = str(value).strip().lower()
    if text not in switch_values:
        raise ValueError(text)
    return switch_values[text]


def _names(value: object) -> tuple[str, ...]:
    if isinstance(value, list | tuple):
        return tuple(str(item) for item in cast("Sequence[object]", value))
    if not isinstance(value, str):
        raise TypeError(value)
    return tuple(name.strip() for name in value.split(",") if name.strip())


def _number(convert: Callable[[str], float]) -> Callable[[object], float]:
    def parse(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise TypeError(value)
        return convert(str(value))

    return parse


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


# How each type of setting is parsed, and what a person calls that kind of value.
_KINDS: dict[object, tuple[Callable[[object], object], str]] = {
    bool: (_switch, "true or false"),
    int: (_number(int), "a whole number"),
    float: (_number(float), "a number"),
    str: (_text, "text"),
    tuple[str, ...]: (_names, "names separated by commas"),
    float | None: (lambda value: None if value is None or value == "auto" else _number(float)(value), AUTOMATIC),
    Path: (lambda value: expanded(_text(value)), "a path"),
    Path | None: (lambda value: expanded(_text(value)) if value else None, "a path"),
    Secret | None: (lambda value: Secret(_text(value)) if value else None, "a secret"),
}


def spec_of(setting: "dataclasses.Field[Any]") -> Spec:
    """The spec of a field of the settings."""
    parse, kind = _KINDS[setting.type]
    default = None if setting.default is dataclasses.MISSING else setting.default
    meta = setting.metadata
    bounds = (meta.get("low"), meta.get("high"), tuple(meta.get("choices", ())))
    return Spec(setting.name, parse, kind, setting.type is bool, meta["group"], meta["help"], default, *bounds)
