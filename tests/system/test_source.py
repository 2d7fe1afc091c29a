"""Where names of one operating system stand, and what is loaded where they are absent."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import cellwright
from requirements import requirement
from support import clean_environ

SOURCE = Path(cellwright.__file__).parent
MODULES = {"fcntl", "resource", "termios", "pwd", "grp", "pty", "tty", "msvcrt", "winreg", "ctypes", "select"}
ATTRIBUTES = {
    "os": {
        "fork", "forkpty", "killpg", "setsid", "setpgid", "getpgid", "getuid", "geteuid", "getgid", "getgroups", "getppid", "chown",
        "nice", "setpriority", "waitpid", "wait", "WNOHANG", "kill", "readv", "O_NOFOLLOW", "O_DIRECTORY", "O_NONBLOCK", "O_CLOEXEC",
        "mkfifo", "name", "openpty", "sched_getaffinity", "link",
    },
    "signal": {"SIGHUP", "SIGKILL", "SIGALRM", "SIGCHLD", "SIGBREAK", "setitimer", "alarm"},
    "Path": {"home"},
}  # fmt: skip
METHODS = {
    "add_signal_handler", "expanduser", "chmod", "hardlink_to",
    # Event loops of Windows have either these or those.
    "create_subprocess_exec", "create_subprocess_shell", "connect_read_pipe", "connect_write_pipe", "add_reader", "add_writer",
}  # fmt: skip
ARGUMENTS = {"pass_fds", "start_new_session", "preexec_fn", "creationflags", "process_group"}
TEXTS = ("/proc", "prctl", "/dev/fd")


def names_of_one_system(tree: ast.AST) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                found |= {alias.name for alias in node.names if alias.name.split(".")[0] in MODULES}
            case ast.ImportFrom() if str(node.module).split(".")[0] in MODULES:
                found.add(str(node.module))
            case ast.Attribute(value=ast.Name(id=owner), attr=name) if name in ATTRIBUTES.get(owner, ()):
                found.add(f"{owner}.{name}")
            case ast.Attribute(attr=name) if name in METHODS:
                found.add(name)
            case ast.keyword(arg=str(name)) if name in ARGUMENTS:
                found.add(name)
            case ast.Constant(value=str(text)) if any(one in text for one in TEXTS):
                found.add(text)
            case _:
                pass
    return found


@requirement("system:one-place")
def test_names_of_one_system_stand_in_one_package() -> None:
    found: set[tuple[str, str]] = set()
    for file in SOURCE.rglob("*.py"):
        path = file.relative_to(SOURCE).as_posix()
        if not path.startswith("system/"):
            found |= {(path, name) for name in names_of_one_system(ast.parse(file.read_text(encoding="utf-8")))}
    assert found == set()


@requirement("system:one-place")
def test_the_search_finds_what_it_looks_for() -> None:
    code = "import fcntl\nos.killpg(1, signal.SIGHUP)\nPopen([], pass_fds=(1,))\nopen('/proc/self/stat')\nfrom select import select\n"
    assert names_of_one_system(ast.parse(code)) == {
        "fcntl",
        "os.killpg",
        "signal.SIGHUP",
        "pass_fds",
        "/proc/self/stat",
        "select",
    }


AS_ON_WINDOWS = """
import importlib, os, select, signal, socket, sys
from pathlib import Path

import psutil
import cellwright

def load_all():
    root = Path(cellwright.__file__).parent
    files = [file.relative_to(root.parent).with_suffix("") for file in root.rglob("*.py")]
    names = {".".join(file.parts).removesuffix(".__init__") for file in files if file.name != "__main__"}
    names.discard("cellwright.system.posix")
    for name in sorted(names):
        importlib.import_module(name)
    return len(names)

first = load_all()  # what is not ours is loaded by now, for the system that this is
for name in [name for name in sys.modules if name.split(".")[0] == "cellwright"]:
    del sys.modules[name]
absent = {
    os: "fork forkpty killpg setsid setpgid getpgid getuid geteuid getgid getegid getgroups chown fchown lchown nice setpriority "
        "getpriority readv preadv pread pwrite waitid WNOHANG O_NOFOLLOW O_DIRECTORY O_NONBLOCK O_CLOEXEC mkfifo uname getloadavg "
        "sched_getaffinity wait3 wait4 posix_spawn statvfs openpty",
    signal: "SIGHUP SIGKILL SIGALRM SIGCHLD SIGUSR1 SIGUSR2 SIGQUIT SIGPIPE setitimer getitimer ITIMER_REAL alarm pause pthread_kill",
    select: "select poll epoll",
    socket: "AF_UNIX socketpair",
}
for module, names in absent.items():
    for name in names.split():
        if hasattr(module, name):
            delattr(module, name)
for name in ("fcntl", "resource", "termios", "pwd", "grp", "tty", "pty", "syslog"):
    sys.modules[name] = None
sys.platform = "win32"
import cellwright
again = load_all()
from cellwright.system import machine
print(first == again, type(machine).__name__)
"""


@pytest.mark.timeout(240)
@requirement("system:windows:loads")
def test_every_module_loads_without_what_windows_lacks() -> None:
    done = subprocess.run(
        [sys.executable, "-c", AS_ON_WINDOWS],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        env=clean_environ(),
    )
    assert (done.stdout.split(), done.returncode) == (["True", "WindowsMachine"], 0), done.stderr
