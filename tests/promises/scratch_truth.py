"""Promises that answers about pads are whole, small and true."""

PROMISES = {
    "scratch:reply:touched": "The reply to a change of a cell shows that cell in full wherever it stands, all cells of a small pad, and counts those that it leaves out.",
    "scratch:reply:created": "Creating a pad names its cells by id and index, hundreds of them, and counts those that it leaves out.",
    "scratch:reply:small": "The reply to a change of a cell says nothing twice and does not grow with the pad.",
    "scratch:read:schemas": "Reading a pad shows its shared schemas and the tags of its cells in its metadata; a pad made from what was read has the same.",
    "scratch:read:schemas-budget": "Schemas that do not fit into a reply are counted, and listing them comes in pages that together are all.",
    "scratch:update:as-read": "What was read of a pad's metadata can be given back to change a part of it.",
    "scratch:evict:log": "An eviction is an event of its own in the log, with the pad, its owner and the policy as keys.",
    "scratch:history:cells": "History says which cells, fields or schemas each change was about, and when in ISO time; older changes stay and can be restored.",
    "scratch:history:diff": "History shows as a diff what a change did to cells, words and schemas.",
    "scratch:reset:told": "Creating a pad with expect under an id that is taken says that it reset that pad, and which version brings it back.",
    "scratch:validate:pages": "Validating many cells gives totals, names the invalid ones, shows the worst first, and comes in pages that together are all results.",
    "scratch:validate:bounded": "Arrays of results hold results only, however many findings there are; what is left out is counted.",
    "scratch:boolean-schema": "true and false are schemas: the first takes everything, the second nothing.",
    "scratch:undecided:reference": "Where a verdict depends on a part of a schema that is not known, it is undecided and says which part; what holds without that part is told.",
    "scratch:undecided:sound": "Whatever a missing part of a schema may say, no cell is called invalid that would be valid, or valid that would be invalid.",
    "scratch:undecided:schema": "A schema that cannot be applied leaves the cell undecided, unless the content is wrong without it.",
    "scratch:validation:formats": "Formats such as date are checked, by the draft of the schema; one that nobody knows is left alone.",
    "scratch:validation:bases": "References are resolved against the ids around them, in every draft, and reach shared schemas relatively as well.",
    "scratch:validation:certain": "Brackets that do not pair, an end that is missing and what trusted grammars refuse make code invalid; what a grammar only doubts is a warning, and sound code is never called invalid.",
}
