"""cuda-python in two processes: allocate, copy, export; open, read, write, close; peer access; errors.

Needs the package cuda-bindings, and a driver under the name libcuda.so.1. Prints one line for each step.
"""
import ctypes
import multiprocessing

from cuda.bindings import driver as cuda

SIZE = 4 << 20


def check(answer):
    """Returns the outputs of a call, or raises what the driver answered."""
    result, *outputs = answer
    if result != cuda.CUresult.CUDA_SUCCESS:
        raise RuntimeError(result.name)
    return outputs[0] if len(outputs) == 1 else outputs


def refused(answer):
    try:
        check(answer)
    except RuntimeError as error:
        return str(error)
    return "nothing was refused"


def importer(handles, done):
    check(cuda.cuInit(0))
    check(cuda.cuCtxSetCurrent(check(cuda.cuDevicePrimaryCtxRetain(1))))
    handle = cuda.CUipcMemHandle()
    ctypes.memmove(int(handle.getPtr()), handles.get(), 64)
    lazy = cuda.CUipcMem_flags.CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS.value
    memory = check(cuda.cuIpcOpenMemHandle(handle, lazy))
    got = bytearray(17)
    check(cuda.cuMemcpyDtoH(got, memory, 17))
    print("imported:", bytes(got).decode(), flush=True)
    check(cuda.cuMemcpyHtoD(memory, b"from the importer", 17))
    print("flags 0:", refused(cuda.cuIpcOpenMemHandle(handle, 0)), flush=True)
    print("free:", refused(cuda.cuMemFree(memory)), flush=True)
    check(cuda.cuIpcCloseMemHandle(memory))
    print("closed twice:", refused(cuda.cuIpcCloseMemHandle(memory)), flush=True)
    done.put(True)


def main():
    multiprocessing.set_start_method("spawn")
    handles, done = multiprocessing.Queue(), multiprocessing.Queue()
    other = multiprocessing.Process(target=importer, args=(handles, done))
    other.start()
    check(cuda.cuInit(0))
    print("devices:", check(cuda.cuDeviceGetCount()), flush=True)
    context = check(cuda.cuDevicePrimaryCtxRetain(0))
    check(cuda.cuCtxSetCurrent(context))
    memory = check(cuda.cuMemAlloc(SIZE))
    check(cuda.cuMemcpyHtoD(memory, b"from the exporter", 17))
    handles.put(ctypes.string_at(int(check(cuda.cuIpcGetMemHandle(memory)).getPtr()), 64))
    done.get(timeout=60)
    other.join()
    got = bytearray(17)
    check(cuda.cuMemcpyDtoH(got, memory, 17))
    print("exporter sees:", bytes(got).decode(), flush=True)
    peer = check(cuda.cuDevicePrimaryCtxRetain(1))
    print("can access:", check(cuda.cuDeviceCanAccessPeer(0, 1)), flush=True)
    check(cuda.cuCtxEnablePeerAccess(peer, 0))
    print("enabled twice:", refused(cuda.cuCtxEnablePeerAccess(peer, 0)), flush=True)
    check(cuda.cuCtxDisablePeerAccess(peer))
    raise SystemExit(other.exitcode)


if __name__ == "__main__":
    main()
