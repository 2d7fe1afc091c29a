"""Finding everything by one search."""

PROMISES = {
    "finding:search:everything": "One search finds pads, thinking notebooks, notebooks by source and by output, files and discoveries; what each result names can be read.",
    "finding:search:meaning": "It finds by meaning what shares no word with the question, whoever's tenant it is in, in one ranking.",
    "finding:search:one-each": "A thing is found once, by its best part.",
    "finding:search:kinds": "Only the kinds that were asked for are found, and no more than the limit.",
    "finding:search:tenants": "Nobody finds another's pads or thinking notebooks; notebooks, files and discoveries are everybody's who may read.",
    "finding:search:clean": "Titles and snippets are cleaned, and fifty results are within the budget.",
    "finding:index:incremental": "Only what changed is read again, also after a restart; what stayed in a changed notebook keeps its vectors.",
    "finding:index:gone": "What was deleted is not found any more, and leaves the index.",
    "finding:index:ephemeral": "A thinking notebook that was closed leaves the index without another search; so does what a caller who never came back left.",
    "finding:index:private": "Hidden, ignored and secret files are never read.",
    "finding:index:bounded": "A search waits a bounded moment for the index, and says how far it is, what is left out and what could not be looked at.",
    "finding:index:beside": "Files are read in slices, off the event loop.",
    "finding:index:contents": "Notebooks of a Jupyter server elsewhere are found through its contents API, by its paths.",
    "finding:index:folder": "Where a running Jupyter server serves a folder above, notebooks are named by their path there.",
    "finding:connector": "`search` and `fetch` answer one text that is the JSON chat connectors expect, and the same as structured content; what is found can be fetched, by who may read it.",
    "finding:bench": "The benchmark asks at least sixty judged questions, each of which has its answer among the texts, beside a plain BM25.",
}
