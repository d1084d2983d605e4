"""Watches sessions of the real program as others do who read their results: with the unmodified `websockets` library and
with plain HTTP, while a call of two tracks goes on. The environment is that of tutti_server.py."""
import asyncio
import base64
import http.client
import json
import pathlib
import subprocess
import tempfile
import threading
import unittest

from client_websockets import (
    ONE_SEGMENT, AsyncTest, Server, finals, load_clips, receive_messages, recognize, send_audio, send_text)
from tutti_server import PROGRAM

RATE = 16000
FRAME_MS = 20


def read_events(response):
    """Server-sent events up to the end: (id, event, data)."""
    events, fields = [], {}
    for line in response:
        line = line.decode().rstrip("\n")
        if line.startswith(":"):
            continue
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        else:
            if "data" in fields:
                events.append((fields.get("id"), fields["event"], json.loads(fields["data"])))
            fields = {}
    return events


class EventStream:
    """Reads on a thread of its own."""

    def __init__(self, server, stream, **headers):
        self.connection = http.client.HTTPConnection(server.address, timeout=60)
        self.connection.request(
            "GET", f"/v1/streams/{stream}/events",
            headers={"Accept": "text/event-stream", **{name.replace("_", "-"): value for name, value in headers.items()}})
        self.response = self.connection.getresponse()
        self.events = []
        self.thread = threading.Thread(target=self.read)
        if self.response.status == 200:
            assert self.response.headers["Content-Type"] == "text/event-stream"
            self.thread.start()

    def read(self):
        self.events = read_events(self.response)

    def result(self):
        self.thread.join(60)
        assert not self.thread.is_alive()
        self.connection.close()
        return self.events


