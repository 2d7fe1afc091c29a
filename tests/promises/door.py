"""Promises about the door: nobody who comes in keeps others out, and nothing that comes in is taken before it is measured."""

PROMISES = {
    # who is let in
    "door:order": "A request is judged in one order: Host, Origin, token, route, scope, turn, content type, size of the body, scope of the tool; "
    "the first that is wrong is told, and nothing behind hears of it.",
    "door:names": "A header means what its name means over HTTP: none can be called so that the door takes it for a note of its own.",
    # what is sent
    "door:values": "A message of more than 100,000 values or 100 levels is refused before it is parsed, in words that say what to do: "
    "over HTTP, over stdio, inside Jupyter, on the plain JSON routes.",
    "door:values:id": "On stdio such a refusal carries the request's id, so that the client does not wait for an answer.",
    "door:utf8": "A body in UTF-16 or UTF-32, in which values could be hidden from the count, is refused.",
    "door:echo": "An error repeats little of what was sent: of texts of megabytes, names, addresses and methods, no more than a few thousand characters.",
    "door:problems": "Arguments with very many mistakes are answered with the first ones and the exact number of all, at the cost of one check.",
    "door:surrogates": "A lone surrogate, as the name of an argument or inside one, is a mistake of the caller in every tool.",
    "door:log": "A line of the log looks at no more of a value than it may show and a credential may be long.",
    # connections
    "door:silent": "Silent connections, unfinished heads and unfinished bodies make room for others, those of the address with the most of them "
    "first, also where an answer is not read.",
    "door:address": "One address has no more than three quarters of all connections; for others there is room, and /health is answered to all.",
    "door:caller": "One caller has no more than half of all connections as streams, whatever the settings say and the system allows.",
    "door:bodies": "Unfinished bodies of one caller hold no more than 64 MB together; who drips is told so, and others are served meanwhile.",
    "door:heads": "A head with bare line feeds or folded lines, or with two ways to end its body, is refused, also where it follows another request, and nothing of it is done.",
    "door:heard-out": "Who is refused while they still send is listened to for a moment, so that they can send on and read why.",
    # pads
    "door:pads": "All pads of one caller together keep no more than --scratch-max-bytes, on SQLite and PostgreSQL; what would be more is refused "
    "with CAPACITY_LIMIT_REACHED and what to do, and room that is made can be used.",
    "door:pads:versions": "Earlier versions count too, and give way before anything is refused, the oldest first.",
    "door:pads:total": "The total is exact after every change, and after an upgrade of a database that did not have it yet.",
}
