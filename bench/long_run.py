#!/usr/bin/python3
"""What shows only in the long run.

    bench/long_run.py cycles --count 10000      sessions opened and closed: memory comes back
    bench/long_run.py idle --streams 2000       open streams that say nothing, and one among them that speaks
    bench/long_run.py hours --hours 6           one stream, sent as fast as it is taken: flat memory, exact clock
    bench/long_run.py joined --minutes 10       clips joined to one stream: the word error rate beside the clips' own

Exit status 1 when what is promised does not hold.
"""
import argparse
import asyncio
import itertools
import json
import resource
import sys
import time

import websockets

from live_server import BYTES_PER_SECOND, LiveServer
from tutti_server import SPEECH, decode
from client_websockets import finals, load_clips, next_event, receive, recognize, send_text, transcript

GROWTH = 0.02  # what memory may differ by


def check(holds, what):
    if not holds:
        raise SystemExit(f"FAULT {what}")


def check_memory(before, after, growth):
    print(f"RSS {before:.1f} MiB at the beginning, {after:.1f} at the end ({100 * (after / before - 1):+.1f} %)")
    check(after <= before * (1 + growth), f"memory grew by more than {100 * growth:.0f} %")


async def cycle(server, number, audio):
    """One session: ended by the client's eof, by its close, or by its disappearance."""
    ws = await server.connect()
    await next_event(ws, "ready")
    await ws.send(audio)
    if number % 3 == 0:
        await send_text(ws, "eof")
        check((await receive(ws))[-1]["type"] == "done", "a session did not end with done")
    elif number % 3 == 1:
        await ws.close()
    else:
        ws.transport.abort()


