"""What an attacker tries, and what must come of it: one promise for each case."""

PROMISES = {
    # network edge
    "adversarial:N1": "A request whose Host is not ours is refused with 421 before its body is read.",
    "adversarial:N2": "A request from a foreign Origin is refused with 403 on every route, whatever token it carries.",
    "adversarial:N3": "An allowed origin is compared as a whole string: a prefix, a suffix, another scheme or port is refused.",
    "adversarial:N4": "A page in a real browser that rebinds its name to this machine reads nothing and runs no tool.",
    "adversarial:N5": "Without a valid token only /health and the OAuth metadata answer, and a route without a scope cannot exist.",
    "adversarial:N6": "A WebSocket is closed before it is accepted, on every path, with and without a token.",
    "adversarial:N7": "Cross-site forms, text/plain bodies, cross-site fetches and cookies change nothing.",
    "adversarial:N8": "Oversized, endless, compressed and slow requests end with 413, 415 or 408, in bounded memory and time.",
    "adversarial:N9": "Malformed JSON gets a JSON-RPC error or a 4xx, never a 5xx, and the next request is served.",
    "adversarial:N9:stdio-long": "On stdio a message of more than --max-body bytes is refused with its id, and takes no more memory than one that fits.",
    "adversarial:N9:stdio": "On stdio a line that is no JSON or no message is answered with an error, with its id wherever it has one that can be read, "
    "so that nobody waits for it.",
    "adversarial:N10": "Headers that disagree with the body are refused with -32020, so no gateway can be told another story.",
    "adversarial:N11": "The stateless era answers 405 to GET and DELETE, ignores and never echoes session headers; the handshake era works.",
    # authorization
    "adversarial:A1": "A JWT that is forged, stale, early, for somebody else or absurd gets the one 401 that every wrong token gets.",
    "adversarial:A2": "A tool beyond the token's scope is refused with 403 naming that one scope, by every name, and does not run; "
    "revoked and expired tokens stop at once.",
    "adversarial:A3": "On a read-only server every tool that writes or runs is off and says by which setting, whatever a request wishes, and nothing runs.",
    "adversarial:A4": "The bearer token goes no further than the gate: nothing behind it is handed the header.",
    "adversarial:A5": "Wrong tokens are limited per source, whatever headers say of it, and the right token still works.",
    "adversarial:A6": "A requestState that is forged, replayed, of another or absent gives the same answer: none is ever trusted.",
    # secrets
    "adversarial:S1": "No secret of environment, flags, addresses, headers or cookies appears in logs, results, metrics or the doctor.",
    "adversarial:S2": "A request that fails inside leaves no Referer, cookie, query or token in the log.",
    "adversarial:S4": "What is written in the state folder is for its owner alone, and a folder that others can write is not trusted.",
    # lifecycle
    "adversarial:L1": "On stdio every line of stdout is JSON-RPC, whatever libraries and children print, from start to end.",
    "adversarial:L2": "A stdio server is gone within 1 s of its stdin closing and within 5 s of its parent's death, leaving nothing.",
    # arguments
    "adversarial:V5": "A misspelt argument is refused with the nearest name, and a value of the wrong type is refused as it is.",
}
