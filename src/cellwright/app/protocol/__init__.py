"""The only package that knows the MCP SDK: our tools, resources, errors and events, in both eras of the protocol."""
