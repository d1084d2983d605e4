// Drives the real program with the unmodified npm libraries `@deepgram/sdk` and `openai`. The environment is that of
// tutti_server.py.

import { DeepgramClient } from "@deepgram/sdk";
import OpenAI from "openai";
import { OpenAIRealtimeWS } from "openai/realtime/ws";
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";

import { loadClip, pieces, Server } from "./tutti_server.mjs";

const sampleRate = 16000;
const frameBytes = 6400; // 200 ms of 16 kHz s16le
const { audio, text: expected } = loadClip("libri-06.flac");

describe("@deepgram/sdk", () => {
  let server;
  before(async () => {
    server = await new Server().listen();
  });
  after(() => server.stop());

  /** Connects, and collects what is received and how it ends. */
  async function listen(options) {
    const urls = { base: `http://${server.address}`, production: `ws://${server.address}` };
    const client = new DeepgramClient({ apiKey: "tutti_0", environment: { ...urls, agent: urls.production } });
    const socket = await client.listen.v1.createConnection({
      model: "nova-3", encoding: "linear16", sample_rate: sampleRate, reconnectAttempts: 0, ...options,
    });
    const messages = [];
    const session = { socket, messages };
    socket.on("message", (message) => messages.push(message));
    session.closed = new Promise((resolve) => socket.on("close", resolve));
    socket.connect();
    await socket.waitForOpen();
    return session;
  }
  const transcript = (messages) => messages
    .filter(({ type, is_final: isFinal }) => type === "Results" && isFinal)
    .map(({ channel }) => channel.alternatives[0].transcript).filter((text) => text).join(" ");

  test("gets the reference transcript, interim results, and what it was about at the end", async () => {
    const { socket, messages, closed } = await listen({ endpointing: "false", interim_results: "true" });
    for (const frame of pieces(audio, frameBytes)) socket.sendMedia(frame);
    socket.sendCloseStream({ type: "CloseStream" });
    const { code } = await closed;
    assert.equal(code, 1000);
    assert.equal(transcript(messages), expected);
    assert.ok(messages.some(({ type, is_final: isFinal }) => type === "Results" && !isFinal));
    const metadata = messages.at(-1);
    assert.equal(metadata.type, "Metadata");
    assert.ok(Math.abs(metadata.duration - audio.length / 2 / sampleRate) < 0.01);
    assert.equal(metadata.request_id, messages[0].metadata.request_id);
    const words = messages.filter(({ is_final: isFinal }) => isFinal)
      .flatMap(({ channel }) => channel.alternatives[0].words);
    assert.equal(words.map(({ word }) => word).join(" "), expected);
  });

  test("is answered once for each Finalize", async () => {
    const { socket, messages, closed } = await listen({});
    for (let i = 0; i < 2; ++i) {
      for (const frame of pieces(audio, frameBytes)) socket.sendMedia(frame);
      socket.sendFinalize({ type: "Finalize" });
      socket.sendKeepAlive({ type: "KeepAlive" });
    }
    socket.sendCloseStream({ type: "CloseStream" });
    await closed;
    assert.equal(messages.filter(({ from_finalize: is }) => is).length, 2);
  });

  test("is told in the handshake what it cannot have", async () => {
    const response = await fetch(`http://${server.address}/v1/listen?encoding=amr-wb`, {
      headers: { "Connection": "Upgrade" },
    }).catch(() => null);
    assert.ok(response === null || response.status >= 400);
    await assert.rejects(listen({ encoding: "amr-wb" }));
  });
});

