"""Promises about notebooks as files."""

PROMISES = {
    "formats:srcmd:book-file-book": "A book in normal form, written as srcmd and read back, is the same book.",
    "formats:srcmd:file-book-file": "A srcmd file laid out by the rules, read and written again, is the same file.",
    "formats:srcmd:strict": "A srcmd file that breaks the grammar is refused in words that say what is wrong.",
    "formats:srcmd:losses": "What srcmd cannot hold of a book is changed as little as possible and named.",
    "formats:srcmd:external": "A book in the external form, README and files, is the same book.",
    "formats:srcmd:folder": "A Srcbook folder is read whole: export_notebook, import_notebook and the commands put the files that its README links to in their places, and none from outside of the folder.",
    "formats:text-as-it-is": "Markdown that is read keeps its blank lines, and the lack of them, as they are; written again it is the same text.",
    "formats:ipynb:nothing-known": "What a notebook says of a kernel of which nothing is known is neither in the header of a srcmd file nor told as lost.",
    "formats:pad:language": "A pad keeps the language of the notebook that it was made of; a package.json does not make it json.",
    "formats:ipynb:round-trip": "A book written as ipynb and read back is the same book, with ids, outputs and metadata.",
    "formats:ipynb:valid": "What is written as ipynb is valid nbformat 4.5.",
    "formats:json:round-trip": "A book written in our JSON form and read back is the same book.",
    "formats:md:reading": "Markdown is read as a book: title, prose, and fenced code with a language as cells.",
    "formats:md:headings": "Headings of Markdown stay in the text, the one that gives the title included; a title that no cell holds becomes a heading, and that is said.",
    "formats:md:writing": "A book is written as Markdown with its text outputs, and what is left out is named.",
    "formats:refused": "Text that is not of the format it is said to have is refused with INVALID_FORMAT, whatever it is.",
}
