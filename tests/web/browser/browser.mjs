// Debian's Chromium, without a screen, and with a file for a microphone.

import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const executablePath = "/usr/bin/chromium";
const patience = 60; // seconds; a busy machine takes its time
const axePath = createRequire(import.meta.url).resolve("axe-core/axe.min.js");

/** `microphone` is a WAV file, which is heard once each time that the microphone is opened. */
export function launch(microphone) {
  if (!existsSync(executablePath)) {
    throw new Error(`there is no ${executablePath}: apt-get install chromium, as scripts/install-deps.sh --tests does`);
  }
  return chromium.launch({
    executablePath,
    args: [
      "--no-sandbox", // which root cannot have
      "--disable-gpu",
      "--use-fake-ui-for-media-stream",
      "--use-fake-device-for-media-stream",
      ...(microphone ? [`--use-file-for-fake-audio-capture=${microphone}%noloop`] : []),
    ],
  });
}

/**
 * A page of a server in a profile of its own. `check()` fails if it ever had an error, or asked another host for anything;
 * console errors that match `tolerated` (the browser reports refused connections as such) are none.
 */
export async function openPage(browser, url, { tolerated, ...options } = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, acceptDownloads: true, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(1000 * patience);
  const faults = [];
  const { host } = new URL(url);
  const checkHost = (requested) => {
    const { host: other, protocol } = new URL(requested);
    if (protocol !== "blob:" && protocol !== "data:" && other !== host) faults.push(`asks another host: ${requested}`);
  };
  page.on("request", (request) => checkHost(request.url()));
  page.on("websocket", (socket) => checkHost(socket.url()));
  page.on("pageerror", (error) => faults.push(error.stack));
  page.on("console", (message) => {
    const isFault = ["error", "warning"].includes(message.type());
    if (isFault && !tolerated?.test(message.text())) faults.push(`console: ${message.text()}`);
  });
  await page.goto(url);
  const check = async () => {
    await context.close();
    assert.deepEqual(faults, []);
  };
  return { page, check };
}

/** Fails on what axe finds serious. */
export async function checkAccessibility(page, where) {
  // In the page's own world a policy without eval would refuse it; the debugger's is not asked.
  await page.evaluate(readFileSync(axePath, "utf8"));
  const { violations } = await page.evaluate(() => window.axe.run());
  const grave = violations.filter(({ impact }) => ["serious", "critical"].includes(impact));
  assert.deepEqual(grave.map(({ id, nodes }) => `${where}: ${id}: ${nodes.map(({ html }) => html).join(" ")}`), []);
}

/** Fails when something sticks out to the side. */
export async function checkFits(page, width) {
  await page.setViewportSize({ width, height: 720 });
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth) <= width, `wider than ${width} pixels`);
}

/** Asks again and again; page.waitForFunction would need a policy that allows eval. */
export async function until(condition, seconds = patience) {
  const deadline = Date.now() + 1000 * seconds;
  while (!(await condition())) {
    assert.ok(Date.now() < deadline, `not within ${seconds} s: ${condition}`);
    await new Promise((done) => { setTimeout(done, 50); });
  }
}

/** Waits for the line that says what goes on. */
export function state(page, text) {
  return page.locator("#state", { hasText: text }).waitFor();
}
