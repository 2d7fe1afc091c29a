"""What is secret is out of reach, whichever root, tool, resource, search or link leads there."""

PROMISES = {
    "secrecy:private-places": "State, settings, keys and runtime files of cellwright and of Jupyter are out of reach, whatever the root.",
    "secrecy:one-list": "One list of files that hold secrets counts for every tool, resource and search that reads.",
    "secrecy:links": "What a link leads to is asked before it is read: a secret under another name is refused.",
    "secrecy:project-file": "project.yaml is never opened through a link, a pipe or a device, and none of them stops anything.",
    "secrecy:masked": "Every secret of the process is masked in every answer: results, failures, resources, prompts, progress, the page.",
    "secrecy:others": "Nobody but the operator sees counts of others' calls, and nobody others' thinking kernels.",
    "secrecy:found-server": "The token of a Jupyter server goes only to the process that wrote it down.",
    "secrecy:jwt-kind": "A JWT that says it is something other than an access token does not let anybody in.",
}
