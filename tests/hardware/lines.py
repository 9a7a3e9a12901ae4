"""What has its line of Python to be told: usage: lines.py leak|hang|share"""
import ctypes
import multiprocessing
import sys

MIB = 1 << 20


def load(cu, handle):
    return cu.cuIpcOpenMemHandle(handle, 1)  # here: leak, hang


def take(tensors):
    return tensors.get()  # here: share


def driver():
    from cuda.bindings import driver as cu

    context = [cu.cuInit(0), cu.cuDevicePrimaryCtxRetain(0)][1][1]
    assert cu.cuCtxSetCurrent(context)[0] == 0
    return cu


def open_all(connection):
    cu = driver()
    for handle in connection.recv():
        memory = cu.CUipcMemHandle()
        ctypes.memmove(memory.getPtr(), handle, len(handle))
        assert load(cu, memory)[0] == 0
    connection.send("done")
    connection.recv()


def handles():
    here, there = multiprocessing.Pipe()
    child = multiprocessing.Process(target=open_all, args=(there,), daemon=True)
    child.start()
    cu = driver()
    exported = [cu.cuIpcGetMemHandle(cu.cuMemAlloc(4 * MIB)[1])[1] for _ in range(8)]
    here.send([ctypes.string_at(handle.getPtr(), 64) for handle in exported])
    if here.poll(20):
        here.recv()
        here.send("end")
        child.join()
    else:
        child.kill()


def sum_up(tensors, answers):
    tensor = take(tensors)
    answers.put(float(tensor.sum()))
    del tensor


def share():
    import torch

    tensors, answers = torch.multiprocessing.Queue(), torch.multiprocessing.Queue()
    child = torch.multiprocessing.Process(target=sum_up, args=(tensors, answers))
    child.start()
    tensor = torch.ones(MIB, device="cuda:0")
    tensors.put(tensor)
    assert answers.get(timeout=120) == MIB
    child.join(120)


if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    share() if sys.argv[1] == "share" else handles()
