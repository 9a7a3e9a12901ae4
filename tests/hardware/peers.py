"""Prints which devices reach each other, as JSON: what CUDA and NVML say of each pair, in the order of PCI addresses.

Both are found as ctypes finds them, by dlsym with a handle. With PyTorch, the runtime's own answer is in it as well."""
import ctypes
import json
import os

os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"


def ok(result):
    assert result == 0, result


cuda = ctypes.CDLL("libcuda.so.1")
nvml = ctypes.CDLL("libnvidia-ml.so.1")
number = ctypes.c_int()
count = ctypes.c_uint()
ok(cuda.cuInit(0))
ok(cuda.cuDeviceGetCount(ctypes.byref(number)))
ok(nvml.nvmlInit_v2())
ok(nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)))
assert number.value == count.value, (number, count)
devices = [ctypes.c_void_p() for _ in range(count.value)]
for i, device in enumerate(devices):
    ok(nvml.nvmlDeviceGetHandleByIndex_v2(i, ctypes.byref(device)))
pairs = [(i, j) for i in range(count.value) for j in range(count.value) if i != j]


def can(i, j):
    value = ctypes.c_int(-1)
    ok(cuda.cuDeviceCanAccessPeer(ctypes.byref(value), i, j))
    return value.value


def status(i, j):
    values = []
    for index in range(6):
        value = ctypes.c_int(-1)
        ok(nvml.nvmlDeviceGetP2PStatus(devices[i], devices[j], index, ctypes.byref(value)))
        values.append(value.value)
    return values


answers = {"cuda": {f"{i}/{j}": can(i, j) for i, j in pairs}, "nvml": {f"{i}/{j}": status(i, j) for i, j in pairs}}
try:
    import torch

    answers["runtime"] = {f"{i}/{j}": int(torch.cuda.can_device_access_peer(i, j)) for i, j in pairs}
except ImportError:
    pass
print(json.dumps(answers))
