"""Ports for our own kernels, outside of the range that the system uses for outgoing connections.

Jupyter looks for free ports, releases them, and names them to the kernel, which binds them a second later. A port in the range of
outgoing connections may be taken by then; the kernel then ends, and every restart tries the same ports again.
"""

import random
import socket

from jupyter_client.connect import LocalPortCache

FIRST, LAST = 20_000, 32_000
"""Below the ports that Linux (from 32,768), macOS and Windows (from 49,152) use for outgoing connections."""
ATTEMPTS = 1_000


class KernelPorts(LocalPortCache):
    """Gives ports to kernels. Once there is an instance of it, Jupyter uses it to find ports."""

    def find_available_port(self, ip: str) -> int:
        for _ in range(ATTEMPTS):
            port = random.randrange(FIRST, LAST)  # noqa: S311 - not a secret
            if port not in self.currently_used_ports and _is_free(ip, port):
                self.currently_used_ports.add(port)
                return port
        return super().find_available_port(ip)


def use_kernel_ports() -> None:
    """Have Jupyter's parts in this process take kernels' ports from here, unless they have begun to find them another way."""
    if not LocalPortCache.initialized():
        KernelPorts.instance()


def _is_free(ip: str, port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((ip, port))
        except OSError:
            return False
    return True
