/* A graph as layers: longest paths give the layers, barycenters the order inside each. */

const BOX = { width: 150, height: 34, across: 18, down: 34, margin: 16 };
const MOST_BOXES = 240;

/** Return the part of a graph around some boxes, at most as many as can be read. */
function partAround(drawing, centers) {
  const all = drawing.boxes.length;
  if (all <= MOST_BOXES) return drawing.boxes.map((_, i) => i);
  const near = Array.from({ length: all }, () => []);
  for (const [from, to] of drawing.edges) { near[from].push(to); near[to].push(from); }
  const seen = new Set(centers.length ? centers : [0]), waiting = [...seen];
  while (waiting.length && seen.size < MOST_BOXES / 2) {
    for (const other of near[waiting.shift()]) {
      if (!seen.has(other) && seen.size < MOST_BOXES / 2) { seen.add(other); waiting.push(other); }
    }
  }
  return [...seen].sort((a, b) => a - b);
}

/** Return the layer of each box; boxes behind the cut lie below all others. */
function layersOf(boxes, edges, sides) {
  const layer = new Map(boxes.map((box) => [box, 0]));
  const into = new Map(boxes.map((box) => [box, []]));
  for (const [from, to] of edges) into.get(to).push(from);
  const place = (box, least) => layer.set(box, Math.max(least,
    ...into.get(box).filter((from) => sides[from] === sides[box]).map((from) => layer.get(from) + 1)));
  const before = boxes.filter((box) => !sides[box]), behind = boxes.filter((box) => sides[box]);
  before.forEach((box) => place(box, 0));
  const first = before.length ? Math.max(...before.map((box) => layer.get(box))) + 1 : 0;
  behind.forEach((box) => place(box, first));
  return { layer, first };
}

/** Order each layer by the mean position of its neighbours, down and up again. */
function barycenters(rows, edges) {
  const near = new Map(rows.flat().map((box) => [box, []]));
  for (const [from, to] of edges) { near.get(from).push(to); near.get(to).push(from); }
  const at = new Map();
  const settle = (row) => row.forEach((box, i) => at.set(box, i - row.length / 2));
  rows.forEach(settle);
  for (let sweep = 0; sweep < 8; sweep++) {
    const order = sweep % 2 ? [...rows].reverse() : rows;
    for (const row of order) {
      const mean = (box) => near.get(box).length
        ? near.get(box).reduce((sum, other) => sum + at.get(other), 0) / near.get(box).length
        : at.get(box);
      const wish = new Map(row.map((box) => [box, mean(box)]));
      row.sort((a, b) => wish.get(a) - wish.get(b));
      settle(row);
    }
  }
}

/** Return an SVG of a drawing; `choose` is called with the key of a box that is clicked. */
function draw(drawing, centers, choose) {
  const boxes = partAround(drawing, centers), chosen = new Set(boxes);
  const edges = drawing.edges.filter(([from, to]) => chosen.has(from) && chosen.has(to));
  const sides = drawing.boxes.map((box) => box.side);
  const { layer, first } = layersOf(boxes, edges, sides);
  const rows = [];
  for (const box of boxes) (rows[layer.get(box)] = rows[layer.get(box)] || []).push(box);
  barycenters(rows.filter(Boolean), edges);
  const widest = Math.max(1, ...rows.map((row) => (row || []).length));
  const step = BOX.width + BOX.across, drop = BOX.height + BOX.down;
  const hasCut = Boolean(drawing.cut) && boxes.some((box) => sides[box]);
  const spot = new Map();
  rows.forEach((row, y) => (row || []).forEach((box, x) => spot.set(box, {
    x: BOX.margin + (x + (widest - row.length) / 2) * step,
    y: BOX.margin + y * drop + (hasCut && y >= first ? BOX.down : 0),
  })));
  const width = 2 * BOX.margin + widest * step, height = 2 * BOX.margin + (rows.length + 1) * drop;
  const svg = element("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img" });
  for (const [from, to, label] of edges) {
    const a = spot.get(from), b = spot.get(to), half = BOX.width / 2;
    const start = [a.x + half, a.y + BOX.height], end = [b.x + half, b.y];
    const bend = Math.max(16, Math.abs(end[1] - start[1]) / 2);
    svg.append(element("path", {
      d: `M${start} C${start[0]},${start[1] + bend} ${end[0]},${end[1] - bend} ${end}`,
      class: label && sides[to] > sides[from] ? "over" : "",
    }));
    if (label) {
      svg.append(element("text", { x: (start[0] + end[0]) / 2 + 4, y: (start[1] + end[1]) / 2,
        class: "detail" }, label));
    }
  }
  if (hasCut) {
    const y = BOX.margin + first * drop - BOX.down / 4;
    svg.append(element("line", { x1: 0, x2: width, y1: y, y2: y, class: "cut" }));
    svg.append(element("text", { x: 6, y: y - 5 }, `cut: ${drawing.cut}`));
  }
  for (const box of boxes) {
    const { key, label, detail, mark } = drawing.boxes[box], { x, y } = spot.get(box);
    const group = element("g", { class: mark.replace(" ", "-"), "data-key": key, tabindex: 0 });
    group.append(element("rect", { x, y, width: BOX.width, height: BOX.height, rx: 5 }));
    group.append(element("text", { x: x + 6, y: y + 14 }, cutTo(label, 21)));
    group.append(element("text", { x: x + 6, y: y + 27, class: "detail" }, cutTo(detail, 26)));
    group.append(element("title", {}, `${label}\n${detail}`));
    group.addEventListener("click", () => choose(key));
    group.addEventListener("keydown", (event) => { if (event.key === "Enter") choose(key); });
    svg.append(group);
  }
  return { svg, left: drawing.boxes.length - boxes.length };
}

function cutTo(text, most) {
  return text.length > most ? `${text.slice(0, most - 1)}\u2026` : text;
}

function element(name, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}
