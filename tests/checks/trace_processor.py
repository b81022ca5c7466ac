"""Perfetto's trace processor: its own Python package, or the library of it that Debian's package chromium-shell has.

The package `perfetto` fetches its program from a server when it is first used. Where that server is out of reach, the library
answers the same queries; GSHARD_TRACE_PROCESSOR names it, if it does not lie where Debian puts it.
"""
import ctypes
import os
import struct
import subprocess

LIBRARY = "/usr/lib/chromium/libtest_trace_processor.so"


class FromPackage:
    """Queries by the package `perfetto`."""

    def __init__(self, path):
        from perfetto.trace_processor import TraceProcessor
        self.processor = TraceProcessor(trace=path)

    def query(self, text):
        return [[str(value) for value in vars(row).values()] for row in self.processor.query(text)]


def sized(data):
    """A string of libc++ as its class lays it out: room and one bit, size, where it is. The second must outlive the first."""
    text = ctypes.create_string_buffer(data)
    return ctypes.create_string_buffer(struct.pack("<QQQ", len(data) + 16 | 1, len(data), ctypes.addressof(text)), 24), text


def string_at(where):
    raw = ctypes.string_at(where, 24)
    if not raw[0] & 1:  # short ones lie in the object itself
        return raw[1:1 + (raw[0] >> 1)].decode()
    _, size, text = struct.unpack("<QQQ", raw)
    return ctypes.string_at(text, size).decode()


def parts_at(where):
    """Where the elements of a vector lie that has elements of three words."""
    begin, end, _ = struct.unpack("<QQQ", ctypes.string_at(where, 24))
    return range(begin, end, 24)


class FromLibrary:
    """Queries by the class TestTraceProcessorImpl of Chromium's library, which is called as its compiler calls it."""

    def __init__(self, path, library):
        listed = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
        loaded = ctypes.CDLL(library)
        names = [line.split()[-1] for line in listed.splitlines()]

        def method(part):
            found = loaded[next(name for name in names if f"TestTraceProcessorImpl{part}" in name)]
            found.restype = None
            return found
        self.execute = method("12ExecuteQuery")
        self.processor = ctypes.create_string_buffer(512)  # it has two pointers
        method("C1Ev")(ctypes.byref(self.processor))
        with open(path, "rb") as file:
            data = file.read()
        trace = ctypes.create_string_buffer(data, len(data))
        begin = ctypes.addressof(trace)
        vector = ctypes.create_string_buffer(struct.pack("<QQQ", begin, begin + len(data), begin + len(data)), 24)
        status = ctypes.create_string_buffer(16)
        method("10ParseTrace")(ctypes.byref(status), ctypes.byref(self.processor), ctypes.byref(vector))
        if struct.unpack("<Q", status.raw[:8]) != (1,):  # anything but "ok" is where the message lies
            raise ValueError(f"{path} is no trace")

    def query(self, text):
        sql, kept = sized(text.encode())
        answer = ctypes.create_string_buffer(256)  # a vector of rows, a message
        self.execute(ctypes.byref(answer), ctypes.byref(self.processor), ctypes.byref(sql))
        del kept
        at = ctypes.addressof(answer)
        if message := string_at(at + 24):
            raise ValueError(message)
        return [[string_at(value) for value in parts_at(row)] for row in parts_at(at)][1:]  # the names come first


def load(path):
    """Something that answers query("select .."): rows of texts."""
    try:
        return FromPackage(path)
    except Exception:  # not installed, or its program cannot be had: errors of many kinds
        return FromLibrary(path, os.environ.get("GSHARD_TRACE_PROCESSOR", LIBRARY))
