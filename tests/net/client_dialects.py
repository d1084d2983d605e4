"""Speaks the dialects of other recognition servers to the real program, as their clients do, on ports of their own.

The environment is that of client_websockets.py.
"""
import array
import asyncio
import json
import re
import time
import unittest

import websockets

from client_websockets import (
    SPEECH, AsyncTest, Server, decode, load_clips, receive_messages, recognize, transcript)

PAUSE = bytes(2 * 32000)  # 2 s of 16 kHz s16le: longer than what ends a segment
DIALECTS = ("vosk", "wenet", "sherpa")


class Reader:
    """A clip, three with pauses between, and what is said in them as the native dialect has it on the same server."""

    def __init__(self, server):
        clips = {file: audio for file, audio, _ in load_clips()}
        self.short = clips["ocean-27.flac"]
        self.long = clips["ocean-27.flac"] + PAUSE + clips["ocean-29.flac"] + PAUSE + clips["ocean-25.flac"]
        self.server = server

    async def text(self, audio, query=""):
        events, code = await recognize(self.server, audio, query)
        assert code == 1000
        return transcript(events)


class DialectTest(AsyncTest):
    @classmethod
    def setUpClass(cls):
        ports = [option for name in DIALECTS for option in ("--dialect-at", f"0={name}")]
        cls.server = Server(*ports)
        cls.addresses = cls.read_addresses()
        cls.reader = Reader(cls.server)

    @classmethod
    def tearDownClass(cls):
        cls.server.terminate()
        cls.server.expect_exit()

    @classmethod
    def read_addresses(cls):
        for _ in range(200):
            found = re.findall(r"listening on (\S+) for the (\w+) dialect", cls.server.read_log())
            if len(found) == len(DIALECTS):
                return {name: address for address, name in found}
            time.sleep(0.05)
        raise AssertionError(cls.server.read_log())

    def connect(self, dialect, path=None):
        """On the dialect's own port at its root, or on the common one."""
        url = f"ws://{self.addresses[dialect]}" if path is None else f"ws://{self.server.address}{path}"
        return websockets.connect(url, max_size=None, open_timeout=60)

    async def expect_close(self, ws, code=1000):
        with self.assertRaises(websockets.ConnectionClosed):
            self.fail(f"unexpected: {await asyncio.wait_for(ws.recv(), 60)}")
        self.assertEqual(ws.close_code, code)


def pieces(audio, size):
    return [audio[at : at + size] for at in range(0, len(audio), size)]


def vosk_words(replies):
    return " ".join(reply["text"] for reply in replies if reply.get("text"))


