"""Finding what was stored."""

PROMISES = {
    "search:text:at-once": "What was written is found by its words as soon as the write is acknowledged, on both engines alike.",
    "search:text:words": "Words are found in any form of the word, without accents, and inside names; all of them before any of them.",
    "search:text:signs": "Chinese, Japanese and Korean are found inside a text that has no spaces, and a word of any length finds only what has it, on both engines alike.",
    "search:text:hostile": "A question is only words: no operator, quote or length of it changes what is asked or fails.",
    "search:meaning:soon": "What was written is found by its meaning within two seconds.",
    "search:meaning:changed-only": "Only what has another text is embedded again: a new title, tag or namespace leaves vectors as they are.",
    "search:meaning:restart": "What waited for a vector when its process ended gets it from the next one.",
    "search:filters": "Kind, namespace and tags are filtered before the limit, by words and by meaning.",
    "search:tenants": "Nobody finds what belongs to another, also where digests of scopes are alike.",
    "search:removed": "What was removed is not found, by words or by meaning, also from what other processes hold in memory.",
    "search:model:none": "Without a model search is by words and says so.",
    "search:model:changed": "Another model embeds everything again in the background; search goes on meanwhile.",
    "search:model:engines": "numpy and onnxruntime make the same vectors of the built-in model.",
    "search:model:tokens": "The tokenizer cuts texts as the model's own does.",
    "search:model:api": "A model behind an address is asked as configured; what goes wrong there names neither key nor address.",
    "search:loop": "The event loop goes on while texts are embedded.",
    "search:processes": "Two processes that write and embed at once both find everything, once each.",
    "search:reindex": "Dropped words and vectors are made again from the entries, with progress.",
    "search:fusion": "What both words and meaning rank comes before what only one of them does; for code, meaning counts twice.",
    "search:no-pgvector": "On a server without pgvector search is by words and says so.",
}
