/**
 * Where the words of a segment lie in its text: `[{ word, start, end, confidence, from, to }]`, with text.slice(from, to) the
 * word. Empty when the words are not those of the text.
 */
export function locateWords(text, words) {
  const located = [];
  let at = 0;
  for (const word of words) {
    const from = text.indexOf(word.word, at);
    if (from < 0) return [];
    at = from + word.word.length;
    located.push({ ...word, from, to: at });
  }
  return located;
}

/** How far a confidence in [0, 1] is to be trusted: `""`, `"less"` or `"little"`. */
export function doubt(confidence) {
  if (confidence === undefined || confidence >= 0.8) return "";
  return confidence >= 0.5 ? "less" : "little";
}

/** A confidence in words: "82 % sure". */
export function sureness(confidence) {
  return `${Math.round(confidence * 100)} % sure`;
}
