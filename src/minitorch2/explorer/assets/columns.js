/* A column: a list of which only the rows in sight are elements, or a drawing in its place. */

const ROW = 19;

class Column {
  constructor(pane, number, page) {
    this.pane = pane;
    this.number = number;
    this.page = page;
    this.active = 0;
    this.drawn = false;
    this.root = tag("section", "column");
    this.root.id = `column-${number}`;
    this.head = tag("div", "head");
    this.head.append(tag("h2", "", pane.title));
    this.count = tag("button", "");
    this.count.type = "button";
    this.count.hidden = true;
    this.count.addEventListener("click", () => this.showNextLit());
    this.head.append(this.count);
    if (pane.drawing && pane.drawing.boxes.length) this.head.append(this.drawButton());
    if (pane.fusion && pane.fusion.nodes.length > 1) this.head.append(question(pane.fusion));
    this.list = tag("div", "rows");
    this.list.tabIndex = 0;
    this.list.setAttribute("role", "listbox");
    this.list.setAttribute("aria-label", pane.title);
    this.room = tag("div", "room");
    this.list.append(this.room);
    this.root.append(this.head, this.list);
    this.shown = [0, 0];
    this.made = [];
    this.lit = [];
    this.top = this.height = 0;
    this.late = false;
    this.list.addEventListener("scroll", () => { this.measure(); this.render(); });
    this.list.addEventListener("keydown", (event) => this.key(event));
    this.room.addEventListener("pointermove", (event) => this.point(event, false));
    this.room.addEventListener("pointerleave", () => this.page.unlight());
    this.room.addEventListener("click", (event) => this.point(event, true));
  }

  drawButton() {
    this.toggle = tag("button", "", "Draw");
    this.toggle.type = "button";
    this.toggle.setAttribute("aria-pressed", "false");
    this.toggle.addEventListener("click", () => this.setDrawn(!this.drawn));
    return this.toggle;
  }

  setDrawn(drawn) {
    if (!this.toggle) return;
    this.drawn = drawn;
    this.toggle.setAttribute("aria-pressed", String(drawn));
    this.toggle.textContent = drawn ? "Text" : "Draw";
    this.root.classList.toggle("drawn", drawn);
    this.room.replaceChildren();
    this.shown = [0, 0];
    this.widest = 0;  // a drawing has a size of its own
    this.measure();
    if (drawn) this.paint(); else this.render();
  }

  paint() {
    const lit = this.litKeys();
    const { boxes } = this.pane.drawing;
    const centers = boxes.map((box, i) => (lit.has(box.key) ? i : -1)).filter((i) => i >= 0);
    const { svg, left } = draw(this.pane.drawing, centers, (key) => this.page.pinKey(key));
    this.room.style.height = this.room.style.width = "";
    this.room.replaceChildren(svg);
    if (left) {
      const note = `The nodes around the lit ones; ${left} others are left out.`;
      this.room.prepend(tag("p", "note", note));
    }
    this.markDrawing(lit);
    this.center();
  }

  /** Bring the first lit box of the drawing, or else its middle, into sight. */
  center() {
    const lit = this.room.querySelector("g.lit rect");
    const [x, y] = lit ? [Number(lit.getAttribute("x")), Number(lit.getAttribute("y"))]
      : [this.room.scrollWidth / 2, 0];
    this.list.scrollTo(x - this.list.clientWidth / 2 + 75, y - this.list.clientHeight / 3);
  }

  markDrawing(lit) {
    for (const group of this.room.querySelectorAll("g")) {
      group.classList.toggle("lit", lit.has(group.dataset.key));
    }
  }

  litKeys() {
    return new Set(this.lit.map((index) => this.pane.rows[index][1]));
  }

  /** Read from the layout what the other functions need; the page reads of all columns, then writes. */
  measure() {
    const { left, right } = this.root.getBoundingClientRect();
    this.inSight = right > 0 && left < window.innerWidth;
    if (!this.late) this.top = this.list.scrollTop;
    this.height = this.list.clientHeight;
  }

  /** Make the elements of the rows in sight, and of some around them; mark those that are there.
   *  A column out of sight is late: it does so when it comes into sight. */
  render(force) {
    if (this.drawn) { if (force) this.markDrawing(this.litKeys()); return; }
    if (!this.inSight) { this.late = true; return; }
    const rows = this.pane.rows;
    if (!this.widest) {
      this.widest = Math.max(20, ...rows.map((row) => row[0].length + row[3].length));
      this.room.style.height = `${rows.length * ROW}px`;
      this.room.style.width = `${this.widest + 4}ch`;
    }
    if (this.late) {
      this.late = false;
      this.list.scrollTop = this.top;
    }
    const first = Math.max(0, Math.floor(this.top / ROW) - 12);
    const last = Math.min(rows.length, first + Math.ceil((this.height || 900) / ROW) + 24);
    if (first === this.shown[0] && last === this.shown[1]) {
      if (force) this.made.forEach((row, i) => this.mark(row, first + i));
      return;
    }
    this.shown = [first, last];
    this.made = [];
    for (let i = first; i < last; i++) this.made.push(this.rowElement(i));
    this.room.replaceChildren(...this.made);
  }

