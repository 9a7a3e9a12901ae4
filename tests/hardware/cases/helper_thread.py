"""A helper thread, as that of a queue, exports without a current context (cuda-python#1145, DALI#4817).

needs: cuda.bindings
finds: no-current-context error
says: has no current CUDA context | Call cuDevicePrimaryCtxRetain and cuCtxSetCurrent
"""
import threading

from shared import MIB, done, driver, show

cu = driver()
pointer = done(cu.cuMemAlloc(4 * MIB))
thread = threading.Thread(target=lambda: show("cuIpcGetMemHandle", cu.cuIpcGetMemHandle(pointer)))
thread.start()
thread.join()
done(cu.cuMemFree(pointer))
