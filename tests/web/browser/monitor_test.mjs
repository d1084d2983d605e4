// The page at "/monitor", in a browser, against the real program.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { checkAccessibility, checkFits, launch, openPage, state, until } from "./browser.mjs";
import { speech, TuttiServer } from "./tutti_server.mjs";

let folder;
let keys;
let server;
let browser;
let pcm;

before(async () => {
  folder = mkdtempSync(join(tmpdir(), "tutti-web-"));
  keys = join(folder, "keys.toml");
  writeFileSync(keys, `browser = "sha256:${createHash("sha256").update("tutti_test").digest("hex")}"\n`);
  server = await TuttiServer.start();
  browser = await launch();
  pcm = speech(["prompt-44.flac"]);
});

after(async () => {
  await browser?.close();
  await server?.stop();
  rmSync(folder, { recursive: true, force: true });
});

/** What the table of a chart says: `{ label: text }`. */
function table(page, title) {
  return page.locator(".chart", { has: page.getByRole("heading", { name: title }) }).evaluate((chart) => {
    const texts = (cells) => [...chart.querySelectorAll(cells)].map(({ textContent }) => textContent);
    const values = texts("td");
    return Object.fromEntries(texts("th").map((label, i) => [label, values[i]]));
  });
}

test("open streams, and what they cost, are seen as figures and lines", async () => {
  const { page, check } = await openPage(browser, server.url("/monitor"));
  await state(page, "Watching");
  const { socket } = await server.openStream("sample_rate=16000");
  await until(async () => (await table(page, "Live")).streams === "1");
  socket.send(Buffer.from(pcm.buffer, pcm.byteOffset, pcm.byteLength));
  const isNumber = (text) => /^\d+\.\d$/.test(text);
  await until(async () => Object.values(await table(page, "Tick time")).every(isNumber));
  const { p50, p95, p99 } = await table(page, "Delay of results");
  assert.ok(Number(p50) <= Number(p95) && Number(p95) <= Number(p99) && Number(p99) > 0, `${p50}, ${p95}, ${p99}`);
  assert.deepEqual(await table(page, "Batch size"), { mean: "1.0", p99: "1.0" });
  assert.ok(Number((await table(page, "Audio recognized")).audio) > 0);
  const lines = await page.locator(".plot .series").evaluateAll((paths) => paths.map((path) => path.getAttribute("d")));
  assert.equal(lines.length, 13);
  for (const line of lines) assert.match(line, /^M\d+\.\d \d+\.\d/);
  socket.close();
  await until(async () => (await table(page, "Live")).streams === "0");
  assert.equal(await page.locator("#totals dd").first().textContent(), "1");
  await check();
});

test("a server that went and came back is watched again", async () => {
  let doomed = await TuttiServer.start();
  try {
    const { page, check } = await openPage(browser, doomed.url("/monitor"), { tolerated: /ERR_/ });
    await state(page, "Watching");
    await doomed.kill();
    await state(page, "cannot be reached");
    doomed = await TuttiServer.start({ address: doomed.address });
    await state(page, "Watching");
    await check();
  } finally {
    await doomed.stop();
  }
});

test("a server with keys is given one", async () => {
  const locked = await TuttiServer.start({ options: ["--api-keys-file", keys] });
  try {
    const { page, check } = await openPage(browser, locked.url("/monitor"), { tolerated: /401/ });
    await state(page, "asks for a key");
    await page.fill("#key", "tutti_test");
    await page.keyboard.press("Enter");
    await state(page, "Watching");
    await page.getByRole("link", { name: "Captions" }).click();
    await state(page, "Ready");
    await check();
  } finally {
    await locked.stop();
  }
});

for (const colorScheme of ["light", "dark"]) {
  test(`nobody is shut out, ${colorScheme}`, async () => {
    const { page, check } = await openPage(browser, server.url("/monitor"), { colorScheme });
    await state(page, "Watching");
    await checkAccessibility(page, "monitor");
    await checkFits(page, 360);
    await check();
  });
}
