"""cellwright inside Jupyter Server: the same MCP server at `{base_url}/mcp`, behind Jupyter's own authentication.

`app` and `handlers` are loaded when Jupyter starts and are kept light; `engine` loads everything else on the first request.
"""
