"""Promises about reaching a Jupyter server as people reach it."""

PROMISES = {
    "reach:password": "A server with a password and no token is used with --jupyter-password: files, live edits and runs.",
    "reach:proxy": "What a proxy before Jupyter wants, headers or cookies, is sent with every request and every websocket.",
    "reach:open": "A server that asks for nothing is used with nothing, its protection against forged requests included.",
    "reach:environment": "The token is that of the setting, else of the address, else of JUPYTER_TOKEN, or for a server of JupyterHub of "
    "JUPYTERHUB_API_TOKEN.",
    "reach:headers": "Headers are taken as lines or as JSON; what cannot be sent is refused without showing a value.",
    "reach:words": "Who is not let in is told which credential was tried and what to give instead.",
    "reach:secret": "Passwords, headers and tokens inside addresses are shown nowhere: not in settings, doctor, log or results.",
}
