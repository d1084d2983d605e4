"""What users of other recognition servers report as broken, in every dialect over real sockets: docs/field-reports.md.

The environment is that of tutti_server.py.
"""
import array
import asyncio
import base64
import json
import random
import unittest

import websockets

from client_websockets import AsyncTest, Server, load_clips, receive_messages, recognize, transcript

IDLE_SECONDS = 2
SESSION = "e160e428-53b2-487c-977d-96989bf5c99d"


def message(**members):
    return json.dumps(members)


def audiohook(kind, seq, **parameters):
    return message(version="2", id=SESSION, type=kind, seq=seq, serverseq=0, position="PT0S", parameters=parameters)


def as_floats(audio):
    samples = array.array("h", audio[: len(audio) // 2 * 2])
    return array.array("f", (sample / 32768 for sample in samples)).tobytes()


class Client:
    """One that speaks a dialect, at 16 kHz where it can say so."""

    path = "/"
    opening = ()
    end = None  # the last message; None = a client just leaves
    keep_alive = b""
    tracks = 1

    def messages(self, audio, size):
        return [audio[at : at + size] for at in range(0, len(audio), size)]

    def words(self, replies):
        """What was recognized; None where the protocol does not tell."""
        return None


class Native(Client):
    path = "/v1/stream?sample_rate=16000&endpointing=false"
    end = message(type="eof")
    keep_alive = message(type="keepalive")

    def words(self, replies):
        return [reply["text"] for reply in replies if reply["type"] == "final"]


class Vosk(Client):
    path = "/vosk"
    opening = (message(config={"sample_rate": 16000}),)
    end = message(eof=1)
    keep_alive = message(config={})

    def words(self, replies):
        return [reply["text"] for reply in replies if "text" in reply]


class Wenet(Client):
    path = "/wenet"
    opening = (message(signal="start", continuous_decoding=True),)
    end = message(signal="end")

    def words(self, replies):
        results = [reply["nbest"] for reply in replies if reply.get("type") == "final_result"]
        return [json.loads(nbest)[0]["sentence"] for nbest in results]


class Sherpa(Client):
    path = "/sherpa"
    end = "Done"
    keep_alive = "Hello"

    def messages(self, audio, size):
        return super().messages(as_floats(audio), size)

    def words(self, replies):
        return [reply["text"] for reply in replies if reply != "Done!" and reply["is_final"]]


class Deepgram(Client):
    path = "/v1/listen?encoding=linear16&sample_rate=16000"
    end = message(type="CloseStream")
    keep_alive = message(type="KeepAlive")

    def words(self, replies):
        results = [reply for reply in replies if reply["type"] == "Results" and reply["is_final"]]
        return [result["channel"]["alternatives"][0]["transcript"] for result in results]


class OpenAi(Client):
    path = "/v1/realtime?intent=transcription"
    opening = (
        message(
            type="session.update",
            session={"audio": {"input": {"format": {"type": "audio/pcm", "rate": 16000}, "turn_detection": None}}},
        ),
    )
    keep_alive = message(type="session.update", session={})

    def messages(self, audio, size):
        pieces = super().messages(audio, size)
        return [message(type="input_audio_buffer.append", audio=base64.b64encode(piece).decode()) for piece in pieces]


class Twilio(Client):
    path = "/twilio"
    opening = (message(event="start", start={"mediaFormat": {"encoding": "audio/x-l16", "sampleRate": 16000}}),)
    end = message(event="stop")
    keep_alive = message(event="mark")

    def messages(self, audio, size):
        pieces = super().messages(audio, size)
        return [message(event="media", media={"payload": base64.b64encode(piece).decode()}) for piece in pieces]


class Jambonz(Client):
    path = "/listen"
    opening = (message(sampleRate=16000, mixType="stereo"),)
    keep_alive = message(event="dtmf")
    tracks = 2


class Asterisk(Client):
    path = "/asterisk"
    opening = ("MEDIA_START connection_id:c format:slin16",)
    keep_alive = "MEDIA_XOFF"


class AudioHook(Client):
    path = "/audiohook"
    opening = (
        audiohook("open", 1, media=[{"type": "audio", "format": "L16", "channels": ["external"], "rate": 8000}]),
    )


CLIENTS = (Native, Vosk, Wenet, Sherpa, Deepgram, OpenAi, Twilio, Jambonz, Asterisk, AudioHook)
# Those whose words come back when they say that no more audio comes.
TRANSCRIBING = tuple(kind for kind in CLIENTS if kind.end and kind.words is not Client.words)

JUNK = (
    *("", "{", "null", "[]", '"Done"', '{"type":1}', '{"event":"media"}', "\0", "ä" * 5000, "[" * 5000, "Done "),
    *(b"", b"\0", b"\xff" * 999),
)


def parsed(replies):
    return [json.loads(reply) if reply.startswith("{") else reply for reply in replies]


class FieldReportsTest(AsyncTest):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--idle-timeout-s", str(IDLE_SECONDS))
        clips = {file: audio for file, audio, _ in load_clips()}
        cls.speech = clips["ocean-27.flac"]

    @classmethod
    def tearDownClass(cls):
        cls.server.terminate()
        cls.server.expect_exit()

    def connect(self, kind):
        return websockets.connect(f"ws://{self.server.address}{kind.path}", max_size=None, open_timeout=60)

    async def open(self, kind, audio=b"\0" * 6400, size=3200):
        """A session that has sent its first audio."""
        ws = await self.connect(kind)
        for text in (*kind.opening, *kind().messages(audio, size)):
            await ws.send(text)
        return ws

    async def hear(self, kind, audio, size=16000, after=()):
        """The replies to a whole session."""
        async with self.connect(kind) as ws:
            receiver = asyncio.create_task(receive_messages(ws))
            try:
                for text in (*kind.opening, *kind().messages(audio, size), kind.end, *after):
                    await ws.send(text)
            except websockets.ConnectionClosed:
                self.assertTrue(after, "closed before its end")
            return parsed(await receiver)

    async def words(self, kind, *arguments, **options):
        return [text for text in kind().words(await self.hear(kind, *arguments, **options)) if text]

    async def wait_for_streams(self, count):
        for _ in range(400):
            if self.server.metric("tutti_open_streams") == count:
                return
            await asyncio.sleep(0.05)
        self.assertEqual(self.server.metric("tutti_open_streams"), count)

    async def test_junk_leaves_the_server_serving(self):
        async def talk_junk(kind, opening):
            try:
                async with self.connect(kind) as ws:
                    for text in (*opening, *random.sample(JUNK, len(JUNK))):
                        await ws.send(text)
            except websockets.ConnectionClosed:
                pass

        await asyncio.gather(*(talk_junk(kind, opening) for kind in CLIENTS for opening in ((), kind.opening)))
        await self.wait_for_streams(0)
        self.assertEqual(self.server.get("/readyz")[0], 200)
        events, code = await recognize(self.server, self.speech)
        self.assertEqual(code, 1000)
        self.assertTrue(transcript(events))

    async def leave(self, how):
        sessions = await asyncio.gather(*(self.open(kind) for kind in CLIENTS))
        await self.wait_for_streams(sum(kind.tracks for kind in CLIENTS))
        for ws in sessions:
            how(ws)
        await self.wait_for_streams(0)
        await asyncio.gather(*(ws.close() for ws in sessions))

    async def test_a_client_that_drops_its_connection_frees_its_streams(self):
        await self.leave(lambda ws: ws.transport.abort())

    async def test_a_client_that_closes_only_its_side_frees_its_streams(self):
        await self.leave(lambda ws: ws.transport.write_eof())

    async def test_a_client_that_closes_without_an_end_frees_its_streams(self):
        await self.leave(lambda ws: asyncio.ensure_future(ws.close()))

    async def test_a_client_that_falls_silent_frees_its_streams(self):
        await self.leave(lambda ws: None)

    async def test_a_client_that_says_its_end_frees_its_streams(self):
        for kind in CLIENTS:
            if kind.end:
                with self.subTest(dialect=kind.__name__):
                    await self.hear(kind, b"\0" * 6400)
        await self.wait_for_streams(0)

    async def test_messages_without_audio_keep_a_session(self):
        kinds = [kind for kind in CLIENTS if kind is not AudioHook]  # which pings, and has a limit of its own
        sessions = await asyncio.gather(*(self.open(kind) for kind in kinds))
        drains = [asyncio.create_task(receive_messages(ws)) for ws in sessions]
        for _ in range(10 * IDLE_SECONDS):
            await asyncio.gather(*(ws.send(kind.keep_alive) for ws, kind in zip(sessions, kinds)))
            await asyncio.sleep(0.2)
        for ws, kind in zip(sessions, kinds):
            self.assertTrue(ws.open, kind.__name__)
        await asyncio.gather(*(ws.close() for ws in sessions), *drains)

    async def test_messages_of_odd_length_give_the_same_words(self):
        for kind in TRANSCRIBING:
            with self.subTest(dialect=kind.__name__):
                expected = await self.words(kind, self.speech)
                self.assertTrue(expected)
                self.assertEqual(await self.words(kind, self.speech, size=997), expected)

    async def test_audio_after_the_end_changes_nothing(self):
        for kind in TRANSCRIBING:
            with self.subTest(dialect=kind.__name__):
                more = kind().messages(self.speech, 16001)
                words = await self.words(kind, self.speech, after=more)
                self.assertEqual(words, await self.words(kind, self.speech))

    async def test_silence_and_noise_have_no_words(self):
        noise = array.array("h", (random.randint(-8, 8) for _ in range(3 * 16000))).tobytes()
        for kind in TRANSCRIBING:
            with self.subTest(dialect=kind.__name__):
                self.assertEqual(await self.words(kind, bytes(2 * 16000) + noise), [])

    def resident_bytes(self):
        with open(f"/proc/{self.server.process.pid}/status") as status:
            line = next(line for line in status if line.startswith("VmRSS:"))
        return int(line.split()[1]) << 10

    async def test_memory_is_given_back_by_closed_sessions(self):
        async def cycle(count):
            for _ in range(count):
                await asyncio.gather(*(self.hear(kind, self.speech[:16000]) for kind in TRANSCRIBING))
            await self.wait_for_streams(0)
            return self.resident_bytes()

        before = await cycle(10)
        after = await cycle(30)
        # A stream's own state, kept by each of 150 sessions, would be a hundred times that.
        self.assertLess(after - before, 8 << 20)


if __name__ == "__main__":
    unittest.main(verbosity=2)
