"""The library comes and goes: loaded, used on two threads and unloaded a hundred times, and it is gone each time.

  loading.py LIBRARY
"""
import ctypes
import os
import sys
import threading
import time

from inlay_ctypes import Inlay, Tensor

path = os.path.realpath(sys.argv[1])
dlclose = ctypes.CDLL(None).dlclose
dlclose.argtypes = [ctypes.c_void_p]


def loaded():
    with open("/proc/self/maps") as maps:
        return any(line.rstrip().endswith(path) for line in maps)


def leaves_threads(before):
    """One that has ended may be listed for a moment yet."""
    for _ in range(600):
        if len(os.listdir("/proc/self/task")) <= before:
            return False
        time.sleep(0.1)
    return True


def use(inlay):
    backend = inlay.open("cpu", threads=3)
    x, weight, y = (Tensor(shape, [1.0] * (2048 * (64 if len(shape) == 2 else 1))) for shape in ((64, 2048), (2048,), (64, 2048)))
    inlay.run(backend, "rms_norm", x=x, weight=weight, y=y, eps=0.0)
    assert set(y.values) == {1.0}
    inlay.library.inlay_field_count(b"none", None)
    assert b"count is null" in inlay.library.inlay_message()
    inlay.close(backend)


before = len(os.listdir("/proc/self/task"))
for i in range(100):
    inlay = Inlay(path)
    use(inlay) if i % 10 == 0 else inlay.operators()
    other = threading.Thread(target=use, args=(inlay,)) if i % 10 == 5 else threading.Thread(target=inlay.operators)
    other.start()
    other.join()
    if not loaded():
        sys.exit("it is not among the mapped files: the search is broken")
    handle = inlay.library._handle
    del inlay, other
    if dlclose(handle) != 0 or loaded():
        sys.exit("time %d: it is still there after dlclose()" % i)
    if leaves_threads(before):
        sys.exit("time %d: it has left threads behind" % i)
print("OK")
