"""Clusters of real processes: clients lose nothing, whatever becomes of an engine, and nobody joins who should not.

The environment is that of tests/net/tutti_server.py; bench/cluster_faults.py does the first for as long as is asked.
"""
import asyncio
import pathlib
import random
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import unittest

import websockets
from cluster_processes import PROGRAM, Authority, Engine, Gateway, RelayedHost, free_port, wait_until
from client_websockets import ONE_SEGMENT, AsyncTest, next_event
from faulty_cluster import FaultyCluster

REFUSALS = (websockets.InvalidStatusCode, websockets.ConnectionClosedError)
OTHER_MODEL = pathlib.Path(__file__).resolve().parents[1] / "data/conformer-u2pp-tiny"


class FaultTest(AsyncTest):
    async def test_whatever_becomes_of_an_engine_each_stream_gets_the_transcript_it_would_have_had(self):
        seed = random.randrange(2**32)
        print(f"seed {seed}", flush=True)
        rng = random.Random(seed)
        # Long enough for a stopped engine, and one on a frozen way, to be given up.
        kinds = rng.sample(sorted(RelayedHost.TROUBLES), len(RelayedHost.TROUBLES))
        strikes = [(kind, 4.0 if kind in ("stop", "freeze") else 0.2) for kind in kinds]
        with FaultyCluster(gateways=1, engines=3, streams=9, rng=rng, longest_clip=4.0) as cluster:
            speeches = await cluster.load_speeches(4)
            await cluster.suffer(speeches, strikes)
            self.assertEqual(cluster.faults, [])
            self.assertGreaterEqual(cluster.transcribed, cluster.streams)
            self.assertGreater(cluster.moved_streams(), 0)
            await asyncio.to_thread(cluster.wait_for_no_streams)


