"""Many instances behind HAProxy and nginx, with the configurations of deploy/, while clients stream through them.

The environment is that of tutti_server.py.
"""
import asyncio
import contextlib
import itertools
import json
import pathlib
import socket
import sys
import unittest

import websockets

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "net"))
import tutti_server  # noqa: E402
from balancers import INSTANCES, HAProxy, HAProxyWithHeader, Nginx, wait_until  # noqa: E402
from client_websockets import ONE_SEGMENT, AsyncTest, load_clips, next_event, receive, transcript  # noqa: E402

SPEAKERS = 12
# Of an instance: two of three have room for all speakers.
MAX_SESSIONS = 8
# Of 16 kHz s16le, sent in half the time that it was spoken in.
FRAME_BYTES = 6400
FRAME_SECONDS = 0.1


class Instance(tutti_server.Server):
    def __init__(self, bind="127.0.0.1:0"):
        super().__init__("--decoder", "greedy", "--owners", "1", "--grace-s", "60",
                         "--max-sessions", str(MAX_SESSIONS), bind=bind)


class Speakers:
    """Clients that stream one clip after another through a balancer, until they are told that it is enough."""

    def __init__(self, address, clips):
        self.url = f"ws://{address}/v1/stream?{ONE_SEGMENT}"
        self.clips = itertools.cycle(clips)
        self.enough = False
        self.transcribed = 0
        self.failures = []
        self.tasks = [asyncio.create_task(self.speak()) for _ in range(SPEAKERS)]

    async def speak(self):
        while not self.enough:
            name, audio, text = next(self.clips)
            try:
                heard, code = await self.stream(audio)
            except (OSError, asyncio.TimeoutError, websockets.WebSocketException) as error:
                self.failures.append((name, repr(error)))
                continue
            if heard != text or code != 1000:
                self.failures.append((name, code, heard, text))
            self.transcribed += 1

    async def stream(self, audio):
        """What a server hears, and the close code."""
        async with websockets.connect(self.url, max_size=None, open_timeout=60) as ws:
            receiver = asyncio.create_task(receive(ws))
            try:
                for at in range(0, len(audio), FRAME_BYTES):
                    await ws.send(audio[at : at + FRAME_BYTES])
                    await asyncio.sleep(FRAME_SECONDS)
                await ws.send(json.dumps({"type": "eof"}))
            except websockets.ConnectionClosed:
                pass  # its code tells
            events = await receiver
            return transcript(events), ws.close_code

    async def finish(self):
        self.enough = True
        await asyncio.gather(*self.tasks)


