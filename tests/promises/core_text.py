"""What text and data go through before a model reads them."""

PROMISES = {
    "clean:terminal:escapes": "No terminal sequence, 7-bit or 8-bit, leaves a trace in text for a model.",
    "clean:terminal:unterminated": "A terminal sequence that never ends takes no more than the start of its line with it.",
    "clean:terminal:as-seen": "Carriage returns, backspaces and cursor moves end as a person would see them.",
    "clean:controls:removed": "Of the control characters only newline and tab stay.",
    "clean:surrogates:replaced": "Lone surrogates become U+FFFD, so that every cleaned text can be encoded.",
    "clean:hidden:removed-and-counted": "Characters that no reader sees are removed and counted.",
    "clean:emoji:intact": "Emoji of every kind stay as they are, and lend no cover to hidden characters.",
    "clean:scripts:joiners": "Joiners that spell words of Arabic, Indic and Mongolian scripts stay; anywhere else they go.",
    "clean:html:references": "Hidden characters written as HTML references are found like any others.",
    "clean:result:idempotent": "Cleaning a second time changes nothing.",
    "clean:result:plain": "No cleaned text holds ESC, another control character, a surrogate or a hidden character.",
    "clean:result:visible-kept": "Text that is wholly visible is not changed.",
    "clean:speed:linear": "However hostile a text, cleaning it takes time and space in proportion to its size.",
    "clean:speed:plain": "Cleaning twenty megabytes of plain text takes a fraction of a second.",
    "tokens:estimate:calibrated": "The token estimate is between 0.9 and 1.5 times what real vocabularies give.",
    "tokens:estimate:monotone": "More text never has a lower estimate.",
    "tokens:estimate:bounded": "Any string has an estimate, in proportion to its length at most.",
}
