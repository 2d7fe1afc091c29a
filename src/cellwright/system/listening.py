"""Which process listens where."""


def listens(pid: int, port: int) -> bool:
    """Whether this process itself listens on the port. False if it has ended, or if we may not look at it."""
    import psutil  # noqa: PLC0415 - takes a while to load

    try:
        connections = psutil.Process(pid).net_connections(kind="tcp")
    except psutil.Error:
        return False
    return any(
        connection.status == psutil.CONN_LISTEN and connection.laddr.port == port
        for connection in connections
        if connection.laddr
    )