class VoskTest(DialectTest):
    async def converse(self, ws, audio, size=8000, eof='{"eof" : 1}'):
        """As Vosk's own test client: sends a message, reads its reply."""
        replies = []
        for message in [*pieces(audio, size), eof]:
            await ws.send(message)
            replies.append(json.loads(await asyncio.wait_for(ws.recv(), 60)))
        await self.expect_close(ws)
        return replies

    async def test_each_message_has_one_reply_and_every_segment_is_there(self):
        expected = await self.reader.text(self.reader.long)
        for path, config, eof in (
            (None, '{ "config" : { "sample_rate" : 16000 } }', '{"eof" : 1}'),
            ("/vosk", '{"config":{"sample_rate":16000.0,"words":1}}', '{"eof":1}'),
        ):
            async with self.connect("vosk", path) as ws:
                await ws.send(config)
                replies = await self.converse(ws, self.reader.long, eof=eof)
            self.assertEqual(vosk_words(replies), expected)
            self.assertGreaterEqual(sum(1 for reply in replies if reply.get("text")), 3)
            for reply in replies:
                self.assertEqual("partial" in reply, "text" not in reply)
            for word in (word for reply in replies for word in reply.get("result", [])):
                self.assertEqual(set(word), {"conf", "start", "end", "word"})
                self.assertLessEqual(word["start"], word["end"])

    async def test_a_reply_has_what_its_message_completed(self):
        async with self.connect("vosk") as ws:
            await ws.send('{"config":{"sample_rate":16000}}')
            whole = await self.converse(ws, self.reader.long, size=len(self.reader.long))
        self.assertEqual(len(whole), 2)
        spoken = vosk_words(whole)
        self.assertEqual(spoken, await self.reader.text(self.reader.long))
        self.assertNotEqual(whole[0].get("text", ""), "")

    async def test_a_client_that_does_not_wait_gets_as_many_replies(self):
        messages = pieces(self.reader.long, 3200)
        async with self.connect("vosk") as ws:
            receiver = asyncio.create_task(receive_messages(ws))
            await ws.send('{"config":{"sample_rate":16000}}')
            for message in messages:
                await ws.send(message)
            await ws.send('{"eof":1}')
            replies = [json.loads(reply) for reply in await receiver]
        self.assertEqual(len(replies), len(messages) + 1)
        self.assertEqual(vosk_words(replies), await self.reader.text(self.reader.long))

    async def test_reset_closes_the_segment_and_goes_on(self):
        for reset in ('{"reset" : 1}', '{"reset":1}'):
            async with self.connect("vosk") as ws:
                await ws.send('{"config":{"sample_rate":16000}}')
                texts = []
                for _ in range(2):
                    for message in pieces(self.reader.short, 16000):
                        await ws.send(message)
                        self.assertEqual(list(json.loads(await ws.recv())), ["partial"])
                    await ws.send(reset)
                    texts.append(json.loads(await ws.recv())["text"])
                await ws.send('{"eof":1}')
                self.assertEqual(json.loads(await ws.recv()), {"text": ""})
                await self.expect_close(ws)
            self.assertEqual(texts, [await self.reader.text(self.reader.short, "endpointing=false")] * 2)

    async def test_nothing_said_is_an_empty_result(self):
        async with self.connect("vosk") as ws:
            for message in ('{"reset":1}', '{"eof" : 1}'):
                await ws.send(message)
                self.assertEqual(json.loads(await ws.recv()), {"text": ""})
            await self.expect_close(ws)

    async def test_alternatives_and_the_usual_sample_rate(self):
        audio = decode(SPEECH / "digit-34.flac")  # 8 kHz
        async with self.connect("vosk") as ws:
            await ws.send('{"config":{"max_alternatives":3,"words":0,"phrase_list":["one","[unk]"]}}')
            replies = await self.converse(ws, audio)
        (best,) = replies[-1]["alternatives"]
        self.assertEqual(set(best), {"text", "confidence"})
        spoken = [reply["alternatives"][0]["text"] for reply in replies if "alternatives" in reply]
        self.assertEqual(" ".join(text for text in spoken if text), await self.reader.text(audio, "sample_rate=8000"))

    async def test_what_cannot_be_read_is_ignored_without_a_word(self):
        async with self.connect("vosk") as ws:
            for message in ("junk", "[]", '{"what":1}', '{"config":1}'):
                await ws.send(message)
            await ws.send(b"")
            self.assertEqual(json.loads(await ws.recv()), {"partial": ""})
            await ws.send('{"eof":1}')
            self.assertEqual(json.loads(await ws.recv()), {"text": ""})
            await self.expect_close(ws)


class WenetTest(DialectTest):
    async def converse(self, ws, audio, start, end='{"signal": "end"}'):
        await ws.send(start)
        receiver = asyncio.create_task(receive_messages(ws))
        try:
            for message in pieces(audio, 16000):
                await ws.send(message)
            await ws.send(end)
        except websockets.ConnectionClosed:
            pass  # one endpoint may end the session
        return [json.loads(reply) for reply in await receiver]

    def sentences(self, replies, kind):
        nbest = [reply["nbest"] for reply in replies if reply["type"] == kind]
        for each in nbest:
            self.assertIsInstance(each, str)
        return [json.loads(each)[0] for each in nbest]

    async def test_continuous_decoding_gives_every_segment(self):
        for path in (None, "/wenet"):
            async with self.connect("wenet", path) as ws:
                replies = await self.converse(
                    ws, self.reader.long, '{"signal":"start","nbest":1,"continuous_decoding":true}')
                self.assertEqual(ws.close_code, 1000)
            self.assertEqual(replies[0], {"status": "ok", "type": "server_ready"})
            self.assertEqual(replies[-1], {"status": "ok", "type": "speech_end"})
            self.assertEqual({reply["status"] for reply in replies}, {"ok"})
            final = self.sentences(replies, "final_result")
            spoken = " ".join(each["sentence"] for each in final if each["sentence"])
            self.assertEqual(spoken, await self.reader.text(self.reader.long))
            self.assertTrue(self.sentences(replies, "partial_result"))
            for piece in (piece for each in final for piece in each["word_pieces"]):
                self.assertEqual(set(piece), {"word", "start", "end"})
                self.assertIsInstance(piece["start"], int)
                self.assertLessEqual(piece["start"], piece["end"])

    async def test_without_it_one_endpoint_ends_the_session(self):
        async with self.connect("wenet") as ws:
            replies = await self.converse(ws, self.reader.long, '{"signal": "start"}')
            self.assertEqual(ws.close_code, 1000)
        (final,) = self.sentences(replies, "final_result")
        self.assertTrue((await self.reader.text(self.reader.long)).startswith(final["sentence"]))
        self.assertEqual([reply["type"] for reply in replies][-2:], ["final_result", "speech_end"])

    async def test_a_mistake_ends_the_session(self):
        for message in ("junk", '{"signal":"stop"}', '{"signal":"end"}', b"\0\0", '{"signal":"start","nbest":"1"}'):
            async with self.connect("wenet") as ws:
                await ws.send(message)
                reply = json.loads(await ws.recv())
                self.assertEqual((reply["status"], set(reply)), ("failed", {"status", "message"}))
                await self.expect_close(ws, 1008)


