"""The settings put together from their sources: defaults < configuration file < environment < flags."""

import dataclasses
import os
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from cellwright import DOCUMENTATION
from cellwright.app.environment import ENV_PREFIX, own_variables, variables_of_cluster
from cellwright.app.settings import SPECS, Settings
from cellwright.core.arguments import nearest
from cellwright.core.errors import ConfigError
from cellwright.core.types import Secret
from cellwright.system.folders import (
    choose_workspace,
    config_file,
    expanded,
    home_folder,
    is_whole_disk,
    working_folder,
)

WHOLE_DISK = "the workspace is the whole disk {}, so lists of files are not complete; --root names a smaller one"
_BY_NAME = {spec.name: spec for spec in SPECS}


def read_config(path: Path) -> dict[str, object]:
    """The values in a configuration file. The error for an unknown key suggests the nearest name."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"the configuration file {path} cannot be read: {error}", hint="name another with --config"
        ) from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"the configuration file {path} is not valid TOML: {error}", hint="mend that line") from error
    values: dict[str, object] = {}
    for key, value in document.items():
        name = key.replace("-", "_")
        if name not in _BY_NAME:
            suggestion = nearest(name, list(_BY_NAME))
            raise ConfigError(
                f"{path} has a key {key!r} that is no setting",
                hint=f"did you mean {suggestion!r}?" if suggestion else f"see {DOCUMENTATION}/settings.md",
            )
        values[name] = _BY_NAME[name].parse(value, str(path))
    return values


def load_settings(
    flags: Mapping[str, object],
    environ: Mapping[str, str] = os.environ,
    config: Path | None = None,
    defaults: Mapping[str, object] | None = None,
) -> Settings:
    """Put the four sources together. `flags` holds only the flags that were given, by name; `defaults` are a command's own.

    The configuration file is the user's own, or the one that `--config` names, never one in the workspace: a cloned repository must not
    be able to configure the server that reads it.
    """
    named_file = config or (expanded(environ[f"{ENV_PREFIX}CONFIG"]) if environ.get(f"{ENV_PREFIX}CONFIG") else None)
    home = home_folder()
    file = named_file or config_file(environ, home, sys.platform)
    file_exists = named_file is not None or file.is_file()
    values: dict[str, object] = {**(defaults or {}), **(read_config(file) if file_exists else {})}
    for key, value in own_variables(environ):
        if key == f"{ENV_PREFIX}CONFIG":
            continue
        name = key.removeprefix(ENV_PREFIX).lower()
        if name not in _BY_NAME:
            suggestion = nearest(name, list(_BY_NAME))
            raise ConfigError(
                f"the environment variable {key} is no setting",
                hint=f"did you mean {_BY_NAME[suggestion].env}?"
                if suggestion
                else f"unset it, or see {DOCUMENTATION}/settings.md",
            )
        values[name] = _BY_NAME[name].parse(value, key)
    for name, value in flags.items():
        values[name] = _BY_NAME[name].parse(value, _BY_NAME[name].flag)
    note = ""
    if "root" not in values:
        values["root"], note = choose_workspace(working_folder(), home.resolve(), environ)
    sources = (file.absolute(),) if file_exists else ()
    settings = Settings(**cast("dict[str, Any]", values), read_from=sources, not_ours=variables_of_cluster(environ))
    return _complete(settings, note)


def _complete(settings: Settings, note: str) -> Settings:
    """The settings, checked and completed. `note` says why we chose the workspace ourselves: then it need not exist yet."""
    root = settings.root.resolve()
    if not root.is_dir() and not note:
        raise ConfigError(f"the workspace {settings.root} is not a folder", hint="give an existing folder with --root")
    if root.is_dir() and not os.access(root, os.R_OK | os.X_OK):
        raise ConfigError(
            f"the workspace {settings.root} cannot be read", hint="check its permissions, or give another with --root"
        )
    jwt = (settings.jwt_issuer, settings.jwt_audience, settings.jwt_jwks)
    if any(jwt) and not all(jwt):
        raise ConfigError("--jwt-issuer, --jwt-audience and --jwt-jwks go together", hint="give all three, or none")
    token = settings.token or _read_token(settings.token_file)
    notes = (note,) if note else (WHOLE_DISK.format(root),) if is_whole_disk(root) else ()
    return dataclasses.replace(settings, root=root, state_dir=settings.state_dir.absolute(), token=token, notes=notes)


def _read_token(file: Path | None) -> Secret | None:
    if file is None:
        return None
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the token file {file} cannot be read", hint="check --token-file") from error
    if not lines or not lines[0].strip():
        raise ConfigError(f"the token file {file} is empty", hint="its first line must be the token")
    return Secret(lines[0].strip())
