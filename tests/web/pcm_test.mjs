import assert from "node:assert/strict";
import { test } from "node:test";
import { levelDb, mixDown, toPcm16 } from "../../web/pcm.mjs";

test("every 16-bit sample survives the way through a float", () => {
  const all = Int16Array.from({ length: 65536 }, (_, i) => i - 32768);
  assert.deepEqual(toPcm16(Float32Array.from(all, (sample) => sample / 32768)), all);
});

test("what is out of range is clipped", () => {
  assert.deepEqual([...toPcm16(Float32Array.of(1, 1.5, -1, -7, 0))], [32767, 32767, -32768, -32768, 0]);
});

test("channels are averaged", () => {
  assert.deepEqual([...mixDown([Float32Array.of(1, 0.5), Float32Array.of(0, -0.5)])], [0.5, 0]);
});

test("one channel is not touched", () => {
  const only = Float32Array.of(0.1, 0.2);
  assert.equal(mixDown([only]), only);
});

test("the level of a full-scale square is 0 dB, and of half of it 6 dB less", () => {
  assert.ok(Math.abs(levelDb(Int16Array.of(-32768, -32768))) < 1e-9);
  assert.ok(Math.abs(levelDb(Int16Array.of(16384, -16384)) + 6.02) < 0.01);
  assert.equal(levelDb(new Int16Array(8)), -Infinity);
});
