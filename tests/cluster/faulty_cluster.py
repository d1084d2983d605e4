"""Gateways and engines with clients that speak at their own pace, while trouble comes to one engine after the other.
Whatever happens, each stream has to end with the transcript that it would have had.
"""
import asyncio
import collections
import contextlib
import itertools
import json
import time
from concurrent.futures import ThreadPoolExecutor

import websockets
from cluster_processes import Authority, RelayedHost, Gateway, wait_until
from client_websockets import ONE_SEGMENT, finals, load_clips, receive

BYTES_PER_SECOND = 32000  # 16 kHz s16le
FRAME_SECONDS = 0.1
FRAME_BYTES = int(BYTES_PER_SECOND * FRAME_SECONDS)
# On a machine that does other things too; a stream that takes longer hangs.
HANG_SECONDS = 120
PAUSE = bytes(int(1.2 * BYTES_PER_SECOND))
SEGMENTS = "endpointing=600"
# Of the bundled model, in bytes: what the first chunk needs, and each after it.
WINDOW_BYTES, CHUNK_BYTES = 2 * 10960, 2 * 10240


def ending_amid_a_chunk(audio):
    """With silence behind it: a chunk that ends with the audio says other things when its end is known already."""
    return audio + bytes((CHUNK_BYTES // 2 - (len(audio) - WINDOW_BYTES)) % CHUNK_BYTES)


# What a client says, and how it asks for it; `finals` are all that it has to get, to the last digit.
Speech = collections.namedtuple("Speech", "name query audio finals")


class Client:
    """One stream at a gateway."""

    def __init__(self, address, speech):
        self.url = f"ws://{address}/v1/stream?{speech.query}"
        self.speech = speech

    async def speak(self, pace=1.0):
        """At `pace` of real time, 0 = as fast as the server takes it; returns everything it said, and the close code."""
        async with websockets.connect(self.url, max_size=None, open_timeout=60, ping_timeout=None) as ws:
            receiver = asyncio.create_task(receive(ws))
            start = time.monotonic()
            with contextlib.suppress(websockets.ConnectionClosed):  # its code tells
                for at in range(0, len(self.speech.audio), FRAME_BYTES):
                    await ws.send(self.speech.audio[at : at + FRAME_BYTES])
                    due = start + pace * (at + FRAME_BYTES) / BYTES_PER_SECOND
                    await asyncio.sleep(max(0.0, due - time.monotonic()))
                await ws.send(json.dumps({"type": "eof"}))
            return await receiver, ws.close_code


def fault_of(speech, events, code):
    """What is wrong with what a client got; None when nothing is."""
    if code != 1000 or not events or events[-1]["type"] != "done":
        return f"closed with {code} after {events[-1:]}"
    if errors := [event for event in events if event["type"] == "error"]:
        return f"was told {errors}"
    if finals(events) != speech.finals:
        return f"heard {finals(events)} instead of {speech.finals}"
    if abs(events[-1]["audio_seconds"] - len(speech.audio) / BYTES_PER_SECOND) > 0.001:
        return f"{events[-1]['audio_seconds']} s of {len(speech.audio) / BYTES_PER_SECOND} were recognized"
    return None


class FaultyCluster:
    """`engines`, one of which may be gone while the others have room for all `streams`."""

    def __init__(self, *, gateways, engines, streams, rng, longest_clip=60.0, host=RelayedHost, report=print):
        self.streams, self.rng, self.report = streams, rng, report
        self.longest_clip = longest_clip
        self.authority = Authority()
        places = -(-streams // (engines - 1)) + 2
        with ThreadPoolExecutor() as pool:
            self.engines = list(pool.map(
                lambda i: host(self.authority, f"engine-{i}", places), range(engines)))
            addresses = [engine.address for engine in self.engines]
            self.gateways = list(pool.map(
                lambda i: Gateway(self.authority, addresses, "--max-wait-ms", "20000", name=f"gateway-{i}"),
                range(gateways)))
        self.began = time.monotonic()
        self.transcribed = 0
        self.faults = []
        self.strikes = collections.Counter()
        self.enough = False

    def __enter__(self):
        for gateway in self.gateways:
            gateway.wait_for(*(engine.address for engine in self.engines))
        return self

    def __exit__(self, *_):
        for gateway in self.gateways:
            gateway.kill()
        for engine in self.engines:
            engine.stop()

    async def load_speeches(self, count):
        """Clips whose transcript is known, and clips that pauses make several segments of, as heard in peace."""
        clips = [clip for clip in load_clips() if len(clip[1]) <= self.longest_clip * BYTES_PER_SECOND]
        self.rng.shuffle(clips)
        return await asyncio.gather(*(
            self.one_segment(*clips[i]) if i % 2 == 0 else self.several(clips[i], clips[i - 1]) for i in range(count)))

    async def one_segment(self, name, audio, text):
        speech = await self.heard_in_peace(Speech(name, ONE_SEGMENT, audio, []))
        heard = [final["text"] for final in speech.finals]
        assert heard == [text], f"{name}: {heard} instead of {text}"
        return speech

    async def several(self, *clips):
        name = " + ".join(clip[0] for clip in clips)
        audio = ending_amid_a_chunk(PAUSE.join(clip[1] for clip in clips) + PAUSE)
        speech = await self.heard_in_peace(Speech(name, SEGMENTS, audio, []))
        assert len(speech.finals) >= 2, f"{name}: {speech.finals}"
        return speech

    async def heard_in_peace(self, speech):
        events, code = await Client(self.gateways[0].address, speech).speak(pace=0.0)
        speech = speech._replace(finals=finals(events))
        assert fault_of(speech, events, code) is None, fault_of(speech, events, code)
        return speech

    async def suffer(self, speeches, strikes):
        """`streams` at any time while `strikes`, of (kind, seconds) each, fall; then all of them end what they began."""
        turn = itertools.cycle(speeches)
        clients = [asyncio.create_task(self.be_client(self.gateways[i % len(self.gateways)], turn))
                   for i in range(self.streams)]
        try:
            for kind, seconds in strikes:
                await asyncio.sleep(self.rng.uniform(0.2, 1.0))
                await self.strike(kind, await asyncio.to_thread(self.busy_engine), seconds)
        finally:
            self.enough = True
            await asyncio.gather(*clients)

    async def be_client(self, gateway, turn):
        # Not all at once, as people do not.
        await asyncio.sleep(self.rng.uniform(0, 1.5))
        while not self.enough:
            speech = next(turn)
            try:
                events, code = await asyncio.wait_for(Client(gateway.address, speech).speak(), HANG_SECONDS)
                fault = fault_of(speech, events, code)
            except asyncio.TimeoutError:
                fault = "hangs"
            except (OSError, websockets.WebSocketException) as error:
                fault = repr(error)
            self.transcribed += 1
            if fault is not None:
                self.faults.append((round(time.monotonic() - self.began, 1), speech.name, fault))

    def busy_engine(self):
        """Any that has streams to lose."""
        busy = []

        def found():
            busy[:] = [engine for engine in self.engines if engine.engine.metric("tutti_used_kv_blocks") > 0]
            return bool(busy)

        wait_until(found, "somebody is heard")
        return self.rng.choice(busy)

    async def strike(self, kind, victim, seconds):
        moved = self.moved_streams()
        begin, end = victim.TROUBLES[kind]
        await asyncio.to_thread(getattr(victim, begin))
        await asyncio.sleep(seconds)
        await asyncio.to_thread(getattr(victim, end))
        for gateway in self.gateways:
            await asyncio.to_thread(gateway.wait_for, victim.address)
        self.strikes[kind] += 1
        self.report(f"{time.monotonic() - self.began:6.1f} s: {kind} of {victim.name} for {seconds:.1f} s: "
                    f"{self.moved_streams() - moved} streams moved")

    def moved_streams(self):
        return sum(int(gateway.metric("tutti_moved_streams_total")) for gateway in self.gateways)

    def wait_for_no_streams(self):
        wait_until(lambda: sum(gateway.metric("tutti_open_streams") for gateway in self.gateways) == 0,
                   "all streams have ended")
