"""Asks a running Python kernel by a program of ours, without a trace.

The program runs in a namespace of its own and without an execution count: it leaves no name behind, and changes neither `_` nor the
count. It does not mind what the notebook calls `print`, `type` or `get_ipython`.
"""

import ast
import asyncio

from cellwright.core.errors import DeadlineExceeded, Unavailable
from cellwright.jupyter.kernels.connection import KernelConnection

LONGEST_ANSWER = 20_000_000


async def ask(kernel: KernelConnection, program: str, seconds: float) -> str:
    """The text that the program assigns to `reply`. Raises DeadlineExceeded if the kernel takes longer than `seconds`."""
    namespace = '{"builtins": __import__("builtins"), "__name__": "cellwright_probe"}'
    expression = f'(lambda space: (space["builtins"].exec({program!r}, space), space["reply"])[1])({namespace})'
    try:
        async with asyncio.timeout(seconds):
            reply = await kernel.execute("", silent=True, user_expressions={"answer": expression})
    except TimeoutError:
        raise DeadlineExceeded(
            f"kernel {kernel.kernel_id} did not answer within {seconds:g} s (it is {kernel.state})",
            hint="It answers when what runs now has ended; interrupt that, or ask again later",
        ) from None
    try:
        written = reply.user_expressions["answer"]["data"]["text/plain"]
        return str(ast.literal_eval(written[:LONGEST_ANSWER]))
    except (KeyError, TypeError, ValueError, SyntaxError, MemoryError, RecursionError):
        raise Unavailable(
            f"kernel {kernel.kernel_id} did not answer",
            hint="get_nb_stat shows its state; a cell that prints what you want to know may",
        ) from None
