"""Drives the real program as telephone systems do: Twilio, Genesys AudioHook, jambonz and Asterisk. The environment
is that of tutti_server.py."""
import asyncio
import base64
import json
import struct
import unittest
import uuid

from client_websockets import AsyncTest, Server, finals, load_clips, receive_messages, recognize

RATE = 16000
PAUSE = b"\0\0" * (2 * RATE)  # longer than what ends a segment
SESSION = "e160e428-53b2-487c-977d-96989bf5c99d"


def frames(audio, size=640):
    return [audio[at : at + size] for at in range(0, len(audio), size)]


def interleave(left, right):
    """Two channels of as many 16-bit samples."""
    both = bytearray(2 * len(left))
    for offset, channel in ((0, left), (2, right)):
        both[offset::4] = channel[0::2]
        both[offset + 1 :: 4] = channel[1::2]
    return bytes(both)


def every_other_sample(audio):
    halved = bytearray(len(audio) // 4 * 2)
    halved[0::2] = audio[0 : len(halved) * 2 : 4]
    halved[1::2] = audio[1 : len(halved) * 2 : 4]
    return bytes(halved)


class TelephonyTest(AsyncTest):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--audiosocket", "127.0.0.1:0")
        clips = {file: audio for file, audio, _ in load_clips()}
        parties = [clips["ocean-27.flac"], clips["libri-06.flac"]]
        longest = max(map(len, parties))
        cls.first, cls.second = (audio.ljust(longest, b"\0") + PAUSE for audio in parties)

    @classmethod
    def tearDownClass(cls):
        cls.server.terminate()
        cls.server.expect_exit()

    async def native_texts(self, audio, rate=RATE):
        """What the segments of the audio are in the native protocol."""
        events, code = await recognize(self.server, audio, f"sample_rate={rate}")
        self.assertEqual(code, 1000)
        return [final["text"] for final in finals(events) if final["text"]]

    async def expect_to_read(self, watcher, audio):
        events = [json.loads(message) for message in await receive_messages(watcher)]
        self.assertEqual([event["type"] for event in events[-2:]], ["done", "end"])
        self.assertEqual([final["text"] for final in finals(events) if final["text"]], await self.native_texts(audio))


class AudioHookClient:
    """Counts as the protocol wants it, and checks that the server does."""

    def __init__(self, ws):
        self.ws = ws
        self.seq = 0
        self.server_seq = 0
        self.seconds = 0.0

    async def send(self, kind, **parameters):
        self.seq += 1
        await self.ws.send(json.dumps({
            "version": "2", "id": SESSION, "type": kind, "seq": self.seq, "serverseq": self.server_seq,
            "position": f"PT{self.seconds:.3f}S", "parameters": parameters}))

    async def receive(self):
        message = json.loads(await asyncio.wait_for(self.ws.recv(), 60))
        self.server_seq += 1
        assert (message["version"], message["id"]) == ("2", SESSION), message
        assert message["seq"] == self.server_seq, message
        assert message["clientseq"] <= self.seq, message
        return message

    async def receive_until(self, kind):
        messages = [await self.receive()]
        while messages[-1]["type"] != kind:
            messages.append(await self.receive())
        return messages


def media(channels, rate=8000):
    return {"type": "audio", "format": "L16", "channels": channels, "rate": rate}


class AudioHookTest(TelephonyTest):
    async def open(self, ws, *offers):
        client = AudioHookClient(ws)
        await client.send(
            "open", organizationId=SESSION, conversationId=SESSION,
            participant={"id": SESSION, "ani": "", "aniName": "", "dnis": ""}, media=list(offers))
        return client, await client.receive()

    async def test_both_channels_get_their_transcripts(self):
        parties = [every_other_sample(audio) for audio in (self.first, self.second)]
        async with self.server.connect_to("/audiohook", extra_headers={"Audiohook-Session-Id": SESSION}) as ws:
            client, opened = await self.open(ws, media(["external", "internal"]), media(["external"]))
            self.assertEqual(opened["type"], "opened")
            self.assertEqual(opened["parameters"]["media"], [media(["external", "internal"])])
            await client.send("ping")
            self.assertEqual((await client.receive())["type"], "pong")
            for frame in frames(interleave(*parties), 3200):
                await ws.send(frame)
                client.seconds += len(frame) / 4 / 8000
            await client.send("close", reason="end")
            messages = await client.receive_until("closed")
        transcripts = [entity["data"] for message in messages if message["type"] == "event"
                       for entity in message["parameters"]["entities"] if entity["data"]["isFinal"]]
        self.assertEqual(len({data["id"] for data in transcripts}), len(transcripts))
        texts = {(0, "external"): [], (1, "internal"): []}
        for data in transcripts:
            interpretation = data["alternatives"][0]["interpretations"][0]
            self.assertEqual(
                " ".join(token["value"] for token in interpretation["tokens"]), interpretation["transcript"])
            self.assertRegex(data["offset"], r"^PT\d+\.\d+S$")
            texts[data["channelId"], data["channel"]].append(interpretation["transcript"])
        for channel, audio in zip(texts.values(), parties):
            self.assertEqual([text for text in channel if text], await self.native_texts(audio, 8000))

    async def test_a_message_out_of_sequence_ends_in_a_disconnect(self):
        async with self.server.connect_to("/audiohook", extra_headers={"Audiohook-Session-Id": SESSION}) as ws:
            client, _ = await self.open(ws, media(["external"]))
            client.seq += 1
            await client.send("ping")
            disconnect = await client.receive()
            self.assertEqual((disconnect["type"], disconnect["parameters"]["reason"]), ("disconnect", "error"))
            await client.send("close", reason="disconnect")
            self.assertEqual((await client.receive())["type"], "closed")

    async def test_a_probe_is_opened_and_closed(self):
        async with self.server.connect_to("/audiohook") as ws:
            client, opened = await self.open(ws, media(["external"]))
            self.assertEqual(opened["type"], "opened")
            await client.send("close", reason="end")
            self.assertEqual((await client.receive())["type"], "closed")


class JambonzTest(TelephonyTest):
    async def recognize(self, audio, parties, metadata, path, subprotocol):
        """The segments of each channel, as they come back while the call goes on; the client hangs up."""
        expected = [await self.native_texts(party) for party in parties]
        texts = [[] for _ in parties]
        async with self.server.connect_to(path, subprotocols=[subprotocol]) as ws:
            self.assertEqual(ws.subprotocol, subprotocol)
            await ws.send(json.dumps(metadata))
            for frame in frames(audio):
                await ws.send(frame)
            while any(len(channel) < len(wanted) for channel, wanted in zip(texts, expected)):
                message = json.loads(await asyncio.wait_for(ws.recv(), 60))
                self.assertEqual(message["type"], "transcription")
                data = message["data"]
                if data["type"] == "final" and data["text"]:
                    texts[data["channel"]].append(data["text"])
        self.assertEqual(texts, expected)

    async def test_transcripts_come_back_while_the_call_goes_on(self):
        await self.recognize(self.first, [self.first], {"callSid": "c1", "sampleRate": RATE, "mixType": "mono"},
                             "/listen", "audio.jambonz.org")

    async def test_the_parties_of_a_call_are_kept_apart(self):
        await self.recognize(interleave(self.first, self.second), [self.first, self.second], {"caller": "alice"},
                             f"/listen?sample_rate={RATE}&channels=2", "audio.drachtio.org")


    async def test_what_was_sent_before_the_connection_broke_is_read_by_others(self):
        audio = self.first[: len(self.first) - len(PAUSE)]
        before = self.server.metric("tutti_net_audio_bytes_total")
        async with self.server.connect_to("/listen", subprotocols=["audio.jambonz.org"]) as ws:
            await ws.send(json.dumps({"callSid": "broken", "sampleRate": RATE, "mixType": "mono"}))
            watcher = await self.server.read_along("broken")
            for frame in frames(audio):
                await ws.send(frame)
            while self.server.metric("tutti_net_audio_bytes_total") < before + len(audio):
                await asyncio.sleep(0.05)
            ws.transport.abort()
        await self.expect_to_read(watcher, audio)


class AsteriskTest(TelephonyTest):
    async def test_a_format_it_does_not_know_is_refused_by_name(self):
        async with self.server.connect_to("/asterisk", subprotocols=["media"]) as ws:
            self.assertEqual(ws.subprotocol, "media")
            await ws.send("MEDIA_START connection_id:c channel_id:1.1 format:g729 optimal_frame_size:160")
            self.assertEqual(await receive_messages(ws), [])
        self.assertEqual(ws.close_code, 1008)
        self.assertIn("accepted are ulaw, alaw, slin", ws.close_reason)

    async def test_audio_is_heard_in_either_form(self):
        for start in ("MEDIA_START connection_id:c channel_id:1.2 format:slin16 optimal_frame_size:640 ptime:20",
                      json.dumps({"event": "MEDIA_START", "channel_id": "1.3", "format": "slin16"})):
            before = self.server.metric("tutti_audio_seconds_total")
            async with self.server.connect_to("/asterisk", subprotocols=["media"]) as ws:
                await ws.send(start)
                for frame in frames(self.first):
                    await ws.send(frame)
                await self.wait_for_audio(before + len(self.first) / 2 / RATE - 0.1)

    async def wait_for_audio(self, seconds):
        while self.server.metric("tutti_audio_seconds_total") < seconds:
            await asyncio.sleep(0.1)


class AudioSocketCall:
    """Asterisk's application AudioSocket(): a UUID, audio in frames of 20 ms, and in the end a close."""

    async def begin(self, address, name):
        host, port = address.rsplit(":", 1)
        self.reader, self.writer = await asyncio.open_connection(host, int(port))
        await self.send(0x01, name.bytes)

    async def send(self, kind, payload=b""):
        self.writer.write(struct.pack(">BH", kind, len(payload)) + payload)
        await self.writer.drain()

    async def send_audio(self, kind, audio, size=640):
        for frame in frames(audio, size):
            await self.send(kind, frame)

    async def expect_close(self):
        try:
            received = await asyncio.wait_for(self.reader.read(), 60)
        except ConnectionResetError:  # the server closed with audio unread
            received = b""
        assert received == b"", received
        self.writer.close()


class AudioSocketTest(TelephonyTest):
    async def call(self):
        call = AudioSocketCall()
        self.name = uuid.uuid4()
        await call.begin(self.server.find_in_log(r"listening on (\S+) for AudioSocket"), self.name)
        return call

    async def heard(self, seconds):
        """Waits until so much more has been recognized, and no more."""
        while self.server.metric("tutti_audio_seconds_total") - self.before < seconds - 0.001:
            await asyncio.sleep(0.05)
        self.assertAlmostEqual(self.server.metric("tutti_audio_seconds_total") - self.before, seconds, delta=0.001)

    async def asyncSetUp(self):
        await super().asyncSetUp()
        self.before = self.server.metric("tutti_audio_seconds_total")

    async def test_all_audio_is_heard_before_a_hangup_is_answered(self):
        call = await self.call()
        await call.send(0x03, b"5")
        await call.send_audio(0x12, self.first)
        await call.send(0x00)
        await call.expect_close()
        await self.heard(len(self.first) / 2 / RATE)
        self.assertIn(f"is {self.name}", self.server.read_log())

    async def test_a_caller_who_just_closes_is_heard_to_the_end(self):
        audio = self.first[: len(self.first) - len(PAUSE)]
        call = await self.call()
        watcher = await self.server.read_along(self.name)
        await call.send_audio(0x12, audio)
        call.writer.close()
        await self.expect_to_read(watcher, audio)

    async def test_a_caller_that_sends_faster_than_it_is_recognized_is_held_back(self):
        call = await self.call()
        await call.send_audio(0x18, bytes(2 * 192000 * 20), 65534)
        await call.send(0x00)
        await call.expect_close()
        await self.heard(20)

    async def test_frames_may_be_cut_anywhere(self):
        call = await self.call()
        stream = b"".join(struct.pack(">BH", 0x12, len(frame)) + frame for frame in frames(self.first))
        for piece in frames(stream, 1001):
            call.writer.write(piece)
            await call.writer.drain()
            await asyncio.sleep(0)
        await call.send(0x00)
        await call.expect_close()
        await self.heard(len(self.first) / 2 / RATE)

    async def test_a_frame_it_does_not_know_ends_the_call_and_says_so_in_the_log(self):
        call = await self.call()
        await call.send(0x02, b"silence")
        await call.expect_close()
        self.assertIn("0x02 is no kind of AudioSocket frame", self.server.read_log())


class TwilioTest(TelephonyTest):
    async def test_a_call_that_closes_without_a_stop_is_read_by_others(self):
        audio = self.first[: len(self.first) - len(PAUSE)]
        async with self.server.connect_to("/twilio") as ws:
            media_format = {"encoding": "audio/x-l16", "sampleRate": RATE, "channels": 1}
            await ws.send(json.dumps({
                "event": "start", "streamSid": "MZ2", "start": {"streamSid": "MZ2", "mediaFormat": media_format}}))
            watcher = await self.server.read_along("MZ2")
            for frame in frames(audio):
                await ws.send(json.dumps({"event": "media", "streamSid": "MZ2", "media": {
                    "track": "inbound", "payload": base64.b64encode(frame).decode()}}))
        await self.expect_to_read(watcher, audio)

    async def test_a_call_of_two_tracks_ends_with_its_stop(self):
        before = self.server.metric("tutti_audio_seconds_total")
        async with self.server.connect_to("/twilio") as ws:
            await ws.send(json.dumps({"event": "connected", "protocol": "Call", "version": "1.0.0"}))
            media_format = {"encoding": "audio/x-l16", "sampleRate": RATE, "channels": 1}
            await ws.send(json.dumps({
                "event": "start", "sequenceNumber": "1", "streamSid": "MZ1",
                "start": {"streamSid": "MZ1", "tracks": ["inbound", "outbound"], "mediaFormat": media_format}}))
            for number, frame in enumerate(frames(self.first), 1):
                for track in ("inbound", "outbound"):
                    await ws.send(json.dumps({"event": "media", "streamSid": "MZ1", "media": {
                        "track": track, "chunk": str(number), "timestamp": str(20 * (number - 1)),
                        "payload": base64.b64encode(frame).decode()}}))
            await ws.send(json.dumps({"event": "stop", "streamSid": "MZ1"}))
            self.assertEqual(await receive_messages(ws), [])
        self.assertEqual(ws.close_code, 1000)
        heard = self.server.metric("tutti_audio_seconds_total") - before
        self.assertAlmostEqual(heard, 2 * len(self.first) / 2 / RATE, delta=0.1)


del TelephonyTest  # it has no tests of its own

if __name__ == "__main__":
    unittest.main(verbosity=2)
