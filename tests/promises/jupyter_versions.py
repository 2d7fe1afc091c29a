"""Promises about the versions of Jupyter's parts that we work with."""

PROMISES = {
    "versions:collaboration-4": "The contract of rooms holds on jupyter-collaboration 4 as on 5.",
    "versions:server-documents": "Notebooks and texts are shared, edited and run on jupyter-server-documents as well.",
}
