"""What the real program posts to a service that is told of results. The environment is that of tutti_server.py."""
import hashlib
import hmac
import http.server
import json
import pathlib
import re
import ssl
import subprocess
import tempfile
import threading
import time
import unittest

import websockets

from client_subscribers import Call, texts_by_track
from client_websockets import AsyncTest, Server, finals, load_clips, recognize

SECRET = "0123456789abcdef0123456789abcdef"
PATIENCE = 30


class Service:
    """Takes posts. `answers` are the statuses of the first ones; then it is 200."""

    def __init__(self, answers=(), certificate=None, delay=0):
        self.answers, self.delay = list(answers), delay
        self.posts, self.ids, self.connections = [], [], 0
        service = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self):
                super().setup()
                service.connections += 1

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                service.ids.append(self.headers["Tutti-Delivery"])
                time.sleep(service.delay)
                status = service.answers.pop(0) if service.answers else 200
                if status == 200:
                    service.posts.append((self.path, dict(self.headers), body))
                self.send_response(status)
                if status in (301, 307):
                    self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        scheme = "http"
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
            scheme = "https"
        self.url = f"{scheme}://localhost:{self.server.server_address[1]}/results?a=b"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def messages(self):
        return [json.loads(body) for _, _, body in self.posts]

    def wait_for(self, condition):
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, self.messages()
            time.sleep(0.02)


