"""Everything into everything: conversions, the page, the commands, the prompts."""

PROMISES = {
    "exchange:formats": "From any format to any other and back, a book is the same but for what the losses name.",
    "exchange:places": "Into a pad, a thinking notebook or a file and back, a book is the same but for what the losses name.",
    "exchange:sources": "export_notebook takes a live notebook with what people have not saved, a pad, a thinking notebook, a template and files, in every format.",
    "exchange:pages": "A long export comes in pages that together are the whole text, each within its budget.",
    "exchange:clean": "Exported text has no control or invisible characters, and says so; what is written to a place has all of them.",
    "exchange:import": "import_notebook writes any source or text to a notebook, a file, a pad or a new thinking notebook, and what it answers can be read next.",
    "exchange:overwrite": "Nothing is overwritten unless told; told so, the shared document changes under the people in it, and an undo takes it back.",
    "exchange:owner": "Another's pad or thinking notebook cannot be exported or overwritten, in the words of one that does not exist.",
    "exchange:scopes": "A token that may only read can export and cannot import.",
    "exchange:refused": "What names no notebook, or is none, is refused in words that say what to give; nothing is written.",
    "exchange:record": "What was exported and imported is in the session's record, each with its link.",
    "exchange:command": "cellwright export and import convert files, pads and thinking notebooks, say losses on stderr and overwrite only with --force.",
    "html:safe": "Whatever a notebook holds, its page has only our own tags, no script, no handler, no address but of the web, and pictures as data.",
    "html:browser": "In a real browser the page of a hostile notebook runs no script, asks for nothing outside and breaks no rule of its policy.",
    "html:markdown": "The usual Markdown of notebooks is set as what it means; formulas and HTML are shown as text.",
    "html:outputs": "Text, errors, pictures, tables and Markdown among the outputs are on the page; what cannot be shown is named.",
    "html:time": "Hostile Markdown costs no more than long Markdown.",
    "prompts:work": "The prompts about the work name the tools in their order, all of which exist, and how to judge the result.",
    "prompts:arguments": "A prompt's argument is checked: a missing, unknown or impossible one is refused in words that help.",
    "prompts:complete": "The path of a prompt is completed with the notebooks there are, hidden ones left out, and no server is started for it.",
}
