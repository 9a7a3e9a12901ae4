"""A worker of multiprocessing is forked after the first CUDA call (pytorch#40403).

needs: cuda.bindings
finds: used-after-fork error
says: initialized CUDA before the fork | set_start_method("spawn")
"""
import multiprocessing

from shared import cannot, done, driver, show

cu = driver()
if done(cu.cuDeviceGetCount()) < 2:
    cannot("there is one GPU")
done(cu.cuDeviceCanAccessPeer(0, 1))


def work():
    show("cuDeviceCanAccessPeer", cu.cuDeviceCanAccessPeer(0, 1))


worker = multiprocessing.get_context("fork").Process(target=work)
worker.start()
worker.join()
print("worker:", worker.exitcode)
