const firstDelay = 500;
const longestDelay = 10_000;

/**
 * Milliseconds to wait before attempt 0, 1, 2, ... to connect again: doubled each time, and up to a quarter less by
 * chance, so that the clients of a server that was restarted do not all come at once.
 */
export function retryDelay(attempt, random = Math.random) {
  return Math.min(longestDelay, firstDelay * 2 ** attempt) * (1 - random() / 4);
}
