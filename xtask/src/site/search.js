// The search of the site: sections whose words begin with the words that are asked for, best first.
const UP = document.currentScript.dataset.up;
const field = document.getElementById("search");
const found = document.getElementById("found");
const MAX_FOUND = 12;

function words(text) {
  return text.toLowerCase().split(/[^\p{L}\p{N}]+/u).filter((word) => word !== "");
}

function score(section, asked) {
  const [, page, title, text] = section;
  let sum = 0;
  for (const word of asked) {
    const count = (field) => words(field).filter((one) => one.startsWith(word)).length;
    const points = 8 * count(title) + 4 * count(page) + Math.min(count(text), 5);
    if (points === 0) return 0;
    sum += points;
  }
  return sum;
}

function show() {
  const asked = words(field.value);
  found.replaceChildren();
  if (asked.length === 0) return;
  const ranked = SECTIONS.map((section) => [score(section, asked), section])
    .filter(([points]) => points > 0)
    .sort((one, other) => other[0] - one[0])
    .slice(0, MAX_FOUND);
  for (const [, [href, page, title]] of ranked) {
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
  if (ranked.length === 0) {
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
