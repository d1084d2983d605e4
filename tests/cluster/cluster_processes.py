"""The processes of a cluster: gateways, and engines on hosts that trouble can come to, all with certificates of an
authority made for the occasion.

The environment is that of tests/net/tutti_server.py.
"""
import pathlib
import secrets
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "net"))
import tutti_server  # noqa: E402
from tutti_server import PROGRAM, free_port, wait_until  # noqa: E402, F401
from relay import Relay  # noqa: E402

# A lost engine is noticed soon. Tests send faster than anybody speaks, on machines that do other things too.
OPTIONS = ["--owner-timeout-s", "2", "--snapshot-ms", "1000", "--latency-target-ms", "0", "--grace-s", "60"]
# How the expected transcripts were made.
DECODER = ["--decoder", "greedy", "--owners", "1"]


def run(*command):
    subprocess.run(command, check=True, capture_output=True)


class Authority:
    """Makes certificates, of processes that know each other by it."""

    def __init__(self, name="tutti test cluster"):
        self.folder = tempfile.TemporaryDirectory()
        run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
            "-subj", f"/CN={name}", "-keyout", self.path("ca.key"), "-out", self.path("ca.pem"))

    def path(self, name):
        return str(pathlib.Path(self.folder.name) / name)

    def options(self, name):
        """With which a process is one of its own."""
        certificate, key, request = (self.path(f"{name}.{end}") for end in ("pem", "key", "csr"))
        if not pathlib.Path(certificate).exists():
            run("openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                "-subj", f"/CN={name}", "-keyout", key, "-out", request)
            run("openssl", "x509", "-req", "-in", request, "-CA", self.path("ca.pem"), "-CAkey", self.path("ca.key"),
                "-set_serial", f"0x{secrets.token_hex(15)}", "-days", "2", "-out", certificate)
        return ["--cluster-certificate", certificate, "--cluster-key", key, "--cluster-ca", self.path("ca.pem")]


class Process(tutti_server.Server):
    """`tutti serve` in a role, whose end may be of any kind."""

    def __init__(self, role, *options, address="127.0.0.1", program=tutti_server.PROGRAM, prefix=()):
        self.start([*prefix, program, "serve", "--role", role, "--bind", f"{address}:0", "--insecure",
                    *OPTIONS, *options])

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def kill(self):
        """Without a chance to say anything."""
        self.process.kill()
        self.process.wait()

    def is_alive(self):
        return self.process.poll() is None

    def log_has(self, pattern):
        return tutti_server.re.search(pattern, self.read_log()) is not None


class Engine(Process):
    def __init__(self, authority, *options, places=64, address="127.0.0.1", port=0, model=tutti_server.MODEL,
                 name="engine", **process):
        super().__init__("engine", "--cluster-bind", f"{address}:{port}", "--model", model, *DECODER,
                         "--max-streams", str(places), *authority.options(name), *options, address=address, **process)
        self.cluster_address = self.find_in_log(r"listening on (\S+) for gateways")


class Gateway(Process):
    def __init__(self, authority, engines, *options, name="gateway", **process):
        named = [option for address in engines for option in ("--cluster-engines", address)]
        super().__init__("gateway", *named, *authority.options(name), *options, **process)

    def places(self):
        """Of its engines, by the address it knows them by."""
        found = tutti_server.re.findall(r'^tutti_cluster_engine_places\{engine="(\S+)"\} (\S+)$',
                                        self.get("/metrics")[1], tutti_server.re.MULTILINE)
        return {engine: int(float(places)) for engine, places in found}

    def wait_for(self, *engines):
        """Until streams can be placed on all of them."""
        wait_until(lambda: all(self.places().get(engine, 0) > 0 for engine in engines),
                   lambda: f"{engines} have joined:\n{self.read_log()}")


class Host:
    """Where an engine runs that gateways find at `address`, whatever process it is at the time."""

    # Each a method that brings it about, and one that ends it.
    TROUBLES = {"kill": ("kill", "start"), "stop": ("pause", "resume")}

    def __init__(self, authority, name, places):
        self.authority, self.name, self.places = authority, name, places
        self.start()

    def start(self):
        self.engine = Engine(self.authority, places=self.places, name=self.name, **self.where())

    def kill(self):
        self.engine.kill()

    def pause(self):
        self.engine.pause()

    def resume(self):
        self.engine.resume()

    def stop(self):
        if self.engine.is_alive():
            self.engine.kill()


class RelayedHost(Host):
    """This one, by way of a relay."""

    TROUBLES = {**Host.TROUBLES, "cut": ("cut", "heal"), "freeze": ("freeze", "heal")}

    def __init__(self, authority, name, places):
        self.port = free_port()
        self.relay = Relay(f"127.0.0.1:{self.port}")
        self.address = self.relay.address
        self.cut, self.freeze, self.heal = self.relay.cut, self.relay.freeze, self.relay.heal
        super().__init__(authority, name, places)

    def where(self):
        return {"port": self.port}

    def stop(self):
        self.relay.stop()
        super().stop()


class NamespaceHost(Host):
    """A network namespace, with a link to this one. Takes root."""

    TROUBLES = {**Host.TROUBLES, "unplug": ("unplug", "plug_in")}

    def __init__(self, authority, name, places):
        # Like no other's, of another run either.
        self.number = free_port() % 4096
        self.namespace = f"tutti-{self.number}"
        network = f"10.213.{self.number // 64}"
        here, self.ip = (f"{network}.{self.number % 64 * 4 + end}" for end in (1, 2))
        self.address = f"{self.ip}:7000"
        run("ip", "netns", "add", self.namespace)
        run("ip", "link", "add", f"tt{self.number}", "type", "veth", "peer", "name", "uplink",
            "netns", self.namespace)
        run("ip", "address", "add", f"{here}/30", "dev", f"tt{self.number}")
        run("ip", "link", "set", f"tt{self.number}", "up")
        run("ip", "-n", self.namespace, "address", "add", f"{self.ip}/30", "dev", "uplink")
        run("ip", "-n", self.namespace, "link", "set", "lo", "up")
        self.plug_in()
        super().__init__(authority, name, places)

    def where(self):
        return {"address": self.ip, "port": 7000, "prefix": ["ip", "netns", "exec", self.namespace]}

    def unplug(self):
        """Nothing arrives any more, in neither direction, and nobody is told."""
        run("ip", "-n", self.namespace, "link", "set", "uplink", "down")

    def plug_in(self):
        run("ip", "-n", self.namespace, "link", "set", "uplink", "up")

    def stop(self):
        super().stop()
        run("ip", "netns", "delete", self.namespace)