class SherpaTest(DialectTest):
    async def test_floats_and_done(self):
        samples = array.array("h", self.reader.long)
        audio = array.array("f", (sample / 32768 for sample in samples)).tobytes()
        for path in (None, "/sherpa"):
            async with self.connect("sherpa", path) as ws:
                receiver = asyncio.create_task(receive_messages(ws))
                for message in pieces(audio, 12800):
                    await ws.send(message)
                await ws.send("Done")
                replies = await receiver
                self.assertEqual(ws.close_code, 1000)
            self.assertEqual(replies.pop(), "Done!")
            results = [json.loads(reply) for reply in replies]
            final = [result for result in results if result["is_final"]]
            self.assertEqual([result["is_eof"] for result in results], [False] * (len(results) - 1) + [True])
            self.assertEqual([result["segment"] for result in final], list(range(len(final))))
            spoken = " ".join(result["text"] for result in final if result["text"])
            self.assertEqual(spoken, await self.reader.text(self.reader.long))
            self.assertGreater(len(results), len(final))
            for result in final:
                self.assertEqual(len(result["tokens"]), len(result["timestamps"]))
                self.assertEqual(result["timestamps"], sorted(result["timestamps"]))


class ServerTest(DialectTest):
    def counts(self, metric):
        text = self.server.get("/metrics")[1]
        return {name: float(value) for name, value in re.findall(rf'^{metric}{{dialect="(\w+)"}} (\S+)$', text, re.M)}

    async def test_counts_sessions_by_dialect(self):
        sessions, failed = self.counts("tutti_sessions_total"), self.counts("tutti_failed_sessions_total")
        async with self.connect("sherpa") as ws:
            await ws.send("Done")
            await receive_messages(ws)
        async with self.connect("wenet") as ws:
            await ws.send("junk")
            await receive_messages(ws)
        for before, now, dialect, more in (
            (sessions, self.counts("tutti_sessions_total"), "sherpa", 1),
            (sessions, self.counts("tutti_sessions_total"), "wenet", 1),
            (failed, self.counts("tutti_failed_sessions_total"), "sherpa", 0),
            (failed, self.counts("tutti_failed_sessions_total"), "wenet", 1),
        ):
            self.assertEqual(now[dialect] - before.get(dialect, 0), more, dialect)

    async def test_a_dialects_port_serves_all_else_too(self):
        async with websockets.connect(f"ws://{self.addresses['vosk']}/v1/stream") as ws:
            self.assertEqual(json.loads(await ws.recv())["type"], "ready")
        with self.assertRaises(websockets.InvalidStatusCode):
            async with websockets.connect(f"ws://{self.server.address}/"):
                pass

    async def test_a_peer_that_leaves_in_the_middle_frees_its_place(self):
        for dialect, first in (("vosk", b"\0" * 999), ("wenet", '{"signal":"start"}'), ("sherpa", b"\0" * 999)):
            for _ in range(3):
                ws = await self.connect(dialect)
                await ws.send(first)
                ws.transport.abort()
        for _ in range(200):
            if self.server.metric("tutti_open_streams") == 0:
                break
            await asyncio.sleep(0.05)
        self.assertEqual(self.server.metric("tutti_open_streams"), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
