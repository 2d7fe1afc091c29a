"""What a process frees goes back to the system."""

import subprocess
import sys

from requirements import requirement
from support import clean_environ

MEGABYTES = 1_000_000
# As large requests do it: texts of a megabyte and a few things that stay, in several threads at once.
WORK = """
import sys, threading
from cellwright.system import choose
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096
if sys.argv[2] == "lean":
    choose(sys.argv[1]).give_memory_back()
kept = []
def work():
    for _ in range(3):
        texts = []
        for number in range(40):
            texts.append(bytes(300_000 + number * 40_000))
            kept.append(bytes(2_000))
    texts.clear()
before = resident()
threads = [threading.Thread(target=work) for _ in range(6)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(resident() - before)
"""
# As many requests do it: pieces that are too small to have pages of their own, and between them a few things that stay.
GAPS = """
import sys
from cellwright.system import choose
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096
machine = choose(sys.argv[1])
machine.give_memory_back()
before, pieces, kept = resident(), [], []
for _ in range(600):
    pieces.append(bytes(100_000))
    kept.append(bytes(2_000))
pieces.clear()
if sys.argv[2] == "at rest":
    machine.give_gaps_back()
print(resident() - before)
"""


def left_over(platform: str, how: str, work: str = WORK, **variables: str) -> int:
    """How many bytes a process has more after it has freed what it worked on."""
    environ = {name: value for name, value in clean_environ().items() if not name.startswith("MALLOC_")}
    done = subprocess.run(
        [sys.executable, "-c", work, platform, how],
        env={**environ, **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout)


@requirement("memory:returned")
def test_what_is_freed_goes_back_to_the_system() -> None:
    assert left_over("linux", "as it is") > 60 * MEGABYTES
    assert left_over("linux", "lean") < 25 * MEGABYTES


@requirement("memory:returned")
def test_what_the_user_has_set_for_the_allocator_stays() -> None:
    assert left_over("linux", "lean", MALLOC_MMAP_THRESHOLD_="33554432") > 60 * MEGABYTES


@requirement("memory:returned")
def test_what_is_free_between_what_stays_goes_back_at_rest() -> None:
    assert left_over("linux", "as it is", GAPS) > 40 * MEGABYTES
    assert left_over("linux", "at rest", GAPS) < 10 * MEGABYTES
    assert left_over("linux", "at rest", GAPS, MALLOC_TOP_PAD_="131072") > 40 * MEGABYTES