class CallbackTest(AsyncTest):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.secret = pathlib.Path(cls.folder.name) / "secret"
        cls.secret.write_text(SECRET + "\n")
        clips = {file: audio for file, audio, _ in load_clips()}
        cls.audio = {"inbound": clips["libri-06.flac"], "outbound": clips["ocean-27.flac"]}

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def serve(self, service, *options, networks="127.0.0.0/8,::1"):
        self.addCleanup(service.close)
        private = ("--callback-private-networks", networks) if networks else ()
        server = Server(
            "--callback-url", service.url, "--callback-secret-file", str(self.secret), *private, *options)
        self.addCleanup(server.process.kill)
        return server

    async def call(self, server, sid="MZ1"):
        async with websockets.connect(f"ws://{server.address}/twilio", max_size=None) as ws:
            call = Call(ws, sid)
            await call.start()
            await call.speak(self.audio)
            await call.stop()

    def finish(self, server):
        server.terminate()
        server.expect_exit()

    def certificate(self, name):
        path = pathlib.Path(self.folder.name) / f"{name}.pem"
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1",
             "-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}", "-keyout", str(path) + ".key",
             "-out", str(path)], check=True, capture_output=True)
        both = pathlib.Path(str(path) + ".both")
        both.write_text(path.read_text() + pathlib.Path(str(path) + ".key").read_text())
        return str(path), str(both)

    async def test_a_call_is_posted_in_order_on_one_connection_and_signed(self):
        service = Service()
        server = self.serve(service)
        await self.call(server)
        service.wait_for(lambda: any(m["event"]["type"] == "end" for m in service.messages()))
        messages = service.messages()
        expected = {}
        for track, audio in self.audio.items():
            events, _ = await recognize(server, audio, "")
            expected[track] = [(e["segment"], e["text"], e["start"], e["end"]) for e in finals(events)]
        self.assertEqual(texts_by_track([m["event"] for m in messages]), expected)
        self.assertEqual([m["number"] for m in messages], list(range(1, len(messages) + 1)))
        self.assertEqual({m["dialect"] for m in messages}, {"twilio"})
        self.assertEqual(messages[0]["names"], ["MZ1", "CAMZ1"])
        self.assertEqual(service.connections, 1)
        for path, headers, body in service.posts:
            self.assertEqual(path, "/results?a=b")
            self.assertEqual(headers["Content-Type"], "application/json")
            at, signature = re.fullmatch(r"t=(\d+),v1=([0-9a-f]{64})", headers["Tutti-Signature"]).groups()
            self.assertLess(abs(int(at) - time.time()), 60)
            self.assertEqual(
                signature, hmac.new(SECRET.encode(), at.encode() + b"." + body, hashlib.sha256).hexdigest())
            message = json.loads(body)
            self.assertEqual(headers["Tutti-Delivery"], f"{message['session']}:{message['number']}")
        # The native sessions above read their own results.
        self.assertEqual(server.metric("tutti_callback_delivered_total"), len(messages))
        self.finish(server)

    async def test_all_sessions_are_posted_where_it_is_asked_for(self):
        service = Service()
        server = self.serve(service, "--callback-sessions", "all")
        events, _ = await recognize(server, self.audio["outbound"])
        service.wait_for(lambda: len(service.posts) == 3)
        self.assertEqual([m["event"]["type"] for m in service.messages()], ["final", "done", "end"])
        self.assertEqual(service.messages()[0]["event"]["text"], finals(events)[0]["text"])
        self.finish(server)

    async def test_what_fails_for_the_moment_is_tried_again(self):
        service = Service(answers=[500, 429])
        server = self.serve(service)
        await self.call(server)
        service.wait_for(lambda: any(m["event"]["type"] == "end" for m in service.messages()))
        self.assertEqual(len(set(service.ids[:3])), 1)
        self.assertEqual(server.metric("tutti_callback_retries_total"), 2)
        self.assertEqual(server.metric("tutti_callback_failed_total"), 0)
        self.finish(server)

    async def test_a_redirect_is_not_followed(self):
        service = Service(answers=[307])
        server = self.serve(service)
        await self.call(server)
        service.wait_for(lambda: any(m["event"]["type"] == "end" for m in service.messages()))
        self.assertNotIn("/elsewhere", [path for path, _, _ in service.posts])
        self.assertEqual(server.metric("tutti_callback_failed_total"), 1)
        self.assertEqual(len(set(service.ids)), len(service.ids))
        self.finish(server)

    async def test_a_private_address_is_called_only_when_it_is_listed(self):
        service = Service()
        server = self.serve(service, "--callback-attempts", "1", networks="10.0.0.0/8")
        await self.call(server)
        service.wait_for(lambda: server.metric("tutti_callback_failed_total") > 0)
        self.assertEqual((service.connections, server.metric("tutti_callback_connections_total")), (0, 0))
        self.finish(server)

    async def test_a_certificate_is_checked(self):
        right, right_both = self.certificate("localhost")
        _, wrong_both = self.certificate("example.org")
        cases = [(right_both, right, True), (right_both, None, False), (wrong_both, right, False)]
        for served, trusted, accepted in cases:
            service = Service(certificate=served)
            options = ("--callback-ca-file", trusted) if trusted else ()
            server = self.serve(service, "--callback-attempts", "1", *options)
            await self.call(server)
            outcome = "delivered" if accepted else "failed"
            service.wait_for(lambda: server.metric(f"tutti_callback_{outcome}_total") > 0)
            self.assertEqual(bool(service.posts), accepted)
            self.finish(server)

    async def test_a_slow_service_holds_up_no_stream_nor_the_end(self):
        service = Service(delay=PATIENCE)
        server = self.serve(service, "--callback-max-queued", "1", "--callback-timeout-s", "1")
        await self.call(server)
        events, code = await recognize(server, self.audio["outbound"])
        self.assertEqual((code, bool(finals(events))), (1000, True))
        service.wait_for(lambda: server.metric("tutti_callback_dropped_total") > 0)
        before = time.monotonic()
        server.terminate()
        server.process.wait(timeout=PATIENCE)
        self.assertLess(time.monotonic() - before, PATIENCE / 2)
        log = server.read_log()
        self.assertIn("callback: 1 messages wait; what comes now is dropped", log)
        self.assertIn("are dropped with the end", log)
        self.assertEqual(server.process.returncode, 0)

    async def test_the_last_words_are_posted_before_the_server_is_gone(self):
        service = Service(delay=0.1)
        server = self.serve(service)
        async with websockets.connect(f"ws://{server.address}/twilio", max_size=None) as ws:
            call = Call(ws, "MZ1")
            await call.start()
            await call.speak(self.audio)
            while server.metric("tutti_audio_seconds_total") < 1:
                time.sleep(0.02)
            self.finish(server)
        self.assertEqual(service.messages()[-1]["event"]["type"], "end")
        self.assertEqual(sorted(m["event"]["track"] for m in service.messages() if m["event"]["type"] == "done"),
                         ["inbound", "outbound"])

    def test_a_configuration_without_a_secret_is_refused(self):
        for options, why in (
                ((), "callback.url needs callback.secret_file"),
                (("--callback-secret-file", "/dev/null"), "a secret has at least 16 bytes"),
                (("--callback-secret-file", str(self.secret), "--callback-private-networks", "here"), "no range")):
            with self.assertRaises(AssertionError) as refusal:
                Server("--callback-url", "https://example.org/", *options)
            self.assertIn(why, str(refusal.exception))


if __name__ == "__main__":
    unittest.main(verbosity=2)
