"""Drives the real program as clients with tokens and limited keys do, and as who runs it does. The environment is that
of tutti_server.py."""
import asyncio
import base64
import hashlib
import hmac
import http.client
import json
import pathlib
import shutil
import signal
import ssl
import subprocess
import tempfile
import time
import unittest

import websockets

from client_secure import make_certificate, run
from client_websockets import (
    ONE_SEGMENT, AsyncTest, Server, load_clips, next_event, receive, send_audio, send_text, transcript)


def base64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def sign(algorithm, signer, **claims):
    """A token made without a library."""
    everything = {"sub": "alice", "aud": "tutti", "exp": int(time.time()) + 300, **claims}
    text = ".".join(base64url(json.dumps(part).encode()) for part in ({"alg": algorithm}, everything))
    return f"{text}.{base64url(signer(text.encode()))}"


def with_openssl(key):
    """The signature of RS256."""
    def signer(text):
        return subprocess.run(["openssl", "dgst", "-sha256", "-sign", key], input=text, check=True,
                              capture_output=True).stdout
    return signer


def with_secret(secret):
    """The signature of HS256."""
    return lambda text: hmac.new(secret, text, hashlib.sha256).digest()


def make_key(*options):
    made = run("keygen", *options)
    return made.stdout, made.stderr.split()[-1]


class TokenTest(AsyncTest):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        folder = pathlib.Path(cls.temporary.name)
        cls.private, cls.public, keys = folder / "private.pem", folder / "public.pem", folder / "keys.toml"
        subprocess.run(["openssl", "genrsa", "-out", cls.private, "2048"], check=True, capture_output=True)
        subprocess.run(["openssl", "rsa", "-in", cls.private, "-pubout", "-out", cls.public], check=True,
                       capture_output=True)
        line, cls.key = make_key("bob")
        limited_line, cls.limited = make_key("carol", "--allow", "stream,metrics", "--max-streams", "1")
        keys.write_text(line + limited_line)
        cls.server = Server("--jwt-keys-file", cls.public, "--api-keys-file", keys, "--log-level", "trace")
        cls.audio, cls.text = next((audio, text) for file, audio, text in load_clips() if file == "ocean-27.flac")

    @classmethod
    def tearDownClass(cls):
        cls.server.terminate()
        cls.server.expect_exit()
        cls.temporary.cleanup()

    def token(self, **claims):
        return sign("RS256", with_openssl(self.private), **claims)

    def connect(self, key, path="/v1/stream?" + ONE_SEGMENT, **options):
        return self.server.connect_to(path, extra_headers={"Authorization": f"Bearer {key}"}, **options)

    async def expect_refusal(self, key, status, path="/v1/stream"):
        with self.assertRaises(websockets.InvalidStatusCode) as refused:
            await self.connect(key, path)
        self.assertEqual(refused.exception.status_code, status)

    async def recognize(self, connection):
        async with connection as ws:
            receiver = asyncio.create_task(receive(ws))
            await send_audio(ws, self.audio)
            await send_text(ws, "eof")
            self.assertEqual(transcript(await receiver), self.text)
        return ws

    async def test_a_token_is_taken_wherever_a_key_is(self):
        await self.recognize(self.connect(self.token()))
        await self.recognize(self.connect(self.key))
        ws = await self.recognize(self.server.connect_to("/v1/stream?" + ONE_SEGMENT,
                                                         subprotocols=["token", self.token()]))
        self.assertEqual(ws.subprotocol, "token")
        self.assertRegex(self.server.read_log(), "opened with the key of jwt:alice from 127.0.0.1")

    async def test_a_token_that_says_too_little_or_was_made_by_others_is_refused(self):
        await self.expect_refusal(self.token(exp=int(time.time()) - 60), 401)
        await self.expect_refusal(self.token(aud="other"), 401)
        await self.expect_refusal(self.token(scope="metrics"), 403)
        # The key that everybody may know, taken for a secret.
        await self.expect_refusal(sign("HS256", with_secret(self.public.read_bytes())), 401)
        await self.expect_refusal(sign("none", lambda text: b""), 401)

    async def test_a_limited_key_has_as_many_streams_as_it_may_in_every_dialect(self):
        async with self.connect(self.limited) as first:
            await next_event(first, "ready")
            for path in ("/v1/stream", "/vosk", "/wenet", "/sherpa", "/v1/listen", "/v1/realtime", "/twilio"):
                await self.expect_refusal(self.limited, 429, path)
        await self.expect_refusal(self.limited, 403, "/v1/streams/some/events")

    async def test_the_log_has_neither_text_nor_what_clients_write_into_it(self):
        name = "call\n2026-01-01T00:00:00.000 error forged"
        async with self.connect(self.key, "/listen", subprotocols=["audio.jambonz.org"]) as ws:
            await ws.send(json.dumps({"callSid": name, "sampleRate": 16000, "mixType": "mono"}))
            await send_audio(ws, self.audio)
            await send_audio(ws, bytes(64000))
            while True:
                event = json.loads(await asyncio.wait_for(ws.recv(), 60))["data"]
                if event["type"] == "final" and event["text"]:
                    break
        log = self.server.read_log()
        self.assertIn("is call 2026-01-01T00:00:00.000 error forged\n", log)
        self.assertNotIn("\n2026-01-01", log)
        for word in self.text.split():
            self.assertNotIn(word, log)
        self.assertNotIn(self.key, log)


