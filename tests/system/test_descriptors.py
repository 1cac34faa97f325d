"""What Windows and macOS lack is not needed: stores are made and read without it, with the same bytes and batches.

What is hidden is hidden from outofcore only: libraries choose by the system that they run on.
"""

from __future__ import annotations

from pathlib import Path

from outofcore import convert
from outofcore.system.descriptors import OPENS_FOLDERS
from tests.processes import run_program

HIDE = """
import builtins, ctypes, multiprocessing, os, sys, types

GONE = '''chown fchmod fchown fork forkpty fwalk getegid geteuid getgid getgroups getloadavg getpgid getuid initgroups
killpg lchown mkfifo mknod nice openpty posix_fadvise posix_fallocate posix_spawn pread preadv pwrite pwritev
register_at_fork sched_getaffinity sched_setaffinity setsid statvfs fstatvfs sync sysconf umask wait4
O_CLOEXEC O_DIRECTORY O_DSYNC O_NOATIME O_NOFOLLOW O_NONBLOCK O_PATH O_SYNC'''.split()
MODULES = {"fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty"}


def proxy(module, **changed):
    made = types.ModuleType(module.__name__)
    made.__dict__.update({name: value for name, value in vars(module).items() if name not in GONE}, **changed)
    return made


def no_folders(path, flags, mode=0o777, *, dir_fd=None):
    if dir_fd is not None:
        raise NotImplementedError("dir_fd unavailable on this platform")
    if os.path.isdir(path):
        raise PermissionError(13, "Permission denied", str(path))
    return os.open(path, flags, mode)


def no_dir_fd(path, *, dir_fd=None, follow_symlinks=True):
    if dir_fd is not None:
        raise NotImplementedError("dir_fd unavailable on this platform")
    return os.stat(path, follow_symlinks=follow_symlinks)


class Library(ctypes.CDLL):
    def __init__(self, name, *arguments, **options):
        if name is None:
            raise TypeError("LoadLibrary() argument 1 must be str, not None")
        super().__init__(name, *arguments, **options)


PROXIES = {
    "os": proxy(os, open=no_folders, stat=no_dir_fd, supports_dir_fd=set(), supports_fd=set()),
    "ctypes": proxy(ctypes, CDLL=Library),
    "multiprocessing": proxy(multiprocessing, get_all_start_methods=lambda: ["spawn"]),
}
imported = builtins.__import__


def importing(name, globals=None, locals=None, fromlist=(), level=0):
    if str((globals or {}).get("__name__")).partition(".")[0] == "outofcore":
        if name in MODULES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        if name.partition(".")[0] in PROXIES and not (fromlist and "." in name):
            return PROXIES[name.partition(".")[0]]
    return imported(name, globals, locals, fromlist, level)


builtins.__import__ = importing
"""

PROGRAM = """
import hashlib, importlib, pathlib, pkgutil
import outofcore
if sys.argv[1] == "convert":
    for module in pkgutil.walk_packages(outofcore.__path__, "outofcore."):
        importlib.import_module(module.name)

from outofcore.system import descriptors
from outofcore.space import filesystems
from outofcore.store import bulk
from outofcore.store.verify import verify
here = descriptors.OPENS_FOLDERS, descriptors.most_open_files(), hasattr(descriptors.os, "pread")
print(*here, bulk._decoders() is None)
if sys.argv[1] == "convert":
    filesystems._MOUNTS = pathlib.Path("no such file")  # which Linux has
    outofcore.convert("chess", "games.pgn", "here.zarr", store={"chunk_rows": 32, "shard_rows": 128})
store = outofcore.open_store(sys.argv[2])
print(store.digest, verify(sys.argv[2]).problems)
digest, count = hashlib.sha256(), 0
for batch in outofcore.loader(store, "train", 16, memory="64MiB"):
    for name in sorted(batch):
        digest.update(batch[name].numpy().tobytes())
    count += len(batch["value"])
print(count, digest.hexdigest())
"""


def games(count: int) -> str:
    moves = ("e4 e5 Nf3 Nc6 Bb5 a6", "d4 d5 c4 e6 Nc3 Nf6", "c4 c5 Nc3 Nc6 g3 g6", "e4 c5 Nf3 d6 d4 cxd4")
    return "".join(
        f'[Event "{number}"]\n[Result "1-0"]\n[White "a{number}"]\n[Black "b"]\n\n{moves[number % 4]} 1-0\n\n'
        for number in range(count)
    )


def run(folder: Path, *arguments: str, hide: bool) -> list[str]:
    code = (HIDE if hide else "import sys\n") + PROGRAM
    ended = run_program(code, *arguments, folder=folder)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.splitlines()


def test_stores_are_made_and_read_without_what_only_unix_has(tmp_path: Path) -> None:
    (tmp_path / "games.pgn").write_text(games(60))
    small = {"chunk_rows": 32, "shard_rows": 128}
    made = convert("chess", tmp_path / "games.pgn", tmp_path / "there.zarr", store=small)
    told = run(tmp_path, "convert", "here.zarr", hide=True)
    assert told[0] == "False None False True"
    assert told[1] == f"{made['digest']} ()"
    here = run(tmp_path, "read", "here.zarr", hide=False)
    assert here[0].split()[0] == str(OPENS_FOLDERS)
    assert here[1:] == told[1:]
    assert int(told[2].split()[0]) > 100
