/** What can be asked of the server that this page came from. */

/** Headers that present a key, if there is one. */
export function authorization(key) {
  return key ? { Authorization: `Bearer ${key}` } : {};
}

/** `{ model }`, or `{ needsKey: true }` when it lets nobody in without a key, or with this one. */
export async function describeServer(key) {
  const response = await fetch("/v1/models", { headers: authorization(key), cache: "no-store" });
  if (response.status === 401) return { needsKey: true };
  if (!response.ok) throw new Error(`/v1/models answers ${response.status}`);
  const { data } = await response.json();
  return { model: data[0].id };
}

/** A browser's WebSocket sends no headers: the key goes as a subprotocol. */
export function openSocket(query, key) {
  const url = new URL("/v1/stream", location.href);
  url.protocol = url.protocol.replace("http", "ws");
  url.search = query;
  return new WebSocket(url, key ? ["token", key] : []);
}
