// The search of the site: sections with any of the words that are asked for, best first. A rare word weighs more than
// a frequent one, a heading more than the title of its page, and that more than the text.
const UP = document.currentScript.dataset.up;
const field = document.getElementById("search");
const found = document.getElementById("found");
const MAX_FOUND = 12;
const STEM = 5;
// Many words are in the changelog, which few readers look for.
const LESS = /^CHANGELOG/;

function words(text) {
  return text.toLowerCase().split(/[^\p{L}\p{N}]+/u).filter((word) => word !== "");
}

const INDEX = SECTIONS.map((section) => {
  const fields = section.slice(1).map(words);
  const phrases = fields.map((all) => ` ${all.join(" ")} `);
  return { section, fields, phrases, weight: LESS.test(section[0]) ? 0.5 : 1 };
});

// How well a word fits the one that is asked for: it begins like it, or both have the same stem.
function fit(word, asked) {
  if (word.startsWith(asked)) return 1;
  const stem = asked.slice(0, STEM);
  const isSame = stem.length === STEM && word.startsWith(stem);
  return isSame || (word.length > 3 && asked.startsWith(word)) ? 0.6 : 0;
}

function points({ fields }, asked) {
  const [page, title, text] = fields.map((all) => all.map((word) => fit(word, asked)));
  const best = (all) => Math.max(0, ...all);
  const often = Math.min(3, text.reduce((sum, one) => sum + one, 0));
  const sum = 8 * best(title) + 4 * best(page) + often;
  // A match counts more than its place, so that more words of the question are better.
  return sum === 0 ? 0 : 4 + sum;
}

function search(question) {
  const all = words(question);
  const phrase = ` ${all.join(" ")}`;
  const scores = INDEX.map(() => 0);
  for (const asked of new Set(all)) {
    const matches = INDEX.map((one) => points(one, asked));
    const count = matches.filter((one) => one > 0).length;
    const rarity = Math.log(1 + INDEX.length / (1 + count));
    matches.forEach((one, at) => { scores[at] += rarity * one; });
  }
  // The words of a question in one piece, and in their order, count double.
  const factor = ({ phrases, weight }) =>
    all.length > 1 && phrases.some((text) => text.includes(phrase)) ? 2 * weight : weight;
  return INDEX.map((one, at) => [scores[at] * factor(one), one.section])
    .filter(([score]) => score > 0)
    .sort((one, other) => other[0] - one[0])
    .slice(0, MAX_FOUND)
    .map(([, section]) => section);
}

function show() {
  found.replaceChildren();
  if (words(field.value).length === 0) return;
  const results = search(field.value);
  for (const [href, page, title] of results) {
    const link = document.createElement("a");
    link.href = UP + href;
    link.textContent = title;
    const place = document.createElement("small");
    place.textContent = page;
    link.append(place);
    const item = document.createElement("li");
    item.append(link);
    found.append(item);
  }
  if (results.length === 0) {
    const item = document.createElement("li");
    item.textContent = "Nothing found";
    found.append(item);
  }
}

field.addEventListener("input", show);
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== field) {
    event.preventDefault();
    field.focus();
  }
});