  rowElement(index) {
    const [text, key, origins, mark] = this.pane.rows[index];
    const id = this.page.start[this.number] + index;
    const row = tag("div", "row", text || " ");
    row.id = `row-${id}`;
    row.style.top = `${index * ROW}px`;
    row.dataset.index = index;
    row.dataset.mark = mark;
    row.setAttribute("role", "option");
    row.classList.toggle("keyed", Boolean(key || origins.length));
    if (["saved", "recomputed"].includes(mark)) row.append(tag("span", "mark", `  ${mark}`));
    this.mark(row, index);
    return row;
  }

  /** Show what the page knows of a row. */
  mark(row, index) {
    const id = this.page.start[this.number] + index, isSelf = this.page.self === id;
    row.classList.toggle("lit", this.page.lit.has(id));
    row.classList.toggle("self", isSelf);
    row.classList.toggle("found", this.page.found.has(id));
    row.classList.toggle("active", this.active === index && document.activeElement === this.list);
    if (row.getAttribute("aria-selected") !== String(isSelf)) row.setAttribute("aria-selected", String(isSelf));
  }

  point(event, pins) {
    const row = event.target.closest(".row");
    if (!row) return;
    const id = this.page.start[this.number] + Number(row.dataset.index);
    if (pins) { this.active = Number(row.dataset.index); this.page.pin(id); } else this.page.light(id);
  }

  key(event) {
    const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: 20, PageUp: -20, Home: -1e9, End: 1e9 };
    if (event.key in moves) {
      const last = this.pane.rows.length - 1;
      this.active = Math.min(last, Math.max(0, this.active + moves[event.key]));
      this.show(this.active);
      this.list.setAttribute("aria-activedescendant", `row-${this.page.start[this.number] + this.active}`);
      this.page.light(this.page.start[this.number] + this.active, true);
    } else if (event.key === "ArrowRight" || event.key === "ArrowLeft") {
      this.page.focusColumn(this.number, event.key === "ArrowRight" ? 1 : -1);
    } else if (event.key === "Enter") {
      this.page.pin(this.page.start[this.number] + this.active);
    } else if (event.key === "d") {
      this.setDrawn(!this.drawn);
    } else return;
    event.preventDefault();
  }

  /** Bring a row into sight. */
  show(index) {
    this.measure();
    this.scrollTo(index);
    this.render(true);
  }

  /** Scroll to a row that is out of sight, as last measured. */
  scrollTo(index) {
    const top = index * ROW;
    if (top >= this.top && top <= this.top + this.height - 2 * ROW) return;
    const most = this.pane.rows.length * ROW - this.height;
    this.top = Math.max(0, Math.min(most, Math.floor(top - this.height / 3)));
    if (this.inSight && !this.late) this.list.scrollTop = this.top; else this.late = true;
  }

  showNextLit() {
    if (!this.lit.length) return;
    const next = this.lit.find((index) => index > this.active);
    this.active = next === undefined ? this.lit[0] : next;
    this.show(this.active);
  }

  /** Mark the rows that are lit now; nothing is read from the layout. */
  update(scrolls) {
    this.count.hidden = !this.lit.length;
    this.count.textContent = `${this.lit.length} lit`;
    if (this.drawn && scrolls && this.pane.drawing.boxes.length > MOST_BOXES) this.paint();
    this.render(true);
  }
}

/** Return the form that asks why two nodes of a schedule are not one. */
function question(fusion) {
  const form = tag("div", "question", "Why not ");
  const choices = [0, 1].map((number) => {
    const select = tag("select", "");
    select.setAttribute("aria-label", number ? "Second node" : "First node");
    fusion.nodes.forEach((node, i) => select.add(new Option(node.name, i)));
    select.value = String(number);
    return select;
  });
  const answer = tag("output", "");
  const reply = () => {
    const pair = choices.map((select) => Number(select.value));
    answer.textContent = whyNot(fusion, Math.min(...pair), Math.max(...pair));
  };
  for (const select of choices) select.addEventListener("change", reply);
  form.append(choices[0], " with ", choices[1], "?", answer);
  reply();
  return form;
}

function whyNot(fusion, first, second) {
  if (first === second) return "That is one node: its buffers are computed in one kernel.";
  const found = fusion.reasons.find(([a, b]) => a === first && b === second);
  return found ? found[2] : "They touch no buffer in common: one kernel would move as many bytes as two.";
}

function tag(name, className, text) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}
