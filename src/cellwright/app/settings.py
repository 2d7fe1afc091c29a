"""Every setting, in one frozen value; `settings_loading` fills it.

A field below is the whole definition of a setting: its flag, environment variable and file key follow from its name, its row in
`docs/settings.md` from its metadata.
"""

import dataclasses
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cellwright.app.setting_spec import Spec, spec_of
from cellwright.core.errors import ConfigError
from cellwright.core.text.budget import DEFAULT_TOKENS, MAX_TOKENS
from cellwright.core.types import Secret
from cellwright.system.folders import home_folder, state_folder

LOG_LEVELS = ("debug", "info", "warning", "error")


def default_state_dir() -> Path:
    """The folder of this user's tokens and other state."""
    return state_folder(os.environ, home_folder(), sys.platform)


def _setting(group: str, help_text: str, **more: Any) -> Any:  # noqa: ANN401 - dataclasses.field is typed this way too
    metadata = {
        "group": group,
        "help": help_text,
        **{key: more.pop(key) for key in ("low", "high", "choices") if key in more},
    }
    return field(metadata=metadata, kw_only=True, **more)


@dataclass(frozen=True)
class Settings:
    """All settings. The repr shows neither secrets, whose type hides them, nor addresses, which may hold a token."""

    root: Path = _setting("Workspace", "the folder the agent works in", default_factory=Path.cwd)
    state_dir: Path = _setting(
        "Workspace", "where tokens and other state are kept (0700)", default_factory=default_state_dir
    )
    log_level: str = _setting("Workspace", "how much goes to the log on stderr", default="info", choices=LOG_LEVELS)
    otel: bool = _setting("Workspace", "emit OpenTelemetry spans through an installed exporter", default=False)

    toolsets: tuple[str, ...] = _setting(
        "Tools",
        "which toolsets to offer: names, `default`, `core`, `compact` or `all`, separated by commas",
        default=("default",),
    )
    tools: tuple[str, ...] = _setting("Tools", "single tools to offer as well, by name", default=())
    exclude_tools: tuple[str, ...] = _setting("Tools", "tools never to offer; wins over the two above", default=())
    current_notebook: bool = _setting(
        "Tools",
        "count the tools for a current notebook (toolset `cells`) among the default ones; `start` and --document-id do",
        default=False,
    )
    read_only: bool = _setting("Tools", "offer only tools that change nothing; wins over everything", default=False)
    result_tokens: int = _setting(
        "Tools",
        "how large a result may be, in tokens, unless a call asks for more",
        default=DEFAULT_TOKENS,
        low=200,
        high=MAX_TOKENS,
    )
    task_ttl: float = _setting("Tools", "seconds that the result of a finished task is kept", default=300.0, low=1)
    max_tasks: int = _setting("Tools", "tasks one caller may have at once", default=512, low=1)

    host: str = _setting(
        "HTTP", "address to listen on; other than loopback needs a token of your own", default="127.0.0.1"
    )
    port: int = _setting("HTTP", "port to listen on; 0 picks a free one", default=4040, low=0, high=65535)
    token: Secret | None = _setting(
        "HTTP", "a bearer token with every scope; better given by environment or file", default=None
    )
    token_file: Path | None = _setting("HTTP", "a file whose first line is that token", default=None)
    allowed_hosts: tuple[str, ...] = _setting("HTTP", "further values of the Host header to answer to", default=())
    allowed_origins: tuple[str, ...] = _setting(
        "HTTP", "web origins whose pages may call, compared as whole strings", default=()
    )
    max_body: int = _setting(
        "HTTP", "largest request, in bytes: the body over HTTP, a line on stdio", default=4 * 1024 * 1024, low=1024
    )
    body_timeout: float = _setting("HTTP", "seconds a client may take to send a request body", default=10.0, low=0.1)
    rate: float | None = _setting(
        "HTTP",
        "requests a second per caller, more wait; 0 means no limit; auto: no limit on loopback, 100 on any other address",
        default=None,
        low=0,
    )
    burst: int = _setting("HTTP", "requests a caller may send at once before `rate` applies", default=200, low=1)
    max_in_flight: int = _setting(
        "HTTP",
        "requests of one caller that are served at once, more wait; what lasts longer than a second counts as a stream",
        default=64,
        low=1,
    )
    max_streams: int = _setting(
        "HTTP",
        "streams and long calls one caller may have open at once; never more than half of all connections",
        default=500,
        low=1,
    )
    max_wait: float = _setting(
        "HTTP",
        "seconds that a request over one of these limits waits for its turn before it is refused",
        default=20.0,
        low=0,
    )
    page: bool = _setting("HTTP", "serve the page on which people see what the agents do", default=True)
    drain: float = _setting("HTTP", "seconds that calls under way are given to finish on SIGTERM", default=10.0, low=0)

    jwt_issuer: str = _setting("OAuth", "accept JWT bearer tokens of this issuer", default="")
    jwt_audience: str = _setting("OAuth", "the audience such a token must name: this server's own URL", default="")
    jwt_jwks: str = _setting("OAuth", "the issuer's public keys: a JWKS file, or an https URL", default="")

    jupyter_url: str = _setting(
        "Jupyter",
        "a Jupyter server to use, for documents and kernels; also as copied from the browser",
        default="",
        repr=False,
    )
    jupyter_token: Secret | None = _setting(
        "Jupyter",
        "its token, or for a server of JupyterHub its user's; else JUPYTER_TOKEN of the environment",
        default=None,
    )
    jupyter_password: Secret | None = _setting(
        "Jupyter", "its password, if it has one instead of a token", default=None
    )
    jupyter_headers: Secret | None = _setting(
        "Jupyter",
        "headers that a proxy before it wants, on every request and websocket: lines `Name: value`, or a JSON object; cookies as "
        "`Cookie: name=value`",
        default=None,
    )
    document_url: str = _setting(
        "Jupyter", "the Jupyter server that holds the documents, if it is another one", default="", repr=False
    )
    document_token: Secret | None = _setting("Jupyter", "its token", default=None)
    document_password: Secret | None = _setting("Jupyter", "its password", default=None)
    document_headers: Secret | None = _setting("Jupyter", "headers for it, as in `jupyter_headers`", default=None)
    runtime_url: str = _setting(
        "Jupyter", "the Jupyter server that runs the kernels, if it is another one", default="", repr=False
    )
    runtime_token: Secret | None = _setting("Jupyter", "its token", default=None)
    runtime_password: Secret | None = _setting("Jupyter", "its password", default=None)
    runtime_headers: Secret | None = _setting("Jupyter", "headers for it, as in `jupyter_headers`", default=None)

    lab: bool = _setting(
        "Jupyter", "connect at once instead of on the first call, and print the address of JupyterLab", default=False
    )
    workspace_kernels: bool = _setting(
        "Jupyter",
        "where we start Jupyter ourselves, run cells in the workspace's .venv, venv or env, or in the active environment",
        default=True,
    )
    agent_name: str = _setting(
        "Jupyter", "how people see the agent in a shared notebook; else the client's own name", default=""
    )
    session_timeout: float = _setting(
        "Jupyter", "minutes after which an open document that nobody uses is left", default=5.0, low=0.1
    )

    document_id: str = _setting(
        "Jupyter", "the notebook, by its path, that the cells tools mean for callers who have chosen none", default=""
    )
    allow_hidden: bool = _setting(
        "Jupyter",
        "show files and folders whose name begins with a dot to the document tools, and let them change those",
        default=False,
    )

    database: Secret | None = _setting(
        "Storage",
        "where pads and all else that lasts is kept: a file, or postgresql://user:password@host/name; "
        "else a file in the state folder",
        default=None,
    )
    embedding_model: str = _setting(
        "Storage",
        "the model for search by meaning: builtin, none, a folder with model.onnx and vocab.txt, or what the API calls it",
        default="builtin",
    )
    embedding_url: str = _setting(
        "Storage", "an embeddings API in OpenAI's manner, as https://host/v1; texts of pads are sent there", default=""
    )
    embedding_key: Secret | None = _setting("Storage", "its key", default=None)
    search_index: str = _setting(
        "Storage",
        "what answers searches: the database itself, or an index in LanceDB beside it",
        default="database",
        choices=("database", "lancedb"),
    )
    lance_uri: str = _setting(
        "Storage",
        "where the index in LanceDB is: a folder, or s3://bucket/prefix; else a folder in the state folder",
        default="",
    )
    scratch_max_pads: int = _setting("Scratch", "pads one caller may have; 0 means no limit", default=1024, low=0)
    scratch_max_cells: int = _setting("Scratch", "cells a pad may have; 0 means no limit", default=1024, low=0)
    scratch_max_cell_bytes: int = _setting(
        "Scratch", "largest content of a cell, in bytes; 0 means no limit", default=1 << 20, low=0
    )
    scratch_max_metadata_bytes: int = _setting(
        "Scratch", "largest metadata of a pad or a cell, in bytes; 0 means no limit", default=256 << 10, low=0
    )
    scratch_max_schema_bytes: int = _setting(
        "Scratch", "largest JSON Schema, in bytes; 0 means no limit", default=256 << 10, low=0
    )
    scratch_max_bytes: int = _setting(
        "Scratch",
        "all pads of one caller together with their earlier versions, in bytes: the oldest versions go first; 0 means no limit",
        default=256 << 20,
        low=0,
    )
    scratch_max_pad_bytes: int = _setting(
        "Scratch", "one pad, in bytes, without its earlier versions; 0 means no limit", default=16 << 20, low=0
    )
    scratch_max_namespaces: int = _setting(
        "Scratch", "namespaces one caller may have; 0 means no limit", default=1024, low=0
    )
    scratch_max_schemas: int = _setting(
        "Scratch", "shared schemas a pad may have; 0 means no limit", default=256, low=0
    )
    scratch_eviction: str = _setting(
        "Scratch",
        "at the limit of pads: discard the least recently used, fail, or preempt (idle ones go in the background)",
        default="discard",
        choices=("discard", "fail", "preempt"),
    )
    scratch_preempt_age: float = _setting(
        "Scratch", "hours without use after which preempt deletes a pad", default=24.0, low=0
    )
    scratch_preempt_interval: float = _setting(
        "Scratch", "minutes between two looks of preempt", default=10.0, low=0.01
    )
    scratch_validation_timeout: float = _setting("Scratch", "seconds a validation may take", default=10.0, low=0.01)

    notebook_ttl: float = _setting(
        "Thinking", "minutes without use after which a thinking notebook is gone", default=30.0, low=0.01
    )
    thinking_max_notebooks: int = _setting("Thinking", "thinking notebooks one caller may have", default=50, low=1)
    thinking_max_cells: int = _setting("Thinking", "cells a thinking notebook may have", default=500, low=1)
    thinking_max_output_bytes: int = _setting(
        "Thinking", "output kept of one cell of a thinking notebook, in bytes", default=1 << 20, low=1024
    )
    thinking_max_bytes: int = _setting(
        "Thinking", "one thinking notebook with its outputs, in bytes", default=16 << 20, low=1
    )
    thinking_max_kernels: int = _setting(
        "Thinking", "kernels that thinking notebooks of one caller may have at once", default=4, low=1
    )
    thinking_kernel_idle: float = _setting(
        "Thinking", "minutes after which an idle kernel of a thinking notebook is shut down", default=10.0, low=0.01
    )

    context_window: int = _setting(
        "Context",
        "the window of the model, in tokens: when it fills, what is hardly used is archived",
        default=100_000,
        low=1_000,
    )
    context_idle: float = _setting(
        "Context", "minutes without a call after which a session is over", default=30.0, low=0.01
    )
    allow_secret_files: bool = _setting(
        "Context",
        "let tools read files that hold secrets by their names (.env, keys, credentials)",
        default=False,
    )

    notes: tuple[str, ...] = field(default=(), kw_only=True)
    """Sentences that a person should read about where the settings come from. Not a setting itself."""
    read_from: tuple[Path, ...] = field(default=(), kw_only=True)
    """The configuration file that was read, if there is one: it may hold secrets."""
    not_ours: tuple[str, ...] = field(default=(), kw_only=True)
    """Environment variables with our prefix that were ignored because a cluster set them."""

    def __post_init__(self) -> None:
        for spec in SPECS:
            spec.check(getattr(self, spec.name))

    def secrets(self) -> list[Secret]:
        """Every secret among the settings."""
        return [value for spec in SPECS if isinstance(value := getattr(self, spec.name), Secret)]

    def effective(self) -> dict[str, str]:
        """Every setting as text, secrets masked: for `doctor` and for people."""
        return {spec.name: spec.text_of(getattr(self, spec.name)) for spec in SPECS}


SPECS: tuple[Spec, ...] = tuple(spec_of(setting) for setting in dataclasses.fields(Settings) if setting.metadata)


def make_root(settings: Settings) -> None:
    """Create the workspace folder, if it is one that we chose ourselves and does not exist yet."""
    try:
        settings.root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"the workspace {settings.root} cannot be made: {error.strerror}", hint="give a folder with --root"
        ) from error
