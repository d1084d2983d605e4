// The page at "/", in a browser, against the real program.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { checkAccessibility, checkFits, launch, openPage, state, until } from "./browser.mjs";
import { similarity } from "./similarity.mjs";
import { speech, TuttiServer, wav } from "./tutti_server.mjs";

// What a browser hands on from its microphone was resampled twice and begins anywhere: of the letters so many stay in place.
const heardAlike = 0.75;

let folder;
let server;
let browser;
let recording; // two segments
let expected; // their finals
let spoken; // what the microphone hears, one segment
let expectedSpoken;

before(async () => {
  folder = mkdtempSync(join(tmpdir(), "tutti-web-"));
  server = await TuttiServer.start();
  const pcm = speech(["prompt-42.flac", "prompt-44.flac"]);
  recording = join(folder, "recording.wav");
  writeFileSync(recording, wav(pcm));
  expected = await server.finals(pcm);
  assert.equal(expected.length, 2);
  const spokenPcm = speech(["prompt-44.flac"]);
  spoken = join(folder, "spoken.wav");
  writeFileSync(spoken, wav(spokenPcm));
  [expectedSpoken] = await server.finals(spokenPcm);
  browser = await launch(spoken);
});

after(async () => {
  await browser?.close();
  await server?.stop();
  rmSync(folder, { recursive: true, force: true });
});

const segments = (page) => page.locator(".segment-text").allTextContents();

async function recognizeFile(page) {
  await page.setInputFiles("#file", recording);
  await state(page, "Done");
}

test("a file gives the very words of a native stream, with their times", async () => {
  const { page, check } = await openPage(browser, server.url("/"));
  await state(page, "Ready");
  await recognizeFile(page);
  assert.deepEqual(await segments(page), expected.map(({ text }) => text));
  const tips = await page.locator(".word").evaluateAll((words) => words.map(({ dataset }) => dataset.tip));
  assert.deepEqual(tips, expected.flatMap(({ words }) => words).map(({ start, end, confidence }) =>
    `${start.toFixed(2)} to ${end.toFixed(2)} s, ${Math.round(confidence * 100)} % sure`));
  await page.locator(".word").first().hover();
  assert.equal(await page.locator("#tip").textContent(), tips[0]);
  await check();
});

