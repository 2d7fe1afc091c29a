"""cellwright: one MCP server that gives an AI agent a whole notebook workspace."""

__version__ = "0.1.0"
