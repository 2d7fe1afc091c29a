"""Promises about worker processes, foreign JSON and the event loop."""

PROMISES = {
    "workers:answers": "A job gets its arguments and gives its answer unchanged: JSON, long texts, half characters and bytes.",
    "workers:every-loop": "Workers are asked on every kind of event loop, also on those that know no child processes, as the one inside Jupyter on Windows.",
    "workers:small-here": "Small work is done in our own process; no worker is started for it.",
    "workers:errors": "A failure that a job raises reaches the caller as the same failure; a crash is a crash.",
    "workers:ends": "A job that does not end, eats memory, nests too deeply or kills its process fails alone, with a reason; the next one is served.",
    "conversions:same": "A large notebook is converted in a worker process with the same result, losses and errors as a small one here.",
    "conversions:bounded": "A text with more than 20,000 cells is refused with what to do.",
    "foreign-json:bounds": "JSON from outside is measured before it is parsed: size, values and nesting, whatever its texts hold.",
    "loop-watch:held": "A turn of the event loop over 100 ms is logged with where it was seen; waiting and a busy machine are not taken for one.",
}
