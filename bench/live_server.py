"""A server of this build and what it takes of the machine, for the programs of this folder.

They run the release build of this tree, unless the environment that tests/net/tutti_server.py describes says otherwise.
"""
import asyncio
import os
import pathlib
import re
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
for name, where in (
    ("TEST_PROGRAM", "build/release/bin/tutti"),
    ("TEST_CLIP_TO_PCM", "build/release/bin/clip_to_pcm"),
    # The transcripts that come with the clips are of this checkpoint.
    ("TEST_MODEL", "tests/data/tutti-en-mini"),
    ("TEST_SPEECH", "tests/data/speech"),
):
    os.environ.setdefault(name, str(ROOT / where))
sys.path.insert(0, str(ROOT / "tests/net"))
from client_websockets import Server  # noqa: E402

BYTES_PER_SECOND = 32000  # 16 kHz s16le
# On a busy machine too: a server that is slow to end a session is not one that forgets it.
QUIET_SECONDS = 120


class LiveServer(Server):
    """`tutti serve`, decoding greedily, whose process is looked at."""

    def __init__(self, *options):
        super().__init__(*options)
        self.proc = pathlib.Path(f"/proc/{self.process.pid}")

    def rss_mib(self):
        return int(re.search(r"VmRSS:\s+(\d+)", (self.proc / "status").read_text())[1]) / 1024

    def descriptors(self):
        """The fewest of some looks: that of who asked last may be there for a moment."""
        looks = []
        for _ in range(10):
            looks.append(len(list((self.proc / "fd").iterdir())))
            time.sleep(0.05)
        return min(looks)

    def log_lines(self, pattern):
        return [line.split(" ", 1)[1] for line in self.read_log().splitlines() if re.search(pattern, line)]

    async def become_quiet(self):
        """Until nobody is connected but who asks."""
        deadline = time.monotonic() + QUIET_SECONDS
        while True:
            sessions, connections, streams = await asyncio.to_thread(self.occupation)
            if sessions == 0 and connections == 1 and streams == 0:
                return
            assert time.monotonic() < deadline, f"left open: {sessions} sessions, {connections} connections, {streams} streams"
            await asyncio.sleep(0.1)

    def occupation(self):
        text = self.get("/metrics")[1]
        names = ("tutti_net_open_sessions", "tutti_net_open_connections", "tutti_open_streams")
        return [float(re.search(rf"^{name} (\S+)$", text, re.MULTILINE)[1]) for name in names]

    def stop(self):
        self.terminate()
        self.expect_exit()


def percentile(values, share):
    """The smallest of `values` that `share` of them do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
