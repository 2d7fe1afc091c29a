"""Promises of proposals: edits that nobody sees until they are merged."""

PROMISES = {
    "proposals:unseen": "An edit with propose changes neither the notebook nor its file, and a person in it sees it only after the merge.",
    "proposals:show": "show_nb_proposal tells cell by cell what merging would do now, with diffs, and its revision guards the merge.",
    "proposals:follow": "A proposal takes in what people did; where both changed a cell both changes are kept, and the result says so.",
    "proposals:drop": "A dropped proposal leaves no trace in the notebook, and neither it nor a merged one can be merged again.",
    "proposals:owner": "Proposals of two callers do not mix, and to another caller a proposal does not exist.",
    "proposals:restart": "A proposal outlives a restart of the Jupyter server, and one of cellwright.",
    "proposals:undo": "undo_nb_edit takes a merge back, part by part.",
    "proposals:refused": "A proposed edit that is refused leaves no proposal; a server without forks is named and nothing changes.",
    "proposals:three-way": "Two versions of a notebook are put together by cell: text, order, cells that came and went.",
}
