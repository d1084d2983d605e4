// The real program, serving. TEST_PROGRAM, TEST_MODEL, TEST_CLIP_TO_PCM and TEST_SPEECH name what is tested, as for the clients
// of tests/net.

import { once } from "node:events";
import WebSocket from "ws";
import { decodeClip, ServerProcess } from "../../net/tutti_server.mjs";

export class TuttiServer extends ServerProcess {
  /** `address` is one that was free, to come back at the same. */
  static start({ address = "127.0.0.1:0", options = [] } = {}) {
    return new TuttiServer(address, ...options).listen();
  }

  url(path) {
    return `http://${this.address}${path}`;
  }

  /** Without a word to its clients, as in a crash. */
  async kill() {
    this.process.kill("SIGKILL");
    await once(this.process, "exit");
  }

  /** A native session of the npm client `ws`, which has nothing of the page: `{ socket, events }`. */
  async openStream(query) {
    const socket = new WebSocket(`ws://${this.address}/v1/stream?${query}`);
    const events = [];
    socket.on("message", (data) => events.push(JSON.parse(data)));
    await once(socket, "open");
    return { socket, events };
  }

  /** The finals of 16 kHz samples. */
  async finals(pcm) {
    const { socket, events } = await this.openStream("sample_rate=16000");
    socket.send(Buffer.from(pcm.buffer, pcm.byteOffset, pcm.byteLength));
    socket.send('{"type":"eof"}');
    await once(socket, "close");
    return events.filter(({ type, text }) => type === "final" && text !== "");
  }
}

/** 16 kHz samples of clips, with silence before, between and after them. */
export function speech(clips, silenceSeconds = 1.5) {
  const silence = Buffer.alloc(2 * 16_000 * silenceSeconds);
  const parts = clips.flatMap((clip) => [silence, decodeClip(clip)]);
  const bytes = Buffer.concat([...parts, silence]);
  return new Int16Array(bytes.buffer, bytes.byteOffset, bytes.length / 2);
}

/** A WAV file of 16 kHz samples. */
export function wav(pcm) {
  const header = Buffer.alloc(44);
  header.write("RIFF", 0);
  header.writeUInt32LE(36 + pcm.byteLength, 4);
  header.write("WAVEfmt ", 8);
  header.writeUInt32LE(16, 16);
  header.writeUInt16LE(1, 20);
  header.writeUInt16LE(1, 22);
  header.writeUInt32LE(16_000, 24);
  header.writeUInt32LE(32_000, 28);
  header.writeUInt16LE(2, 32);
  header.writeUInt16LE(16, 34);
  header.write("data", 36);
  header.writeUInt32LE(pcm.byteLength, 40);
  return Buffer.concat([header, Buffer.from(pcm.buffer, pcm.byteOffset, pcm.byteLength)]);
}
