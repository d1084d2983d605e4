"""Drives the real program with the unmodified `websockets` library, as a user's client would.

The environment is that of tutti_server.py.
"""
import array
import asyncio
import json
import time
import unittest

import websockets

import tutti_server
from tutti_server import SPEECH, decode

FRAME_BYTES = 640  # 20 ms of 16 kHz s16le
CLIENTS = 32
# Only the end of the audio ends a segment, as in the expected transcripts.
ONE_SEGMENT = "endpointing=false"
# Where the two best tokens of a frame are this close, another correct implementation may choose the other.
UNDECIDED_GAP = 1e-4


class Server(tutti_server.Server):
    """Decodes greedily, as the expected transcripts were."""

    def __init__(self, *options):
        super().__init__("--decoder", "greedy", *options)

    def connect(self, query=ONE_SEGMENT):
        return self.connect_to(f"/v1/stream?{query}")

    def connect_to(self, path, **options):
        return websockets.connect(f"ws://{self.address}{path}", max_size=None, open_timeout=60, **options)

    async def read_along(self, stream):
        """Reads a stream's events, as soon as it is known: what a service does that hears of a call when it begins."""
        for _ in range(600):
            try:
                return await self.connect_to(f"/v1/streams/{stream}/events")
            except websockets.InvalidStatusCode as refused:
                assert refused.status_code == 404, refused.status_code
                await asyncio.sleep(0.05)
        raise AssertionError(f"no stream {stream}")


def load_clips():
    """The 16 kHz clips: (file, s16le, expected text), 8 kHz recordings in the reference's resampling."""
    clips = []
    for line in (SPEECH / "expected-greedy.jsonl").read_text().splitlines():
        expected = json.loads(line)
        resampled = SPEECH / "16k" / expected["file"]
        path = resampled if resampled.exists() else SPEECH / expected["file"]
        if path.exists() and expected["smallest_gap"] >= UNDECIDED_GAP:
            clips.append((expected["file"], decode(path), expected["text"]))
    return clips


async def send_audio(ws, audio, frame_bytes=FRAME_BYTES):
    for at in range(0, len(audio), frame_bytes):
        await ws.send(audio[at : at + frame_bytes])


async def send_text(ws, kind):
    await ws.send(json.dumps({"type": kind}))


async def receive_messages(ws):
    """Every message up to the close, whatever its code."""
    messages = []
    try:
        async for message in ws:
            messages.append(message)
    except websockets.ConnectionClosedError:
        pass
    return messages


async def receive(ws):
    return [json.loads(message) for message in await receive_messages(ws)]


async def next_event(ws, kind):
    while True:
        event = json.loads(await asyncio.wait_for(ws.recv(), 60))
        if event["type"] == kind:
            return event


def finals(events):
    return [event for event in events if event["type"] == "final"]


def transcript(events):
    return " ".join(event["text"] for event in finals(events) if event["text"])


async def recognize(server, audio, query=ONE_SEGMENT, frame_bytes=FRAME_BYTES):
    """Streams a whole clip, then returns every event the server sent and the close code."""
    async with server.connect(query) as ws:
        receiver = asyncio.create_task(receive(ws))
        await send_audio(ws, audio, frame_bytes)
        await send_text(ws, "eof")
        events = await receiver
        return events, ws.close_code


