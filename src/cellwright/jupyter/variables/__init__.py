"""Looking at the variables of a running Python kernel, without a trace and without running the notebook's code."""
