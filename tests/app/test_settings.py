"""Settings: four sources, one frozen value, nothing secret shown."""

from pathlib import Path

import pytest

from cellwright.app.settings import SPECS, Settings
from cellwright.app.settings_loading import load_settings
from cellwright.core.errors import ConfigError
from cellwright.core.types import Secret
from requirements import requirement

CANARY = "canary-4711-canary"


@requirement("settings:order")
def test_flags_beat_environment_beats_file_beats_defaults(tmp_path: Path) -> None:
    config = tmp_path / "c.toml"
    config.write_text('port = 1001\nhost = "file"\nrate = 5\ntoolsets = ["core"]\nread_only = true\n', encoding="utf-8")
    environ = {"CELLWRIGHT_PORT": "1002", "CELLWRIGHT_HOST": "environment", "OTHER": "x"}
    settings = load_settings({"port": "1003", "root": str(tmp_path)}, environ, config)
    assert (settings.port, settings.host, settings.rate, settings.burst) == (1003, "environment", 5.0, 200)
    assert settings.toolsets == ("core",)
    assert settings.read_only is True
    assert settings.root == tmp_path


@requirement("settings:order")
def test_every_setting_can_come_from_every_source(tmp_path: Path) -> None:
    for spec in SPECS:
        value = spec.text_of(getattr(Settings(), spec.name)) or {"int": "1"}.get(spec.kind, "")
        if not value:
            continue
        by_environment = load_settings({}, {spec.env: value, "XDG_CONFIG_HOME": str(tmp_path)})
        by_flag = load_settings({spec.name: value}, {"XDG_CONFIG_HOME": str(tmp_path)})
        assert getattr(by_environment, spec.name) == getattr(by_flag, spec.name), spec.name


@requirement("settings:unknown")
@pytest.mark.parametrize(
    ("flags", "environ", "file", "told"),
    [
        ({}, {"CELLWRIGHT_PROT": "1"}, "", "CELLWRIGHT_PORT"),
        ({}, {}, "prot = 1", "'port'"),
        ({"port": "many"}, {}, "", "whole number"),
        ({"port": "70000"}, {}, "", "65535"),
        ({"rate": "-1"}, {}, "", "least value"),
        ({"result_tokens": "50000"}, {}, "", "20000"),
        ({"log_level": "infos"}, {}, "", "'info'"),
        ({}, {"CELLWRIGHT_READ_ONLY": "maybe"}, "", "true or false"),
        ({}, {}, "port = true", "whole number"),
        ({}, {}, "port = [", "TOML"),
        ({"jwt_issuer": "https://x"}, {}, "", "all three"),
        ({"root": "/does/not/exist"}, {}, "", "--root"),
        ({"token_file": "/does/not/exist"}, {}, "", "--token-file"),
    ],
)
def test_what_is_wrong_is_said_with_what_is_right(
    flags: dict[str, object], environ: dict[str, str], file: str, told: str, tmp_path: Path
) -> None:
    config = tmp_path / "c.toml"
    config.write_text(file, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_settings({"root": str(tmp_path), **flags}, environ, config)
    assert told in str(caught.value)


@requirement("settings:secret")
def test_a_secret_is_nowhere_to_be_seen(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(CANARY + "\nsecond line\n", encoding="utf-8")
    settings = load_settings({"root": str(tmp_path), "token_file": str(file)}, {"CELLWRIGHT_JUPYTER_TOKEN": CANARY})
    assert settings.token == Secret(CANARY)
    for text in (repr(settings), str(settings), str(settings.effective()), f"{settings.token}", repr([settings.token])):
        assert CANARY not in text
    with pytest.raises(ConfigError) as caught:
        load_settings({"root": str(tmp_path), "token": [CANARY]}, {})
    assert CANARY not in str(caught.value)
    assert caught.value.__cause__ is None


@requirement("settings:not-from-workspace")
def test_a_configuration_in_the_workspace_is_not_read(tmp_path: Path) -> None:
    for name in ("config.toml", "cellwright.toml", ".cellwright/config.toml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("port = 1\n", encoding="utf-8")
    settings = load_settings({"root": str(tmp_path)}, {"XDG_CONFIG_HOME": str(tmp_path / "nothing")})
    assert settings.port == Settings().port
