"""Validation of cells. It only advises, runs in processes that can be killed, uses no network and executes nothing.

Callers use `validators.Validators`; `model` has its values, `languages` the names of languages. All else runs in worker
processes. Nothing is imported here, because those start often and should start quickly.
"""
