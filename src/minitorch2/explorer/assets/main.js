/* The page: the chosen compilation, its columns, and which rows are lit. */

class Page {
  constructor(store) {
    this.store = store;
    this.lit = new Set();
    this.found = new Set();
    this.self = null;
    this.pinned = false;
    this.stepper = new Stepper(this);
    this.chooser = document.getElementById("compilation");
    store.compilations.forEach((each, i) => {
      this.chooser.add(new Option(`${each.id} ${each.function}${each.resumes ? ` ${each.resumes[1]}` : ""}`, String(i)));
    });
    this.chooser.addEventListener("change", () => this.open(Number(this.chooser.value)));
    document.getElementById("search").addEventListener("input", (event) => this.find(event.target.value));
    document.getElementById("search").addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.nextFound();
    });
    document.getElementById("theme").addEventListener("click", () => changeTheme());
    document.addEventListener("keydown", (event) => this.key(event));
    window.addEventListener("resize", () => this.renderAll());
    document.getElementById("columns").addEventListener("scroll", () => this.renderLate());
    if (window.matchMedia("(max-width: 700px)").matches) document.getElementById("stepper").open = false;
    const report = document.getElementById("report");
    report.hidden = !store.report.length;
    report.querySelector("pre").textContent = store.report.join("\n");
    this.open(0);
    this.obey(new URLSearchParams(window.location.hash.slice(1)));
  }

  /** Show what the address asks for: c=compilation, row=key, draw=stage, step=number, theme=dark. */
  obey(wishes) {
    const root = document.documentElement;
    if (wishes.get("theme")) root.dataset.theme = wishes.get("theme");
    const at = this.store.compilations.findIndex((each) => each.id === wishes.get("c"));
    if (at > 0) { this.chooser.value = String(at); this.open(at); }
    if (wishes.get("step")) this.stepper.move(Number(wishes.get("step")));
    if (wishes.get("row")) this.pinKey(wishes.get("row"));
    const drawn = this.columns?.find((column) => column.pane.kind === wishes.get("draw"));
    if (drawn) { drawn.setDrawn(true); drawn.root.scrollIntoView({ inline: "start" }); }
    const shown = this.columns?.find((column) => column.pane.kind === wishes.get("show"));
    if (shown) shown.root.scrollIntoView({ inline: "start" });
  }

  /** Let the address lead back to the row that is lit. */
  remember() {
    const { key } = this.facts.rows[this.self];
    const place = new URLSearchParams({ c: this.compilation.id, row: key });
    if (key) window.history.replaceState(null, "", `#${place}`);
  }

  open(number) {
    const compilation = this.store.compilations[number];
    if (!compilation) {
      document.getElementById("summary").textContent = "Nothing was compiled.";
      document.getElementById("stepper").hidden = true;
      return;
    }
    this.compilation = compilation;
    this.lit = new Set();
    this.found = new Set();
    this.self = null;
    this.pinned = false;
    const panes = ordered(compilation.panes);
    this.facts = provenance(panes);
    this.start = [];
    panes.reduce((sum, pane) => { this.start.push(sum); return sum + pane.rows.length; }, 0);
    this.columns = panes.map((pane, i) => new Column(pane, i, this));
    document.getElementById("columns").replaceChildren(...this.columns.map((column) => column.root));
    this.renderAll();
    this.tabs(panes);
    this.describe(compilation);
    this.stepper.load(compilation.steps);
  }

  renderAll() {
    this.columns.forEach((column) => column.measure());
    this.columns.forEach((column) => column.render(true));
  }

  /** Make the rows of the columns that have come into sight. */
  renderLate() {
    const late = this.columns.filter((column) => column.late);
    late.forEach((column) => column.measure());
    late.forEach((column) => column.render(true));
  }

  tabs(panes) {
    const buttons = panes.map((pane, i) => {
      const button = tag("button", "", pane.title.split(":")[0]);
      button.type = "button";
      button.setAttribute("aria-pressed", "true");
      button.addEventListener("click", () => this.showOrHide(i, button));
      return button;
    });
    document.getElementById("tabs").replaceChildren(...buttons);
  }

  /** Bring a column into sight; hide it if it is wholly in sight already. */
  showOrHide(number, button) {
    const { root } = this.columns[number];
    const { left, right } = root.getBoundingClientRect();
    const isNarrow = window.innerWidth <= 700;
    const inSight = !root.hidden && left >= 0 && right <= window.innerWidth;
    root.hidden = inSight && !isNarrow;
    button.setAttribute("aria-pressed", String(!root.hidden));
    if (root.hidden) return;
    this.columns[number].measure();
    this.columns[number].render(true);
    root.scrollIntoView({ inline: "start", block: "nearest" });
  }

  describe(compilation) {
    const rows = this.facts.rows.length;
    const seconds = Object.values(compilation.seconds).reduce((sum, each) => sum + each, 0);
    document.getElementById("summary").textContent = `${compilation.function} at ${compilation.place}: `
      + `${compilation.panes.length} stages, ${rows} lines, compiled in ${seconds.toFixed(2)} s`;
    const bar = document.getElementById("phases");
    const phases = Object.entries(compilation.seconds).filter(([, each]) => each > 0);
    bar.hidden = !phases.length;
    bar.setAttribute("aria-label", phases.map(([name, each]) => `${name} ${each.toFixed(3)} s`).join(", "));
    bar.replaceChildren(...phases.map(([name, each]) => {
      const part = tag("span");
      part.append(tag("b", "", `${name} ${each.toFixed(3)}`));
      part.style.flex = `${each * 1000} 1 0`;  // parts that add up to less than 1 leave room
      part.title = `${name}: ${each.toFixed(3)} s`;
      return part;
    }));
    const note = document.getElementById("break");
    note.hidden = !compilation.breaks.length;
    note.textContent = compilation.breaks.map((each) => this.breakText(each, compilation)).join("\n");
  }

  breakText(each, compilation) {
    const go = (name) => {
      const found = this.store.compilations.find((other) => other.resumes
        && other.resumes[0] === compilation.id && other.resumes[1] === name);
      return found ? `${name} (compilation ${found.id})` : `${name} (not called yet)`;
    };
    const rest = compilation.continuations.length
      ? `\nIt goes on in ${compilation.continuations.map(go).join(", ")}.` : "";
    return `Graph break at ${each.place}: ${each.cause} [${each.code}]`
      + (each.fix ? `\nFix: ${each.fix}` : "") + rest;
  }

  light(id, scrolls) {
    if (this.pinned && !scrolls) return;
    if (this.self === id) return;
    this.self = id;
    this.lit = related(this.facts, id);
    this.update(scrolls);
  }

  /** Mark what is lit in all columns. The layout is read, then scrolled, then changed: it is made once. */
  update(scrolls) {
    this.columns.forEach((column) => { column.measure(); column.lit = []; });
    for (const id of this.lit) {
      const { column, index } = this.facts.rows[id];
      this.columns[column].lit.push(index);
    }
    for (const column of this.columns) {
      column.lit.sort((a, b) => a - b);
      const isOther = column.number !== this.columnOfSelf();
      if (scrolls && isOther && column.lit.length && !column.drawn) column.scrollTo(column.lit[0]);
    }
    this.columns.forEach((column) => column.update(scrolls));
  }

  pin(id, always) {
    const again = this.pinned && this.self === id && !always;
    this.pinned = !again;
    this.self = null;
    if (again) { this.clear(); return; }
    this.light(id, true);
    const column = this.columns[this.columnOfSelf()];
    if (always && !column.drawn) column.show(this.facts.rows[id].index);
    this.remember();
  }

  pinKey(key) {
    const id = this.facts.byKey.get(key);
    if (id !== undefined) this.pin(id, true);
  }

  unlight() {
    if (!this.pinned) this.clear();
  }

  clear() {
    this.self = null;
    this.pinned = false;
    this.lit = new Set();
    this.update(false);
  }

  columnOfSelf() {
    return this.self === null ? -1 : this.facts.rows[this.self].column;
  }

  find(text) {
    const wanted = text.toLowerCase();
    const hits = wanted ? this.facts.rows.filter((row) => row.text.toLowerCase().includes(wanted)) : [];
    this.found = new Set(hits.map((row) => row.id));
    this.hits = hits;
    this.hit = -1;
    this.renderAll();
    if (hits.length) this.nextFound();
  }

  nextFound() {
    if (!this.hits || !this.hits.length) return;
    this.hit = (this.hit + 1) % this.hits.length;
    const { column, index } = this.hits[this.hit];
    this.columns[column].root.hidden = false;
    this.columns[column].root.scrollIntoView({ inline: "nearest", block: "nearest" });
    this.columns[column].show(index);
  }

  focusColumn(number, by) {
    for (let at = number + by; at >= 0 && at < this.columns.length; at += by) {
      const column = this.columns[at];
      if (column.root.hidden) continue;
      if (column.lit.length) column.active = column.lit[0];
      column.list.focus();
      column.root.scrollIntoView({ inline: "nearest", block: "nearest" });
      column.show(column.active);
      return;
    }
  }

  key(event) {
    if (["INPUT", "SELECT"].includes(event.target.tagName) && event.key !== "Escape") return;
    if (event.key === "Escape") this.clear();
    else if (event.key === "/") document.getElementById("search").focus();
    else if (event.key === "[" || event.key === "]") this.stepper.move(event.key === "]" ? 1 : -1);
    else return;
    event.preventDefault();
  }
}

function changeTheme() {
  const root = document.documentElement;
  const isDark = root.dataset.theme ? root.dataset.theme === "dark"
    : window.matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
}

if (typeof document !== "undefined") {
  const begun = performance.now();
  const page = new Page(JSON.parse(document.getElementById("store").textContent));
  document.documentElement.dataset.milliseconds = (performance.now() - begun).toFixed(0);
  window.explorer = page;
}
