"""Promises about what is stale: what each cell defines and uses, what really ran, and what follows from both."""

PROMISES = {
    "stale:ran": "What ran in a kernel's present life is known with its source, number, end and whether an agent ran it, also what people ran and what ran before anybody listened.",
    "stale:python:really": "Names that a cell in Python really reads or changes when it runs are among those that are told of its source.",
    "stale:truth": "No cell of 300 real notebooks whose value another cell's edit changes is called fresh, as runs before and after the edit show.",
    "stale:python:flow": "Of a cell in Python it is known what it binds surely, what only perhaps, and what it reads in the state from before it.",
    "stale:python:functions": "Of functions and classes it is known what they read and change once they are called, by Python's rules of scope, and what they do with what they are given.",
    "stale:python:changes": "Changes in place are seen, also of what was defined elsewhere, and methods that leave their object as it is are not taken for changes.",
    "stale:python:shared": "Names that share an object, or of which one lies in the other, are known as such.",
    "stale:python:world": "What cells share without a name is known: random numbers, files, the working folder and the environment.",
    "stale:python:opaque": "A cell that may read or write names that its source does not say is said to, and star imports are told by their modules.",
    "stale:python:magic": "Magic, commands of the shell and questions are read as what IPython makes of them.",
    "stale:reading:any-text": "Any text in any language is read or said to be unknown, without an error and in bounded time.",
    "stale:reading:job": "Cells are read as a job of a worker process, whose answer is JSON.",
    "stale:reading:unknown": "Of a cell that cannot be read it is said why, and what to install if that would help.",
    "stale:reading:languages": "Cells in JavaScript, Julia and Bash are read with their grammars, and say what hides names.",
}
