"""Drives the real program's HTTP uploads with Python's http.client and with curl, as a user's client would.

The environment is that of tutti_server.py.
"""
import concurrent.futures
import http.client
import io
import json
import pathlib
import re
import shutil
import struct
import subprocess
import tempfile
import time
import unittest
import urllib.request
import wave

from tutti_server import MODEL, PROGRAM, SPEECH, Server, decode

CLIPS = [SPEECH / name for name in ("libri-02.flac", "libri-06.flac", "libri-19.flac", "ocean-24.flac", "16k/digit-34.flac")]
PATH = "/v1/audio/transcriptions"
# Caps that a test can reach.
MAX_BYTES = 4 << 20
MAX_SECONDS = 600


def form(fields, file=None, file_name="clip"):
    """A multipart body and its Content-Type."""
    boundary = "----cut here"
    body = b""
    for name, value in fields:
        body += f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
    if file is not None:
        body += (f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{file_name}"\r\n'
                 "Content-Type: application/octet-stream\r\n\r\n").encode() + file + b"\r\n"
    return body + f"--{boundary}--\r\n".encode(), f'multipart/form-data; boundary="{boundary}"'


def letters(text):
    return text.replace(" ", "")


def flac_of_silence(seconds):
    """A FLAC header that promises so much silence, and nothing behind it."""
    total = seconds * 16000
    packed = (16000 << 44) | (0 << 41) | (15 << 36) | total
    info = struct.pack(">HH", 4096, 4096) + b"\0" * 6 + packed.to_bytes(8, "big") + b"\0" * 16
    return b"fLaC" + b"\x80" + len(info).to_bytes(3, "big") + info


def wav_of(frames, rate=16000):
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(frames)
    return out.getvalue()


def wav_of_silence(samples, rate=16000):
    return wav_of(b"\0\0" * samples, rate)


class UploadsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        lines = subprocess.run([PROGRAM, "transcribe", "--json", "--model", MODEL, *map(str, CLIPS)], check=True,
                               capture_output=True, text=True).stdout.splitlines()
        cls.expected = {json.loads(line)["file"]: json.loads(line) for line in lines}
        cls.server = Server("--max-uploads", "4", "--max-upload-bytes", str(MAX_BYTES),
                            "--max-upload-seconds", str(MAX_SECONDS))

    @classmethod
    def tearDownClass(cls):
        cls.server.terminate()
        cls.server.expect_exit()

    def setUp(self):
        self.connection = http.client.HTTPConnection(self.server.address, timeout=120)

    def tearDown(self):
        self.connection.close()

    def request(self, body, content_type, query="", headers=None):
        self.connection.request("POST", PATH + query, body, {"Content-Type": content_type, **(headers or {})})
        response = self.connection.getresponse()
        return response.status, response.headers, response.read().decode()

    def transcribe(self, file, **fields):
        listed = [(name, value) for name, values in fields.items()
                  for value in (values if isinstance(values, list) else [values])]
        status, headers, body = self.request(*form([("model", "whisper-1"), *listed], file))
        self.assertEqual(status, 200, body)
        return headers.get_content_type(), body

    def assert_error(self, answer, status, code, param):
        self.assertEqual(answer[0], status, answer[2])
        self.assertEqual(answer[1].get_content_type(), "application/json")
        error = json.loads(answer[2])["error"]
        self.assertEqual((error["code"], error["param"]), (code, param))
        self.assertTrue(error["message"] and error["type"])
        return error

    def test_transcribes_as_the_command_line_does(self):
        for clip in CLIPS:
            with self.subTest(clip=clip.name):
                _, body = self.transcribe(clip.read_bytes())
                expected = self.expected[str(clip)]
                self.assertEqual(letters(json.loads(body)["text"]), letters(expected["text"]))
                self.assertTrue(expected["text"])

    def test_tells_segments_and_words(self):
        clip = CLIPS[1]
        _, body = self.transcribe(clip.read_bytes(), response_format="verbose_json", language="en",
                                  **{"timestamp_granularities[]": ["segment", "word"]})
        answer = json.loads(body)
        expected = self.expected[str(clip)]
        self.assertEqual(answer["task"], "transcribe")
        self.assertEqual(answer["language"], "en")
        self.assertAlmostEqual(answer["duration"], expected["audio_seconds"], places=2)
        self.assertEqual(" ".join(segment["text"] for segment in answer["segments"]), answer["text"])
        self.assertEqual([segment["id"] for segment in answer["segments"]], list(range(len(answer["segments"]))))
        self.assertEqual(" ".join(word["word"] for word in answer["words"]), answer["text"])
        times = [time for word in answer["words"] for time in (word["start"], word["end"])]
        self.assertEqual(times, sorted(times))
        for segment in answer["segments"]:
            self.assertLess(segment["start"], segment["end"])
            self.assertLessEqual(segment["end"], answer["duration"] + 0.1)
        _, without = self.transcribe(clip.read_bytes(), response_format="verbose_json")
        self.assertNotIn("words", json.loads(without))

    def test_writes_text_and_subtitles(self):
        file = CLIPS[0].read_bytes()
        text = json.loads(self.transcribe(file)[1])["text"]
        self.assertEqual(self.transcribe(file, response_format="text"), ("text/plain", text + "\n"))
        kind, srt = self.transcribe(file, response_format="srt")
        self.assertEqual(kind, "text/plain")
        cues = re.findall(r"(\d+)\n(\d\d:\d\d:\d\d,\d{3}) --> (\d\d:\d\d:\d\d,\d{3})\n(.+)\n\n", srt)
        self.assertEqual(" ".join(cue[3] for cue in cues), text)
        kind, vtt = self.transcribe(file, response_format="vtt")
        self.assertEqual(kind, "text/vtt")
        self.assertEqual(vtt, "WEBVTT\n\n" + "".join(
            f"{start} --> {end}\n{line}\n\n".replace(",", ".") for _, start, end, line in cues))

    def test_streams_events(self):
        # Two clips with a pause between them are two segments.
        joined = wav_of(decode(CLIPS[0]) + b"\0\0" * 48000 + decode(CLIPS[1]))
        kind, body = self.transcribe(joined, stream="true")
        self.assertEqual(kind, "text/event-stream")
        events = [json.loads(line.removeprefix("data: ")) for line in body.split("\n\n") if line]
        self.assertEqual(events[-1]["type"], "transcript.text.done")
        self.assertEqual({event["type"] for event in events[:-1]}, {"transcript.text.delta"})
        self.assertGreater(len(events), 2)
        self.assertEqual("".join(event["delta"] for event in events[:-1]), events[-1]["text"])
        self.assertEqual(json.loads(self.transcribe(joined)[1])["text"], events[-1]["text"])

    def test_reads_a_bare_file(self):
        clip = CLIPS[0]
        for content_type in ("audio/flac", "application/octet-stream"):
            status, headers, body = self.request(clip.read_bytes(), content_type, "?response_format=text&model=x")
            self.assertEqual((status, headers.get_content_type()), (200, "text/plain"))
            self.assertEqual(letters(body.strip()), letters(self.expected[str(clip)]["text"]))
        # urllib says application/x-www-form-urlencoded unless it is told better.
        request = urllib.request.Request(f"http://{self.server.address}{PATH}", clip.read_bytes(), {"Content-Type": "audio/x-flac"})
        with urllib.request.urlopen(request, timeout=60) as response:
            self.assertIn("text", json.load(response))

    def test_reads_wav_as_it_reads_flac(self):
        for clip in CLIPS:
            _, flac = self.transcribe(clip.read_bytes())
            _, wav = self.transcribe(wav_of(decode(clip)))
            self.assertEqual(wav, flac)

    @unittest.skipUnless(shutil.which("ffmpeg"), "ffmpeg makes the files")
    def test_reads_ogg_and_mp3(self):
        for codec, container in (("libvorbis", "ogg"), ("libopus", "ogg"), ("libmp3lame", "mp3")):
            with self.subTest(codec=codec):
                encoded = subprocess.run(["ffmpeg", "-v", "error", "-i", CLIPS[1], "-c:a", codec, "-b:a", "96k", "-f",
                                          container, "-"], capture_output=True, check=True).stdout
                _, body = self.transcribe(encoded, response_format="verbose_json")
                answer = json.loads(body)
                self.assertAlmostEqual(answer["duration"], self.expected[str(CLIPS[1])]["audio_seconds"], delta=0.2)
                self.assertTrue(answer["text"])

    @unittest.skipUnless(shutil.which("curl"), "needs curl")
    def test_answers_curl(self):
        done = subprocess.run(["curl", "-sS", "--fail-with-body", "-F", f"file=@{CLIPS[0]}", "-F", "response_format=text",
                               "-H", "Expect: 100-continue", f"http://{self.server.address}{PATH}"],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(letters(done.stdout.strip()), letters(self.expected[str(CLIPS[0])]["text"]))
        with tempfile.NamedTemporaryFile(suffix=".wav") as large:
            large.truncate(MAX_BYTES + 1)
            done = subprocess.run(["curl", "-sS", "-F", f"file=@{large.name}", f"http://{self.server.address}{PATH}"],
                                  capture_output=True, text=True, timeout=60)
        self.assertEqual(json.loads(done.stdout)["error"]["code"], "upload_too_large", done.stderr)

    def test_keeps_the_connection(self):
        self.transcribe(CLIPS[0].read_bytes())
        socket = self.connection.sock
        self.assert_error(self.request(*form([("model", "x")])), 400, "missing_file", "file")
        self.transcribe(CLIPS[0].read_bytes(), stream="true")
        self.assertIs(self.connection.sock, socket)

    def test_says_what_is_wrong(self):
        file = wav_of_silence(16000)
        self.assert_error(self.request(*form([], b"this is a text", "speech.wav")), 400, "bad_audio_file", "file")
        self.assert_error(self.request(*form([], b"x")), 400, "bad_audio_file", "file")
        self.assert_error(self.request(*form([], b"")), 400, "empty_file", "file")
        self.assert_error(self.request(*form([], wav_of_silence(0))), 400, "empty_audio", "file")
        self.assert_error(self.request(*form([], wav_of_silence(100, 1000))), 400, "bad_sample_rate", "file")
        self.assert_error(self.request(*form([("response_format", "xml")], file)), 400, "invalid_value",
                          "response_format")
        self.assert_error(self.request(b"no form at all", "multipart/form-data; boundary=x"), 400, "bad_multipart", None)
        self.assert_error(self.request(b"{}", "application/json"), 415, "unsupported_media_type", None)
        self.transcribe(file, no_such_field="1", temperature="0", prompt="")

    def test_has_caps(self):
        answer = self.request(*form([], flac_of_silence(8 * 3600)))
        error = self.assert_error(answer, 413, "audio_too_long", "file")
        self.assertIn(str(MAX_SECONDS), error["message"])
        answer = self.request(b"x" * (MAX_BYTES + 1), "audio/wav")
        error = self.assert_error(answer, 413, "upload_too_large", "file")
        self.assertIn(str(MAX_BYTES), error["message"])

    def test_transcribes_several_at_a_time_and_refuses_more(self):
        def one(_):
            connection = http.client.HTTPConnection(self.server.address, timeout=120)
            try:
                connection.request("POST", PATH, wav_of_silence(16000 * 60), {"Content-Type": "audio/wav"})
                response = connection.getresponse()
                return response.status, response.getheader("Retry-After"), response.read()
            finally:
                connection.close()

        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            answers = list(pool.map(one, range(12)))
        self.assertGreaterEqual(sum(answer[0] == 200 for answer in answers), 4)
        for status, retry_after, body in answers:
            self.assertIn(status, (200, 429), body)
            self.assertEqual(status == 429, retry_after is not None)

    def test_stops_for_a_client_that_is_gone(self):
        body = wav_of_silence(16000 * 120)
        self.connection.request("POST", PATH, body, {"Content-Type": "audio/wav"})
        self.connection.close()
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with urllib.request.urlopen(f"http://{self.server.address}/metrics", timeout=30) as response:
                metrics = response.read().decode()
            if 'tutti_uploads_total{outcome="cancelled"}' in metrics and "tutti_open_uploads 0" in metrics:
                return
            time.sleep(0.05)
        self.fail("the upload went on")

    def test_lists_the_model(self):
        with urllib.request.urlopen(f"http://{self.server.address}/v1/models", timeout=30) as response:
            models = json.load(response)
        self.assertEqual(models["object"], "list")
        self.assertEqual([model["id"] for model in models["data"]], [pathlib.Path(MODEL).name])
        self.assertLessEqual(abs(models["data"][0]["created"] - time.time()), 3600)


if __name__ == "__main__":
    unittest.main()
