"""Settings in environment variables, and variables with the same prefix that a cluster set."""

import re
from collections.abc import Iterator, Mapping

ENV_PREFIX = "CELLWRIGHT_"

# In a cluster with a Service named `cellwright`, or `cellwright-…`, Kubernetes gives every container its address this way.
_SERVICE = re.compile(
    r"(?:.+_)?SERVICE_(?:HOST|PORT(?:_.+)?)|(?:.+_)?PORT_[0-9]+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?"
)
_SERVICE_PORT = re.compile(r"(?:.+_)?PORT")
_SERVICE_ADDRESS = re.compile(r"(?:tcp|udp|sctp)://.+", re.IGNORECASE)


def own_variables(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The variables that are meant as our settings, including misspelled ones, with their values."""
    for name, value in environ.items():
        if name.startswith(ENV_PREFIX) and not is_of_cluster(name, value):
            yield name, value


def variables_of_cluster(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The variables with our prefix that hold the address of a cluster's service."""
    return tuple(name for name, value in environ.items() if name.startswith(ENV_PREFIX) and is_of_cluster(name, value))


def is_of_cluster(name: str, value: str) -> bool:
    rest = name.removeprefix(ENV_PREFIX)
    if _SERVICE.fullmatch(rest):
        return True
    return _SERVICE_PORT.fullmatch(rest) is not None and _SERVICE_ADDRESS.fullmatch(value) is not None
