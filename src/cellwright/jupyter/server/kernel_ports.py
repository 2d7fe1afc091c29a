"""The ports of our own kernels, where the system takes none for connections that others make.

Jupyter looks for free ports, gives them back, and names them to the kernel, which binds them a second later. A port of the range
that outgoing connections are made from may be taken by then; the kernel then ends, and every restart tries the same ports again.
"""

import random
import socket

from jupyter_client.connect import LocalPortCache

FIRST, LAST = 20_000, 32_000
"""Below what Linux (32,768), macOS and Windows (49,152) take for outgoing connections."""
ATTEMPTS = 1_000


class KernelPorts(LocalPortCache):
    """Gives ports to kernels. Once it has an instance, Jupyter's own way of finding ports is this one."""

    def find_available_port(self, ip: str) -> int:
        for _ in range(ATTEMPTS):
            port = random.randrange(FIRST, LAST)  # noqa: S311 - not a secret
            if port not in self.currently_used_ports and _is_free(ip, port):
                self.currently_used_ports.add(port)
                return port
        return super().find_available_port(ip)


def _is_free(ip: str, port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((ip, port))
        except OSError:
            return False
    return True
