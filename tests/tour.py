"""A way through every tool: in an order in which each call works, with what it needs of Jupyter's leave as data."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Leaves = frozenset[str]
"""Each as `action:resource`."""


def leaves(*named: str) -> Leaves:
    return frozenset(named)


READ = leaves("read:cellwright", "read:contents")
WRITE = READ | leaves("write:cellwright", "write:contents")
RUN = READ | leaves("execute:cellwright", "execute:kernels")
SESSIONS, KERNELS, KINDS = leaves("read:sessions"), leaves("read:kernels"), leaves("read:kernelspecs")
CHANGE_SESSIONS, CHANGE_KERNELS = leaves("write:sessions"), leaves("write:kernels")
RUN_OWN = RUN | KERNELS | CHANGE_KERNELS | KINDS
"""Code without a file."""
RUN_CELLS = RUN_OWN | SESSIONS | CHANGE_SESSIONS | leaves("write:contents")
ALL = WRITE | RUN_CELLS

Answers = Mapping[str, Any]
"""The structured answer of the last call of each tool."""


@dataclass(frozen=True)
class Step:
    """One call, and all that it needs."""

    tool: str
    needs: Leaves
    arguments: dict[str, Any] | Callable[[Answers], dict[str, Any]]

    def made(self, answers: Answers) -> dict[str, Any]:
        return self.arguments(answers) if callable(self.arguments) else self.arguments


MAIN, TEXT = "main.ipynb", "notes.md"
THIRD = [{"start": 2, "end": 3}]
FIRST = [{"start": 0, "end": 1}]
PAD = {"scratch_id": "pad"}
SCHEMA = {"id": "3f2504e0-4f89-41d3-9a0c-0305e82c3301", "description": "a number", "schema": {"type": "integer"}}


def _thought(answers: Answers) -> str:
    return answers["notebook_create"]["notebookId"]


def _in_thought(**more: Any) -> Callable[[Answers], dict[str, Any]]:
    return lambda answers: {"notebookId": _thought(answers), **more}


def _thought_cell(answers: Answers) -> dict[str, Any]:
    return {"notebookId": _thought(answers), "cellId": answers["notebook_add_cell"]["cell"]["id"]}


def _pad_cell(answers: Answers) -> dict[str, Any]:
    return {**PAD, "cell_id": answers["scratch_list_cells"]["cells"][0]["cell_id"]}


def _proposal(answers: Answers) -> dict[str, Any]:
    return {"proposal": answers["list_nb_proposals"]["proposals"][0]["proposal"]}


def _run(answers: Answers) -> dict[str, Any]:
    return {"execution_id": answers["execute_nb_cells"]["execution_id"]}


def _kernel(answers: Answers) -> dict[str, Any]:
    bound = {"notebook_name": "other", "notebook_path": "copy.ipynb"}
    return {**bound, "kernel_id": answers["list_kernels"]["kernels"][0]["id"]}


WORKSPACE = (
    Step("workspace_status", READ, {}),
    Step("search_workspace", READ, {"query": "tide"}),
    Step("search", READ, {"query": "tide"}),
    Step("fetch", READ, {"id": "cellwright://status"}),
    Step("context_scan", WRITE, {}),
    Step("context_search", READ, {"query": "tide"}),
    Step("context_record", WRITE, {"type": "pattern", "content": "the tide turns"}),
    Step("context_enrich", WRITE, {}),
    Step("read_file", READ, {"path": "tide.py"}),
    Step("grep_codebase", READ, {"pattern": "tide"}),
)
NOTEBOOKS = (
    Step("get_base_url", READ, {}),
    Step("nb_path_from_url", READ, lambda told: {"url": f"{told['get_base_url']['base_url']}/lab/tree/{MAIN}"}),
    Step("create_nb", WRITE, {"path": MAIN, "cells": [{"content": "tide = 1"}]}),
    Step("list_nbs", READ, {}),
    Step("insert_nb_cells", WRITE, {"path": MAIN, "position": 1, "cells": [{"content": "tide + 1"}], "exec": False}),
    Step(
        "modify_nb_cells",
        WRITE,
        {"path": MAIN, "modifications": [{"range": FIRST[0], "content": "tide = 2"}], "exec": False},
    ),
    Step("execute_nb_cells", RUN_CELLS, {"path": MAIN, "cells": "all"}),
    Step(
        "modify_nb_cells",
        WRITE | RUN_CELLS,
        {"path": MAIN, "modifications": [{"range": FIRST[0], "content": "tide = 3"}]},
    ),
    Step("insert_nb_cells", WRITE | RUN_CELLS, {"path": MAIN, "position": 2, "cells": [{"content": "tide + 2"}]}),
    Step("get_nb_stat", READ, {"path": MAIN, "outline": True}),
    Step("read_nb_cells", READ, {"path": MAIN, "outputs": "full"}),
    Step("edit_nb_cell", WRITE, {"path": MAIN, "cell": 1, "old": "1", "new": "5"}),
    Step("edit_nb_cell", WRITE | RUN_CELLS, {"path": MAIN, "cell": 1, "old": "5", "new": "6", "exec": True}),
    Step("undo_nb_edit", WRITE, {"path": MAIN}),
    Step("move_nb_cells", WRITE, {"path": MAIN, "ranges": THIRD, "position": 1}),
    Step("split_join_nb_cells", WRITE, {"path": MAIN, "ranges": [{"start": 1, "end": 3}]}),
    Step("clear_nb_outputs", WRITE, {"path": MAIN}),
    Step("search_nbs", READ, {"query": "tide"}),
    Step("list_available_kernels", READ | KINDS, {}),
    Step("get_execution", READ, _run),
    Step("cancel_execution", RUN | CHANGE_KERNELS, _run),
    Step("kernel_environment", READ | SESSIONS | leaves("execute:kernels"), {"path": MAIN}),
    Step("inspect_variables", RUN | SESSIONS, {"path": MAIN}),
    Step("reproduce_nb", RUN_OWN, {"path": MAIN}),
    Step("complete_code", RUN | SESSIONS, {"path": MAIN, "code": "tid"}),
    Step("interrupt_nb_kernel", RUN | SESSIONS | CHANGE_KERNELS, {"path": MAIN}),
    Step("restart_nb_kernel", RUN_CELLS, {"path": MAIN, "exec": False}),
    Step("assign_nb_kernel", RUN_CELLS, {"path": MAIN, "kernel_name": "python3"}),
    Step("delete_nb_cells", WRITE, {"path": MAIN, "ranges": FIRST}),
    Step(
        "insert_nb_cells",
        WRITE,
        {"path": MAIN, "position": 0, "cells": [{"content": "tide = 9"}], "exec": False, "propose": True},
    ),
    Step("list_nb_proposals", READ, {"path": MAIN}),
    Step("show_nb_proposal", READ, _proposal),
    Step("merge_nb_proposal", WRITE, _proposal),
    Step("insert_nb_cells", WRITE, {"path": MAIN, "position": 0, "cells": [{"content": "0"}], "propose": True}),
    Step("list_nb_proposals", READ, {"path": MAIN}),
    Step("drop_nb_proposal", WRITE, _proposal),
)
DOCUMENTS = (
    Step("create_document", WRITE, {"path": TEXT, "type": "markdown", "content": "tides"}),
    Step("list_documents", READ, {}),
    Step("get_document_info", READ, {"path": TEXT, "include_content": True}),
    Step("get_document_content", READ, {"path": TEXT}),
    Step("insert_document_text", WRITE, {"path": TEXT, "position": 0, "text": "all "}),
    Step("replace_document_text", WRITE, {"path": TEXT, "position": 0, "length": 3, "text": "two"}),
    Step("delete_document_text", WRITE, {"path": TEXT, "position": 0, "length": 4}),
    Step("overwrite_document", WRITE, {"path": TEXT, "content": "ebb"}),
    Step("query_document_session", READ, {"path": TEXT}),
    Step("end_document_session", WRITE, {"path": TEXT}),
    Step("copy_document", WRITE, {"path": MAIN, "copyPath": "copy.ipynb"}),
    Step("rename_document", WRITE, {"path": TEXT, "newPath": "moved.md"}),
    Step("delete_document", WRITE, {"path": "moved.md"}),
    Step("query_nb_sessions", READ, {}),
    Step("export_notebook", READ, {"source": MAIN, "to": "md"}),
    Step("import_notebook", WRITE, {"source": MAIN, "into": "scratchpad://imported"}),
)
CELLS = (
    Step("list_notebook", READ | SESSIONS, {}),
    Step("list_kernels", READ | SESSIONS | KERNELS | KINDS, {}),
    Step("list_files", READ, {}),
    Step("use_notebook", WRITE, {"notebook_name": "main", "notebook_path": MAIN}),
    Step("use_notebook", WRITE | RUN_CELLS, _kernel),
    Step("unuse_notebook", WRITE, {"notebook_name": "other"}),
    Step("list_cells", READ, {}),
    Step("read_cells", READ, {}),
    Step("read_cell", READ, {"cell_index": 0}),
    Step("insert_cell", WRITE, {"cell_index": 0, "cell_type": "code", "cell_source": "tide = 4"}),
    Step("overwrite_cell_source", WRITE, {"cell_index": 0, "cell_source": "tide = 5"}),
    Step("insert_execute_code_cell", RUN_CELLS, {"cell_index": 1, "cell_source": "1 + 1"}),
    Step("execute_cell_simple_timeout", RUN_CELLS, {"cell_index": 0}),
    Step("execute_cell_streaming", RUN_CELLS, {"cell_index": 0}),
    Step("execute_cell_with_progress", RUN_CELLS, {"cell_index": 0}),
    Step("execute_ipython", RUN_CELLS, {"code": "tide"}),
    Step("restart_notebook", RUN_CELLS, {"notebook_name": "main"}),
    Step("delete_cell", WRITE, {"cell_index": 0}),
    Step("end_nb_session", WRITE, {"path": MAIN}),
    Step("shutdown_nb_kernel", RUN | SESSIONS | CHANGE_SESSIONS | CHANGE_KERNELS, {"path": MAIN}),
    Step(
        "end_nb_session",
        WRITE | RUN | SESSIONS | CHANGE_SESSIONS | CHANGE_KERNELS,
        {"path": "copy.ipynb", "shutdown_kernel": True},
    ),
)
PADS = (
    Step("scratch_namespace_create", WRITE, {"namespace": "sea"}),
    Step("scratch_namespace_list", READ, {}),
    Step("scratch_namespace_rename", WRITE, {"old_namespace": "sea", "new_namespace": "ocean"}),
    Step("scratch_create", WRITE, {**PAD, "metadata": {"title": "tides"}}),
    Step("scratch_append_cell", WRITE, {**PAD, "cell": {"language": "json", "content": "1", "tags": ["tide"]}}),
    Step("scratch_insert_cell", WRITE, {**PAD, "index": 0, "cell": {"language": "py", "content": "tide = 1"}}),
    Step("scratch_list_cells", READ, PAD),
    Step("scratch_replace_cell", WRITE, lambda told: {**_pad_cell(told), "cell": {"language": "py", "content": "2"}}),
    Step("scratch_read", READ, PAD),
    Step("scratch_list", READ, {}),
    Step("scratch_validate", READ, PAD),
    Step("scratch_search", READ, {"query": "tide"}),
    Step("scratch_list_tags", READ, {}),
    Step("scratch_upsert_schema", WRITE, {**PAD, "schema": SCHEMA}),
    Step("scratch_list_schemas", READ, PAD),
    Step("scratch_get_schema", READ, {**PAD, "schema_id": SCHEMA["id"]}),
    Step("scratch_delete_schema", WRITE, {**PAD, "schema_id": SCHEMA["id"]}),
    Step("scratch_update", WRITE, {**PAD, "metadata": {"title": "ebb"}}),
    Step("scratch_export", READ, {**PAD, "format": "md"}),
    Step("scratch_import", WRITE, {"content": "# tides\n", "format": "md", "scratch_id": "read"}),
    Step("scratch_history", WRITE, PAD),
    Step("scratch_list_cells", READ, PAD),
    Step("scratch_delete_cell", WRITE, _pad_cell),
    Step("scratch_delete", WRITE, PAD),
    Step("scratch_namespace_delete", WRITE, {"namespace": "ocean"}),
)
THINKING = (
    Step("notebook_create", WRITE, {"title": "tides", "language": "python"}),
    Step("notebook_add_cell", WRITE, _in_thought(source="tide = 1", cellType="code")),
    Step("notebook_update_cell", WRITE, lambda told: {**_thought_cell(told), "source": "tide = 2\ntide"}),
    Step("notebook_run_cell", RUN_OWN, _thought_cell),
    Step("notebook_run_all", RUN_OWN, _in_thought()),
    Step("notebook_read", READ, _in_thought()),
    Step("notebook_export", READ, _in_thought()),
    Step("notebook_import", WRITE, lambda told: {"content": told["notebook_export"]["content"]}),
    Step("notebook_keep", WRITE, _in_thought(path="kept.ipynb")),
    Step("notebook_delete_cell", WRITE, _thought_cell),
    Step("notebook_close", WRITE, _in_thought()),
    Step("workspace_doctor", RUN | KERNELS | CHANGE_KERNELS, {}),
)
TOUR = (*WORKSPACE, *NOTEBOOKS, *DOCUMENTS, *CELLS, *PADS, *THINKING)
