"""Drives the real program over TLS and with API keys. The environment is that of tutti_server.py."""
import asyncio
import http.client
import os
import pathlib
import ssl
import subprocess
import tempfile
import unittest

import websockets

from client_websockets import (
    ONE_SEGMENT, AsyncTest, Server, load_clips, next_event, receive, send_audio, send_text, transcript)
from tutti_server import PROGRAM, SPEECH


def run(*arguments):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=120)


def make_certificate(folder):
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
         "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-out", certificate, "-keyout", key],
        check=True, capture_output=True,
    )
    return certificate, key


class Secured:
    """A folder with a certificate, a key file, and the one key that is in it."""

    def __init__(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.temporary.name)
        self.certificate, self.certificate_key = make_certificate(self.folder)
        made = run("keygen", "alice")
        self.keys = self.folder / "keys.toml"
        self.keys.write_text(made.stdout)
        self.key = made.stderr.split()[-1]
        self.options = ("--tls-certificate", self.certificate, "--tls-key", self.certificate_key,
                        "--api-keys-file", self.keys)


class SecureTest(AsyncTest):
    @classmethod
    def setUpClass(cls):
        cls.secured = Secured()
        cls.server = Server(*cls.secured.options)
        cls.context = ssl.create_default_context(cafile=cls.secured.certificate)
        cls.audio, cls.text = next((audio, text) for file, audio, text in load_clips() if file == "ocean-27.flac")

    @classmethod
    def tearDownClass(cls):
        cls.server.terminate()
        cls.server.expect_exit()
        cls.secured.temporary.cleanup()

    def test_the_command_line_client_checks_whom_it_talks_to(self):
        clip = str(SPEECH / "ocean-27.flac")
        listen = ("listen", f"wss://{self.server.address}", clip, "--fast", "--api-key", self.secured.key)
        done = run(*listen, "--ca-file", self.secured.certificate)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(" ".join(done.stdout.split()), self.text)
        stranger = run(*listen)
        self.assertEqual((stranger.returncode, stranger.stdout), (1, ""))
        self.assertIn("certificate verify failed", stranger.stderr)

    def connect(self, **options):
        return websockets.connect(
            f"wss://{self.server.address}/v1/stream?{ONE_SEGMENT}", ssl=self.context, open_timeout=60, **options)

    def get(self, path, headers):
        connection = http.client.HTTPSConnection(self.server.address, timeout=30, context=self.context)
        try:
            connection.request("GET", path, headers=headers)
            return connection.getresponse().status
        finally:
            connection.close()

    async def recognize(self, **options):
        async with self.connect(**options) as ws:
            receiver = asyncio.create_task(receive(ws))
            await send_audio(ws, self.audio)
            await send_text(ws, "eof")
            events = await receiver
        self.assertEqual(ws.close_code, 1000)
        self.assertEqual(transcript(events), self.text)
        return ws

    async def test_many_clients_get_their_transcripts_over_tls(self):
        bearer = {"extra_headers": {"Authorization": f"Bearer {self.secured.key}"}}
        await asyncio.gather(*(self.recognize(**bearer) for _ in range(8)))

    async def test_the_key_may_be_a_header_or_a_subprotocol(self):
        await self.recognize(extra_headers={"X-API-KEY": self.secured.key})
        ws = await self.recognize(subprotocols=["token", self.secured.key])
        self.assertEqual(ws.subprotocol, "token")

    async def test_another_key_or_none_is_refused_before_the_upgrade(self):
        for headers in ({}, {"Authorization": "Bearer tutti_0"}):
            with self.assertRaises(websockets.InvalidStatusCode) as refused:
                await self.connect(extra_headers=headers)
            self.assertEqual(refused.exception.status_code, 401)

    async def test_the_log_names_the_key_and_never_shows_it(self):
        await self.recognize(extra_headers={"Authorization": f"Token {self.secured.key}"})
        log = self.server.read_log()
        self.assertRegex(log, "opened with the key of alice")
        self.assertNotIn(self.secured.key.removeprefix("tutti_"), log)

    async def test_metrics_need_a_key_and_health_does_not(self):
        self.assertEqual(self.get("/metrics", {}), 401)
        self.assertEqual(self.get("/metrics", {"X-API-KEY": self.secured.key}), 200)
        self.assertEqual(self.get("/healthz", {}), 200)
        self.assertEqual(self.get("/readyz", {}), 200)

    def test_replies_over_tls_are_strict(self):
        connection = http.client.HTTPSConnection(self.server.address, timeout=30, context=self.context)
        self.addCleanup(connection.close)
        for path in ("/", "/monitor", "/assets/captions.mjs"):
            connection.request("GET", path)
            reply = connection.getresponse()
            reply.read()
            self.assertEqual(reply.status, 200, path)
            self.assertEqual(reply.headers["Strict-Transport-Security"], "max-age=2592000", path)
            self.assertEqual(reply.headers["X-Content-Type-Options"], "nosniff", path)
            self.assertIn("default-src 'none'", reply.headers["Content-Security-Policy"], path)

    async def test_a_plain_client_is_told_to_use_tls(self):
        status, body = self.server.get("/healthz")
        self.assertEqual(status, 400)
        self.assertIn("this port speaks TLS", body)

    async def test_a_client_that_goes_without_a_goodbye_frees_its_stream(self):
        ws = await self.connect(extra_headers={"X-API-KEY": self.secured.key})
        await next_event(ws, "ready")
        ws.transport.abort()
        await self.recognize(extra_headers={"X-API-KEY": self.secured.key})


class CheckTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.secured = Secured()

    @classmethod
    def tearDownClass(cls):
        cls.secured.temporary.cleanup()

    def check(self, *options):
        return run("serve", "--check", "--model", os.environ["TEST_MODEL"], *options)

    def test_tells_what_would_run(self):
        checked = self.check("--bind", "0.0.0.0:8080", *self.secured.options)
        self.assertEqual(checked.returncode, 0, checked.stdout)
        parts = [line.split()[0] for line in checked.stdout.splitlines()]
        self.assertEqual(parts, ["devices", "listen", "callback", "cluster", "model", "engine"])
        self.assertRegex(checked.stdout, r"0\.0\.0\.0:8080 with TLS \(CN=127\.0\.0\.1, valid until .*\), for 1 API key\n")

    def test_tells_everything_that_is_wrong(self):
        checked = run("serve", "--check", "--model", str(SPEECH), "--api-keys-file", "/nowhere/keys.toml",
                      "--callback-url", "https://example.org/", "--callback-secret-file", "/nowhere/secret")
        self.assertEqual(checked.returncode, 1)
        self.assertRegex(checked.stdout, "listen +FAILED: .*/nowhere/keys.toml")
        self.assertRegex(checked.stdout, "callback +FAILED: .*/nowhere/secret")
        self.assertRegex(checked.stdout, "model +FAILED: ")

    def test_refuses_an_engine_that_does_not_fit(self):
        checked = self.check("--max-num-blocks", "1")
        self.assertEqual(checked.returncode, 1)
        self.assertRegex(checked.stdout, "engine +FAILED: .*max_num_blocks = 1")

    def test_an_open_server_has_to_be_asked_for(self):
        refused = run("serve", "--bind", "0.0.0.0:0", "--model", os.environ["TEST_MODEL"])
        self.assertEqual(refused.returncode, 1)
        self.assertRegex(refused.stderr, "--api-keys-file.*--bind 127.0.0.1:0.*--insecure")
        self.assertEqual(self.check("--bind", "0.0.0.0:0", "--insecure").returncode, 0)

    def test_keygen_refuses_a_name_that_would_not_load(self):
        refused = run("keygen", "a b")
        self.assertEqual((refused.returncode, refused.stdout), (1, ""))
        self.assertIn('"a b" is no name', refused.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
