// Drives the real program from a shell's command line, with the unmodified npm program `wscat`, which sends its
// input line by line. The environment is that of tutti_server.py.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";

import { loadClip, pieces, Server } from "./tutti_server.mjs";

const program = fileURLToPath(new URL("node_modules/wscat/bin/wscat", import.meta.url));
const { audio, text: expected } = loadClip("libri-06.flac");

let server;
before(async () => {
  server = await new Server().listen();
});
after(() => server.stop());

/** `wscat -c URL`: lines in, events out. */
class Wscat {
  constructor(path, ...options) {
    const all = [program, "--no-color", ...options, "-c", `ws://${server.address}${path}`];
    this.process = spawn(process.execPath, all, { stdio: ["pipe", "pipe", "inherit"] });
    this.lines = createInterface({ input: this.process.stdout })[Symbol.asyncIterator]();
    this.exited = once(this.process, "exit");
  }

  send(event) {
    this.process.stdin.write(`${JSON.stringify(event)}\n`);
  }

  /** The next event of that type. */
  async next(type) {
    for (let line = await this.lines.next(); !line.done; line = await this.lines.next()) {
      const found = /\{.*\}/.exec(line.value);
      if (found && JSON.parse(found[0]).type === type) return JSON.parse(found[0]);
    }
    throw new Error(`the connection ended before ${type}`);
  }
}

test("lines of OpenAI's events get the reference transcript", async () => {
  const client = new Wscat("/v1/realtime?intent=transcription");
  await client.next("session.created");
  const input = { format: { type: "audio/pcm", rate: 16000 }, turn_detection: null };
  client.send({ type: "session.update", session: { type: "transcription", audio: { input } } });
  for (const piece of pieces(audio, 32000)) {
    client.send({ type: "input_audio_buffer.append", audio: piece.toString("base64") });
  }
  client.send({ type: "input_audio_buffer.commit" });
  const completed = await client.next("conversation.item.input_audio_transcription.completed");
  assert.equal(completed.transcript, expected);
  client.process.stdin.end();
  await client.exited;
});

test("the native protocol answers a line, and another wscat reads along", async () => {
  const client = new Wscat("/v1/stream");
  const { session } = await client.next("ready");
  const watcher = new Wscat(`/v1/streams/${session}/events`);
  client.send({ type: "what" });
  assert.equal((await client.next("error")).code, "unknown_type");
  client.send({ type: "eof" });
  await client.next("done");
  await client.exited;
  assert.equal((await watcher.next("end")).session, session);
  await watcher.exited;
});
