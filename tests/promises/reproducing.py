"""Reproducing a notebook: a clean kernel on a copy, compared with what is kept, and nothing touched."""

PROMISES = {
    "reproduce:compare:itself": "Whatever outputs a cell has, compared with themselves they are the same; a comparison never fails, and its verdict does not depend on which side was kept.",
    "reproduce:compare:passing": "Times of the run, durations, progress bars, addresses of objects, ids of processes, temporary files and terminal codes do not make outputs different; dates and durations of the data do.",
    "reproduce:compare:numbers": "Numbers in texts, tables and JSON are compared with the relative tolerance; without one, whole numbers must be equal.",
    "reproduce:compare:forms": "Tables are compared by their cells, JSON by its structure, drawings without their random ids, pictures by what they show; what has no form that can be compared is unknown, and said so.",
    "reproduce:compare:errors": "Errors are compared by name and message, and outputs that are missing or new are named.",
    "reproduce:hints": "Why outputs differ is said where it is evident: no seed, another order of runs, a name that no cell above defines, another version of the language.",
    "reproduce:verdicts": "Every code cell gets a verdict, the notebook reproduces only if all are the same or close, and it is not known if any could not be compared.",
    "reproduce:untouched": "Reproducing changes neither the document nor the file nor the notebook's kernel and its variables, and makes no session.",
    "reproduce:live": "What is reproduced is the live document of one moment, with edits that nobody has saved, whatever is edited meanwhile; the kernel works in the notebook's folder.",
    "reproduce:stops": "A cell that raises where no error is kept ends the run, and the rest is not run, unless it is tagged raises-exception or the caller goes on past errors.",
    "reproduce:parameters": "Parameters are set after the cell tagged parameters, or at the top, which is said; names that are no variables are refused before anything runs.",
    "reproduce:hidden-state": "A notebook that needs a deleted cell, or another order of its cells, does not reproduce, and the answer says why.",
    "reproduce:ends": "The clean kernel is gone when the answer is there, also after an error, a cancelled call, a kernel that died, or the end of cellwright.",
    "reproduce:later": "A reproduction outlives its call: get_execution has its progress and its result, for its owner only, and cancel_execution ends it with its kernel.",
    "reproduce:costs": "Each cell's time and memory are told, and the kernel's interpreter and peak memory.",
    "reproduce:bounded": "The answer stays within its budget however many cells differ, and names those that it does not show; few notebooks are reproduced at once.",
    "reproduce:scope": "Reproducing needs the scope to run code, and is not offered by a server that only reads.",
    "reproduce:progress": "A client over stdio is shown the progress of a reproduction, cell by cell.",
}
