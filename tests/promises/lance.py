"""Search with an index in LanceDB."""

PROMISES = {
    "lance:contract": "With an index in LanceDB search keeps the promises that it keeps without, over both engines, answered by LanceDB.",
    "lance:at-once": "What was just written is found at once, also while the index in LanceDB does not have it yet.",
    "lance:soon": "The index in LanceDB has what was written within two seconds, also what another process without such an index wrote.",
    "lance:unreadable": "An index that cannot be read is dropped and made anew from the database; search goes on meanwhile.",
    "lance:stale": "An index that is of another past than the database, or was exchanged, is detected and made anew.",
    "lance:embedded-once": "Making the index anew embeds nothing again.",
    "lance:lease": "Of several processes one writes to the index at a time; the lease of one that is gone lapses.",
    "lance:killed": "A process that is killed while it writes to the index leaves nothing that the next one does not put right.",
    "lance:many-vectors": "Once there are many vectors they are indexed, and the nearest are still found.",
    "lance:dimensions": "Another model with vectors of another length makes the index anew.",
    "lance:reindex": "`cellwright reindex` makes the index in LanceDB anew, too.",
    "lance:rechecked": "What the index says is checked against the rows: it never shows what the tenant may not see.",
    "lance:tidy": "Small pieces of the index are joined before they make reading slow.",
    "lance:shared": "Several databases may have their indexes in one place.",
    "lance:bucket": "The index may be in a bucket; while the store does not answer the database does.",
    "lance:bucket:unsafe": "A store that does not honour the condition of a write is refused before anything is written there.",
    "lance:bucket:address": "What is no address of a bucket, or has no key, is refused in one sentence that shows no secret.",
    "lance:bucket:signed": "Requests to a bucket are signed as Amazon's own library signs them.",
    "lance:lazy": "A program that was not asked for an index in LanceDB imports nothing of it.",
    "lance:setting": "The setting names the place of the index; what cannot work is refused in one sentence when the program starts.",
}