class MembersTest(AsyncTest):
    """Who belongs to a cluster, and since when."""

    @classmethod
    def setUpClass(cls):
        cls.authority = Authority()

    def engine(self, *options, **more):
        engine = Engine(self.authority, *options, **more)
        self.addCleanup(engine.kill)
        return engine

    def gateway(self, engines, *options, authority=None, **more):
        gateway = Gateway(authority or self.authority, [engine.cluster_address for engine in engines], *options, **more)
        self.addCleanup(gateway.kill)
        return gateway

    def expect_in_log(self, process, pattern):
        wait_until(lambda: process.log_has(pattern), lambda: f"{pattern} is in the log:\n{process.read_log()}")

    async def opened(self, gateway):
        """A stream that has its place."""
        ws = await websockets.connect(f"ws://{gateway.address}/v1/stream?{ONE_SEGMENT}", open_timeout=60)
        self.addAsyncCleanup(ws.close)
        await next_event(ws, "ready")
        return ws

    def expect_no_place(self, refusal):
        """Before the upgrade, where the gateway knows it already; else as a session."""
        self.assertIn(getattr(refusal, "status_code", None) or refusal.code, (503, 1013))

    async def expect_full(self, gateway):
        with self.assertRaises(REFUSALS) as refusal:
            await self.opened(gateway)
        self.expect_no_place(refusal.exception)

    async def open_when_free(self, gateway):
        deadline = time.monotonic() + 60
        while True:
            try:
                return await self.opened(gateway)
            except REFUSALS as refusal:
                self.expect_no_place(refusal)
                self.assertLess(time.monotonic(), deadline, gateway.read_log())
                await asyncio.sleep(0.1)

    async def test_an_engine_that_joins_later_is_used_at_once(self):
        first, later = self.engine(places=1), free_port()
        gateway = Gateway(self.authority, [first.cluster_address, f"127.0.0.1:{later}"])
        self.addCleanup(gateway.kill)
        gateway.wait_for(first.cluster_address)
        await self.opened(gateway)
        await self.expect_full(gateway)
        self.engine(places=1, port=later)
        await self.open_when_free(gateway)
        await self.expect_full(gateway)

    async def test_the_places_of_a_killed_gateway_are_free_for_others(self):
        engine = self.engine(places=2)
        gateways = [self.gateway([engine]), self.gateway([engine])]
        for gateway in gateways:
            gateway.wait_for(engine.cluster_address)
        for _ in range(2):
            await self.opened(gateways[0])
        await self.expect_full(gateways[1])
        gateways[0].kill()
        for _ in range(2):
            await self.open_when_free(gateways[1])

    async def test_a_gateway_of_another_authority_is_refused(self):
        engine = self.engine()
        gateway = self.gateway([engine], authority=Authority("somebody else's"))
        self.expect_in_log(gateway, r"engine \S+ is not used: .*certificate")
        await self.expect_full(gateway)

    def test_who_has_no_certificate_learns_nothing(self):
        engine = self.engine()
        host, port = engine.cluster_address.split(":")
        context = ssl.create_default_context(cafile=self.authority.path("ca.pem"))
        context.check_hostname = False
        with socket.create_connection((host, int(port)), timeout=30) as plain:
            with self.assertRaises((ssl.SSLError, ConnectionError)):
                with context.wrap_socket(plain) as encrypted:
                    encrypted.sendall(bytes(64))
                    # The engine does not answer before it has seen a certificate.
                    self.assertEqual(encrypted.recv(64), b"")
                    raise ConnectionAbortedError
        with socket.create_connection((host, int(port)), timeout=30) as plain:
            plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
            try:
                answer = plain.recv(4096)
            except ConnectionResetError:
                answer = b""
            self.assertNotIn(b"CAF", answer)

    def test_without_an_authority_of_its_own_a_process_does_not_start(self):
        certificate = self.authority.options("engine")
        with tempfile.NamedTemporaryFile() as empty:
            for options, reason in (
                ([], "cluster.certificate"),
                (certificate[:-1] + [empty.name], "empty"),
                (certificate[:-1] + ["/etc/ssl/certs/ca-certificates.crt"], "cluster.ca"),
            ):
                with self.subTest(reason=reason):
                    refused = subprocess.run(
                        [PROGRAM, "serve", "--role", "engine", "--bind", "127.0.0.1:0",
                         "--cluster-bind", "127.0.0.1:0", *options], capture_output=True, text=True, timeout=60)
                    self.assertNotEqual(refused.returncode, 0)
                    self.assertIn(reason, refused.stdout + refused.stderr)

    async def test_an_engine_with_another_model_or_another_use_of_it_is_not_used(self):
        engine = self.engine()
        ports = [free_port(), free_port()]
        addresses = [f"127.0.0.1:{port}" for port in ports]
        gateway = Gateway(self.authority, [engine.cluster_address, *addresses])
        self.addCleanup(gateway.kill)
        gateway.wait_for(engine.cluster_address)  # what it wants from now on
        self.engine(model=OTHER_MODEL, port=ports[0])
        self.engine("--weights", "bf16", port=ports[1])
        self.expect_in_log(gateway, rf"{addresses[0]}.* is not used: .*its model is")
        self.expect_in_log(gateway, rf"{addresses[1]}.* is not used: .*weights=bf16")
        self.assertEqual(list(gateway.places()), [engine.cluster_address])

    async def test_a_gateway_of_another_version_is_refused(self):
        engine = self.engine()
        with tempfile.TemporaryDirectory() as folder:
            gateway = self.gateway([engine], program=self.other_version(folder))
            self.expect_in_log(gateway, r"engine \S+ is not used: .*it is tutti")
        self.expect_in_log(engine, "gateway .* was refused: it is tutti")

    def other_version(self, folder):
        """A copy of the program that says it is of another version."""
        version = subprocess.run([PROGRAM, "--version"], check=True, capture_output=True, text=True).stdout.split()[-1]
        other = pathlib.Path(folder) / "tutti"
        digits = version.encode()
        changed = pathlib.Path(PROGRAM).read_bytes().replace(digits + b"\0", b"9" + digits[1:] + b"\0")
        other.write_bytes(changed)
        other.chmod(0o755)
        said = subprocess.run([other, "--version"], check=True, capture_output=True, text=True).stdout.split()[-1]
        self.assertNotEqual(said, version)
        return str(other)


if __name__ == "__main__":
    unittest.main(verbosity=2)
