// Look at the page in one theme; return what is wrong with it: the faults as strings.
(theme) => {
  document.body.dataset.theme = theme;
  const still = document.createElement("style");
  still.textContent = "* { transition: none !important; animation: none !important; }";
  document.head.append(still);
  const faults = [];
  const width = document.documentElement.clientWidth;
  const isWide = width >= 1000;
  const article = document.querySelector("article") || document.body;
  const name = (element) =>
    `<${element.tagName.toLowerCase()}> ${(element.textContent || element.src || "").trim().slice(0, 60)}`;
  const isShown = (element) => element.getClientRects().length > 0;

  // Does something to the sides of it scroll, so that the reader can reach all of it?
  const scroller = (element) => {
    for (let outer = element; outer && outer !== document.body; outer = outer.parentElement) {
      if (["auto", "scroll"].includes(getComputedStyle(outer).overflowX)) return outer;
    }
    return null;
  };

  if (document.documentElement.scrollWidth > width) {
    faults.push(`the page is ${document.documentElement.scrollWidth} px wide in ${width} px`);
  }

  for (const element of article.querySelectorAll("*")) {
    if (!isShown(element)) continue;
    const box = element.getBoundingClientRect();
    if (box.width > 1 && box.right > width + 1 && !scroller(element)) {
      faults.push(`outside of the window: ${name(element)}`);
    }
    const { overflowX } = getComputedStyle(element);
    const overflow = element.scrollWidth - element.clientWidth;
    if (element.clientWidth && overflow > 1 && ["hidden", "clip"].includes(overflowX)) {
      faults.push(`cut by ${overflow} px: ${name(element)}`);
    }
  }

  // On a laptop, the code is read with no scrolling.
  for (const element of isWide ? article.querySelectorAll("div.highlight pre") : []) {
    const overflow = element.scrollWidth - element.clientWidth;
    if (isShown(element) && overflow > 1) faults.push(`code cut by ${overflow} px: ${name(element)}`);
  }

  for (const element of article.querySelectorAll("img")) {
    if (!isShown(element)) continue;
    if (!element.complete || !element.naturalWidth) faults.push(`no picture: ${element.src}`);
    const box = element.parentElement.getBoundingClientRect();
    const overflow = element.getBoundingClientRect().right - box.right;
    const hint = getComputedStyle(element.closest(".picture") || element, "::before").content;
    if (overflow > 1 && !(scroller(element) && hint.includes("scroll"))) {
      faults.push(`picture cut by ${overflow} px: ${element.src}`);
    }
  }
  for (const group of article.querySelectorAll(".picture")) {
    const shown = [...group.querySelectorAll("img")].filter(isShown).length;
    if (shown !== 1) faults.push(`${shown} pictures instead of one: ${group.innerHTML.slice(0, 80)}`);
  }

  // The contrast of texts, as the accessibility guidelines define it.
  const parse = (color) => {
    const parts = (color.match(/[\d.]+/g) || []).map(Number);
    return parts.length === 3 ? [...parts, 1] : parts;
  };
  const luminance = (rgb) => {
    const [r, g, b] = rgb.map((v) => {
      const part = v / 255;
      return part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const blend = (over, under) => over.slice(0, 3).map((v, i) => v * over[3] + under[i] * (1 - over[3]));
  const behind = (element) => {
    const layers = [];
    for (let outer = element; outer; outer = outer.parentElement) {
      const color = parse(getComputedStyle(outer).backgroundColor);
      if (color[3] > 0) layers.push(color);
      if (color[3] === 1) break;
    }
    return layers.reduceRight((under, layer) => blend(layer, under), [255, 255, 255]);
  };
  const weak = new Map();
  const walker = document.createTreeWalker(article, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !isShown(element) || element.closest("script, style, .headerlink")) continue;
    const ground = behind(element);
    const ink = blend(parse(getComputedStyle(element).color), ground);
    const [a, b] = [luminance(ink), luminance(ground)].sort((x, y) => y - x);
    const contrast = (a + 0.05) / (b + 0.05);
    if (contrast < 4.5) {
      const key = `${element.tagName.toLowerCase()}.${element.className}`;
      if (!weak.has(key)) weak.set(key, `contrast ${contrast.toFixed(1)}: ${key} ${name(element)}`);
    }
  }
  return [...new Set([...faults, ...weak.values()])];
};
