#!/usr/bin/python3
"""Clients of all kinds at once, more of them than the server has places, for as long as is asked.

    bench/soak.py --seconds 1800 --places 64

Good clients speak at their own pace and have to get the exact transcript; slow ones read late and pause; broken ones
send what is no message, or vanish; silent ones say nothing until they are sent away; abusive ones send too much, too
fast, or what is no request. Together they are 120 % of the places. Exit status 1, and every fault by itself, when

  - a good or slow client that was let in gets another transcript than it should,
  - somebody is refused, or sent away, without a reason,
  - anything hangs,
  - the server keeps memory or descriptors that it did not have after half of the time.

The latency of good clients is told beside two ticks, but a busy machine is no fault.
"""
import argparse
import asyncio
import collections
import json
import random
import socket
import sys
import time

import websockets
from live_server import BYTES_PER_SECOND, LiveServer, percentile
from client_websockets import ONE_SEGMENT, finals, load_clips, transcript

IDLE_SECONDS = 12
HANG_SECONDS = 180
TICK_MS = 40  # engine.max_tick_ms
LOOK_AHEAD_MS = 45  # what a chunk's last frame sees beyond it
KINDS = {"good": 12, "slow": 3, "broken": 3, "silent": 1, "abusive": 3}


class Refused(Exception):
    """There was no place, and the server said so."""


class Fault(Exception):
    """What the server must not do."""


def check(holds, what):
    if not holds:
        raise Fault(what)


