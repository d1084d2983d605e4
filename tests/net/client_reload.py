"""Drives the real program while its configuration and its model change under it. The environment is that of
tutti_server.py."""
import asyncio
import http.client
import json
import pathlib
import re
import shutil
import signal
import tempfile
import unittest

import websockets

from client_websockets import (
    AsyncTest, Server, load_clips, next_event, receive, recognize, send_audio, send_text, transcript)
from tutti_server import MODEL, PROGRAM, SPEECH

OTHER_MODEL = SPEECH.parent / "conformer-u2pp-tiny"


class ConfiguredServer(Server):
    """`tutti serve --config` with a file that the test writes, and an admin port."""

    def __init__(self, folder, *flags, **options):
        self.file = folder / "tutti.toml"
        self.options = {
            "server.bind": "127.0.0.1:0", "admin.bind": "127.0.0.1:0", "server.model": MODEL,
            "server.latency_target_ms": 0, "engine.decoder": "greedy", "engine.owners": 1}
        self.write(**options)
        self.start([PROGRAM, "serve", "--config", str(self.file), *flags])
        self.admin = self.find_in_log(r"listening on (\S+) for who runs the server")

    def write(self, **changes):
        """Options by name, with __ for the dot; None takes one out."""
        for name, value in changes.items():
            self.options[name.replace("__", ".")] = value
        self.options = {name: value for name, value in self.options.items() if value is not None}
        lines = [f"{name} = {json.dumps(value)}\n" for name, value in self.options.items()]
        self.file.write_text("".join(lines))

    def ask_admin(self, method, path):
        connection = http.client.HTTPConnection(self.admin, timeout=60)
        try:
            connection.request(method, path)
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()

    def reload(self):
        return self.ask_admin("POST", "/admin/reload")

    def metric(self, name):
        found = re.search(rf"^{re.escape(name)} (\S+)$", self.ask_admin("GET", "/metrics")[1], re.MULTILINE)
        return float(found[1]) if found else None

    def model(self):
        return json.loads(self.get("/v1/models")[1])["data"][0]["id"]

    def resident_mib(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024


class ReloadTest(AsyncTest):
    async def asyncSetUp(self):
        await super().asyncSetUp()
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.temporary.name)
        self.servers = []
        self.audio, self.text = next((audio, text) for file, audio, text in load_clips() if file == "ocean-27.flac")

    async def asyncTearDown(self):
        for server in self.servers:
            server.terminate()
            await asyncio.to_thread(server.expect_exit)
        self.temporary.cleanup()

    def serve(self, *flags, **options):
        self.servers.append(ConfiguredServer(self.folder, *flags, **options))
        return self.servers[-1]

    async def reload(self, server, status=200):
        answered, text = await asyncio.to_thread(server.reload)
        self.assertEqual(answered, status, text)
        return text

    async def until(self, condition):
        for _ in range(1200):
            if await asyncio.to_thread(condition):
                return
            await asyncio.sleep(0.05)
        self.fail("it never came true")

    async def begin(self, server):
        """A stream that has sent half of the clip."""
        ws = await server.connect()
        ready = await next_event(ws, "ready")
        await send_audio(ws, self.audio[:self.half()])
        return ws, ready["model"]

    async def end(self, ws):
        receiver = asyncio.create_task(receive(ws))
        await send_audio(ws, self.audio[self.half():])
        await send_text(ws, "eof")
        events = await receiver
        self.assertEqual(ws.close_code, 1000)
        return transcript(events)

    def half(self):
        return len(self.audio) // 4 * 2

    async def test_another_model_is_served_after_a_hangup_while_streams_of_the_first_go_on(self):
        server = self.serve()
        self.assertEqual(server.model(), "tutti-en-mini")
        before, _ = await self.begin(server)
        server.write(server__model=str(OTHER_MODEL))
        server.process.send_signal(signal.SIGHUP)
        line = await asyncio.to_thread(server.find_in_log, "reloaded: (.*)")
        self.assertRegex(line, r"server\.model changed; new streams get the model conformer-u2pp-tiny: .*"
                               r"\(K/V pool: .* blocks .*\), and 1 stream goes on with tutti-en-mini")
        self.assertEqual(server.model(), "conformer-u2pp-tiny")
        self.assertEqual(server.metric('tutti_model_info{model="conformer-u2pp-tiny"}'), 1)
        self.assertEqual(server.metric('tutti_owners{state="retiring"}'), 1)
        after, model = await self.begin(server)
        self.assertEqual(model, "conformer-u2pp-tiny")
        self.assertEqual(await self.end(before), self.text)
        self.assertNotEqual(await self.end(after), self.text)
        await self.until(lambda: server.metric('tutti_owners{state="retiring"}') == 0)
        self.assertIn("an owner that had retired has no streams left", server.read_log())

    async def test_files_that_are_replaced_in_place_are_loaded_and_equal_ones_are_not(self):
        model = self.folder / "model"
        shutil.copytree(MODEL, model)
        server = self.serve(server__model=str(model))
        copy = self.folder / "copy"
        shutil.copytree(MODEL, copy)  # other files, the same contents
        shutil.rmtree(model)
        copy.rename(model)
        self.assertNotIn("new streams get", await self.reload(server))
        shutil.rmtree(model)
        shutil.copytree(OTHER_MODEL, model)
        self.assertIn("the files of the model changed; new streams get the model", await self.reload(server))
        self.assertNotIn("new streams get", await self.reload(server))
        shutil.rmtree(model)
        shutil.copytree(MODEL, model)
        await self.reload(server)
        events, _ = await recognize(server, self.audio)
        self.assertEqual(transcript(events), self.text)

    async def test_what_is_wrong_is_named_and_nothing_changes(self):
        server = self.serve(server__max_sessions=2)
        broken = self.folder / "broken"
        shutil.copytree(MODEL, broken)
        (broken / "final.pt").write_bytes((broken / "final.pt").read_bytes()[:100000])
        for changes, expected in (
                ({"server__max_sessions": 0}, r"server\.max_sessions = 0 \(from .*tutti\.toml:7\): expected a whole "
                                              r"number from 1 to 1000000"),
                ({"server__max_session": 3}, r"unknown key; the nearest is server\.max_sessions"),
                ({"server__max_sessions": 3, "server__api_keys_file": "/nowhere/keys"}, "/nowhere/keys"),
                ({"server__max_sessions": 3, "server__trusted_proxies": ["x"]}, r"server\.trusted_proxies: "),
                ({"server__max_sessions": 3, "server__model": "/nowhere"}, "/nowhere: no such directory"),
                ({"server__max_sessions": 3, "server__model": str(broken)}, r"broken/final\.pt"),
                ({"server__max_sessions": 3, "engine__decoder": "rescore"}, "no attention decoder"),
                ({"server__max_sessions": 3, "engine__chunk_size": 64}, "credit_ms is 4000, but must be 5121 to ")):
            kept = dict(server.options)
            server.write(**changes)
            self.assertRegex(await self.reload(server, 409), expected)
            server.options = kept
        self.assertEqual(server.metric('tutti_reloads_total{outcome="refused"}'), 8)
        self.assertEqual(server.model(), "tutti-en-mini")
        first, _ = await self.begin(server)
        second, _ = await self.begin(server)
        with self.assertRaises(websockets.InvalidStatusCode) as refused:
            await self.begin(server)
        self.assertEqual(refused.exception.status_code, 503)
        self.assertEqual(await self.end(first), self.text)
        self.assertEqual(await self.end(second), self.text)

    async def test_limits_hold_for_what_begins_then_and_what_needs_a_restart_is_named(self):
        server = self.serve(server__max_sessions=1, server__log_level="info")
        before, _ = await self.begin(server)
        server.write(server__max_sessions=2, server__log_level="warn", server__bind="127.0.0.1:1", engine__owners=2)
        line = await self.reload(server)
        self.assertEqual(line, "keys were read again; server.max_sessions and server.log_level changed; "
                               "server.bind and engine.owners will change with a restart\n")
        after, model = await self.begin(server)
        self.assertEqual(model, "tutti-en-mini")
        self.assertEqual(await self.end(before), self.text)
        self.assertEqual(await self.end(after), self.text)
        # They are still not what the file says.
        self.assertIn("server.bind and engine.owners will change with a restart", await self.reload(server))

    async def test_flags_win_over_the_file_as_they_did_at_the_start(self):
        server = self.serve("--max-sessions", "5", server__max_sessions=2)
        server.write(server__max_sessions=3)
        self.assertEqual(await self.reload(server), "keys were read again\n")

    async def test_a_model_that_does_not_fit_beside_the_other_is_refused_with_the_arithmetic(self):
        server = self.serve(engine__max_streams=256, server__snapshot_ms=0)
        engine = re.search(r"K/V pool: .*?, ([\d.]+) MiB: .* - ([\d.]+) MiB of activations", server.read_log())
        # Room for one engine and the program, not for two engines.
        budget = int(float(engine[1]) + float(engine[2]) + 100)
        server = self.serve(engine__max_streams=256, server__snapshot_ms=0, engine__memory_budget_mib=budget)
        before, _ = await self.begin(server)
        server.write(engine__max_batch_size=8)
        why = await self.reload(server, 409)
        self.assertRegex(why, rf"the K/V pool does not fit: 256 streams times 6 blocks need .*"
                              rf"engine\.memory_budget_mib {budget}\.0 MiB x 1\.00 - [\d.]+ MiB resident.*"
                              r"raise engine\.memory_budget_mib to \d+ MiB")
        self.assertEqual(await self.end(before), self.text)
        self.assertEqual(server.metric('tutti_owners{state="alive"}'), 1)
        enough = int(re.search(r"raise engine\.memory_budget_mib to (\d+) MiB", why)[1]) + 20
        server.write(engine__memory_budget_mib=enough)
        self.assertIn("engine.max_batch_size and engine.memory_budget_mib changed", await self.reload(server))
        events, _ = await recognize(server, self.audio)
        self.assertEqual(transcript(events), self.text)

    async def test_with_unlimited_history_the_second_pool_has_to_be_as_large_as_the_first(self):
        server = self.serve(engine__num_left_chunks=-1, engine__memory_budget_mib=600)
        server.write(engine__beam=5)  # the first has all of the budget
        self.assertRegex(await self.reload(server, 409), r"not fit: .*engine\.memory_budget_mib 600\.0 MiB x 1\.00 - ")
        server = self.serve(engine__num_left_chunks=-1, engine__max_blocks_per_seq=8)
        server.write(engine__beam=5, engine__max_blocks_per_seq=16)
        self.assertRegex(await self.reload(server), r"engine\.max_blocks_per_seq and engine\.beam changed; "
                                                    r".*K/V pool: 512 blocks of ")

    async def test_memory_is_given_back_when_the_streams_of_a_model_have_ended(self):
        server = self.serve(engine__max_streams=256)
        await recognize(server, self.audio)
        before = server.resident_mib()
        for lanes in (8, 12, 8, 16):
            ws, _ = await self.begin(server)
            server.write(engine__max_batch_size=lanes)
            await self.reload(server)
            self.assertGreater(server.resident_mib(), before + 150, "there are not two pools")
            await self.end(ws)
            await self.until(lambda: server.metric('tutti_owners{state="retiring"}') == 0)
            await self.until(lambda: server.resident_mib() < before + 25)

    async def test_a_reload_at_a_time_is_answered_and_the_others_are_told(self):
        server = self.serve()
        before, _ = await self.begin(server)
        server.write(engine__weights="int8")
        answers = await asyncio.gather(*(asyncio.to_thread(server.reload) for _ in range(6)))
        done = [text for status, text in answers if status == 200]
        self.assertEqual(sum("engine.weights changed" in text for text in done), 1)
        for status, text in answers:
            self.assertIn(status, (200, 409))
            self.assertTrue(status == 200 or "reload_under_way" in text, text)
        self.assertEqual(await self.end(before), self.text)

    async def test_a_stop_is_heeded_while_a_model_is_loaded(self):
        server = self.serve()
        server.write(engine__weights="bf16")
        server.process.send_signal(signal.SIGHUP)
        server.process.send_signal(signal.SIGTERM)  # the end of the test waits for the exit


if __name__ == "__main__":
    unittest.main(verbosity=2)
