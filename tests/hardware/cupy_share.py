"""CuPy shares an array with another process through CUDA IPC, and asks for peer access where there is a second GPU."""
import multiprocessing as mp


def receive(connection):
    import cupy

    handle, size = connection.recv()
    runtime = cupy.cuda.runtime
    last = runtime.getDeviceCount() - 1
    with cupy.cuda.Device(last):
        print_can, again = runtime.deviceCanAccessPeer(last, 0), "not enabled"
        if last:
            runtime.deviceEnablePeerAccess(0)
            try:
                runtime.deviceEnablePeerAccess(0)
                again = "enabled again"
            except runtime.CUDARuntimeError as error:
                again = str(error)
        pointer = runtime.ipcOpenMemHandle(handle)
        memory = cupy.cuda.UnownedMemory(pointer, size, None)
        array = cupy.ndarray((size // 8,), cupy.float64, cupy.cuda.MemoryPointer(memory, 0))
        total = float(array.sum())
        runtime.ipcCloseMemHandle(pointer)
    connection.send((print_can, again, total))
    connection.close()


if __name__ == "__main__":
    mp.set_start_method("spawn")
    here, there = mp.Pipe()
    child = mp.Process(target=receive, args=(there,))
    child.start()
    import cupy

    # Not of a pool: the handle is of the whole allocation, at its start.
    cupy.cuda.set_allocator(None)
    array = cupy.arange(1 << 16, dtype=cupy.float64)
    cupy.cuda.runtime.deviceSynchronize()
    here.send((cupy.cuda.runtime.ipcGetMemHandle(array.data.ptr), array.nbytes))
    print("child answered", here.recv())
    child.join(60)
    print("exit", child.exitcode)