class JsonLogTest(AsyncTest):
    async def test_every_line_of_a_log_in_json_is_an_object(self):
        server = Server("--owners", "1", "--max-streams", "1", "--log-format", "json")
        async with server.connect() as ws:
            session = (await next_event(ws, "ready"))["session"]
        server.terminate()
        server.process.wait(timeout=60)
        lines = [json.loads(line) for line in server.read_log().splitlines()]
        server.expect_exit()
        for line in lines:
            self.assertRegex(line["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
            self.assertIn(line["level"], ("info", "warning"), line)
            self.assertTrue(line["message"])
        about = [line for line in lines if line.get("session") == session]
        self.assertEqual([line["dialect"] for line in about], ["native", "native"])
        self.assertEqual(about[0]["track"], "0")
        self.assertEqual(about[0]["message"], "opened from 127.0.0.1")
        self.assertEqual((about[1]["reason"], about[1]["message"]), ("client_left", "closed"))


class AdminTest(AsyncTest):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)
        cls.certificate, cls.certificate_key = make_certificate(cls.folder)
        cls.first_certificate = cls.certificate.read_text()
        cls.first_key = cls.certificate_key.read_text()
        cls.keys = cls.folder / "keys.toml"
        line, cls.key = make_key("alice")
        admin_line, cls.admin_key = make_key("operator", "--allow", "admin")
        cls.keys.write_text(line + admin_line)
        cls.server = Server("--tls-certificate", cls.certificate, "--tls-key", cls.certificate_key,
                            "--api-keys-file", cls.keys, "--admin-bind", "127.0.0.1:0")
        cls.admin = cls.server.find_in_log(r"listening on (\S+) for who runs the server")
        cls.audio, cls.text = next((audio, text) for file, audio, text in load_clips() if file == "ocean-27.flac")

    @classmethod
    def tearDownClass(cls):
        cls.server.terminate()
        cls.server.expect_exit()
        cls.temporary.cleanup()

    def shown_certificate(self):
        host, port = self.server.address.split(":")
        return ssl.get_server_certificate((host, int(port)))

    def reload(self):
        connection = http.client.HTTPSConnection(self.admin, timeout=30, context=ssl._create_unverified_context())
        try:
            connection.request("POST", "/admin/reload", headers={"X-API-KEY": self.admin_key})
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()

    async def until(self, condition):
        for _ in range(600):
            if await asyncio.to_thread(condition):
                return
            await asyncio.sleep(0.05)
        self.fail("it never came true")

    async def test_certificate_and_keys_are_replaced_under_a_running_stream(self):
        context = ssl.create_default_context(cafile=self.certificate)
        async with websockets.connect(f"wss://{self.server.address}/v1/stream?{ONE_SEGMENT}", ssl=context,
                                      extra_headers={"X-API-KEY": self.key}, open_timeout=60) as ws:
            receiver = asyncio.create_task(receive(ws))
            half = len(self.audio) // 4 * 2
            await send_audio(ws, self.audio[:half])

            renewed = self.folder / "renewed"
            renewed.mkdir()
            certificate, key = make_certificate(renewed)
            shutil.copy(certificate, self.certificate)
            # Half of the pair: all stays as it was.
            status, why = await asyncio.to_thread(self.reload)
            self.assertEqual(status, 409)
            self.assertIn("is not the key of the certificate", why)
            self.assertEqual(await asyncio.to_thread(self.shown_certificate), self.first_certificate)

            shutil.copy(key, self.certificate_key)
            status, done = await asyncio.to_thread(self.reload)
            self.assertEqual(status, 200, done)
            await self.until(lambda: self.shown_certificate() == certificate.read_text())

            # As an administrator without an admin key would.
            self.certificate.write_text(self.first_certificate)
            self.certificate_key.write_text(self.first_key)
            self.server.process.send_signal(signal.SIGHUP)
            await self.until(lambda: self.shown_certificate() == self.first_certificate)

            await send_audio(ws, self.audio[half:])
            await send_text(ws, "eof")
            self.assertEqual(transcript(await receiver), self.text)
        self.assertEqual(ws.close_code, 1000)

    async def test_old_versions_of_tls_are_refused(self):
        def connect(version):
            return subprocess.run(["openssl", "s_client", "-connect", self.server.address, version, "-cipher",
                                   "DEFAULT:@SECLEVEL=0"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  timeout=60)
        old = await asyncio.to_thread(connect, "-tls1_1")
        self.assertNotEqual(old.returncode, 0)
        self.assertIn("alert protocol version", old.stderr)
        self.assertEqual((await asyncio.to_thread(connect, "-tls1_2")).returncode, 0)


class LimitTest(AsyncTest):
    async def test_a_stream_that_is_open_for_too_long_ends_with_its_last_result(self):
        server = Server("--max-stream-s", "3")
        audio, text = next((audio, text) for file, audio, text in load_clips() if file == "ocean-27.flac")
        async with server.connect() as ws:
            await send_audio(ws, audio)
            events = await receive(ws)
        self.assertEqual(transcript(events), text)
        self.assertEqual(events[-1]["type"], "done")
        self.assertEqual((ws.close_code, ws.close_reason), (1008, "a session may be open for 3 s; begin another one"))
        server.terminate()
        server.expect_exit()


if __name__ == "__main__":
    unittest.main(verbosity=2)
