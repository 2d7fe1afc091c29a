"""What is not offered says how it is had; addresses and examples are as they are written down."""

PROMISES = {
    # tools that are off
    "doors:toolset-off": "A call of a tool whose toolset is off names the toolset and each way to switch it on.",
    "doors:ruled-out": "A call of a tool that --read-only, --exclude-tools, the request's headers or the scopes rule out says which of them does.",
    "doors:nearest": "An unknown name is answered with the nearest tool or alias, and if that one is off, with how it is switched on.",
    "doors:alias": "Choosing or excluding a tool by an alias means the tool.",
    "doors:status": "workspace_status says in one line what the caller is not offered, by what, and how to get it.",
    "doors:instructions": "The instructions name the toolsets that are off and no tool that is not offered, in every choice of tools.",
    # prompts
    "doors:prompts": "A prompt is listed for those who are offered its tools; to others it says which tool it needs and how to switch that on.",
    "doors:prompts:text": "A prompt's text names no tool that its reader is not offered.",
    # current notebooks
    "doors:start": "`cellwright start` and a document_id bring the tools for a current notebook, and a request may still ask for more toolsets.",
    "doors:plain": "The plain JSON routes know the names of the older server's tools, and list the arguments of each tool as `parameters`.",
    "doors:older-extension": "A configuration that enables the older server's module loads cellwright all the same, and the log says what to write.",
    # thinking notebooks
    "doors:current": "notebook://current never gives a notebook of another session: without one it is 'No notebook for current session', -32602.",
    "doors:current:listed": "notebook://current is listed as soon as it can be read.",
    "doors:listed": "A listed thinking notebook says its session, is named after its pattern, and carries its metadata, as its content does.",
    "doors:invalid-uri": "A malformed notebook:// address is -32602, as a notebook that is not there; an unknown scheme says Unknown resource.",
    "doors:files": "file:///notebooks/SESSION/… gives thinking notebooks and cells as files of their owner, read-only, and no file of the disk.",
    "doors:problem": "A template takes the problem when its notebook is made, whatever its text, and it stands there as a literal.",
    "doors:outputs": "A picture of a thinking cell has the address under which it is had in full, as bytes.",
    "doors:read-cell": "One thinking cell can be read by a tool: source, status, outputs and pictures.",
    # project context
    "doors:pictures": "A picture by context://file/… is given as bytes with its type, bounded, not decoded, by the rules of paths and secrets.",
    "doors:overview": "The overview says what the patterns, rules, decisions and issues of a module are, and only counts them where that is too long.",
    "doors:scan:tools": "A folder named tools or scripts is a module where it is a package, lies in the code or is imported by it, and else is not.",
    "doors:record": "A discovery about a module that project.yaml does not have is kept, with a note that names the nearest module.",
    # watching and addresses
    "doors:watched": "The instructions and the descriptions of resources say what can be watched, and what they say so of can be.",
    "doors:addresses": "The documentation has every fixed address, and each can be read or says what is missing.",
    "docs:snippets": "Every snippet of the documentation says what it is, and is run, or read by the reader that would read it.",
}