class AsyncTest(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        # unittest turns it on; it reports each callback that a busy machine makes slow.
        asyncio.get_running_loop().set_debug(False)


class ClientTest(AsyncTest):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.clips = load_clips()
        cls.server = Server()

    @classmethod
    def tearDownClass(cls):
        cls.server.terminate()
        cls.server.expect_exit()

    def clip(self, name):
        return next((audio, text) for file, audio, text in self.clips if file == name)

    async def test_many_clients_at_once_get_the_reference_transcripts(self):
        # At least the 16 kHz recordings and the resampled copies that come with the repository.
        self.assertGreaterEqual(len(self.clips), 31)
        clients = [self.clips[i % len(self.clips)] for i in range(max(CLIENTS, len(self.clips)))]
        results = await asyncio.gather(*(recognize(self.server, audio) for _, audio, _ in clients))
        for (name, audio, text), (events, code) in zip(clients, results):
            with self.subTest(clip=name):
                self.assertEqual(transcript(events), text)
                self.assertEqual(code, 1000)
                self.assertEqual(events[0]["type"], "ready")
                self.assertEqual(events[-1]["type"], "done")
                self.assertAlmostEqual(events[-1]["audio_seconds"], len(audio) / 32000, delta=0.001)
                self.assertEqual(finals(events)[-1]["reason"], "eof")

    async def test_finals_carry_consistent_words_and_times(self):
        audio, text = self.clip("libri-02.flac")
        events, _ = await recognize(self.server, audio)
        words = [word for final in finals(events) for word in final["words"]]
        self.assertEqual(" ".join(word["word"] for word in words), text)
        clock = 0.0
        for word in words:
            self.assertGreaterEqual(word["start"], clock)
            self.assertGreaterEqual(word["end"], word["start"])
            self.assertTrue(0 <= word["confidence"] <= 1)
            clock = word["start"]
        self.assertLessEqual(words[-1]["end"], len(audio) / 32000)
        self.assertEqual([final["segment"] for final in finals(events)], list(range(len(finals(events)))))

    async def test_partials_come_while_audio_goes_on_and_can_be_turned_off(self):
        audio, _ = self.clip("libri-00.flac")
        events, _ = await recognize(self.server, audio)
        self.assertTrue([event for event in events if event["type"] == "partial"])
        events, _ = await recognize(self.server, audio, "interim=false&words=false")
        self.assertEqual({event["type"] for event in events}, {"ready", "final", "done"})
        self.assertNotIn("words", events[-2])

    async def test_pauses_end_segments_and_voice_events_frame_them(self):
        audio = decode(SPEECH / "libri-02.flac") + bytes(2 * 32000)
        events, _ = await recognize(self.server, 2 * audio, "interim=false&endpointing=500&vad_events=true")
        self.assertGreaterEqual([final["reason"] for final in finals(events)].count("endpoint"), 2)
        voice = [event for event in events if event["type"].startswith("speech_")]
        self.assertGreaterEqual(len(voice), 4)
        for at, event in enumerate(voice):
            self.assertEqual(event["type"], ("speech_started", "speech_stopped")[at % 2])
        times = [event["time"] for event in voice]
        self.assertEqual(times, sorted(times))

    async def test_frames_of_any_size_give_the_same_transcript(self):
        audio, text = self.clip("ocean-27.flac")
        for frame_bytes in (7, 1001, 64000):
            events, _ = await recognize(self.server, audio, frame_bytes=frame_bytes)
            self.assertEqual(transcript(events), text, f"{frame_bytes} bytes a frame")

    async def test_other_encodings_of_the_same_samples_give_the_same_transcript(self):
        audio, text = self.clip("ocean-29.flac")
        samples = array.array("h", audio)
        floats = array.array("f", (sample / 32768 for sample in samples)).tobytes()
        stereo = array.array("h", (sample for sample in samples for _ in range(2))).tobytes()
        right = array.array("h", (value for sample in samples for value in (0, sample))).tobytes()
        for query, encoded in (
            ("encoding=pcm_f32le", floats),
            ("encoding=pcm_s16le&channels=2", stereo),
            ("channels=2&channel=1", right),
        ):
            events, code = await recognize(self.server, encoded, f"{query}&{ONE_SEGMENT}")
            self.assertEqual((transcript(events), code), (text, 1000), query)

    async def test_telephone_audio_is_accepted(self):
        audio = decode(SPEECH / "digit-34.flac")
        events, code = await recognize(self.server, audio, "sample_rate=8000")
        self.assertEqual(code, 1000)
        self.assertEqual(finals(events)[-1]["reason"], "eof")
        self.assertAlmostEqual(events[-1]["audio_seconds"], len(audio) / 16000, delta=0.01)

    async def test_text_format_sends_plain_lines(self):
        audio, text = self.clip("libri-06.flac")
        async with self.server.connect(f"format=text&{ONE_SEGMENT}") as ws:
            await ws.send("junk")
            self.assertRegex(await ws.recv(), "^! .*JSON")
            receiver = asyncio.create_task(receive_messages(ws))
            await send_audio(ws, audio)
            await send_text(ws, "eof")
            lines = await receiver
        self.assertEqual(" ".join(line for line in lines if not line.startswith("~ ")), text)
        self.assertTrue(any(line.startswith("~ ") for line in lines))

    async def test_a_message_it_cannot_read_is_reported_and_ignored(self):
        audio, text = self.clip("ocean-25.flac")
        async with self.server.connect() as ws:
            await next_event(ws, "ready")
            for message, code in (
                ("{", "bad_json"),
                ("[1]", "bad_json"),
                ("{}", "bad_message"),
                ('{"type":7}', "bad_message"),
                ('{"type":"eof","type":"eof"}', "bad_message"),
                ('{"type":"stop"}', "unknown_type"),
            ):
                await ws.send(message)
                self.assertEqual((await next_event(ws, "error"))["code"], code, message)
            receiver = asyncio.create_task(receive(ws))
            await send_audio(ws, audio)
            await send_text(ws, "eof")
            self.assertEqual(transcript(await receiver), text)

    async def test_a_request_it_cannot_serve_is_refused_with_a_reason(self):
        for query, code, accepted in (
            ("encoding=opus9", "bad_encoding", "pcm_s16le"),
            ("sample_rate=1", "bad_sample_rate", "384000"),
            ("channels=99", "bad_channels", "64"),
            ("words=perhaps", "bad_parameter", "true and false"),
        ):
            async with self.server.connect(query) as ws:
                events = await receive(ws)
            self.assertEqual([event["type"] for event in events], ["error"], query)
            self.assertEqual(events[0]["code"], code)
            self.assertIn(accepted, events[0]["message"])
            self.assertEqual(ws.close_code, 1008)

    async def test_audio_after_eof_changes_nothing(self):
        audio, text = self.clip("ocean-26.flac")
        async with self.server.connect() as ws:
            receiver = asyncio.create_task(receive(ws))
            await send_audio(ws, audio)
            await send_text(ws, "eof")
            try:
                await send_audio(ws, audio)
            except websockets.ConnectionClosed:
                pass  # the server had said everything before all of it was sent
            events = await receiver
        self.assertEqual(transcript(events), text)
        self.assertEqual(events[-1]["type"], "done")

    async def test_each_finalize_gets_exactly_one_final(self):
        audio, _ = self.clip("ocean-24.flac")
        async with self.server.connect("interim=false") as ws:
            await next_event(ws, "ready")
            for _ in range(3):
                await send_text(ws, "finalize")  # of nothing: an empty final
                self.assertEqual((await next_event(ws, "final"))["text"], "")
                await send_audio(ws, audio)
                await send_text(ws, "finalize")
                final = await next_event(ws, "final")
                while final["reason"] != "finalize":
                    final = await next_event(ws, "final")
            await send_text(ws, "eof")
            events = await receive(ws)
        self.assertEqual([event["type"] for event in events], ["final", "done"])
        self.assertAlmostEqual(events[-1]["audio_seconds"], 3 * len(audio) / 32000, delta=0.001)

    async def test_a_stream_without_audio_ends_with_an_empty_final(self):
        events, code = await recognize(self.server, b"")
        self.assertEqual([event["type"] for event in events], ["ready", "final", "done"])
        self.assertEqual((events[1]["text"], events[2]["audio_seconds"], code), ("", 0, 1000))

    async def test_a_message_too_long_ends_the_session_with_a_reason(self):
        async with self.server.connect() as ws:
            await next_event(ws, "ready")
            receiver = asyncio.create_task(receive(ws))
            try:
                await ws.send(bytes((1 << 20) + 1))
            except websockets.ConnectionClosed:
                pass
            events = await receiver
        self.assertEqual(events[-1]["code"], "message_too_long")
        self.assertEqual(ws.close_code, 1009)

    async def test_clients_that_vanish_do_not_disturb_the_others(self):
        audio, _ = self.clip("libri-19.flac")

        async def vanish():
            ws = await self.server.connect()
            await next_event(ws, "ready")
            await send_audio(ws, audio[: len(audio) // 2])
            ws.transport.abort()

        async def others():
            audio, text = self.clip("libri-22.flac")
            events, _ = await recognize(self.server, audio)
            self.assertEqual(transcript(events), text)

        await asyncio.gather(*(coroutine() for _ in range(8) for coroutine in (vanish, others)))
        await self.wait_for_no_streams()

    async def wait_for_no_streams(self):
        deadline = time.monotonic() + 60
        while self.server.metric("tutti_open_streams") > 0:
            self.assertLess(time.monotonic(), deadline, "streams of clients that left are still open")
            await asyncio.sleep(0.05)

    async def test_the_server_is_alive_and_ready(self):
        self.assertEqual(self.server.get("/healthz"), (200, "ok\n"))
        self.assertEqual(self.server.get("/readyz")[0], 200)
        status, body = self.server.get("/v1/stream")
        self.assertEqual((status, json.loads(body)["code"]), (426, "upgrade_required"))


class DrainTest(AsyncTest):
    """SIGTERM."""

    async def refused(self, server):
        with self.assertRaises(websockets.InvalidStatusCode) as refusal:
            await server.connect()
        self.assertEqual(refusal.exception.status_code, 503)
        self.assertEqual(refusal.exception.headers["Retry-After"], "5")

    async def test_new_streams_are_refused_and_open_ones_go_on_to_their_own_end(self):
        server = Server("--grace-s", "60")
        audio = decode(SPEECH / "ocean-27.flac")
        expected, _ = await recognize(server, audio)
        async with server.connect() as ws:
            await next_event(ws, "ready")
            receiver = asyncio.create_task(receive(ws))
            await send_audio(ws, audio[: len(audio) // 2 // FRAME_BYTES * FRAME_BYTES])
            server.terminate()
            while server.get("/readyz")[0] != 503:
                await asyncio.sleep(0.01)
            await self.refused(server)
            self.assertEqual(server.get("/healthz")[0], 200)
            await send_audio(ws, audio[len(audio) // 2 // FRAME_BYTES * FRAME_BYTES :])
            await send_text(ws, "eof")
            events = await receiver
        self.assertEqual(finals(events), finals(expected))
        self.assertEqual(events[-1]["type"], "done")
        self.assertEqual(ws.close_code, 1000)
        server.expect_exit()

    async def test_the_end_of_the_grace_period_brings_the_finals_of_open_streams(self):
        server = Server("--grace-s", "1")
        audio = decode(SPEECH / "ocean-27.flac")
        expected, _ = await recognize(server, audio)
        async with server.connect() as ws:
            await next_event(ws, "ready")
            await send_audio(ws, audio)
            server.terminate()
            events = await receive(ws)
        self.assertEqual(transcript(events), transcript(expected))
        self.assertEqual(events[-1]["type"], "done")
        self.assertEqual((ws.close_code, ws.close_reason), (1001, "the server is shutting down"))
        server.expect_exit()

    async def test_a_second_signal_ends_open_streams_at_once(self):
        server = Server("--grace-s", "600")
        async with server.connect() as ws:
            await next_event(ws, "ready")
            server.terminate()
            while server.get("/readyz")[0] != 503:
                await asyncio.sleep(0.01)
            server.terminate()
            events = await receive(ws)
        self.assertEqual(events[-1]["code"], "stopped")
        self.assertEqual(ws.close_code, 1001)
        server.expect_exit()


class AdmissionTest(AsyncTest):
    """More streams than there are places."""

    async def test_one_more_than_there_are_places_for_is_refused_until_one_is_free(self):
        server = Server("--owners", "1", "--max-streams", "1")
        async with server.connect() as ws:
            await next_event(ws, "ready")
            with self.assertRaises(websockets.InvalidStatusCode) as refusal:
                await server.connect()
            self.assertEqual(refusal.exception.status_code, 503)
            self.assertEqual(refusal.exception.headers["Retry-After"], "5")
            self.assertEqual(server.metric('tutti_refusals_total{dialect="native",reason="full"}'), 1)
        code = None
        while code is None:
            try:
                _, code = await recognize(server, decode(SPEECH / "ocean-27.flac"))
            except websockets.InvalidStatusCode as refusal:
                self.assertEqual(refusal.status_code, 503)  # its place is not free yet
        self.assertEqual(code, 1000)
        server.terminate()
        server.expect_exit()

    async def test_streams_that_may_wait_are_served_one_after_the_other(self):
        server = Server("--owners", "1", "--max-streams", "1", "--max-wait-ms", "60000")
        audio = decode(SPEECH / "ocean-27.flac")
        results = await asyncio.gather(*(recognize(server, audio) for _ in range(5)))
        for events, code in results:
            self.assertEqual(code, 1000)
            self.assertEqual(finals(events), finals(results[0][0]))
        server.terminate()
        server.expect_exit()


if __name__ == "__main__":
    unittest.main(verbosity=2)
