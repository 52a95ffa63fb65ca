// The boxes of the page that is shown; tests call these functions in the browser.

/** Panels that overlap, headings that cannot be reached, text that is cut off or covered: a line for each. */
function problems() {
  const PANELS = "header, .banner, .totals, .totals-mixed, .view-head, .toolbar, .panel, .map-frame, .what-if, .table-frame, .pager, footer";
  // Text belongs inside the closest of these, as a reader sees it.
  const BOXES = "td, th, button, .badge, .chip-box, .area, .note, .problem, .panel, .table-frame, .what-if, .banner, .totals, header, footer, main, dialog";
  const SLACK = 1.5;
  const lines = [];
  // A dialog is over everything else.
  const scope = document.querySelector("dialog[open]") ?? document.body;
  const short = (text) => text.trim().replace(/\s+/g, " ").slice(0, 60);
  const name = (one) => {
    const label = one.getAttribute("aria-label") ?? one.querySelector("h1, h2, table")?.getAttribute("aria-label") ?? one.querySelector("h1, h2")?.innerText;
    return `${one.tagName.toLowerCase()}${[...one.classList].map((part) => `.${part}`).join("")}${label ? ` "${short(label)}"` : ""}`;
  };
  // Text for screen readers is clipped away on purpose; the first link appears when it has the focus.
  const isShown = (one) => one.checkVisibility({ visibilityProperty: true, opacityProperty: true }) && !one.closest(".skip, select, textarea") && !isClipped(one);
  const isClipped = (one) => one !== null && (getComputedStyle(one).clipPath !== "none" || isClipped(one.parentElement));
  const plain = ({ left, top, right, bottom }) => ({ left, top, right, bottom });
  const isEmpty = (box) => box.right - box.left < 0.5 || box.bottom - box.top < 0.5;
  const common = (a, b) => ({ left: Math.max(a.left, b.left), top: Math.max(a.top, b.top), right: Math.min(a.right, b.right), bottom: Math.min(a.bottom, b.bottom) });

  // The part of a box that its ancestors let through now, and whether the rest can be scrolled to.
  const seen = (element, box) => {
    let [rest, cut] = [plain(box), false];
    for (let one = element; one && one !== document.body; one = one.parentElement) {
      const style = getComputedStyle(one);
      const frame = one.getBoundingClientRect();
      for (const [overflow, first, last, size, scrolled] of [
        [style.overflowX, "left", "right", one.scrollWidth, one.scrollLeft],
        [style.overflowY, "top", "bottom", one.scrollHeight, one.scrollTop],
      ]) {
        if (overflow === "visible") continue;
        const scrolls = overflow === "auto" || overflow === "scroll";
        const [low, high] = scrolls ? [frame[first] - scrolled, frame[first] - scrolled + Math.max(size, frame[last] - frame[first])] : [frame[first], frame[last]];
        if (rest[first] < low - SLACK || rest[last] > high + SLACK) cut = true;
        rest[first] = Math.min(Math.max(rest[first], frame[first]), frame[last]);
        rest[last] = Math.max(Math.min(rest[last], frame[last]), frame[first]);
      }
    }
    return { box: rest, cut };
  };

  window.scrollTo(0, 0);
  const panels = [...scope.querySelectorAll(PANELS)].filter(isShown).map((one) => ({ one, box: seen(one.parentElement, one.getBoundingClientRect()).box }));
  panels.forEach(({ one: a, box }, i) => {
    for (const { one: b, box: other } of panels.slice(i + 1)) {
      const both = common(box, other);
      if (!a.contains(b) && !b.contains(a) && both.right - both.left > SLACK && both.bottom - both.top > SLACK) lines.push(`${name(a)} and ${name(b)} overlap`);
    }
  });

  const texts = [];
  const walker = document.createTreeWalker(scope, NodeFilter.SHOW_TEXT);
  const page = document.documentElement;
  while (walker.nextNode()) {
    const node = walker.currentNode;
    const parent = node.parentElement;
    if (!node.data.trim() || !isShown(parent)) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const said = `"${short(node.data)}" in ${name(parent.closest(BOXES) ?? parent)}`;
    const home = parent.closest(BOXES)?.getBoundingClientRect();
    for (const rect of range.getClientRects()) {
      const box = plain(rect);
      if (isEmpty(box)) continue;
      const { box: rest, cut } = seen(parent, box);
      const off = rest.left < -SLACK || rest.top + scrollY < -SLACK || rest.right > page.clientWidth + SLACK || rest.bottom + scrollY > page.scrollHeight + SLACK;
      const out = home && !isEmpty(rest) && (rest.left < home.left - SLACK || rest.right > home.right + SLACK || rest.bottom > home.bottom + 4 || rest.top < home.top - 4);
      if (cut || off || out) {
        lines.push(`${cut ? "cut off" : off ? "outside of the page" : "outside of its box"}: ${said}`);
        break;
      }
      if (!isEmpty(rest)) texts.push({ box: rest, said, parent });
    }
  }
  texts.sort((a, b) => a.box.top - b.box.top);
  texts.forEach(({ box, said, parent }, i) => {
    for (let j = i + 1; j < texts.length && texts[j].box.top < box.bottom; j += 1) {
      const both = common(box, texts[j].box);
      const height = Math.min(box.bottom - box.top, texts[j].box.bottom - texts[j].box.top);
      // Boxes of letters are somewhat higher than the lines they stand in.
      if (both.right - both.left > SLACK && both.bottom - both.top > 0.4 * height && texts[j].parent !== parent) lines.push(`${said} is over ${texts[j].said}`);
    }
  });

  for (const heading of [...scope.querySelectorAll("h1, h2, h3")].filter(isShown)) {
    heading.scrollIntoView({ block: "nearest" });
    const range = document.createRange();
    range.selectNodeContents(heading);
    const box = [...range.getClientRects()].find((one) => !isEmpty(one));
    if (!box) continue;
    const inside = box.left >= -SLACK && box.top >= -SLACK && box.right <= innerWidth + SLACK && box.bottom <= innerHeight + SLACK;
    const top = inside && document.elementFromPoint(box.left + Math.min(4, box.width / 2), box.top + box.height / 2);
    if (!inside) lines.push(`heading "${short(heading.innerText)}" cannot be scrolled into view`);
    else if (!top || !heading.contains(top)) lines.push(`heading "${short(heading.innerText)}" is covered by ${top ? name(top) : "nothing"}`);
  }
  window.scrollTo(0, 0);
  if (page.scrollWidth > page.clientWidth) lines.push(`the page is ${page.scrollWidth} wide on a screen of ${page.clientWidth}`);
  return [...new Set(lines)];
}

/** The panels from top to bottom; those of one line stand side by side. The same with every font. */
function arrangement() {
  const PANELS = ".panel, .map-frame, .what-if, .table-frame";
  const name = (one) => one.getAttribute("aria-label") ?? one.querySelector("table")?.getAttribute("aria-label") ?? one.querySelector("h2, summary")?.innerText ?? one.className;
  const found = [...document.querySelectorAll(PANELS)]
    .filter((one) => one.checkVisibility() && !one.parentElement.closest(PANELS))
    .map((one) => ({ name: name(one), box: one.getBoundingClientRect() }))
    .sort((a, b) => Math.round(a.box.top - b.box.top) || a.box.left - b.box.left);
  const lines = [];
  for (const one of found) {
    const line = lines.find((line) => line.some((other) => one.box.left >= other.box.right && one.box.top < other.box.bottom - 1));
    if (line) line.push(one);
    else lines.push([one]);
  }
  return lines.map((line) => line.map((one) => one.name));
}
