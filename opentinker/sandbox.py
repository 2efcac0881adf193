"""The program in which the Python tool runs code that a model wrote: it gives up its rights first.

It is run as `python -I -S sandbox.py CPU_SECONDS MEMORY_BYTES OUTPUT_BYTES` with the code on its
standard input. Limits are set, then a seccomp filter, which nothing can take back, refuses these
system calls with EPERM: sockets, new processes and threads, programs, files opened to be written,
changes to the file system, signals, tracing, mounts, clocks, shared memory, io_uring. What is left:
computing, printing, and READING whatever files the user who runs it may read.

Linux on x86-64 and aarch64 only; elsewhere it ends with status 97 before it reads any code.
"""

from __future__ import annotations

import ctypes
import platform
import resource
import struct
import sys

REFUSED = 97
"""The exit status when the filter can't be had."""

# The system calls are numbered by each architecture's table; AUDIT_ARCH is its name in a filter.
X86_64 = {
    "arch": 0xC000003E,
    "open": 2,
    "openat": 257,
    "denied": (
        *(41, 53, 56, 57, 58, 59, 322, 435),  # socket socketpair clone fork vfork execve(at) clone3
        *(62, 129, 200, 234, 297, 424, 101, 310, 311),  # kill ... pidfd_send_signal ptrace vm_*
        *(76, 77, 82, 83, 84, 85, 86, 87, 88, 90, 91, 92, 93, 94),  # truncate ... lchown
        *(133, 258, 259, 260, 263, 264, 265, 266, 268, 316, 452),  # mknod mkdirat ... fchmodat2
        *(132, 235, 261, 280, 188, 189, 190, 197, 198, 199),  # utimes, extended attributes
        *(155, 161, 165, 166, 167, 169, 272, 308, 321, 425, 428, 429, 437),  # mounts, io_uring, ...
        *(250, 248, 249, 298, 304, 323),  # keys, perf_event_open, handles, userfaultfd
        *(29, 30, 31, 64, 65, 66, 67, 68, 69, 70, 71, 240, 241),  # memory and queues shared by all
        *(141, 144, 164, 175, 176, 203, 227, 302, 313),  # priorities, limits, clocks, modules
    ),
}
AARCH64 = {
    "arch": 0xC00000B7,
    "open": None,
    "openat": 56,
    "denied": (
        *(198, 199, 220, 221, 281, 435),
        *(129, 130, 131, 138, 240, 424, 117, 270, 271),
        *(33, 34, 35, 36, 37, 38, 276, 45, 46, 52, 53, 54, 55, 452),
        *(88, 5, 6, 7, 14, 15, 16),
        *(39, 40, 41, 51, 97, 142, 268, 280, 425, 428, 429, 437),
        *(217, 218, 219, 241, 265, 282),
        *(186, 187, 188, 189, 190, 191, 192, 193, 194, 195, 196, 197, 180, 181),
        *(140, 119, 170, 105, 106, 122, 112, 261, 273),
    ),
}
TABLES = {"x86_64": X86_64, "aarch64": AARCH64}

WRITING = 0o1 | 0o2 | 0o100 | 0o1000
"""O_WRONLY, O_RDWR, O_CREAT, O_TRUNC"""
LOAD, EQUAL, ABOVE, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
ALLOW, DENY, KILL = 0x7FFF0000, 0x00050001, 0x80000000
NO_NEW_PRIVILEGES, SET_SECCOMP, FILTER = 38, 22, 2


def program(machine: str) -> list[tuple[int, int, int, int]]:
    """The filter as BPF instructions: (code, jump if true, jump if false, operand)."""
    table = TABLES[machine]
    steps = [
        (LOAD, 0, 0, 4),
        (EQUAL, 1, 0, table["arch"]),
        (RETURN, 0, 0, KILL),
        (LOAD, 0, 0, 0),
        (ABOVE, 0, 1, 0x40000000),  # the x32 table, by which the same calls have other numbers
        (RETURN, 0, 0, KILL),
    ]
    for call in table["denied"]:
        steps += [(EQUAL, 0, 1, call), (RETURN, 0, 0, DENY)]
    for name, flags in (("open", 24), ("openat", 32)):
        if table[name] is not None:
            steps += [
                (EQUAL, 0, 4, table[name]),
                (LOAD, 0, 0, flags),
                (ANY_BIT, 0, 1, WRITING),
                (RETURN, 0, 0, DENY),
                (RETURN, 0, 0, ALLOW),
            ]
    return [*steps, (RETURN, 0, 0, ALLOW)]


def give_up_rights() -> bool:
    """Install the filter; false where that is not possible."""
    if sys.platform != "linux" or platform.machine() not in TABLES:
        return False
    steps = program(platform.machine())
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_void_p))

    wanted = Program(len(steps), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    return (
        libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0) == 0
        and libc.prctl(SET_SECCOMP, FILTER, ctypes.byref(wanted), 0, 0) == 0
    )


def main() -> None:
    seconds, memory, output = map(int, sys.argv[1:4])
    for what, limit in (
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_FSIZE, output),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(what, (limit, limit))
    if not give_up_rights():
        sys.exit(REFUSED)
    code = sys.stdin.read()
    sys.argv[:] = [""]
    exec(compile(code, "<tool>", "exec"), {"__name__": "__main__"})


if __name__ == "__main__":
    main()
