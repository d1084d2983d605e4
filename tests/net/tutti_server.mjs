// The real program, serving, for the tests of Node's clients. The environment is that of tutti_server.py.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

const speech = process.env.TEST_SPEECH;
const undecidedGap = 1e-4; // see client_websockets.py

/** `tutti serve`, at `bind`. */
export class ServerProcess {
  constructor(bind, ...options) {
    // Tests send faster than anybody speaks, on machines that do other things too.
    const all = ["--bind", bind, "--model", process.env.TEST_MODEL, "--latency-target-ms", "0", ...options];
    this.process = spawn(process.env.TEST_PROGRAM, ["serve", ...all], { stdio: ["ignore", "ignore", "pipe"] });
  }

  async listen() {
    let log = "";
    for await (const chunk of this.process.stderr.iterator({ destroyOnReturn: false })) {
      log += chunk;
      const listening = /listening on (\S+)/.exec(log);
      if (listening) {
        this.process.stderr.resume();
        this.address = listening[1];
        return this;
      }
    }
    throw new Error(`the server did not start:\n${log}`);
  }

  async stop() {
    this.process.kill("SIGTERM");
    const [code] = await once(this.process, "exit");
    assert.equal(code, 0);
  }
}

/** On a free port. Decodes greedily, as the expected transcripts were. */
export class Server extends ServerProcess {
  constructor(...options) {
    super("127.0.0.1:0", "--decoder", "greedy", ...options);
  }
}

/** The samples (s16le, 16 kHz) of the clip of that name, in the reference's resampling if there is one; null without it. */
export function decodeClip(name) {
  const path = [join(speech, "16k", name), join(speech, name)].find(existsSync);
  return path ? execFileSync(process.env.TEST_CLIP_TO_PCM, [path], { maxBuffer: 64 << 20 }) : null;
}

/** The 16 kHz clips, or the one of that name, with their samples (s16le) and expected text. */
export function loadClips(name) {
  const lines = readFileSync(join(speech, "expected-greedy.jsonl"), "utf8").trim().split("\n");
  return lines.map((line) => JSON.parse(line)).flatMap(({ file, text, smallest_gap: gap }) => {
    if (gap < undecidedGap || (name && file !== name)) return [];
    const audio = decodeClip(file);
    return audio ? [{ file, text, audio }] : [];
  });
}

export function loadClip(name) {
  return loadClips(name)[0];
}

export function* pieces(audio, size) {
  for (let at = 0; at < audio.length; at += size) yield audio.subarray(at, at + size);
}
