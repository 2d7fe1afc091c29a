"""The part of `doctor` that looks at Jupyter: servers, collaboration, tokens, kernels."""

import asyncio
import os
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cellwright.app.doctor import ABSENT, FAILED, OK, Check, installed_version
from cellwright.app.settings import Settings
from cellwright.core.errors import CellwrightError, ConfigError
from cellwright.jupyter.address import JupyterAddress
from cellwright.jupyter.discovery import running_servers, runtime_dir
from cellwright.jupyter.remote import RemoteJupyter, Sharing

KERNEL_SECONDS = 30.0
REACH_SECONDS = 5.0
ANSWER_SECONDS = 10.0
"""A server that is well answers in a moment; nobody wants to wait for a minute to hear of one that is not."""

SILENT = "takes connections, but does not answer"


async def examine_jupyter(settings: Settings) -> list[Check]:
    """The servers that are named in the settings or running on this machine, and whether a kernel starts."""
    checks: list[Check] = []
    try:
        named = _named_servers(settings)
    except ConfigError as error:
        return [Check("Jupyter address", FAILED, error.message, error.hint)]
    found = [] if named else running_servers(runtime_dir(os.environ, Path.home()))
    if not named and not found:
        checks.append(
            Check("Jupyter servers", OK, "none is running; one is started when it is needed, if it is installed")
        )
    for address in named:
        checks += await _server_checks(address)
    for server in found:
        checks += await _found_server_checks(server.address)
    if named:
        return checks
    return [*checks, await _local_kernel()]


def _named_servers(settings: Settings) -> list[JupyterAddress]:
    pairs = [
        (settings.jupyter_url, settings.jupyter_token),
        (settings.document_url, settings.document_token or settings.jupyter_token),
        (settings.runtime_url, settings.runtime_token or settings.jupyter_token),
    ]
    found: list[JupyterAddress] = []
    for url, token in pairs:
        if url and (address := JupyterAddress.parse(url, token=token)) not in found:
            found.append(address)
    return found


async def _found_server_checks(address: JupyterAddress) -> list[Check]:
    """Of a server that nobody named: that it does not answer is no fault, it may be starting, ending or long gone."""
    first, *others = await _server_checks(address)
    if first.state == FAILED and (first.detail == SILENT or not await _is_reachable(address)):
        return [Check(first.name, ABSENT, "is announced here, but does not answer: starting, ending or crashed")]
    return [first, *others]


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


async def _server_checks(address: JupyterAddress) -> list[Check]:
    name = f"Jupyter at {address.url}"
    async with RemoteJupyter(address) as jupyter:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                about = await jupyter.about()
                await jupyter.documents.folder(None)
        except TimeoutError:
            return [Check(name, FAILED, SILENT, "see its log; start it again")]
        except CellwrightError as error:
            return [Check(name, FAILED, error.message, error.hint or "check its address and token")]
        checks = [
            Check(name, OK, f"jupyter-server {about['jupyter_server']}, token accepted, {about['kernels']} kernels")
        ]
        if about["sharing"] == Sharing.NONE:
            remedy = "pip install jupyter-collaboration where that server runs, and start it again"
            checks.append(Check("collaboration", FAILED, "off: people and agents cannot edit together", remedy))
        else:
            checks.append(Check("collaboration", OK, f"on, by {about['sharing']}"))
        return [*checks, await _remote_kernel(jupyter)]


async def _remote_kernel(jupyter: RemoteJupyter) -> Check:
    try:
        kernel = await jupyter.kernels.start_kernel()
        await jupyter.kernels.shut_down(kernel.id)
    except CellwrightError as error:
        return Check("kernel", FAILED, error.message, error.hint or "see the log of that Jupyter server")
    return Check("kernel", OK, f"{kernel.name} starts and stops")


async def _local_kernel() -> Check:
    """Whether the Python kernel of this environment starts, if it is installed."""
    if installed_version("jupyter-client") is None or installed_version("ipykernel") is None:
        return Check("kernel", ABSENT, "not installed (ipykernel)", "pip install 'cellwright[embedded]'")
    from jupyter_client.manager import AsyncKernelManager  # noqa: PLC0415 - an optional part

    manager: Any = AsyncKernelManager(kernel_name="python3")
    try:
        # What a kernel says on its own account is not part of the report.
        await manager.start_kernel(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        client = manager.client()
        client.start_channels()
        try:
            await client.wait_for_ready(timeout=KERNEL_SECONDS)
        finally:
            client.stop_channels()
    except (RuntimeError, OSError, LookupError) as error:
        return Check("kernel", FAILED, f"python3 does not start: {error}", "python -m ipykernel install --user")
    finally:
        await manager.shutdown_kernel(now=True)
    return Check("kernel", OK, "python3 starts and stops")
