/**
 * Times and confidence of the word under the pointer, or that has the focus. All words are one stop of the Tab key; arrows
 * go from word to word, Home and End to the first and the last.
 */
export function giveWordTips(list, tip) {
  let current = null; // the word that Tab reaches

  const words = () => [...list.querySelectorAll(".word")];

  function show(word) {
    tip.textContent = word.dataset.tip;
    tip.hidden = false;
    word.setAttribute("aria-describedby", tip.id);
    const box = word.getBoundingClientRect();
    const left = Math.max(8, Math.min(box.left + box.width / 2 - tip.offsetWidth / 2, innerWidth - tip.offsetWidth - 8));
    const above = box.top - tip.offsetHeight - 6;
    tip.style.transform = `translate(${left}px, ${above > 0 ? above : box.bottom + 6}px)`;
  }

  function hide({ target }) {
    target.removeAttribute?.("aria-describedby");
    tip.hidden = true;
  }

  function makeCurrent(word) {
    if (current) current.tabIndex = -1;
    current = word;
    if (current) current.tabIndex = 0;
  }

  function neighbour(key) {
    const all = words();
    const at = all.indexOf(current);
    const to = { ArrowLeft: at - 1, ArrowUp: at - 1, ArrowRight: at + 1, ArrowDown: at + 1, Home: 0, End: all.length - 1 }[key];
    return all[to];
  }

  const ifWord = (action) => (event) => {
    if (event.target.matches?.(".word")) action(event);
  };
  list.addEventListener("pointerover", ifWord(({ target }) => show(target)));
  list.addEventListener("pointerout", ifWord(hide));
  list.addEventListener("focusout", ifWord(hide));
  list.addEventListener("focusin", ifWord(({ target }) => {
    makeCurrent(target);
    show(target);
  }));
  list.addEventListener("keydown", ifWord((event) => {
    if (event.key === "Escape") hide(event);
    const next = neighbour(event.key);
    if (!next) return;
    event.preventDefault();
    next.focus();
  }));
  // The newest word is where Tab goes, unless somebody is reading.
  new MutationObserver(() => {
    if (!list.contains(document.activeElement)) makeCurrent(words().at(-1) ?? null);
  }).observe(list, { childList: true });
}
