"""Toolset `cells`: choose a notebook once, then work in it cell by cell. Each caller has a current notebook of their own."""

from cellwright.core.toolset import Toolset, read, run, write
from cellwright.jupyter.files.paths import NotebookPath
from cellwright.jupyter.service import LiveNotebooks
from cellwright.jupyter.tools.current.choosing import (
    list_files,
    list_kernels,
    list_notebook,
    restart_notebook,
    unuse_notebook,
    use_notebook,
)
from cellwright.jupyter.tools.current.common import CurrentCells
from cellwright.jupyter.tools.current.notebooks import CurrentNotebooks
from cellwright.jupyter.tools.current.reading import list_cells, read_cell, read_cells
from cellwright.jupyter.tools.current.running import (
    execute_cell_simple_timeout,
    execute_cell_streaming,
    execute_cell_with_progress,
    execute_ipython,
    insert_execute_code_cell,
)
from cellwright.jupyter.tools.current.writing import delete_cell, insert_cell, overwrite_cell_source


def cells_toolset(notebooks: LiveNotebooks, default: NotebookPath | None = None) -> Toolset:
    """`default` is the notebook of callers who have chosen none."""
    tools = (
        read(list_notebook, aliases=("list_notebooks",)),
        # Choosing changes nothing outside, but mode "create" writes a file.
        write(use_notebook),
        write(unuse_notebook),
        run(restart_notebook, long=False),
        read(read_cells),
        read(list_cells),
        read(read_cell),
        write(insert_cell),
        run(insert_execute_code_cell),
        write(overwrite_cell_source),
        write(delete_cell, destructive=True),
        run(execute_cell_simple_timeout),
        run(execute_cell_streaming),
        run(execute_cell_with_progress),
        run(execute_ipython),
        read(list_files),
        read(list_kernels),
    )
    return Toolset(
        "cells",
        "one notebook at a time: choose it, then read, change and run its cells",
        tools,
        CurrentCells(notebooks, CurrentNotebooks(default=default)),
    )
