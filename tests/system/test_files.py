"""Files: private, locked, replaced, opened without following links; on this system, and as Windows would have it."""

import errno
import os
import resource
import stat
import subprocess
import sys
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath

import pytest

from cellwright.core.errors import ConfigError
from cellwright.system import files, machine, windows
from cellwright.system.files import private_folder, replace_file, trusted_file, why_not_writable
from cellwright.system.folders import config_file, is_too_wide, jupyter_runtime_folder, state_folder
from cellwright.system.port import Machine
from cellwright.system.posix import PosixMachine, nearest_mount
from cellwright.system.windows import WindowsMachine
from locations import TESTS
from requirements import requirement
from windows_fake import FakeWindows, Limits

BOTH = pytest.mark.parametrize("system", [PosixMachine(), WindowsMachine(FakeWindows())], ids=["posix", "windows"])
FOREVER = 30.0


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@requirement("system:private")
def test_a_private_folder_is_made_and_closed(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    old = os.umask(0)
    try:
        assert private_folder(folder) == folder
    finally:
        os.umask(old)
    assert mode(folder) == 0o700
    folder.chmod(0o755)
    private_folder(folder)
    assert mode(folder) == 0o700


@requirement("system:private")
def test_what_cannot_be_private_is_refused_with_a_way_out(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="Not a directory") as caught:
        private_folder(tmp_path / "file" / "state")
    assert "--state-dir" in caught.value.hint
    theirs = Path("/usr")
    if os.getuid() == 0:
        theirs = tmp_path / "theirs"
        theirs.mkdir()
        os.chown(theirs, 12345, 12345)
    with pytest.raises(ConfigError, match="belongs to another user"):
        private_folder(theirs)


@requirement("system:private")
def test_a_file_that_others_could_read_is_closed_and_one_they_could_write_refused(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("x", encoding="utf-8")
    file.chmod(0o644)
    assert trusted_file(file) is False
    assert mode(file) == 0o600
    assert trusted_file(file) is True
    file.chmod(0o666)
    with pytest.raises(ConfigError, match="others may write"):
        trusted_file(file)


@requirement("system:private")
def test_on_windows_modes_mean_nothing(tmp_path: Path) -> None:
    """There the rights of the user's profile protect what is in it."""
    windows = WindowsMachine(FakeWindows())
    file = tmp_path / "x"
    file.touch()
    file.chmod(0o666)
    status = file.stat()
    assert windows.is_own(status)
    assert not windows.open_to_others(status)
    assert not windows.others_may_write(status)
    assert windows.may_write(status)
    windows.keep_private(file)
    windows.sync_folder(tmp_path)
    assert mode(file) == 0o666
    assert not windows.exchange(file, file)


@requirement("system:private")
def test_whether_a_folder_can_be_written_is_tried_and_leaves_nothing(tmp_path: Path) -> None:
    assert why_not_writable(tmp_path / "not" / "there" / "yet") == ""
    assert list(tmp_path.iterdir()) == []
    # Nobody can make a folder there, whoever they are and whatever its mode says.
    assert why_not_writable(Path("/sys/x/y")) != ""


@requirement("system:replace")
def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    file = tmp_path / "x"
    replace_file(file, b"one\n")
    assert (file.read_bytes(), mode(file)) == (b"one\n", 0o600)
    old = os.umask(0o022)
    try:
        replace_file(file, b"two\r\n", mode=0o666)
    finally:
        os.umask(old)
    assert (file.read_bytes(), mode(file)) == (b"two\r\n", 0o644)

    def fail(_draft: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(OSError, match="No space"):
        replace_file(file, b"three", before=fail)
    assert file.read_bytes() == b"two\r\n"
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


@requirement("system:replace")
def test_a_file_takes_after_another(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.touch()
    old.chmod(0o640)
    replace_file(new, b"x", before=lambda draft: machine.take_after(draft, old.stat()))
    assert (mode(new), new.stat().st_uid) == (0o640, old.stat().st_uid)


@requirement("system:replace:open")
def test_on_windows_a_file_that_somebody_looks_at_is_replaced_when_they_have_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, draft = tmp_path / "x", tmp_path / "draft"
    for path in (file, draft):
        path.write_text(path.name, encoding="utf-8")
    looking = file.open("rb")
    api = FakeWindows(on_refusal=lambda: looking.close() if api.refusals > 1 else None)
    WindowsMachine(api).replace(draft, file)
    assert (file.read_text(encoding="utf-8"), draft.exists(), api.refusals) == ("draft", False, 2)
    monkeypatch.setattr(windows, "REPLACE_SECONDS", 0.0)
    draft.touch()
    with file.open("rb"), pytest.raises(PermissionError):
        WindowsMachine(FakeWindows()).replace(draft, file)
    assert file.read_text(encoding="utf-8") == "draft"


@requirement("system:replace:open")
def test_a_file_of_ours_is_replaced_as_the_system_does_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "x"
    file.touch()
    looking = file.open("rb")
    api = FakeWindows(on_refusal=looking.close)
    monkeypatch.setattr(files, "machine", WindowsMachine(api))
    replace_file(file, b"two")
    assert (file.read_bytes(), api.refusals) == (b"two", 1)


@requirement("system:replace:new")
@BOTH
def test_a_new_name_is_given_to_one_only(system: Machine, tmp_path: Path) -> None:
    first, second, file = (tmp_path / name for name in ("first", "second", "file"))
    for path in (first, second):
        path.write_text(path.name, encoding="utf-8")
    assert system.name_anew(first, file)
    assert not system.name_anew(second, file)
    assert file.read_text(encoding="utf-8") == "first"
    assert second.exists()


@requirement("system:replace:new")
def test_where_a_file_has_one_name_only_it_is_given_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on sticks and cards, whose file systems know no links."""

    def refuse(*_paths: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refuse)
    first, second, file = (tmp_path / name for name in ("first", "second", "file"))
    for path in (first, second):
        path.write_text(path.name, encoding="utf-8")
    assert PosixMachine().name_anew(first, file)
    assert not PosixMachine().name_anew(second, file)
    assert (file.read_text(encoding="utf-8"), second.exists()) == ("first", True)


@requirement("system:files-open")
def test_room_for_files_is_asked_for_and_the_answer_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def limits(soft: int, hard: int, most: int) -> None:
        def refusing(_kind: int, wanted: tuple[int, int]) -> None:
            if wanted[0] > most or (wanted[0] == resource.RLIM_INFINITY):
                raise ValueError("current limit exceeds maximum limit")
            asked.append(wanted[0])

        def current(_kind: int) -> tuple[int, int]:
            return soft, hard

        monkeypatch.setattr(resource, "getrlimit", current)
        monkeypatch.setattr(resource, "setrlimit", refusing)

    room = PosixMachine().room_for_files
    limits(256, resource.RLIM_INFINITY, 10_240)
    assert (room(2_560), asked) == (2_560, [2_560])
    limits(256, 1_000, 1_000)
    assert (room(2_560), asked) == (1_000, [2_560, 1_000])
    limits(256, resource.RLIM_INFINITY, 300)
    assert room(2_560) == 256
    limits(resource.RLIM_INFINITY, resource.RLIM_INFINITY, 10_240)
    assert room(2_560) == 2_560
    # macOS says that there is no limit, and does not take that for one.
    asked.clear()
    monkeypatch.setattr(sys, "platform", "darwin")
    with PosixMachine().sealed(FOREVER):
        pass
    assert asked == [0, 10_240]
    assert WindowsMachine(FakeWindows()).room_for_files(2_560) == 2_560


HOLDER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from cellwright.system.posix import PosixMachine
from cellwright.system.windows import WindowsMachine
from windows_fake import FakeWindows
system = PosixMachine() if sys.argv[1] == "PosixMachine" else WindowsMachine(FakeWindows())
with system.lock(Path(sys.argv[2]), 1.0):
    print("held", flush=True)
    sys.stdin.readline()
"""


@requirement("system:lock")
@BOTH
def test_a_lock_is_held_by_one_and_let_go_when_they_die(system: Machine, tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, type(system).__name__, str(tmp_path), str(TESTS)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(TimeoutError), system.lock(tmp_path, 0.05):
            raise AssertionError("two have it")
        holder.kill()
        holder.wait(20)
    with system.lock(tmp_path, FOREVER), pytest.raises(TimeoutError), system.lock(tmp_path, 0.0):
        raise AssertionError("two have it")
    with system.lock(tmp_path, 0.0):
        pass


@requirement("system:beneath")
@BOTH
def test_below_a_folder_no_link_is_followed(system: Machine, tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "a" / "b").mkdir(parents=True)
    outside.mkdir()
    for place in (root / "a" / "b", root, outside):
        (place / "file").write_text(place.name, encoding="utf-8")
    (root / "away").symlink_to(outside)
    (root / "a" / "link").symlink_to(root / "file")
    with system.beneath(str(root)) as below:
        assert [content(system, below.open_file(path)) for path in ("a/b/file", "file", "a/b/file")] == [
            "b",
            "root",
            "b",
        ]
        with below.folder("a") as folder:
            assert names(folder) == ["b", "link"]
        with below.folder("") as folder:
            assert names(folder) == ["a", "away", "file"]
        for path in ("away/file", "a/link"):
            with pytest.raises(OSError) as caught:  # noqa: PT011 - which of two numbers it is depends on the system
                below.open_file(path)
            assert caught.value.errno in {errno.ELOOP, errno.ENOTDIR}
        with pytest.raises(OSError), below.folder("away"):  # noqa: PT011
            raise AssertionError("it was opened")
        # A folder that was opened already, swapped for a link.
        (root / "a" / "b" / "file").unlink()
        (root / "a" / "b").rmdir()
        (root / "a" / "b").symlink_to(outside)
        with pytest.raises(OSError):  # noqa: PT011
            below.open_file("a/b/file")
    assert content(system, system.open_plain(str(root / "file"))) == "root"
    with pytest.raises(OSError):  # noqa: PT011
        system.open_plain(str(root / "a" / "link"))


def names(folder: int | str) -> list[str]:
    with os.scandir(folder) as entries:
        return sorted(entry.name for entry in entries)


def content(system: Machine, descriptor: int) -> str:
    room = bytearray(100)
    try:
        size = system.read_into(descriptor, memoryview(room))
    finally:
        os.close(descriptor)
    return room[:size].decode()


@requirement("system:network-disk")
@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        (r"C:\Users\x", ""),
        (r"Z:\state", "network"),
        (r"\\server\share\state", "network"),
        (r"relative\state", ""),
        (r"\\?\C:\Users\x", ""),
        (r"\\?\UNC\server\share\state", "network"),
    ],
)
def test_network_drives_of_windows_are_known(folder: str, kind: str) -> None:
    windows = WindowsMachine(FakeWindows())
    assert windows.file_system(PureWindowsPath(folder)) == kind  # pyright: ignore[reportArgumentType]


@requirement("system:network-disk")
def test_the_nearest_mount_decides() -> None:
    """As macOS lists its mounts."""
    mounts = [("/", "apfs"), ("/Users/x/share", "smbfs"), ("/Volumes/far", "afpfs")]
    places = [nearest_mount(Path(place), mounts) for place in ("/Users/x", "/Users/x/share/y", "/Volumes/far")]
    assert places == ["apfs", "smbfs", "afpfs"]


@requirement("system:limits")
def test_a_worker_on_windows_is_in_a_job_with_limits() -> None:
    api = FakeWindows()
    windows = WindowsMachine(api)
    windows.confine(1 << 30)
    assert api.joined == [1]
    assert api.limits[-1] == Limits(None, 1 << 30, low_priority=True)
    before = os.times().user
    with windows.sealed(5.0):
        sealed = api.limits[-1]
        assert sealed.memory_bytes == 1 << 30
        assert sealed.seconds is not None
        assert before + 6.0 <= sealed.seconds <= os.times().user + 6.0, "the limit counts from the start of the process"
    assert api.limits[-1] == Limits(None, 1 << 30, low_priority=True)
    assert windows.is_time_up(1816)
    assert not windows.is_time_up(1)


@requirement("system:limits", "system:tree")
def test_on_windows_a_job_holds_what_is_started() -> None:
    api = FakeWindows()
    windows = WindowsMachine(api)
    assert windows.hold_descendants()
    assert windows.hold_descendants()
    assert (api.jobs, api.joined, api.limits) == (1, [1], [Limits()])
    assert windows.apart == {"creationflags": 0x200 | 0x0800_0000}
    assert windows.is_alive(os.getpid())
    assert not windows.is_alive(0)


@requirement("system:folders")
@pytest.mark.parametrize(
    ("platform", "environ", "home", "state", "config", "runtime"),
    [
        (
            "linux",
            {},
            PurePosixPath("/home/x"),
            "/home/x/.local/state/cellwright",
            "/home/x/.config/cellwright/config.toml",
            "/home/x/.local/share/jupyter/runtime",
        ),
        (
            "linux",
            {"XDG_STATE_HOME": "/s", "XDG_CONFIG_HOME": "/c", "XDG_DATA_HOME": "/d"},
            PurePosixPath("/home/x"),
            "/s/cellwright",
            "/c/cellwright/config.toml",
            "/d/jupyter/runtime",
        ),
        (
            "darwin",
            {"XDG_STATE_HOME": "/s"},
            PurePosixPath("/Users/x"),
            "/Users/x/Library/Application Support/cellwright",
            "/Users/x/Library/Application Support/cellwright/config.toml",
            "/Users/x/Library/Jupyter/runtime",
        ),
        (
            "win32",
            {},
            PureWindowsPath(r"C:\Users\x"),
            r"C:\Users\x\AppData\Local\cellwright",
            r"C:\Users\x\AppData\Local\cellwright\config.toml",
            r"C:\Users\x\AppData\Roaming\jupyter\runtime",
        ),
        (
            "win32",
            {"LOCALAPPDATA": r"D:\local", "APPDATA": r"D:\roaming"},
            PureWindowsPath(r"C:\Users\x"),
            r"D:\local\cellwright",
            r"D:\local\cellwright\config.toml",
            r"D:\roaming\jupyter\runtime",
        ),
    ],
)
def test_default_folders(
    platform: str, environ: dict[str, str], home: PurePath, state: str, config: str, runtime: str
) -> None:
    assert str(state_folder(environ, home, platform)) == state
    assert str(config_file(environ, home, platform)) == config
    assert str(jupyter_runtime_folder(environ, home, platform)) == runtime


@requirement("odd:wide-folder")
@pytest.mark.parametrize(
    ("folder", "home", "wide"),
    [
        (PurePosixPath("/"), PurePosixPath("/home/x"), True),
        (PurePosixPath("/home"), PurePosixPath("/home/x"), True),
        (PurePosixPath("/home/x"), PurePosixPath("/home/x"), True),
        (PurePosixPath("/home/x/project"), PurePosixPath("/home/x"), False),
        (PurePosixPath("/home/xy"), PurePosixPath("/home/x"), False),
        (PurePosixPath("/srv"), PurePosixPath("/home/x"), False),
        (PureWindowsPath("D:\\"), PureWindowsPath(r"C:\Users\x"), True),
        (PureWindowsPath(r"c:\users"), PureWindowsPath(r"C:\Users\x"), True),
        (PureWindowsPath(r"C:\Windows\System32"), PureWindowsPath(r"C:\Users\x"), True),
        (PureWindowsPath(r"C:\Users\x\work"), PureWindowsPath(r"C:\Users\x"), False),
    ],
)
def test_folders_that_nobody_means_as_a_workspace(folder: PurePath, home: PurePath, wide: bool) -> None:
    assert is_too_wide(folder, home, {"SYSTEMROOT": r"C:\WINDOWS"}) is wide
