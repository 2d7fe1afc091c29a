"""Which process listens where."""


def listens(pid: int, port: int) -> bool:
    """Whether this process itself listens on the port. One that is gone or somebody else's does not, as far as we can know."""
    import psutil  # noqa: PLC0415 - takes a while to load

    try:
        connections = psutil.Process(pid).net_connections(kind="tcp")
    except psutil.Error:
        return False
    return any(one.status == psutil.CONN_LISTEN and one.laddr.port == port for one in connections if one.laddr)
