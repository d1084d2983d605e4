/** 1 for equal texts, 0 for such with nothing in common: 1 − edit distance / length of the longer one, by letters. */
export function similarity(one, other) {
  let row = Array.from({ length: other.length + 1 }, (_, i) => i);
  for (let i = 1; i <= one.length; ++i) {
    const next = [i];
    for (let j = 1; j <= other.length; ++j) {
      const replaced = row[j - 1] + (one[i - 1] === other[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, row[j] + 1, next[j - 1] + 1));
    }
    row = next;
  }
  return 1 - row.at(-1) / Math.max(1, one.length, other.length);
}
