// Makes the pictures of the pages in docs/: node screenshots.mjs FOLDER, in the environment of the tests.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { launch, openPage, until } from "./browser.mjs";
import { speech, TuttiServer, wav } from "./tutti_server.mjs";

const [, , docs] = process.argv;
const clips = ["prompt-46.flac", "prompt-42.flac", "prompt-45.flac", "prompt-47.flac"];
const viewport = { width: 1120, height: 720 };
const monitorSeconds = 75;
const streams = 32;

const pause = (seconds) => new Promise((done) => { setTimeout(done, 1000 * seconds); });

/** The page in the middle of the last clip. */
async function captions(browser, server, recording, colorScheme) {
  const { page, check } = await openPage(browser, server.url("/"), { colorScheme, viewport });
  await page.click("#settings-open");
  await page.check("[value=spoken]");
  await page.keyboard.press("Escape");
  await page.evaluate(() => document.activeElement.blur());
  await page.setInputFiles("#file", recording);
  await page.locator(".segment").nth(clips.length - 2).waitFor();
  await page.locator("#slab[data-kind=partial]").waitFor();
  await until(async () => (await page.locator("#slab-text").textContent()).length > 25);
  await page.screenshot({ path: join(docs, `captions-${colorScheme}.png`), animations: "disabled" });
  await check();
}

/** Streams that come and go, at the speed of speech. */
async function speak(server, pcm, begin, seconds) {
  await pause(begin);
  const { socket } = await server.openStream("sample_rate=16000");
  const block = 1600;
  const start = performance.now();
  for (let at = 0; at < 10 * seconds; ++at) {
    await pause(Math.max(0, start + 100 * at - performance.now()) / 1000);
    const from = (at * block) % (pcm.length - block);
    socket.send(Buffer.from(pcm.buffer, pcm.byteOffset + 2 * from, 2 * block));
  }
  socket.close();
}

async function monitor(browser, server, pcm) {
  const views = await Promise.all(["light", "dark"].map(async (colorScheme) => (
    { colorScheme, ...(await openPage(browser, server.url("/monitor"), { colorScheme, viewport })) })));
  const speakers = Array.from({ length: streams }, (_, i) => (
    speak(server, pcm, (i * monitorSeconds) / streams / 1.5, monitorSeconds / 2)));
  await pause(monitorSeconds);
  for (const { page, colorScheme, check } of views) {
    await page.screenshot({ path: join(docs, `monitor-${colorScheme}.png`), fullPage: true });
    await check();
  }
  await Promise.all(speakers);
}

const folder = mkdtempSync(join(tmpdir(), "tutti-web-"));
const server = await TuttiServer.start();
const browser = await launch();
try {
  const pcm = speech(clips, 1);
  const recording = join(folder, "announcements.wav");
  writeFileSync(recording, wav(pcm));
  for (const colorScheme of ["light", "dark"]) await captions(browser, server, recording, colorScheme);
  await monitor(browser, server, pcm);
} finally {
  await browser.close();
  await server.stop();
  rmSync(folder, { recursive: true });
}
