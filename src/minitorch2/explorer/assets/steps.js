/* The slider: the state of each frame is rebuilt from the changes of its steps. */

class Stepper {
  constructor(page) {
    this.page = page;
    this.slider = document.getElementById("step");
    this.slider.addEventListener("input", () => this.go(Number(this.slider.value)));
    document.getElementById("back").addEventListener("click", () => this.move(-1));
    document.getElementById("forth").addEventListener("click", () => this.move(1));
  }

  load(steps) {
    this.steps = steps;
    document.getElementById("stepper").hidden = !steps || !steps.steps.length;
    if (!steps || !steps.steps.length) return;
    this.slider.max = steps.steps.length;
    this.reset();
    this.go(0, true);
  }

  reset() {
    this.done = -1;
    this.frames = new Map();
  }

  move(by) {
    if (this.steps) this.go(Math.min(this.steps.steps.length, Math.max(0, Number(this.slider.value) + by)));
  }

  /** Rebuild the state in front of step `at`; behind the last step, show how it ended. */
  go(at, quietly) {
    this.slider.value = String(at);
    const last = this.steps.steps.length - 1;
    if (at <= this.done) this.reset();
    while (this.done < Math.min(at, last)) this.apply(this.steps.steps[++this.done]);
    this.show(at, quietly);
  }

  apply([frame, , , keep, push, locals]) {
    const state = this.frames.get(frame) || { stack: [], locals: new Map() };
    state.stack = [...state.stack.slice(0, keep), ...push];
    for (const [name, text] of Object.entries(locals)) {
      if (text < 0) state.locals.delete(name); else state.locals.set(name, text);
    }
    state.changed = new Set(Object.keys(locals));
    state.keep = keep;
    this.frames.set(frame, state);
  }

  show(at, quietly) {
    const { steps, texts, guards, end, left_out } = this.steps;
    const isEnd = at >= steps.length;
    const [frame, code, index, , , , known, nodes] = steps[Math.min(at, steps.length - 1)];
    const state = this.frames.get(frame);
    const key = `i${code}:${index}`, id = this.page.facts.byKey.get(key);
    const text = id === undefined ? key : this.page.facts.rows[id].text.trim();
    const more = left_out ? ` (${left_out} later steps were not kept)` : "";
    document.getElementById("at").textContent = isEnd ? `End: ${end}${more}`
      : `${at + 1} of ${steps.length}: ${this.chain(frame)}: ${text}; ${nodes} nodes in the graph`;
    const stack = [...state.stack].map((each, i) => tag("li", i >= state.keep ? "new" : "", texts[each]));
    document.getElementById("stack").replaceChildren(...stack.reverse());
    document.getElementById("locals").replaceChildren(...[...state.locals].map(([name, each]) =>
      tag("li", state.changed.has(name) ? "new" : "", `${name} = ${texts[each]}`)));
    const before = at ? steps[Math.min(at, steps.length) - 1][6] : 0;
    const shown = isEnd ? guards.length : known;
    document.getElementById("guards").replaceChildren(...guards.slice(Math.max(0, shown - 40), shown)
      .map((each, i) => tag("li", Math.max(0, shown - 40) + i >= before ? "new" : "", each)).reverse());
    if (!quietly && id !== undefined) this.page.pin(id, true);
  }

  chain(frame) {
    const names = [];
    for (let at = frame; at >= 0; at = this.steps.parents[at]) {
      const step = this.steps.steps.find((each) => each[0] === at);
      names.unshift(this.steps.codes[step[1]]);
    }
    return names.join(" > ");
  }
}
