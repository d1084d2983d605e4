"""Sends coded audio to the real program as browsers and files hold it: live, as an upload and to `tutti transcribe`.

The environment is that of client_websockets.py.
"""
import json
import subprocess
import unittest
import urllib.request

import websockets

from client_websockets import AsyncTest, Server, receive_messages, recognize, transcript
from tutti_server import MODEL, PROGRAM, SPEECH

FOLDER = SPEECH.parent / "opus"
RECORDINGS = ("mediarecorder.webm", "mediarecorder.ogg", "opusenc.opus", "ffmpeg.webm")


def letters(text):
    return text.replace(" ", "")


def packets_of(ogg):
    """The packets of an Ogg file whose pages hold whole packets."""
    packets = [b""]
    position = 0
    while position < len(ogg):
        count = ogg[position + 26]
        sizes = ogg[position + 27:position + 27 + count]
        position += 27 + count
        for size in sizes:
            packets[-1] += ogg[position:position + size]
            position += size
            if size < 255:
                packets.append(b"")
    return packets[2:-1]


class OpusTest(AsyncTest):
    @classmethod
    def setUpClass(cls):
        files = [str(FOLDER / name) for name in RECORDINGS]
        command = [PROGRAM, "transcribe", "--json", "--decoder", "greedy", "--model", MODEL, *files]
        lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
        texts = {json.loads(line)["file"]: json.loads(line)["text"] for line in lines}
        cls.expected = {name: letters(texts[str(FOLDER / name)]) for name in RECORDINGS}
        cls.server = Server()

    @classmethod
    def tearDownClass(cls):
        cls.server.terminate()
        cls.server.expect_exit()

    async def test_hears_live_what_the_command_line_reads(self):
        for name in RECORDINGS:
            for size in (37, 1000, 100_000):
                with self.subTest(name=name, size=size):
                    events, code = await recognize(self.server, (FOLDER / name).read_bytes(), "encoding=auto", size)
                    self.assertEqual(code, 1000)
                    self.assertEqual(letters(transcript(events)), self.expected[name])
                    self.assertTrue(self.expected[name])

    async def test_hears_a_packet_in_each_message(self):
        packets = packets_of((FOLDER / "mediarecorder.ogg").read_bytes())
        self.assertEqual(len(packets), 150)
        async with self.server.connect("encoding=opus") as ws:
            for packet in packets:
                await ws.send(packet)
            await ws.send('{"type":"eof"}')
            events = [json.loads(message) async for message in ws]
        self.assertEqual(letters(transcript(events)), self.expected["mediarecorder.webm"])
        self.assertEqual(events[-1], {"type": "done", "audio_seconds": 9.0})

    async def test_hears_containers_of_deepgram_clients(self):
        audio = (FOLDER / "mediarecorder.webm").read_bytes()
        texts = []
        async with websockets.connect(f"ws://{self.server.address}/v1/listen") as ws:
            for position in range(0, len(audio), 900):
                await ws.send(audio[position:position + 900])
            await ws.send('{"type":"CloseStream"}')
            async for message in ws:
                event = json.loads(message)
                if event["type"] == "Results" and event["is_final"]:
                    texts.append(event["channel"]["alternatives"][0]["transcript"])
        self.assertEqual(letters("".join(texts)), self.expected["mediarecorder.webm"])
        self.assertEqual((event["type"], event["duration"]), ("Metadata", 9.0))

    async def test_transcribes_uploads_alike(self):
        for name in RECORDINGS:
            with self.subTest(name=name):
                request = urllib.request.Request(
                    f"http://{self.server.address}/v1/audio/transcriptions", (FOLDER / name).read_bytes(),
                    {"Content-Type": "audio/webm"})
                with urllib.request.urlopen(request, timeout=60) as response:
                    self.assertEqual(letters(json.load(response)["text"]), self.expected[name])

    async def test_says_what_it_does_not_read(self):
        for name, what in (("tagged.mp3", "an MP3 stream"), ("vorbis.ogg", "Vorbis"), ("aac.mka", "A_AAC")):
            async with self.server.connect("encoding=auto") as ws:
                await ws.send((FOLDER / "refused" / name).read_bytes())
                last = json.loads((await receive_messages(ws))[-1])
            self.assertEqual((last["code"], ws.close_code), ("bad_audio", 1008))
            self.assertIn(what, last["message"])


if __name__ == "__main__":
    unittest.main()
