"""Validation of cells: advisory, apart from everything else, killable, with no network and no execution.

`validators.Validators` is what callers use; `model` has its values, `languages` the names of languages. All else runs in worker
processes, which is why nothing is imported here: they start often and should start quickly.
"""