async def cycles(options):
    server = LiveServer()
    audio = load_clips()[0][1][: BYTES_PER_SECOND // 10]
    at_once = 16

    async def run(count):
        numbers = iter(range(count))

        async def go_on():
            for number in numbers:
                await cycle(server, number, audio)

        await asyncio.gather(*(go_on() for _ in range(at_once)))
        await server.become_quiet()
        return server.rss_mib(), server.descriptors()

    try:
        warm = await run(options.count // 10)
        start = time.monotonic()
        end = await run(options.count)
        print(f"{options.count} cycles in {time.monotonic() - start:.0f} s; {warm[1]} and {end[1]} descriptors")
        check(end[1] == warm[1], "descriptors were not closed")
        check_memory(warm[0], end[0], options.growth)
    finally:
        server.stop()


async def idle(options):
    wanted = 4 * options.streams + 256
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(wanted, hard)), hard))
    server = LiveServer("--max-streams", str(options.streams), "--owners", "1", "--max-sessions", str(options.streams + 8),
                        "--idle-timeout-s", "3600")
    try:
        for line in server.log_lines("K/V pool"):
            print(line)
        empty = server.rss_mib()
        streams = []
        start = time.monotonic()
        for batch in split(options.streams, 50):
            opened = await asyncio.gather(*(server.connect() for _ in batch))
            await asyncio.gather(*(next_event(ws, "ready") for ws in opened))
            streams += opened
        took = time.monotonic() - start
        check(server.metric("tutti_open_streams") == options.streams, "streams are missing")
        full = server.rss_mib()
        print(f"{options.streams} streams opened in {took:.1f} s; RSS {empty:.1f} MiB empty, {full:.1f} with them")
        try:
            async with server.connect():
                check(False, "one more got a place")
        except websockets.InvalidStatusCode as refused:
            check(refused.status_code == 503, f"one more was answered {refused.status_code}")
            print("one more is refused with 503")
        _, audio, text = load_clips()[0]
        start = time.monotonic()
        speaker = streams[len(streams) // 2]
        receiver = asyncio.create_task(receive(speaker))
        await speaker.send(audio)
        await send_text(speaker, "eof")
        check(transcript(await receiver) == text, "the one that speaks got another transcript")
        print(f"one of them said {len(audio) / BYTES_PER_SECOND:.1f} s in {time.monotonic() - start:.2f} s, and was heard exactly")
        for batch in split(options.streams, 50):
            await asyncio.gather(*(streams[at].close() for at in batch))
        await server.become_quiet()
        print(f"RSS {server.rss_mib():.1f} MiB when all are gone")
    finally:
        server.stop()


def split(count, size):
    return [range(at, min(at + size, count)) for at in range(0, count, size)]


async def hours(options):
    server = LiveServer("--owners", "1")
    total = int(options.hours * 3600) * BYTES_PER_SECOND
    speech = b"".join(audio + bytes(BYTES_PER_SECOND) for _, audio, _ in load_clips())
    memory = []
    try:
        async with server.connect("interim=false") as ws:
            receiver = asyncio.create_task(receive(ws))
            start = time.monotonic()
            # Once all has been said that there is to say, what its buffers take is taken.
            piece, sent, next_look = BYTES_PER_SECOND, 0, max(len(speech), total // 10)
            while sent < total:
                at = sent % len(speech)
                data = speech[at : min(at + piece, at + total - sent)]
                await ws.send(data)
                sent += len(data)
                if sent >= next_look:
                    memory.append(server.rss_mib())
                    next_look += total // 20
            await send_text(ws, "eof")
            events = await receiver
        took = time.monotonic() - start
        done, results = events[-1], finals(events)
        print(f"{sent / BYTES_PER_SECOND / 3600:g} h of audio in {took:.0f} s, {sent / BYTES_PER_SECOND / took:.0f} times as fast "
              f"as it was spoken; {len(results)} finals")
        check(done["type"] == "done", f"it ended with {done}")
        check(done["audio_seconds"] == sent / BYTES_PER_SECOND, f"the clock says {done['audio_seconds']} s")
        clock = 0
        for number, final in enumerate(results):
            check(final["segment"] == number, f"segment {final['segment']} is number {number}")
            check(clock <= final["start"] <= final["end"] <= sent / BYTES_PER_SECOND, f"a time is out of order: {final}")
            clock = final["end"]
        print(f"the clock says {done['audio_seconds']} s, as sent; the last final with text ends at "
              f"{max(final['end'] for final in results if final['text'])} s")
        check(len(memory) > 1, f"memory is looked at after {len(speech) / BYTES_PER_SECOND / 3600:.2f} hours")
        check_memory(memory[0], memory[-1], options.growth)
    finally:
        server.stop()


def word_errors(reference, hypothesis):
    """Levenshtein's distance over words."""
    reference, hypothesis = reference.split(), hypothesis.split()
    row = list(range(len(hypothesis) + 1))
    for at, word in enumerate(reference, 1):
        diagonal, row[0] = row[0], at
        for place, heard in enumerate(hypothesis, 1):
            diagonal, row[place] = row[place], min(row[place] + 1, row[place - 1] + 1, diagonal + (word != heard))
    return row[-1]


def load_all_clips():
    """(s16le at 16 kHz, what was said) of every clip."""
    for line in (SPEECH / "transcripts.jsonl").read_text().splitlines():
        clip = json.loads(line)
        resampled = SPEECH / "16k" / clip["file"]
        path = resampled if resampled.exists() else SPEECH / clip["file"]
        if path.exists():
            yield decode(path), clip["text"]


async def joined(options):
    server = LiveServer()
    try:
        clips, seconds = [], 0
        for audio, text in itertools.cycle(list(load_all_clips())):
            if seconds >= options.minutes * 60:
                break
            clips.append((audio, text))
            seconds += len(audio) / BYTES_PER_SECOND
        words = sum(len(text.split()) for _, text in clips)
        alone = 0
        for audio, text in clips:
            events, _ = await recognize(server, audio)
            alone += word_errors(text, transcript(events))
        events, _ = await recognize(server, b"".join(audio for audio, _ in clips), "interim=false")
        together = word_errors(" ".join(text for _, text in clips), transcript(events))
        print(f"{len(clips)} clips, {seconds / 60:.1f} min, {words} words: {100 * alone / words:.1f} % errors each by itself, "
              f"{100 * together / words:.1f} % as one stream of {len(finals(events))} segments")
        check(together <= alone * (1 + options.growth), f"joined, they have {100 * options.growth:.0f} % more errors")
    finally:
        server.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)

    def command(run, option, default, growth=GROWTH):
        one = commands.add_parser(run.__name__)
        one.add_argument(option, type=type(default), default=default)
        one.add_argument("--growth", type=float, default=growth)
        one.set_defaults(run=run)

    command(cycles, "--count", 10000)
    command(idle, "--streams", 2000)
    command(hours, "--hours", 6.0)
    # Context goes on from one clip to the next, whoever speaks there.
    command(joined, "--minutes", 10.0, 0.1)
    options = parser.parse_args()
    asyncio.run(options.run(options))


if __name__ == "__main__":
    sys.exit(main())