class Session:
    """A connection as a client has it: what the server said, and when."""

    def __init__(self, ws):
        self.ws = ws
        self.events = []
        self.sent = []  # (bytes until then, when)
        self.latencies_ms = []
        self.reader = None

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await self.ws.close()

    def read(self):
        self.reader = asyncio.create_task(self.read_on())

    async def read_on(self):
        try:
            async for message in self.ws:
                self.on_event(json.loads(message))
        except websockets.ConnectionClosedError:
            pass

    def on_event(self, event):
        self.events.append(event)
        if event["type"] == "partial":
            self.time_partial(event, time.monotonic())

    def time_partial(self, event, now):
        """From sending the last sample of its chunk."""
        chunk_ms = self.events[0]["chunk_ms"]
        end_ms = -(-max(1, round(event["end"] * 1000)) // chunk_ms) * chunk_ms + LOOK_AHEAD_MS
        last_byte = end_ms * BYTES_PER_SECOND // 1000
        when = next((at for size, at in self.sent if size >= last_byte), None)
        if when is not None:
            self.latencies_ms.append((now - when) * 1000)

    async def speak(self, audio, rng, pause=lambda: 0.0):
        """At the pace of the audio, in frames of any size up to 200 ms."""
        start, at = time.monotonic(), 0
        while at < len(audio):
            size = min(rng.randint(1, BYTES_PER_SECOND // 5), len(audio) - at)
            due = start + (at + size) / BYTES_PER_SECOND
            await asyncio.sleep(max(0, due - time.monotonic()))
            await self.ws.send(audio[at : at + size])
            at += size
            self.sent.append((at, time.monotonic()))
            wait = pause()
            start += wait
            await asyncio.sleep(wait)

    async def say(self, kind):
        await self.ws.send(json.dumps({"type": kind}))

    async def expect_end(self):
        """The close code, with everything before it read."""
        if self.reader is None:
            self.read()
        await self.reader
        if self.error_code() in ("full", "overloaded"):
            check(self.ws.close_code == 1013, f"{self.error_code()} was closed with {self.ws.close_code}")
            raise Refused
        return self.ws.close_code

    def error_code(self):
        return next((event["code"] for event in self.events if event["type"] == "error"), None)

    async def expect_transcript(self, text):
        code = await self.expect_end()
        check(code == 1000, f"closed with {code} after {self.events[-1:]}")
        check(transcript(self.events) == text, f"heard {transcript(self.events)!r} instead of {text!r}")
        reasons = [final["reason"] for final in finals(self.events)]
        check(reasons[-1] == "eof" and reasons.count("eof") == 1, f"finals for the reasons {reasons}")


class Soak:
    def __init__(self, server, clips, rng):
        self.server = server
        self.clips = clips
        self.rng = rng
        self.outcomes = collections.Counter()
        self.faults = []
        self.latencies_ms = []

    async def run(self, clients, seconds):
        """`clients` at any time; then all of them end what they began. One of each kind comes while there is room."""
        end = time.monotonic() + seconds
        firsts = [[kind] for kind in KINDS] + [[]] * (clients - len(KINDS))
        await asyncio.gather(*(self.be_clients(end, first) for first in firsts))
        await self.server.become_quiet()

    async def be_clients(self, end, first):
        for kind in first:
            await self.be(kind)
        await asyncio.sleep(self.rng.uniform(0, min(2, max(0, (end - time.monotonic()) / 4))))
        while time.monotonic() < end:
            [kind] = self.rng.choices(list(KINDS), list(KINDS.values()))
            await self.be(kind)

    async def be(self, kind):
        try:
            await asyncio.wait_for(getattr(self, kind)(), HANG_SECONDS)
            self.outcomes[kind, "as expected"] += 1
        except Refused:
            self.outcomes[kind, "refused"] += 1
            await asyncio.sleep(self.rng.uniform(0.2, 1))
        except asyncio.TimeoutError:
            self.fault(kind, f"hung for {HANG_SECONDS} s")
        except (Fault, OSError, websockets.WebSocketException) as error:
            self.fault(kind, repr(error))

    def fault(self, kind, what):
        self.outcomes[kind, "FAULT"] += 1
        self.faults.append(f"{kind}: {what}")

    async def open(self, query=ONE_SEGMENT, **options):
        try:
            return Session(await websockets.connect(f"ws://{self.server.address}/v1/stream?{query}", max_size=None,
                                                    open_timeout=HANG_SECONDS, ping_interval=None, **options))
        except websockets.InvalidStatusCode as refused:
            check(refused.status_code == 503, f"HTTP status {refused.status_code}")
            check("Retry-After" in refused.headers, "503 without Retry-After")
            raise Refused from None

    def clip(self):
        _, audio, text = self.rng.choice(self.clips)
        return audio, text

    async def good(self):
        audio, text = self.clip()
        session = await self.open()
        async with session:
            session.read()
            try:
                await session.speak(audio, self.rng)
                await session.say("eof")
            except websockets.ConnectionClosed:
                pass  # its reason is read
            await session.expect_transcript(text)
        self.latencies_ms += session.latencies_ms

    async def slow(self):
        audio, text = self.clip()
        session = await self.open(max_queue=1)
        async with session:
            try:
                await session.speak(audio, self.rng, pause=lambda: self.rng.choice((0, 0, 0, 0.3)))
                await session.say("eof")
            except websockets.ConnectionClosed:
                pass
            await asyncio.sleep(self.rng.uniform(0, 2))
            await session.expect_transcript(text)

    async def broken(self):
        await self.rng.choice((self.talk_nonsense, self.vanish, self.ask_for_what_there_is_not, self.speak_no_http))()

    async def talk_nonsense(self):
        audio, text = self.clip()
        session = await self.open()
        async with session:
            session.read()
            try:
                await session.ws.send(self.rng.choice(("{", "[]", '{"type":7}', '{"type":"sing"}', "\0")))
                await session.speak(audio, self.rng)
                await session.say("eof")
            except websockets.ConnectionClosed:
                pass
            # It is told, and what it says besides is recognized.
            await session.expect_transcript(text)
            check(session.error_code() is not None, "nonsense was not answered")

    async def vanish(self):
        audio, _ = self.clip()
        session = await self.open()
        session.read()
        try:
            await session.speak(audio[: self.rng.randint(2, len(audio))], self.rng)
        except websockets.ConnectionClosed:
            pass
        session.ws.transport.abort()
        await session.reader

    async def ask_for_what_there_is_not(self):
        session = await self.open(self.rng.choice(("encoding=opus9", "sample_rate=1", "channels=99")))
        async with session:
            code = await session.expect_end()
            check((code, session.events[-1]["type"]) == (1008, "error"), f"{code} after {session.events}")

    async def speak_no_http(self):
        junk = self.rng.randbytes(self.rng.randint(1, 4096)) + b"\r\n\r\n"
        answer = await self.send_raw(junk, ends=True)
        check(answer == b"" or answer.startswith(b"HTTP/1.1 4"), f"{answer[:80]}")

    async def silent(self):
        session = await self.open()
        async with session:
            code = await session.expect_end()
            check((code, session.error_code()) == (1008, "idle_timeout"), f"{code} after {session.events}")

    async def abusive(self):
        await self.rng.choice((self.flood, self.send_too_long_a_message, self.order_too_much, self.knock, self.upload_junk))()

    async def flood(self):
        audio, text = self.clip()
        session = await self.open()
        async with session:
            session.read()
            try:
                for at in range(0, len(audio), 65536):
                    await session.ws.send(audio[at : at + 65536])
                await session.say("eof")
            except websockets.ConnectionClosed:
                pass
            await session.expect_transcript(text)

    async def send_too_long_a_message(self):
        session = await self.open()
        async with session:
            session.read()
            try:
                await session.ws.send(bytes((1 << 20) + 1))
            except websockets.ConnectionClosed:
                pass
            code = await session.expect_end()
            check((code, session.error_code()) == (1009, "message_too_long"), f"{code} after {session.events}")

    async def order_too_much(self):
        audio, _ = self.clip()
        session = await self.open()
        async with session:
            session.read()
            try:
                await session.ws.send(audio)
                for _ in range(100):
                    await session.say("finalize")
                await session.say("eof")
            except websockets.ConnectionClosed:
                pass
            code = await session.expect_end()
            check((code, session.error_code()) in ((1008, "overrun"), (1000, None)), f"{code} after {session.events[-1:]}")

    async def knock(self):
        """Connections that say nothing, and one that begins to."""
        knocks = [await asyncio.open_connection(*self.server.address.split(":")) for _ in range(10)]
        knocks[0][1].write(b"GET /v1/stream HTTP/1.1\r\nHost: ")
        await asyncio.sleep(self.rng.uniform(0, 1))
        for _, writer in knocks:
            writer.close()

    async def upload_junk(self):
        junk = self.rng.randbytes(self.rng.randint(1, 200_000))
        answer = await self.send_raw(
            b"POST /v1/audio/transcriptions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: audio/wav\r\n"
            + f"Content-Length: {len(junk)}\r\n\r\n".encode() + junk
        )
        status = answer.split(b" ")[1:2]
        check(status and status[0] in (b"400", b"429", b"503"), f"{answer[:120]}")

    async def send_raw(self, data, ends=False):
        reader, writer = await asyncio.open_connection(*self.server.address.split(":"))
        try:
            writer.write(data)
            await writer.drain()
            if ends:
                writer.get_extra_info("socket").shutdown(socket.SHUT_WR)
            return await reader.read(65536)
        except OSError:
            return b""  # closed while it was still talking
        finally:
            writer.close()


def report(soak, before, after):
    for (kind, outcome), count in sorted(soak.outcomes.items()):
        print(f"{kind:<8} {outcome:<12} {count:>6}")
    if soak.latencies_ms:
        half, most = (percentile(soak.latencies_ms, share) for share in (0.5, 0.99))
        verdict = "within" if most <= 2 * TICK_MS else "BEYOND"
        print(f"chunks of good clients: {len(soak.latencies_ms)}, half within {half:.1f} ms, 99 % within {most:.1f} ms, "
              f"{verdict} two ticks of {TICK_MS} ms")
    print(f"after half of the time and at the end: RSS {before[0]:.1f} and {after[0]:.1f} MiB, "
          f"{before[1]} and {after[1]} descriptors")


async def soak_server(options):
    rng = random.Random(options.seed)
    print(f"seed {options.seed}: {options.seconds} s, {options.places} places", flush=True)
    server = LiveServer("--max-streams", str(options.places // 2), "--owners", "2", "--idle-timeout-s", str(IDLE_SECONDS))
    try:
        soak = Soak(server, load_clips(), rng)
        clients = options.places * 6 // 5
        # What is allocated for the first time is not what is lost each time.
        await soak.run(clients, options.seconds / 2)
        before = server.rss_mib(), server.descriptors()
        await soak.run(clients, options.seconds / 2)
        after = server.rss_mib(), server.descriptors()
    finally:
        server.stop()
    report(soak, before, after)
    if after[1] != before[1]:
        soak.faults.append(f"{after[1] - before[1]} descriptors were not closed")
    if after[0] > before[0] * (1 + options.growth):
        soak.faults.append(f"memory grew by {100 * (after[0] / before[0] - 1):.1f} %")
    for kind in KINDS:
        if not soak.outcomes[kind, "as expected"]:
            soak.faults.append(f"no {kind} client got its turn: too short a time")
    for fault in soak.faults:
        print(f"FAULT {fault}")
    return 1 if soak.faults else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=180)
    parser.add_argument("--places", type=int, default=64, help="streams that the server holds")
    parser.add_argument("--growth", type=float, default=0.02, help="share that memory may grow by in the second half")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    return asyncio.run(soak_server(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
