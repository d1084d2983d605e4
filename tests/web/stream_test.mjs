import assert from "node:assert/strict";
import { test } from "node:test";
import { Backlog } from "../../web/backlog.mjs";
import { retryDelay } from "../../web/backoff.mjs";
import { CaptionStream } from "../../web/caption-stream.mjs";
import { SendClock } from "../../web/send-clock.mjs";

const rate = 1000;

/** A WebSocket in the hands of the test. */
class FakeSocket {
  sent = [];
  bufferedAmount = 0;
  isClosed = false;

  send(data) {
    this.sent.push(data);
  }

  close() {
    this.isClosed = true;
  }

  say(event) {
    this.onmessage({ data: JSON.stringify(event) });
  }

  drop(code = 1006) {
    this.onclose({ code, reason: "" });
  }

  /** All samples received. */
  get samples() {
    return this.sent.filter((data) => typeof data !== "string").flatMap((pcm) => [...pcm]);
  }
}

function harness({ admitted = true } = {}) {
  const made = { sockets: [], states: [], events: [], now: 0 };
  made.stream = new CaptionStream({
    rate,
    connect: () => {
      made.sockets.push(new FakeSocket());
      return made.sockets.at(-1);
    },
    admitted: async () => admitted,
    onState: (state, detail) => made.states.push({ state, ...detail }),
    onEvent: (event, delay) => made.events.push({ ...event, delay }),
    now: () => made.now,
  });
  made.stream.start();
  return made;
}

const ramp = (begin, end) => Int16Array.from({ length: end - begin }, (_, i) => begin + i);
const settle = () => new Promise(setImmediate);

/** Lets the time until the next attempt pass. */
async function reconnect(made) {
  await settle();
  assert.equal(made.states.at(-1).state, "waiting");
  while (made.states.at(-1).state === "waiting") await new Promise((done) => { setTimeout(done, 10); });
}

test("audio waits for ready, and eof for the audio", () => {
  const { stream, sockets: [socket], states } = harness();
  stream.push(ramp(0, 100));
  stream.finish();
  assert.deepEqual(socket.sent, []);
  socket.say({ type: "ready" });
  assert.deepEqual(socket.samples, [...ramp(0, 100)]);
  assert.equal(socket.sent.at(-1), '{"type":"eof"}');
  socket.say({ type: "done", audio_seconds: 0.1 });
  assert.deepEqual(states.map(({ state }) => state), ["connecting", "finishing", "done"]);
  assert.ok(stream.over && socket.isClosed);
});

test("nothing is sent while the connection is full", async () => {
  const { stream, sockets: [socket] } = harness();
  socket.say({ type: "ready" });
  socket.bufferedAmount = 1 << 20;
  stream.push(ramp(0, 500));
  assert.deepEqual(socket.samples, []);
  assert.equal(stream.unsent, 0.5);
  socket.bufferedAmount = 0;
  await new Promise((done) => { setTimeout(done, 60); });
  assert.deepEqual(socket.samples, [...ramp(0, 500)]);
  assert.equal(stream.unsent, 0);
});

test("a broken connection is made again, with all audio since the last final", async () => {
  const made = harness();
  const { stream, sockets, events } = made;
  sockets[0].say({ type: "ready" });
  stream.push(ramp(0, 300));
  stream.push(ramp(300, 600));
  sockets[0].say({ type: "final", text: "A", start: 0.1, end: 0.25 });
  sockets[0].drop();
  stream.push(ramp(600, 700));
  await reconnect(made);
  sockets[1].say({ type: "ready" });
  assert.deepEqual(sockets[1].samples, [...ramp(250, 700)]);
  sockets[1].say({ type: "final", text: "B", start: 0.1, end: 0.2, words: [{ word: "B", start: 0.1, end: 0.2 }] });
  const { start, end, words } = events.at(-1);
  assert.deepEqual([start, end, words[0].start, words[0].end].map((time) => time.toFixed(3)),
    ["0.350", "0.450", "0.350", "0.450"]);
  stream.stop();
});

