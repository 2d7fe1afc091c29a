"""Promises about the page's side of the wire: who gets in, what each is shown, how changes reach many."""

PROMISES = {
    # the door
    "web:open-files": "The page's own files hold nothing of anybody, are open, and come with a strict policy that also forbids framing.",
    "web:no-redirect": "Nothing in a request decides where a browser is sent.",
    "web:cookie:flags": "A token is exchanged for a cookie that is HttpOnly, SameSite=Strict, Secure behind TLS, and says nothing by itself.",
    "web:cookie:only-here": "The cookie lets in to the page's own addresses and nowhere else; without it or a token they are closed.",
    "web:cookie:forgery": "With a cookie, only requests of the page itself are taken: by Origin, by Sec-Fetch-Site, by a header of its own.",
    "web:cookie:revoked": "Revoking a token ends the visits that began with it, and their open streams.",
    "web:cookie:leave": "Leaving ends the visit, and no other visit of the same token.",
    "web:cookie:bounded": "Visits end when they are not used for long, and are bounded in number for each token and for all.",
    "web:wrong-tokens": "Wrong tokens are slowed down at the page's door as at any other.",
    "web:off": "The page can be switched off by a setting.",
    "web:malformed": "A malformed address or number is refused with a code, a sentence and a hint.",
    # what is shown
    "web:own": "Pads, thinking notebooks, calls and sessions are shown to their owner only; another's is as if it were not there.",
    "web:own:stream": "A stream of events carries the owner's events only, also when it is resumed with another's number.",
    "web:activity": "Calls are shown when they begin and when they end, with outcome, time, tokens and what they were about.",
    "web:scopes": "Who may only read cannot cancel.",
    "web:things:odd": "A notebook that nobody could open, by its name or what it is, is left out of the list and does not spoil it.",
    "web:outputs": "Outputs come as plain text without terminal sequences, as pictures, or as the address of a frame; long ones are cut and say so.",
    "web:frames": "HTML and SVG outputs are given only as documents that may run nothing and load nothing, in a frame of the page itself.",
    "web:frames:harmless": "What runs, fetches or leads away is taken out of framed HTML before the policy is needed, in time linear in its length.",
    "web:secrets": "The server's own secrets are masked in what is shown.",
    "web:lab": "The way to JupyterLab carries its token only for those who may run code.",
    "web:reading-runs-nothing": "Looking runs nothing and starts no kernel.",
    # live
    "web:live": "A change is told to those who look at the document no later than its author is told that it is done.",
    "web:changes-only": "What changed since a revision is given alone, with the order of cells only if that changed; what is not known any more comes whole.",
    "web:people": "It is shown who is in a notebook, what people type there, and in which cell everybody is.",
    "web:many": "Fifty people look at one notebook while an agent edits it: all see every change, and the server's work for it is bounded.",
    "web:resume": "Who comes back with the number of the last event is given what was missed, or told to begin anew.",
    "web:slow": "A viewer that does not read is told to begin anew instead of being kept for without bound.",
    "web:run:cancel": "What runs is shown to its owner, who can cancel it; nobody else can.",
    "web:look:stops-nobody": "Who looks at a notebook, on the page or with a subscription, keeps nobody from renaming, moving or deleting it.",
    "web:lost": "When the connection to Jupyter is lost, the documents that people look at are opened again.",
    "web:drain": "A server that is asked to stop ends the streams and itself in order.",
    # inside Jupyter
    "web:jupyter:login": "Inside Jupyter the page asks for Jupyter's login; its other addresses answer 401 in JSON.",
    "web:jupyter:forgery": "Inside Jupyter a change needs Jupyter's own XSRF token, and other sites may not read.",
    "web:jupyter:own": "Inside Jupyter everybody is who Jupyter says, with its scopes, and sees only their own.",
    "web:jupyter:live": "Inside Jupyter an edit reaches those who look as it does elsewhere, and stopping Jupyter ends the streams.",
}
