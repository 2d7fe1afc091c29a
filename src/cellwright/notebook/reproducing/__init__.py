"""Whether two runs of a notebook put out the same: outputs compared by what they mean, and why they differ."""