test("what is saved is what was understood", async () => {
  const { page, check } = await openPage(browser, server.url("/"));
  await recognizeFile(page);
  const save = async (format) => {
    const [download] = await Promise.all([page.waitForEvent("download"), page.click(`[data-save=${format}]`)]);
    assert.equal(download.suggestedFilename(), `transcript.${format}`);
    return readFileSync(await download.path(), "utf8");
  };
  assert.equal(await save("txt"), expected.map(({ text }) => `${text}\n`).join(""));
  const said = expected.map(({ text }) => text).join(" ");
  const cue = /(\d+:)?(\d\d):(\d\d)[.,](\d{3}) --> /;
  const srt = await save("srt");
  const vtt = await save("vtt");
  assert.ok(srt.startsWith("1\n00:00:0"));
  assert.ok(vtt.startsWith("WEBVTT\n\n00:00:0"));
  for (const subtitles of [srt, vtt]) {
    const [, , minutes, seconds, milliseconds] = cue.exec(subtitles);
    assert.equal(60_000 * minutes + 1000 * seconds + Number(milliseconds), Math.round(1000 * expected[0].words[0].start));
    const words = subtitles.split("\n").filter((line) => /^[A-Z' ]+$/.test(line) && line !== "WEBVTT");
    assert.equal(words.join(" "), said);
  }
  await page.click("#clear");
  assert.deepEqual(await segments(page), []);
  await check();
});

test("the microphone is heard: partials first, then finals", async () => {
  const { page, check } = await openPage(browser, server.url("/"));
  await page.click("#talk");
  await page.locator("#slab[data-kind=partial]").waitFor();
  assert.equal(await page.locator(".segment").count(), 0);
  assert.equal(await page.locator("#slab-text").evaluate((text) => getComputedStyle(text).fontStyle), "italic");
  assert.match(await page.locator("#latency").textContent(), /^\d+ ms$/);
  await until(() => page.locator("#level").evaluate((meter) => meter.ariaValueNow > -45));
  await page.locator(".segment").waitFor();
  assert.equal(await page.locator("#slab-text").evaluate((text) => getComputedStyle(text).fontStyle), "normal");
  await page.click("#talk");
  await state(page, "Done");
  const heard = (await segments(page)).join(" ");
  assert.ok(similarity(heard, expectedSpoken.text) >= heardAlike, `heard ${heard}, not ${expectedSpoken.text}`);
  await check();
});

test("after a crash of the server the recording goes on, and nothing is lost", async () => {
  let doomed = await TuttiServer.start();
  try {
    const { page, check } = await openPage(browser, doomed.url("/"), { tolerated: /ERR_|WebSocket connection|Failed to load/ });
    await page.click("#settings-open");
    await page.check("[value=spoken]");
    await page.keyboard.press("Escape");
    await page.setInputFiles("#file", recording);
    await page.locator(".segment").first().waitFor();
    await doomed.kill();
    await state(page, "trying again");
    doomed = await TuttiServer.start({ address: doomed.address });
    await state(page, "Done");
    const [first, ...others] = await segments(page);
    assert.equal(first, expected[0].text);
    const rest = others.join(" ");
    assert.ok(similarity(rest, expected[1].text) >= heardAlike, `understood ${rest}, not ${expected[1].text}`);
    const lastTip = await page.locator(".word").last().getAttribute("data-tip");
    const { end } = expected[1];
    assert.ok(Math.abs(parseFloat(lastTip.split(" to ")[1]) - end) < 0.5, `${lastTip}, not ${end}`);
    await check();
  } finally {
    await doomed.stop();
  }
});

test("a server with keys is given one", async () => {
  const keys = join(folder, "keys.toml");
  writeFileSync(keys, `browser = "sha256:${createHash("sha256").update("tutti_test").digest("hex")}"\n`);
  const locked = await TuttiServer.start({ options: ["--api-keys-file", keys] });
  try {
    const { page, check } = await openPage(browser, locked.url("/"), { tolerated: /401/ });
    await state(page, "asks for a key");
    await page.fill("#key", "tutti_wrong");
    await page.keyboard.press("Enter");
    await page.locator("#key-form:not([hidden])").waitFor();
    await page.fill("#key", "tutti_test");
    await page.keyboard.press("Enter");
    await state(page, "Ready");
    await recognizeFile(page);
    assert.deepEqual(await segments(page), expected.map(({ text }) => text));
    const kept = await page.evaluate(() => [JSON.stringify(sessionStorage), JSON.stringify(localStorage), location.href]);
    assert.deepEqual(kept.map((where) => where.includes("tutti_test")), [true, false, false]);
    await check();
  } finally {
    await locked.stop();
  }
});

test("everything can be done with the keyboard", async () => {
  const { page, check } = await openPage(browser, server.url("/"));
  await state(page, "Ready");
  const focused = () => page.evaluate(() => document.activeElement.id || document.activeElement.className || document.activeElement.dataset.save);
  const tabTo = async (name) => {
    for (let i = 0; i < 20 && (await focused()) !== name; ++i) await page.keyboard.press("Tab");
    assert.equal(await focused(), name);
    const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
    assert.notEqual(outline, "none", `${name} shows no focus`);
  };

  // Early: the browser shows a chooser to the driver only once it knows that somebody waits for one.
  const choosing = page.waitForEvent("filechooser");

  await page.keyboard.press("Space");
  await state(page, "Listening");
  await page.keyboard.press("Space");
  await state(page, "Done");

  await tabTo("open");
  await page.keyboard.press("Enter");
  const chooser = await choosing;
  page.on("dialog", (dialog) => dialog.accept()); // that the transcript is replaced
  await chooser.setFiles(recording);
  await page.locator(".segment").nth(1).waitFor();
  await state(page, "Done");

  await tabTo("word");
  await page.keyboard.press("Home");
  await page.keyboard.press("ArrowRight");
  const [, second] = expected[0].words;
  assert.match(await page.locator("#tip").textContent(), new RegExp(`^${second.start.toFixed(2)} to`));
  assert.equal(await page.evaluate(() => document.activeElement.getAttribute("aria-describedby")), "tip");

  await page.locator("[data-save=srt]").focus();
  await Promise.all([page.waitForEvent("download"), page.keyboard.press("Enter")]);
  await tabTo("settings-open");
  await page.keyboard.press("Enter");
  await page.locator("#settings[open]").waitFor();
  await page.keyboard.press("Escape");
  assert.equal(await focused(), "settings-open");
  await check();
});

test("settings are kept, and sent", async () => {
  const { page, check } = await openPage(browser, server.url("/"));
  await page.click("#settings-open");
  await page.uncheck("[name=words]");
  await page.fill("[name=endpointing]", "0");
  await page.fill("[name=max_segment]", "0");
  await page.click(".sheet-close");
  await page.reload();
  const [socket] = await Promise.all([page.waitForEvent("websocket"), page.setInputFiles("#file", recording)]);
  assert.match(socket.url(), /words=false&endpointing=0&max_segment=0$/);
  await state(page, "Done");
  assert.equal(await page.locator(".segment").count(), 1, "nothing ends a segment but the end");
  assert.equal(await page.locator(".word").count(), 0);
  await check();
});

test("a file that is no audio is refused with a reason", async () => {
  const { page, check } = await openPage(browser, server.url("/"));
  await page.setInputFiles("#file", { name: "notes.txt", mimeType: "text/plain", buffer: Buffer.from("no audio") });
  await state(page, "notes.txt is nothing that this browser can play");
  await check();
});

for (const colorScheme of ["light", "dark"]) {
  test(`nobody is shut out, ${colorScheme}`, async () => {
    const { page, check } = await openPage(browser, server.url("/"), { colorScheme });
    await state(page, "Ready");
    await checkAccessibility(page, "empty");
    await recognizeFile(page);
    await checkAccessibility(page, "with a transcript");
    const live = await page.locator("[aria-live]:not([aria-live=off]), [role=log], [role=status]").evaluateAll(
      (regions) => regions.map(({ id }) => id));
    assert.deepEqual(live, ["state", "log"], "partials must not be read out");
    await page.click("#settings-open");
    await checkAccessibility(page, "settings");
    await page.keyboard.press("Escape");
    await checkFits(page, 360);
    await check();
  });
}

test("nothing moves for those who do not want it", async () => {
  const { page, check } = await openPage(browser, server.url("/"), { reducedMotion: "reduce" });
  await page.click("#talk");
  await page.locator("#slab[data-kind=partial]").waitFor();
  assert.equal(await page.evaluate(() => document.getAnimations().length), 0);
  await check();
});

test("the policy keeps the page from other hosts and from inline code", async () => {
  const { page } = await openPage(browser, server.url("/"));
  const violated = await page.evaluate(async () => {
    const directives = [];
    document.addEventListener("securitypolicyviolation", ({ effectiveDirective }) => directives.push(effectiveDirective));
    await fetch("http://127.0.0.1:9/").catch(() => {});
    const style = document.createElement("style");
    style.textContent = "body { color: red }";
    document.head.append(style);
    try {
      document.body.innerHTML = "<p>not trusted</p>";
    } catch {
      // Reported as well.
    }
    await new Promise((done) => { setTimeout(done, 200); });
    return directives;
  });
  assert.deepEqual(violated.sort(), ["connect-src", "require-trusted-types-for", "style-src-elem"]);
  await page.context().close();
});
