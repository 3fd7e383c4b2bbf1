"use strict";
/* The rows of a compilation by number, and what comes from what: the closure of recorded origins. */

const ORDER = ["source", "bytecode", "graph", "joint", "forward", "backward", "ir", "fusion",
  "kernels", "wrapper", "guards", "residual"];

/** Return the panes of a compilation in the order of the compiler's stages. */
function ordered(panes) {
  const place = (pane) => ORDER.indexOf(pane.kind.split(" ")[0]);
  return panes.map((pane, i) => [pane, i]).sort((a, b) => place(a[0]) - place(b[0]) || a[1] - b[1])
    .map(([pane]) => pane);
}

/** Number all rows, and note for each key its row and the rows that come from it. */
function provenance(panes) {
  const rows = [], byKey = new Map(), children = new Map();
  panes.forEach((pane, column) => pane.rows.forEach(([text, key, origins, mark], index) => {
    const id = rows.length;
    rows.push({ id, column, index, text, key, origins, mark });
    if (key) byKey.set(key, id);
    for (const origin of origins) {
      if (!children.has(origin)) children.set(origin, []);
      children.get(origin).push(id);
    }
  }));
  return { rows, byKey, children };
}

/** Return the ids of all rows that a row comes from, and of all that come from it. */
function related(facts, id) {
  const { rows, byKey, children } = facts;
  const lit = new Set([id]);
  const starts = rows[id].key ? [id]
    : rows[id].origins.map((key) => byKey.get(key)).filter((found) => found !== undefined);
  const parents = (at) => rows[at].origins.map((key) => byKey.get(key));
  const follow = (next) => {
    const seen = new Set(starts), waiting = [...starts];
    while (waiting.length) {
      for (const other of next(waiting.pop())) {
        if (other !== undefined && !seen.has(other)) { seen.add(other); waiting.push(other); }
      }
    }
    return seen;
  };
  const details = (at) => (children.get(rows[at].key) || [])
    .filter((child) => !rows[child].key && rows[child].column === rows[at].column);
  for (const at of follow(parents)) { lit.add(at); for (const d of details(at)) lit.add(d); }
  for (const at of follow((at) => (rows[at].key && children.get(rows[at].key)) || [])) lit.add(at);
  return lit;
}
