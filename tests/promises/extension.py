"""What cellwright promises as an extension of Jupyter Server."""

PROMISES = {
    "extension:protocol:both-eras": "Inside Jupyter Server the same MCP server answers at {base_url}/mcp, in both eras of the protocol.",
    "extension:protocol:conformance": "The official conformance suite passes inside Jupyter Server, judged by its exit code.",
    "extension:protocol:streams": "Progress reaches the client while the tool works, and a client that leaves ends its call.",
    "extension:enter:refused": "Jupyter's authentication decides, in JSON: 401 without a token, 403 for a foreign Origin, Host or a cookie without XSRF.",
    "extension:enter:origin": "A page of an origin that Jupyter allows may ask first, and call; one of another may not.",
    "extension:enter:no-auth": "A Jupyter server that lets everybody in is not served.",
    "extension:enter:body": "A body that is too large is refused, by its announcement before it is sent.",
    "extension:enter:token-stays-outside": "Neither token nor cookie reaches what stands behind Jupyter's door, and Jupyter's token is masked in results.",
    "extension:who:shared-token": "With Jupyter's one token the caller is the same in every request, with or without cookies.",
    "extension:who:no-cookie": "A program that gives its token is not given a login cookie, which would let it in without one.",
    "extension:who:users": "Users with tokens of their own are kept apart: another's session does not exist for them.",
    "extension:who:authorizer": "Jupyter's authorizer decides what a caller may do: read, write, execute become our scopes.",
    "extension:plain:routes": "healthz, tools/list and tools/call answer in plain JSON, with the results of the protocol.",
    "extension:traits": "The traits choose where documents and kernels are, under our name and under that of the older server.",
    "extension:start:light": "At Jupyter's start nothing heavy is loaded; the first request loads it.",
    "extension:start:enabled": "The file in jupyter-config enables the extension.",
    "extension:start:wrong-settings": "Wrong settings do not harm Jupyter: callers and the log are told what is wrong.",
    "extension:run:survives": "A run goes on when its client leaves, by whichever way it was asked for, and its outputs are complete in the document.",
    "extension:stop:clean": "On SIGTERM calls finish, listening clients are told, and the process ends within seconds, with nothing left over.",
    "extension:restart": "After a restart of Jupyter the same client goes on; an old session is gone by the protocol's rules.",
}
