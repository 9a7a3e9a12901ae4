"""Two services with one thread each. The handler of the planner calls the logger service, whose handler calls the planner
back for the name of the job before it answers. A gateway and a client wait behind them.
After https://github.com/grpc/grpc-node/issues/1024 (gRPC calls while in a gRPC call)
and https://github.com/ray-project/ray/issues/3307 (two actors call each other in ray.get)."""
import multiprocessing as mp
import signal
import socket


class Channel:
    def __init__(self, port):
        self.port = port

    def call(self, method, arg):
        with socket.create_connection(("127.0.0.1", self.port)) as s:
            s.sendall(f"{method} {arg}".encode())
            return s.recv(1024).decode()


class Service:
    def __init__(self, listener):
        self.listener = listener

    def run(self, others):
        signal.alarm(120)
        for lst in others:
            lst.close()
        while True:
            conn, _ = self.listener.accept()
            with conn:
                method, arg = conn.recv(1024).decode().split()
                conn.sendall(getattr(self, method)(arg).encode())


class Planner(Service):
    def plan(self, job):
        self.logger.call("log", job)
        return f"planned-{job}"

    def describe(self, job):
        return f"job-{job}"


class Logger(Service):
    def log(self, job):
        label = self.planner.call("describe", job)
        return f"logged-{label}"


class Gateway(Service):
    def submit(self, job):
        return self.planner.call("plan", job)


def client(gateway):
    signal.alarm(120)
    for job in range(10):
        gateway.call("submit", job)


def main():
    signal.alarm(120)
    ctx = mp.get_context("fork")
    services, chan = {}, {}
    for cls in (Planner, Logger, Gateway):
        lst = socket.create_server(("127.0.0.1", 0))
        name = cls.__name__.lower()
        services[name], chan[name] = cls(lst), Channel(lst.getsockname()[1])
    services["planner"].logger = chan["logger"]
    services["logger"].planner = services["gateway"].planner = chan["planner"]
    procs = []
    for name, svc in services.items():
        others = [o.listener for o in services.values() if o is not svc]
        procs.append(ctx.Process(target=svc.run, name=name, args=(others,)))
        procs[-1].start()
    for svc in services.values():
        svc.listener.close()
    procs.append(ctx.Process(target=client, args=(chan["gateway"],), name="client"))
    procs[-1].start()
    for p in procs:
        p.join()


if __name__ == "__main__":
    main()
