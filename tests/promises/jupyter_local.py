"""What holds when cellwright runs inside the Jupyter server."""

PROMISES = {
    "local:same": "The same work inside the Jupyter server and from outside gives equal notebooks and equal errors.",
    "local:room:kept": "A room we are in stays while people come and go, and is cleaned up when we leave it as the last.",
    "local:room:no-dead": "A file that cannot be opened leaves no dead room behind: once it is mended it opens.",
    "local:room:store": "Rooms that we open keep their history where the server is configured to keep it.",
    "local:room:outside": "Where documents are shared by an extension whose rooms are unknown inside, they are joined as from outside.",
    "local:files": "Without collaboration, or with it switched off, all works on the file and a change by others is not overwritten.",
    "local:managers": "Any contents manager of the server will do, asynchronous or not; what it alone can see is listed by it.",
    "local:gives-up": "A caller who gives up leaves nothing half done: no kernel half started, no room without an end.",
    "local:kernel:activity": "The server sees who is connected to a kernel and that it is busy, so that it is not culled at work.",
    "local:kernel:death": "A kernel that dies or is shut down is noticed, and its successor is used.",
    "local:kernel:policy": "What the operator forbids on kernel websockets is forbidden here too: message types, tracebacks.",
    "local:kernel:outside": "A kernel without sockets of its own is reached by the server's websocket.",
    "local:fast": "Joining an open room and running a line take a few milliseconds.",
}