describe("openai", () => {
  let server;
  let folder;
  let ca;
  before(async () => {
    folder = mkdtempSync(join(tmpdir(), "tutti-"));
    const [certificate, key] = [join(folder, "certificate.pem"), join(folder, "key.pem")];
    execFileSync("openssl", ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days",
      "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-out", certificate, "-keyout", key],
    { stdio: "ignore" });
    ca = readFileSync(certificate);
    server = await new Server("--tls-certificate", certificate, "--tls-key", key).listen();
  });
  after(async () => {
    await server.stop();
    rmSync(folder, { recursive: true });
  });

  const format = { type: "audio/pcm", rate: sampleRate };

  /** Connects with these settings, and collects all events. */
  async function transcribe(input) {
    const client = new OpenAI({ apiKey: "tutti_0", baseURL: `https://${server.address}/v1` });
    const realtime = new OpenAIRealtimeWS({ model: "tutti", options: { ca } }, client);
    const session = {
      realtime,
      events: [],
      async next(type) {
        while (true) {
          const found = this.events.find((event) => event.type === type && !event.taken);
          if (found) {
            found.taken = true;
            return found;
          }
          await once(realtime.socket, "message");
        }
      },
    };
    realtime.on("event", (event) => session.events.push(event));
    realtime.on("error", () => {});
    await session.next("session.created");
    realtime.send({ type: "session.update", session: { type: "transcription", audio: { input } } });
    await session.next("session.updated");
    return session;
  }
  function append({ realtime }) {
    for (const frame of pieces(audio, frameBytes)) {
      realtime.send({ type: "input_audio_buffer.append", audio: frame.toString("base64") });
    }
  }

  test("gets the reference transcript for each commit", async () => {
    const session = await transcribe({ format, turn_detection: null });
    let previous = null;
    for (let i = 0; i < 2; ++i) {
      append(session);
      session.realtime.send({ type: "input_audio_buffer.commit" });
      const committed = await session.next("input_audio_buffer.committed");
      assert.equal(committed.previous_item_id, previous);
      const completed = await session.next("conversation.item.input_audio_transcription.completed");
      assert.equal(completed.transcript, expected);
      assert.equal(completed.item_id, committed.item_id);
      assert.ok(Math.abs(completed.usage.seconds - audio.length / 2 / sampleRate) < 0.01);
      previous = committed.item_id;
    }
    session.realtime.close();
    const deltas = session.events
      .filter(({ type, item_id: id }) => type.endsWith(".delta") && id === previous).map(({ delta }) => delta);
    assert.ok(deltas.length > 1);
    assert.equal(new Set(session.events.map(({ event_id: id }) => id)).size, session.events.length);
  });

  test("has its turns found by the server", async () => {
    const session = await transcribe({ format, turn_detection: { type: "server_vad", silence_duration_ms: 500 } });
    append(session);
    session.realtime.send({
      type: "input_audio_buffer.append", audio: Buffer.alloc(4 * sampleRate).toString("base64"),
    });
    const started = await session.next("input_audio_buffer.speech_started");
    const stopped = await session.next("input_audio_buffer.speech_stopped");
    const committed = await session.next("input_audio_buffer.committed");
    const completed = await session.next("conversation.item.input_audio_transcription.completed");
    assert.ok(stopped.audio_end_ms > started.audio_start_ms);
    assert.equal(committed.item_id, started.item_id);
    assert.equal(completed.item_id, committed.item_id);
    assert.ok(completed.transcript.length > 0);
    session.realtime.close();
  });

  test("gets no transcript of what it cleared, and an error for a commit of nothing", async () => {
    const session = await transcribe({ format, turn_detection: null });
    append(session);
    session.realtime.send({ type: "input_audio_buffer.clear" });
    await session.next("input_audio_buffer.cleared");
    session.realtime.send({ type: "input_audio_buffer.commit", event_id: "mine" });
    const { error } = await session.next("error");
    assert.deepEqual([error.code, error.event_id], ["input_audio_buffer_commit_empty", "mine"]);
    append(session);
    session.realtime.send({ type: "input_audio_buffer.commit" });
    const completed = await session.next("conversation.item.input_audio_transcription.completed");
    assert.equal(completed.transcript, expected);
    session.realtime.close();
  });
});
