"""Promises about the benchmarks."""

PROMISES = {
    "bench:table:every-row": "`make bench` shows start, memory and CPU a call beside a bare SDK server: both transports, both eras.",
    "bench:floor:equal-bytes": "The bare server that we are measured beside answers as many bytes as we do.",
    "bench:table:marks": "A row over its target is marked in the table, and is no failure of the run.",
}
