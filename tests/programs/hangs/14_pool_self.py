"""A server with a pool of two threads; a request waits for parts of it which are submitted to the same pool.
Two requests at once use both threads, no part is ever run. Two clients wait for their answers.
After https://github.com/python/cpython/pull/141620 (the deadlock example of ThreadPoolExecutor)
and https://github.com/TileDB-Inc/TileDB/pull/1757."""
import multiprocessing as mp
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor


def embed_chunk(chunk):
    return len(chunk)


def handle_request(pool, conn):
    text = conn.recv(4096)
    time.sleep(0.3)
    parts = [pool.submit(embed_chunk, text[i:i + 4]) for i in range(0, len(text), 4)]
    total = sum(p.result() for p in parts)
    conn.sendall(str(total).encode())


def server(lst):
    signal.alarm(120)
    pool = ThreadPoolExecutor(max_workers=2, thread_name_prefix="embed")
    while True:
        conn, _ = lst.accept()
        pool.submit(handle_request, pool, conn)


def client(port, text):
    signal.alarm(120)
    s = socket.create_connection(("127.0.0.1", port))
    s.sendall(text)
    answer = s.recv(64)
    print(answer)


if __name__ == "__main__":
    signal.alarm(120)
    mp.set_start_method("fork")
    lst = socket.create_server(("127.0.0.1", 0))
    srv = mp.Process(target=server, args=(lst,), name="server")
    srv.start()
    port = lst.getsockname()[1]
    lst.close()
    clients = [mp.Process(target=client, args=(port, t), name=f"client-{i}")
               for i, t in enumerate([b"one two three", b"four five six"])]
    for c in clients:
        c.start()
    for c in clients:
        c.join()
