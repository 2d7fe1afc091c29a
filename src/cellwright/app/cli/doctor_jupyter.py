"""The part of `doctor` that checks Jupyter: servers, collaboration, tokens, kernels."""

import asyncio
import subprocess
from typing import Any
from urllib.parse import urlsplit

from cellwright.app.cli.doctor import ABSENT, FAILED, OK, DoctorCheck
from cellwright.app.installed import installed_version
from cellwright.app.servers import named_servers
from cellwright.app.settings import Settings
from cellwright.core.errors import CellwrightError, ConfigError
from cellwright.core.installation import this_installation
from cellwright.jupyter.remote.adapter import RemoteJupyter, Sharing
from cellwright.jupyter.server.address import JupyterAddress
from cellwright.jupyter.server.discovery import running_servers, runtime_dir

KERNEL_SECONDS = 30.0
REACH_SECONDS = 5.0
ANSWER_SECONDS = 10.0
"""A healthy server answers at once, and nobody wants to wait for a minute to learn that one does not answer."""

SILENT = "takes connections, but does not answer"


async def examine_jupyter(settings: Settings) -> list[DoctorCheck]:
    """The servers that are named in the settings or running on this machine, and whether a kernel starts."""
    checks: list[DoctorCheck] = []
    try:
        documents, kernels = named_servers(settings)
    except ConfigError as error:
        return [DoctorCheck("Jupyter address", FAILED, error.message, error.hint)]
    named_addresses = [
        server for server in (documents, kernels if kernels != documents else None) if server is not None
    ]
    running = [] if named_addresses else running_servers(runtime_dir())
    if not named_addresses and not running:
        checks.append(
            DoctorCheck("Jupyter servers", OK, "none is running; one is started when it is needed, if it is installed")
        )
    for address in named_addresses:
        checks += await _server_checks(address)
    for server in running:
        checks += await _unnamed_server_checks(server.address)
    if named_addresses:
        return checks
    return [*checks, await _local_kernel()]


async def _unnamed_server_checks(address: JupyterAddress) -> list[DoctorCheck]:
    """The checks of a server that no setting names. It is no fault if it does not answer: it may be starting, ending or gone."""
    server_check, *kernel_checks = await _server_checks(address)
    if server_check.state == FAILED and (server_check.detail == SILENT or not await _is_reachable(address)):
        return [
            DoctorCheck(
                server_check.name, ABSENT, "is announced here, but does not answer: starting, ending or crashed"
            )
        ]
    return [server_check, *kernel_checks]


async def _is_reachable(address: JupyterAddress) -> bool:
    parts = urlsplit(address.url)
    try:
        _, writer = await asyncio.wait_for(
            asyncio.open_connection(parts.hostname, parts.port or {"https": 443}.get(parts.scheme, 80)), REACH_SECONDS
        )
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


async def _server_checks(address: JupyterAddress) -> list[DoctorCheck]:
    name = f"Jupyter at {address.url}"
    async with RemoteJupyter(address) as jupyter:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                about = await jupyter.about()
                await jupyter.documents.folder(None)
        except TimeoutError:
            return [DoctorCheck(name, FAILED, SILENT, "see its log; start it again")]
        except CellwrightError as error:
            return [DoctorCheck(name, FAILED, error.message, error.hint or "check its address and token")]
        admission = "token accepted" if address.token else f"lets us in with {address.credentials or 'nothing'}"
        checks = [
            DoctorCheck(name, OK, f"jupyter-server {about['jupyter_server']}, {admission}, kernels: {about['kernels']}")
        ]
        if about["sharing"] == Sharing.NONE:
            remedy = "pip install jupyter-collaboration where that server runs, and start it again"
            checks.append(DoctorCheck("collaboration", FAILED, "off: people and agents cannot edit together", remedy))
        else:
            checks.append(DoctorCheck("collaboration", OK, f"on, by {about['sharing']}"))
        return [*checks, await _remote_kernel(jupyter)]


async def _remote_kernel(jupyter: RemoteJupyter) -> DoctorCheck:
    try:
        kernel = await jupyter.kernels.start_kernel()
        await jupyter.kernels.shut_down(kernel.id)
    except CellwrightError as error:
        return DoctorCheck("kernel", FAILED, error.message, error.hint or "see the log of that Jupyter server")
    return DoctorCheck("kernel", OK, f"{kernel.name} starts and stops")


async def _local_kernel() -> DoctorCheck:
    """Whether the Python kernel of this environment starts, if it is installed."""
    if installed_version("jupyter-client") is None or installed_version("ipykernel") is None:
        return DoctorCheck("kernel", FAILED, "not installed (ipykernel)", this_installation().mend())
    from jupyter_client.manager import AsyncKernelManager  # noqa: PLC0415 - an optional part

    from cellwright.jupyter.server.kernel_ports import use_kernel_ports  # noqa: PLC0415 - loads jupyter_client

    use_kernel_ports()
    manager: Any = AsyncKernelManager(kernel_name="python3")
    try:
        # What a kernel prints is not part of the report.
        await manager.start_kernel(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        client = manager.client()
        client.start_channels()
        try:
            await client.wait_for_ready(timeout=KERNEL_SECONDS)
        finally:
            client.stop_channels()
    except (RuntimeError, OSError, LookupError) as error:
        return DoctorCheck("kernel", FAILED, f"python3 does not start: {error}", "python -m ipykernel install --user")
    finally:
        await manager.shutdown_kernel(now=True)
    return DoctorCheck("kernel", OK, "python3 starts and stops")
