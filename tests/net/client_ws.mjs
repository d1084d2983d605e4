// Drives the real program with the unmodified npm library `ws`. The environment is that of tutti_server.py.

import assert from "node:assert/strict";
import { once } from "node:events";
import { after, before, test } from "node:test";
import WebSocket from "ws";

import { loadClips, pieces, Server } from "./tutti_server.mjs";

const frameBytes = 640; // 20 ms of 16 kHz s16le
const clientCount = 32;
const normalClose = 1000;
const oneSegment = "endpointing=false"; // as in the expected transcripts

let server;
let clips;

/** A session that collects what it receives. */
class Client {
  constructor(query = oneSegment) {
    this.socket = new WebSocket(`ws://${server.address}/v1/stream?${query}`);
    this.messages = [];
    this.socket.on("message", (data, isBinary) => {
      assert.equal(isBinary, false);
      this.messages.push(data.toString());
      this.socket.emit("collected");
    });
    this.closed = once(this.socket, "close").then(([code]) => code);
  }

  async open() {
    await once(this.socket, "open");
    return this;
  }

  // As fast as the server reads: each frame waits until the one before has been written.
  async sendAudio(audio) {
    for (const frame of pieces(audio, frameBytes)) {
      const failed = await new Promise((done) => this.socket.send(frame, done));
      if (failed) return;
    }
  }

  sendType(type) {
    this.socket.send(JSON.stringify({ type }));
  }

  async waitFor(predicate) {
    while (!this.messages.some(predicate)) await once(this.socket, "collected");
  }

  events() {
    return this.messages.map((message) => JSON.parse(message));
  }
}

function transcript(events) {
  return events.filter(({ type, text }) => type === "final" && text).map(({ text }) => text).join(" ");
}

async function recognize(audio, query) {
  const client = await new Client(query).open();
  await client.sendAudio(audio);
  client.sendType("eof");
  const code = await client.closed;
  return { events: client.events(), code };
}

before(async () => {
  clips = loadClips();
  server = await new Server().listen();
});

after(() => server.stop());

test("many clients at once get the reference transcripts", async () => {
  assert.ok(clips.length >= 31);
  const chosen = Array.from({ length: Math.max(clientCount, clips.length) }, (_, i) => clips[i % clips.length]);
  const results = await Promise.all(chosen.map(({ audio }) => recognize(audio)));
  results.forEach(({ events, code }, i) => {
    assert.equal(transcript(events), chosen[i].text, chosen[i].file);
    assert.equal(code, normalClose);
    assert.equal(events.at(-1).type, "done");
  });
});

test("text format sends plain lines", async () => {
  const { audio, text } = clips.find(({ file }) => file === "libri-06.flac");
  const client = await new Client(`format=text&${oneSegment}`).open();
  await client.sendAudio(audio);
  client.sendType("eof");
  assert.equal(await client.closed, normalClose);
  assert.equal(client.messages.filter((line) => !line.startsWith("~ ")).join(" "), text);
});

test("a message it cannot read is reported and ignored", async () => {
  const client = await new Client().open();
  client.socket.send('{"type":');
  await client.waitFor((message) => JSON.parse(message).code === "bad_json");
  client.sendType("eof");
  assert.equal(await client.closed, normalClose);
  assert.equal(client.events().at(-1).type, "done");
});

test("an unknown encoding is refused with a reason", async () => {
  const client = await new Client("encoding=mp9").open();
  assert.equal(await client.closed, 1008);
  const [error] = client.events();
  assert.equal(error.code, "bad_encoding");
  assert.match(error.message, /mp9.*pcm_s16le/);
});

test("pings are answered", async () => {
  const client = await new Client().open();
  client.socket.ping("are you there");
  const [payload] = await once(client.socket, "pong");
  assert.equal(payload.toString(), "are you there");
  client.socket.close();
  await client.closed;
});

test("a client that vanishes does not disturb the others", async () => {
  const { audio, text } = clips.find(({ file }) => file === "libri-22.flac");
  const vanish = async () => {
    const client = await new Client().open();
    await client.sendAudio(audio.subarray(0, audio.length / 2));
    client.socket.terminate();
  };
  const others = Array.from({ length: 8 }, () => recognize(audio));
  await Promise.all(Array.from({ length: 8 }, vanish));
  for (const { events } of await Promise.all(others)) assert.equal(transcript(events), text);
});