class Call:
    """The sender of a Twilio call of two tracks."""

    def __init__(self, ws, sid):
        self.ws, self.sid = ws, sid

    async def start(self):
        await self.ws.send(json.dumps({"event": "connected", "protocol": "Call", "version": "1.0.0"}))
        await self.ws.send(json.dumps({"event": "start", "sequenceNumber": "1", "streamSid": self.sid, "start": {
            "streamSid": self.sid, "callSid": "CA" + self.sid, "tracks": ["inbound", "outbound"],
            "mediaFormat": {"encoding": "audio/x-l16", "sampleRate": RATE, "channels": 1}}}))

    async def send(self, track, number, frame):
        await self.ws.send(json.dumps({"event": "media", "streamSid": self.sid, "media": {
            "track": track, "chunk": str(number + 1), "timestamp": str(FRAME_MS * number),
            "payload": base64.b64encode(frame).decode()}}))

    async def speak(self, tracks):
        size = RATE * 2 * FRAME_MS // 1000
        for number in range(max(len(audio) for audio in tracks.values()) // size + 1):
            for track, audio in tracks.items():
                frame = audio[number * size : (number + 1) * size]
                if frame:
                    await self.send(track, number, frame)

    async def stop(self):
        await self.ws.send(json.dumps({"event": "stop", "streamSid": self.sid}))
        assert await receive_messages(self.ws) == []


def texts_by_track(events):
    texts = {}
    for event in finals(events):
        texts.setdefault(event["track"], []).append((event["segment"], event["text"], event["start"], event["end"]))
    return texts


class SubscriberTest(AsyncTest):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        clips = {file: audio for file, audio, _ in load_clips()}
        silence = bytes(2 * RATE * 2)
        cls.inbound = clips["libri-06.flac"] + silence + clips["ocean-27.flac"]
        cls.outbound = clips["ocean-27.flac"]

    @classmethod
    def tearDownClass(cls):
        cls.server.terminate()
        cls.server.expect_exit()

    async def native(self, audio):
        events, code = await recognize(self.server, audio, "")
        self.assertEqual(code, 1000)
        return [(event["segment"], event["text"], event["start"], event["end"]) for event in finals(events)]

    async def test_a_call_is_read_by_websocket_and_event_stream_as_if_each_track_were_a_stream(self):
        async with self.server.connect_to("/twilio") as ws:
            call = Call(ws, "MZ1")
            await call.start()
            watcher = await self.server.read_along("MZ1")
            reader = asyncio.create_task(receive_messages(watcher))
            stream = await asyncio.to_thread(EventStream, self.server, "CAMZ1")
            await call.speak({"inbound": self.inbound, "outbound": self.outbound})
            await call.stop()
        by_websocket = [json.loads(message) for message in await reader]
        by_event_stream = await asyncio.to_thread(stream.result)
        expected = {"inbound": await self.native(self.inbound), "outbound": await self.native(self.outbound)}
        self.assertGreaterEqual(len(expected["inbound"]), 2)
        self.assertEqual(texts_by_track(by_websocket), expected)
        self.assertEqual(texts_by_track([data for _, _, data in by_event_stream]), expected)
        self.assertEqual(watcher.close_code, 1000)
        self.assertEqual(by_websocket[-1]["type"], "end")
        self.assertEqual(
            sorted(event["track"] for event in by_websocket if event["type"] == "done"), ["inbound", "outbound"])
        self.assertTrue(any(event["type"] == "partial" for event in by_websocket))
        for place, name, data in by_event_stream:
            self.assertEqual(name, data["type"])
            self.assertEqual(place is not None, name in ("final", "done", "end"))

    async def test_who_comes_late_reads_the_finals_and_goes_on_where_it_left_off(self):
        async with self.server.connect_to("/twilio") as ws:
            call = Call(ws, "MZ2")
            await call.start()
            await call.speak({"inbound": self.inbound})
            await call.stop()
        events = await asyncio.to_thread(EventStream(self.server, "MZ2").result)
        self.assertEqual(
            texts_by_track([data for _, _, data in events]), {"inbound": await self.native(self.inbound)})
        first = events[0][0]
        rest = await asyncio.to_thread(EventStream(self.server, "MZ2", Last_Event_ID=first).result)
        self.assertEqual(rest, events[1:])
        last = EventStream(self.server, "MZ2", Last_Event_ID=events[-1][0])
        self.assertEqual(last.response.status, 204)
        last.connection.close()

    async def test_asterisk_hanging_up_is_not_the_end_of_what_was_said(self):
        async with self.server.connect_to("/asterisk", subprotocols=["media"]) as ws:
            await ws.send("MEDIA_START connection_id:c channel_id:PJSIP/alice-1 format:slin16 optimal_frame_size:640")
            watcher = await self.server.read_along("PJSIP%2Falice-1")
            await send_audio(ws, self.outbound)
        events = [json.loads(message) for message in await receive_messages(watcher)]
        heard = [(event["segment"], event["text"], event["start"], event["end"]) for event in finals(events)]
        self.assertEqual(heard, await self.native(self.outbound))
        self.assertEqual({event["channel"] for event in events[:-1]}, {0})
        self.assertEqual([event["type"] for event in events[-2:]], ["done", "end"])

    async def test_a_native_session_can_be_watched_too(self):
        async with self.server.connect(ONE_SEGMENT) as ws:
            session = json.loads(await ws.recv())["session"]
            watcher = await self.server.connect_to(f"/v1/streams/{session}/events")
            await send_audio(ws, self.outbound)
            await send_text(ws, "eof")
            told = [json.loads(message) for message in await receive_messages(ws)]
        watched = [json.loads(message) for message in await receive_messages(watcher)]
        self.assertEqual(watched.pop()["type"], "end")
        self.assertEqual({event.pop("channel") for event in watched}, {0})
        # Partials may give way, here as there.
        kept = [[event for event in events if event["type"] != "partial"] for events in (watched, told)]
        self.assertEqual(kept[0], kept[1])
        self.assertEqual([event["type"] for event in kept[0]], ["final", "done"])

    async def test_a_server_that_drains_tells_subscribers_what_there_was(self):
        server = Server("--grace-s", "1")
        async with server.connect_to("/twilio") as ws:
            call = Call(ws, "MZ9")
            await call.start()
            await call.speak({"inbound": self.outbound})
            while server.metric("tutti_audio_seconds_total") < len(self.outbound) / 2 / RATE - 0.1:
                await asyncio.sleep(0.05)
            watcher = await server.connect_to("/v1/streams/MZ9/events")
            stream = await asyncio.to_thread(EventStream, server, "MZ9")
            server.terminate()
            await receive_messages(ws)
        by_websocket = texts_by_track([json.loads(message) for message in await receive_messages(watcher)])
        by_event_stream = texts_by_track([data for _, _, data in await asyncio.to_thread(stream.result)])
        server.expect_exit()
        self.assertEqual(by_websocket, {"inbound": await self.native(self.outbound)})
        self.assertEqual(by_event_stream, by_websocket)


class KeyTest(AsyncTest):
    async def test_a_key_sees_its_own_sessions_alone(self):
        keys, lines = {}, ""
        for name in ("alice", "bob"):
            made = subprocess.run([PROGRAM, "keygen", name], check=True, capture_output=True, text=True)
            lines += made.stdout
            keys[name] = next(word for word in made.stderr.split() if word.startswith("tutti_"))
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "keys.toml"
            file.write_text(lines)
            server = Server("--api-keys-file", str(file))
            header = {"Authorization": f"Bearer {keys['alice']}"}
            async with server.connect_to("/v1/stream", extra_headers=header) as ws:
                session = json.loads(await ws.recv())["session"]
                statuses = {}
                for name, key in keys.items():
                    stream = await asyncio.to_thread(EventStream, server, session, Authorization=f"Bearer {key}")
                    statuses[name] = stream.response.status
                    if stream.response.status == 200:
                        watching = stream
                    else:
                        stream.connection.close()
                stranger = await asyncio.to_thread(EventStream, server, session)
                stranger.connection.close()
                statuses["nobody"] = stranger.response.status
                self.assertEqual(statuses, {"alice": 200, "bob": 404, "nobody": 401})
            await asyncio.to_thread(watching.result)
            server.terminate()
            server.expect_exit()


if __name__ == "__main__":
    unittest.main(verbosity=2)
