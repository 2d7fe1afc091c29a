"""Programs that agents run in: where their configuration is, and what `cellwright install` writes there."""