class BalancerTests:
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.instances = {}
        cls.addClassCleanup(cls.stop_instances)
        for name in INSTANCES:
            cls.instances[name] = Instance()
        cls.balancer = cls.Balancer([instance.address for instance in cls.instances.values()])
        cls.addClassCleanup(cls.balancer.stop)

    @classmethod
    def stop_instances(cls):
        for instance in cls.instances.values():
            instance.terminate()
        for instance in cls.instances.values():
            instance.expect_exit()

    def sessions_since_start(self, name):
        return self.instances[name].metric("tutti_net_sessions_total")

    def restart_by_hand(self, name):
        """Nobody is told to hurry: the instance stops when the last session of its own has ended."""
        self.balancer.take_out(name)
        instance = self.instances[name]
        wait_until(lambda: instance.metric("tutti_net_open_sessions") == 0, f"{name} has no sessions")
        self.restart(name)
        self.balancer.put_back(name)

    def restart_by_signal(self, name):
        """An instance that is told to stop finishes its streams, and is offered no more."""
        self.restart(name)
        self.balancer.wait_for(name)

    def restart(self, name):
        instance = self.instances[name]
        instance.terminate()
        instance.expect_exit()
        self.instances[name] = Instance(bind=instance.address)

    async def roll(self, restart):
        """Every instance is started anew while clients stream: none of them notices."""
        speakers = Speakers(self.balancer.address, load_clips())
        try:
            for name in INSTANCES:
                before = speakers.transcribed
                await asyncio.to_thread(restart, name)
                await asyncio.to_thread(
                    wait_until, lambda: self.sessions_since_start(name) > 0, f"{name} gets sessions again"
                )
                await asyncio.to_thread(
                    wait_until, lambda: speakers.transcribed > before, "streams go on"
                )
        finally:
            await speakers.finish()
        self.assertEqual(speakers.failures, [])
        self.assertGreaterEqual(speakers.transcribed, SPEAKERS)

    async def test_instances_taken_out_and_started_anew_one_by_one_lose_no_stream(self):
        await self.roll(self.restart_by_hand)

    async def test_instances_told_to_stop_one_by_one_lose_no_stream(self):
        await self.roll(self.restart_by_signal)

    async def test_who_is_refused_by_one_instance_is_served_by_another(self):
        instance = self.instances[INSTANCES[0]]
        direct = f"ws://{instance.address}/v1/stream"
        through = f"ws://{self.balancer.address}/v1/stream"
        refused = instance.metric("tutti_net_refused_sessions_total")
        async with contextlib.AsyncExitStack() as sessions:
            # By another way, so that the balancer takes it for the instance with the fewest.
            for _ in range(MAX_SESSIONS):
                await sessions.enter_async_context(websockets.connect(direct))
            for _ in range(SPEAKERS // 2):
                ws = await sessions.enter_async_context(websockets.connect(through, open_timeout=60))
                await next_event(ws, "ready")
            self.assertGreater(instance.metric("tutti_net_refused_sessions_total"), refused)
        await asyncio.to_thread(
            wait_until, lambda: instance.metric("tutti_net_open_sessions") == 0, "all sessions have ended"
        )

    async def test_figures_of_one_instance_by_chance_are_not_to_be_had(self):
        self.assertEqual(self.balancer.get("/metrics"), 404)
        self.assertEqual(self.balancer.get("/"), 200)


class HAProxyTest(BalancerTests, AsyncTest):
    Balancer = HAProxy

    async def test_streams_are_spread_over_the_instances(self):
        before = [self.sessions_since_start(name) for name in INSTANCES]
        speakers = Speakers(self.balancer.address, load_clips()[:1])
        try:
            await asyncio.to_thread(
                wait_until,
                lambda: sum(map(self.sessions_since_start, INSTANCES)) >= sum(before) + SPEAKERS,
                "all speak",
            )
            now = [self.sessions_since_start(name) for name in INSTANCES]
            self.assertEqual([each - was for each, was in zip(now, before)], [SPEAKERS / 3] * 3)
        finally:
            await speakers.finish()
        self.assertEqual(speakers.failures, [])


class ProxyProtocolTest(AsyncTest):
    """One instance that HAProxy tells whose a connection is. This machine has many addresses to come from."""

    @classmethod
    def setUpClass(cls):
        cls.instance = tutti_server.Server("--decoder", "greedy", "--owners", "1", "--proxy-protocol",
                                           "--trusted-proxies", "127.0.0.1/32")
        cls.addClassCleanup(cls.stop_instance)
        cls.balancer = HAProxyWithHeader([cls.instance.address])
        cls.addClassCleanup(cls.balancer.stop)

    @classmethod
    def stop_instance(cls):
        cls.instance.terminate()
        cls.instance.expect_exit()

    def answer(self, client, request):
        """What an address that connects by itself is told; nothing when its connection is cut."""
        host, port = self.instance.address.split(":")
        with socket.create_connection((host, int(port)), timeout=30, source_address=(client, 0)) as connection:
            connection.sendall(request)
            try:
                return connection.recv(65536)
            except ConnectionResetError:
                return b""

    async def test_the_client_is_who_the_header_of_the_proxy_says(self):
        url = f"ws://{self.balancer.address}/v1/stream"
        async with websockets.connect(url, local_addr=("127.0.0.2", 0), open_timeout=60) as ws:
            session = (await next_event(ws, "ready"))["session"]
        self.assertRegex(self.instance.read_log(), f"session={session} track=0 .*opened from 127.0.0.2\n")

    async def test_a_proxy_without_the_header_is_not_served(self):
        self.assertEqual(await asyncio.to_thread(self.answer, "127.0.0.1", b"GET /healthz HTTP/1.0\r\n\r\n"), b"")

    async def test_who_is_no_proxy_is_not_believed(self):
        request = b"GET /healthz HTTP/1.0\r\n\r\n"
        header = b"PROXY TCP4 203.0.113.7 127.0.0.1 5000 8080\r\n"
        self.assertIn(b" 200 OK", await asyncio.to_thread(self.answer, "127.0.0.3", request))
        self.assertIn(b" 400 Bad Request", await asyncio.to_thread(self.answer, "127.0.0.3", header + request))


class NginxTest(BalancerTests, AsyncTest):
    Balancer = Nginx


del BalancerTests

if __name__ == "__main__":
    unittest.main(verbosity=2)
