// What a reader sees of an open page: an expression whose value is a promise of it. test_browser.py judges it.
(async () => {
  const graphs = document.querySelectorAll(".graph");
  for (let tries = 0; document.querySelectorAll(".graph svg").length < graphs.length && tries < 200; tries++)
    await new Promise((done) => setTimeout(done, 50));
  document.querySelectorAll("details").forEach((each) => (each.open = true));

  const colour = (text) => {
    const numbers = text.match(/[\d.]+/g)?.map(Number);
    return numbers && text.startsWith("rgb") ? { rgb: numbers.slice(0, 3), alpha: numbers[3] ?? 1 } : null;
  };
  const over = (front, alpha, back) => front.map((part, at) => part * alpha + back[at] * (1 - alpha));
  const backdrop = (element) => {
    const own = colour(getComputedStyle(element).backgroundColor) ?? { rgb: [0, 0, 0], alpha: 0 };
    if (own.alpha === 1) return own.rgb;
    const behind = element.parentElement ? backdrop(element.parentElement) : [255, 255, 255];
    return over(own.rgb, own.alpha, behind);
  };
  const luminance = (rgb) =>
    rgb
      .map((part) => part / 255)
      .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
      .reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0);
  const contrast = (one, other) => {
    const [dark, light] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (light + 0.05) / (dark + 0.05);
  };
  const opacity = (element) => (element ? Number(getComputedStyle(element).opacity) * opacity(element.parentElement) : 1);
  const drawn = (element, property) => {
    const [style, back] = [getComputedStyle(element), backdrop(element)];
    const found = colour(style[property]);
    if (!found) return null;
    const share = property === "color" ? 1 : Number(style[`${property}Opacity`]);
    return contrast(over(found.rgb, found.alpha * share * opacity(element), back), back);
  };

  const texts = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const [node, element] = [walker.currentNode, walker.currentNode.parentElement];
    const range = document.createRange();
    range.selectNodeContents(node);
    const boxes = [...range.getClientRects()].filter((box) => box.width && box.height);
    if (!node.data.trim() || !boxes.length || !element.checkVisibility()) continue;
    const svg = element.ownerSVGElement;
    const frame = svg?.getBoundingClientRect();
    texts.push({
      text: node.data.trim(),
      where: svg ? "graph" : element.closest("[id], [class]")?.outerHTML.match(/^<[^>]*>/)[0] ?? "page",
      contrast: drawn(element, svg ? "fill" : "color"),
      // A label that reaches beyond its picture is cut.
      inside: !frame || boxes.every((box) => box.left >= frame.left - 1 && box.right <= frame.right + 1),
      // Text in a part that scrolls by itself may lie outside of the window.
      scrolls: Boolean(element.closest(".wide")),
      right: Math.max(...boxes.map((box) => box.right)),
    });
  }
  const lines = [...document.querySelectorAll(".graph .mark-line path, .swatch line")].map((each) => ({
    stroke: getComputedStyle(each).stroke,
    width: parseFloat(getComputedStyle(each).strokeWidth),
    contrast: drawn(each, "stroke"),
  }));
  return {
    graphs: [...graphs].map((each) => each.querySelectorAll("svg").length),
    width: document.documentElement.clientWidth,
    scroll: document.documentElement.scrollWidth,
    paper: getComputedStyle(document.body).backgroundColor,
    texts,
    lines,
  };
})()
