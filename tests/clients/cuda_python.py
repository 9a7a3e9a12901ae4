"""cuda-python in two processes on the driver that libcuda.so.1 is: allocate, copy, export, open, read, close, peer
access, and errors. Prints what happened, without addresses, and fails on anything unexpected."""
import multiprocessing
import sys

from cuda.bindings import driver as cu

SIZE = 1 << 20


class Failed(Exception):
    pass


def call(answer, expected=cu.CUresult.CUDA_SUCCESS):
    """Unpacks an answer of cuda-python, whose first item is the result."""
    result, *values = answer
    if result != expected:
        raise Failed(f"{result!r} where {expected!r} was expected")
    return values[0] if len(values) == 1 else values


def fails(answer, expected):
    call(answer, getattr(cu.CUresult, f"CUDA_ERROR_{expected}"))
    return expected


def begin(device):
    call(cu.cuInit(0))
    context = call(cu.cuDevicePrimaryCtxRetain(call(cu.cuDeviceGet(device))))
    call(cu.cuCtxSetCurrent(context))
    return context


def importer(connection):
    try:
        begin(1)
        memory_bytes, event_bytes = connection.recv()
        memory, event = cu.CUipcMemHandle(), cu.CUipcEventHandle()
        memory.reserved, event.reserved = memory_bytes, event_bytes
        lines = [f"can access: {call(cu.cuDeviceCanAccessPeer(1, 0))}"]
        peer = call(cu.cuDevicePrimaryCtxRetain(0))
        call(cu.cuCtxEnablePeerAccess(peer, 0))
        lines.append("enabled again: " + fails(cu.cuCtxEnablePeerAccess(peer, 0), "PEER_ACCESS_ALREADY_ENABLED"))
        lines.append("without the flag: " + fails(cu.cuIpcOpenMemHandle(memory, 0), "INVALID_VALUE"))
        flag = cu.CUipcMem_flags.CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS.value
        opened = call(cu.cuIpcOpenMemHandle(memory, flag))
        imported = call(cu.cuIpcOpenEventHandle(event))
        call(cu.cuStreamWaitEvent(0, imported, 0))
        host = bytearray(SIZE)
        call(cu.cuMemcpyDtoH(host, opened, SIZE))
        lines.append(f"read: {host == bytes(i % 251 for i in range(SIZE))}")
        call(cu.cuMemsetD8(opened, 7, SIZE))
        call(cu.cuIpcCloseMemHandle(opened))
        lines.append("closed twice: " + fails(cu.cuIpcCloseMemHandle(opened), "INVALID_VALUE"))
        call(cu.cuEventDestroy(imported))
        call(cu.cuCtxDisablePeerAccess(peer))
        lines.append("disabled again: " + fails(cu.cuCtxDisablePeerAccess(peer), "PEER_ACCESS_NOT_ENABLED"))
        name = call(cu.cuGetErrorName(cu.CUresult.CUDA_ERROR_MAP_FAILED))
        lines.append("a name: " + name.decode())
        connection.send(lines)
    except Exception as error:
        connection.send(["importer failed: " + repr(error)])
        raise


def main():
    multiprocessing.set_start_method("spawn")
    here, there = multiprocessing.Pipe()
    child = multiprocessing.Process(target=importer, args=(there,))
    child.start()
    begin(0)
    memory = call(cu.cuMemAlloc(SIZE))
    call(cu.cuMemcpyHtoD(memory, bytes(i % 251 for i in range(SIZE)), SIZE))
    flags = cu.CUevent_flags.CU_EVENT_INTERPROCESS.value | cu.CUevent_flags.CU_EVENT_DISABLE_TIMING.value
    event = call(cu.cuEventCreate(flags))
    handle = call(cu.cuIpcGetMemHandle(memory))
    call(cu.cuEventRecord(event, 0))
    here.send((bytes(handle.reserved), bytes(call(cu.cuIpcGetEventHandle(event)).reserved)))
    flag = cu.CUipcMem_flags.CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS.value
    print("opened where it was exported:", fails(cu.cuIpcOpenMemHandle(handle, flag), "INVALID_CONTEXT"))
    if not here.poll(60):
        sys.exit("the importer does not answer")
    print("\n".join(here.recv()))
    child.join(60)
    host = bytearray(SIZE)
    call(cu.cuMemcpyDtoH(host, memory, SIZE))
    print("exporter sees what the importer wrote:", host == b"\7" * SIZE)
    call(cu.cuMemFree(memory))
    print("a freed pointer:", fails(cu.cuIpcGetMemHandle(memory), "INVALID_VALUE"))
    sys.exit(child.exitcode)


# The rules that are broken here on purpose.
BROKEN = ["ipc-closed-twice", "ipc-flags", "ipc-open-in-exporting-process", "ipc-pointer-unknown", "peer-not-enabled"]

if __name__ == "__main__":
    if sys.argv[1:] == ["--breaks"]:
        print(*BROKEN)
    else:
        main()