test("a recording that had ended is ended again", async () => {
  const made = harness();
  made.sockets[0].say({ type: "ready" });
  made.stream.push(ramp(0, 10));
  made.stream.finish();
  made.sockets[0].drop();
  await reconnect(made);
  made.sockets[1].say({ type: "ready" });
  assert.deepEqual(made.sockets[1].samples, [...ramp(0, 10)]);
  assert.equal(made.sockets[1].sent.at(-1), '{"type":"eof"}');
  made.stream.stop();
});

test("what the server will never serve is not tried again", () => {
  const { sockets: [socket], states } = harness();
  socket.say({ type: "error", code: "bad_sample_rate", message: "sample_rate is 7" });
  socket.drop(1008);
  assert.deepEqual(states.at(-1), { state: "failed", reason: "sample_rate is 7" });
});

test("a full server is tried again, and its reason told", async () => {
  const { stream, sockets: [socket], states } = harness();
  socket.say({ type: "error", code: "full", message: "no stream is free" });
  socket.drop(1013);
  await settle();
  assert.equal(states.at(-1).state, "waiting");
  assert.equal(states.at(-1).reason, "no stream is free");
  stream.stop();
});

test("a server that wants a key is not tried again", async () => {
  const { stream, sockets: [socket], states } = harness({ admitted: false });
  socket.drop();
  await settle();
  assert.equal(states.at(-1).state, "locked");
  assert.ok(stream.over);
});

test("a stream that was stopped stays so", async () => {
  const { stream, sockets, states } = harness();
  sockets[0].drop();
  stream.stop();
  await settle();
  assert.equal(states.at(-1).state, "stopped");
  stream.push(ramp(0, 10));
  assert.equal(sockets.length, 1);
});

test("the delay of new words is from the sending of their audio", () => {
  const made = harness();
  const [socket] = made.sockets;
  socket.say({ type: "ready" });
  made.now = 1000;
  made.stream.push(ramp(0, 100));
  made.now = 1100;
  made.stream.push(ramp(100, 200));
  made.now = 1500;
  socket.say({ type: "partial", text: "A", start: 0, end: 0.08 });
  assert.equal(made.events.at(-1).delay, 500);
  socket.say({ type: "partial", text: "A", start: 0, end: 0.08 });
  assert.equal(made.events.at(-1).delay, null, "the words are not new");
  socket.say({ type: "partial", text: "A B", start: 0, end: 0.15 });
  assert.equal(made.events.at(-1).delay, 400);
  made.stream.stop();
});

test("a clock that has forgotten, or is ahead, tells no delay", () => {
  const clock = new SendClock();
  assert.equal(clock.delay(0, 5), null);
  for (let i = 1; i <= 2000; ++i) clock.note(i, i);
  assert.equal(clock.delay(2001, 3000), null);
  assert.equal(clock.delay(1500, 3000), 1500);
});

test("a backlog keeps samples apart from how they were cut", () => {
  const seed = Date.now() % 100_000;
  let last = seed + 1;
  const random = (below) => (last = (last * 48271) % 2147483647) % below;
  const valueAt = (sample) => sample % 30_011;
  const backlog = new Backlog(5000);
  let end = 0;
  for (let step = 0; step < 2000; ++step) {
    const begin = end;
    end += 1 + random(300);
    backlog.append(Int16Array.from({ length: end - begin }, (_, i) => valueAt(begin + i)));
    if (random(4) === 0) backlog.forget(backlog.begin + random(200));
    assert.equal(backlog.end, end, `seed ${seed}`);
    assert.ok(end - backlog.begin <= 5000, `seed ${seed}`);
    if (backlog.begin === end) continue;
    const sample = backlog.begin + random(end - backlog.begin);
    const block = backlog.blockAt(sample);
    assert.equal(block[0], valueAt(sample), `seed ${seed}`);
    assert.equal(block.at(-1), valueAt(sample + block.length - 1), `seed ${seed}`);
  }
  assert.throws(() => backlog.blockAt(end), RangeError);
});

test("the wait doubles up to ten seconds, less a quarter at most", () => {
  const waits = [0, 1, 2, 3, 4, 5, 20].map((attempt) => retryDelay(attempt, () => 0));
  assert.deepEqual(waits, [500, 1000, 2000, 4000, 8000, 10_000, 10_000]);
  assert.equal(retryDelay(0, () => 1), 375);
});
