"""One module for each kind of content, each with `check(text, language) -> Checked`. Imported by the worker process only."""
