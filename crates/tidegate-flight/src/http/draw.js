"use strict";
// Pictures of time, memory and plans. What statements say is only ever text, never markup.
const COLOURS = ["#3b82c4", "#2f9e6e", "#d9772b", "#8a63d2", "#c94f3d", "#4aa6b5", "#b58a12", "#c0569a", "#6b7fd7", "#7a8594"];
// Operators that most plans have keep their colours from page to page.
const KNOWN = ["DataSourceExec", "AggregateExec", "HashJoinExec", "PipelineExec", "SortExec", "FilterExec",
  "ProjectionExec", "HostFoldExec", "RepartitionExec"];
const LOST = "#c94f3d";
const TIERS = [["statements", "statements"], ["host_cache", "host cache"], ["pinned", "pinned"], ["devices", "devices"]];
let pictures = 0;

function make(name, text, attributes = {}) {
  const element = document.createElement(name);
  if (text !== undefined && text !== null) element.textContent = text;
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}
function draw(name, attributes, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}
function count(number) { return number.toLocaleString("en"); }
function bytes(number) {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let unit = 0;
  while (number >= 1024 && unit < units.length - 1) { number /= 1024; unit += 1; }
  return `${unit === 0 ? number : number.toFixed(1)} ${units[unit]}`;
}
function time(seconds) {
  if (seconds < 1e-3) return `${(seconds * 1e6).toFixed(0)} µs`;
  if (seconds < 1) return `${(seconds * 1e3).toFixed(1)} ms`;
  if (seconds < 120) return `${seconds.toFixed(1)} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
  return `${Math.floor(seconds / 3600)} h`;
}
function colour(operator) {
  if (operator === "lost") return LOST;
  const known = KNOWN.indexOf(operator);
  if (known >= 0) return COLOURS[known];
  let sum = 0;
  for (const letter of operator) sum = (sum * 31 + letter.codePointAt(0)) % 9973;
  return COLOURS[sum % COLOURS.length];
}
function compareLanes(left, right) {
  const side = (lane) => (lane.startsWith("host") ? 0 : 1);
  return side(left) - side(right) || left.localeCompare(right, "en", { numeric: true });
}
function leftOf(width) { return Math.min(90, Math.max(64, width * 0.14)); }

// One scale of time for every picture of a place.
function scaleOf(width, from, to) {
  const left = leftOf(width);
  const span = Math.max(to - from, 1e-6);
  return { left, x: (at) => left + (at - from) / span * (width - left - 8) };
}
function ticks(svg, scale, from, to, width, height, label) {
  const steps = width < 600 ? 3 : 6;
  for (let step = 0; step <= steps; step += 1) {
    const at = from + (to - from) * step / steps;
    const x = scale.x(at);
    svg.append(draw("line", { x1: x, x2: x, y1: 0, y2: height, class: "axis" }));
    const anchor = step === 0 ? "start" : step === steps ? "end" : "middle";
    svg.append(draw("text", { x, y: height + 13, "text-anchor": anchor }, label(at)));
  }
}
function legend(entries) {
  const all = make("div", null, { class: "legend" });
  for (const [name, fill] of entries) {
    const entry = make("span");
    const box = make("i");
    box.style.background = fill;
    entry.append(box, name);
    all.append(entry);
  }
  return all;
}

// Draws who worked when: pieces of { lane, operator, is_copy, start, end, title }.
function showWork(place, { lanes, pieces, from, to, label }) {
  const width = Math.max(place.clientWidth, 280);
  const tall = 18;
  const height = Math.max(lanes.length, 1) * (tall + 3);
  const scale = scaleOf(width, from, to);
  const svg = draw("svg", { width, height: height + 18, role: "img", "aria-label": "Work by lane and time, coloured by operator" });
  const hatch = `hatch-${pictures += 1}`;
  const pattern = draw("pattern", { id: hatch, width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" });
  pattern.append(draw("rect", { width: 2, height: 5, fill: "#fff", "fill-opacity": .65 }));
  const defs = draw("defs", {});
  defs.append(pattern);
  svg.append(defs);
  ticks(svg, scale, from, to, width, height, label);
  lanes.forEach((lane, row) => svg.append(draw("text", { x: 0, y: row * (tall + 3) + tall * .7 }, lane)));
  const seen = new Set();
  let hasCopies = false;
  for (const bar of joined(pieces, (to - from) / width * .6)) {
    const row = lanes.indexOf(bar.lane);
    if (row < 0 || bar.end < from || bar.start > to) continue;
    const x = scale.x(Math.max(bar.start, from));
    const shape = { x, y: row * (tall + 3), width: Math.max(scale.x(Math.min(bar.end, to)) - x, .7), height: tall };
    seen.add(bar.operator);
    const rect = draw("rect", { ...shape, fill: colour(bar.operator), "data-lane": bar.lane, "data-operator": bar.operator });
    rect.append(draw("title", {}, bar.title ?? `${bar.lane}: ${bar.operator}${bar.is_copy ? ", copies" : ""}, ${time(bar.end - bar.start)}`));
    svg.append(rect);
    if (bar.is_copy) {
      hasCopies = true;
      svg.append(draw("rect", { ...shape, fill: `url(#${hatch})`, "pointer-events": "none", "data-copy": "" }));
    }
  }
  const entries = [...seen].sort().map((operator) => [operator, colour(operator)]);
  if (hasCopies) entries.push(["hatched: copies", "repeating-linear-gradient(45deg, #888 0 2px, transparent 2px 4px)"]);
  place.replaceChildren(svg, legend(entries));
}
// Joins what would be drawn as slivers of one colour.
function joined(pieces, gap) {
  const last = new Map();
  const bars = [];
  for (const piece of pieces) {
    const before = last.get(piece.lane);
    if (before && before.operator === piece.operator && before.is_copy === piece.is_copy && !piece.title
      && piece.start - before.end <= gap) {
      before.end = Math.max(before.end, piece.end);
      continue;
    }
    const bar = { ...piece };
    last.set(piece.lane, bar);
    bars.push(bar);
  }
  return bars;
}

// Draws memory by tier: samples of { at, memory }.
function showMemory(place, { samples, from, to, label }) {
  const width = Math.max(place.clientWidth, 280);
  const height = 70;
  const scale = scaleOf(width, from, to);
  const sum = (memory) => TIERS.reduce((all, [tier]) => all + memory[tier], 0);
  const most = Math.max(1, ...samples.map((sample) => sum(sample.memory)));
  const svg = draw("svg", { width, height: height + 18, role: "img", "aria-label": "Memory by tier over time" });
  ticks(svg, scale, from, to, width, height, label);
  svg.append(draw("text", { x: 0, y: 10 }, bytes(most)), draw("text", { x: 0, y: height }, "0"));
  const floors = samples.map(() => 0);
  const entries = [];
  TIERS.forEach(([tier, name], row) => {
    if (!samples.some((sample) => sample.memory[tier] > 0)) return;
    const y = (value) => height - value / most * (height - 4);
    const upper = samples.map((sample, index) => [scale.x(sample.at), y(floors[index] + sample.memory[tier])]);
    const lower = samples.map((sample, index) => [scale.x(sample.at), y(floors[index])]).reverse();
    const points = [...upper, ...lower].map((point) => point.map((number) => number.toFixed(1)).join(",")).join(" ");
    svg.append(draw("polygon", { points, fill: COLOURS[row], "fill-opacity": .8, "data-tier": tier }));
    samples.forEach((sample, index) => { floors[index] += sample.memory[tier]; });
    const now = samples[samples.length - 1].memory[tier];
    entries.push([`${name} ${bytes(now)}`, COLOURS[row]]);
  });
  place.replaceChildren(svg, legend(entries));
}

// Draws a plan as a tree, coloured by where each operator ran.
function showPlan(place, query) {
  const root = make("ul", null, { class: "plan" });
  let regions = 0;
  const add = (list, operator) => {
    const withRows = (operator.places ?? []).filter((at) => at.rows > 0);
    const ran = withRows.length ? withRows : (operator.places ?? []).filter((at) => at.seconds > 0);
    const onHost = ran.some((at) => at.place === "host");
    const onDevice = ran.some((at) => at.place !== "host");
    const side = onDevice ? (onHost ? "both" : "device") : "host";
    const item = make("li");
    const node = make("details", null, { class: side, "data-operator": operator.operator });
    const line = make("summary");
    const name = make("b", operator.operator);
    const box = make("i", "■ ");
    box.style.color = colour(operator.operator);
    line.append(box, name);
    if (operator.rows !== null) line.append(make("span", `${count(operator.rows)} ${operator.rows === 1 ? "row" : "rows"}`));
    if (operator.seconds !== null) line.append(make("span", time(operator.seconds)));
    for (const at of ran) line.append(make("span", `${at.place}: ${count(at.rows)} rows, ${time(at.seconds)}`, { class: "soft" }));
    node.append(line);
    if (operator.details) node.append(make("p", operator.details));
    if (operator.operator === "PipelineExec") {
      const region = query.regions[regions];
      regions += 1;
      for (const why of region?.reasons ?? []) node.append(make("p", why));
      for (const at of operator.places ?? []) {
        const why = at.reasons.map(([reason, times]) => `${reason} ×${count(times)}`).join("; ");
        node.append(make("p", `${at.place}: ${count(at.morsels)} morsels, ${bytes(at.bytes)}${why ? `: ${why}` : ""}`));
        const claims = query.claims.filter((claim) => claim.region === regions && claim.place === at.place);
        if (claims.length) {
          const sum = (of) => claims.reduce((all, claim) => all + claim[of], 0);
          node.append(make("p", `${count(claims.length)} claims: estimated ${time(sum("estimated_seconds"))}, took ${time(sum("seconds"))}`));
        }
      }
    }
    item.append(node);
    if (operator.inputs?.length) {
      const below = make("ul");
      for (const input of operator.inputs) add(below, input);
      item.append(below);
    }
    list.append(item);
  };
  add(root, query.plan);
  place.replaceChildren(root);
}

// Names the operators by their numbers in the order of the plan.
function operatorsOf(plan) {
  const names = [];
  const walk = (operator) => { names.push(operator.operator); (operator.inputs ?? []).forEach(walk); };
  if (plan) walk(plan);
  return names;
}

// The work of one query: as it was read step by step, and for a device by what it claimed, where that is known.
function workOf(query) {
  const names = operatorsOf(query.plan);
  const claims = query.claims.filter((claim) => claim.place !== "host").map((claim) => ({ ...claim, place: claim.place.split(" (")[0] }));
  const claimed = new Set(claims.map((claim) => claim.place));
  const pieces = query.work
    .filter((piece) => piece.is_copy || !claimed.has(piece.lane))
    .map((piece) => ({ ...piece, operator: names[piece.number] ?? "PipelineExec" }));
  const whole = claims.map((claim) => ({
    lane: claim.place, operator: "PipelineExec", is_copy: false, start: claim.start, end: claim.end,
    title: `${claim.place}: region ${claim.region}, ${count(claim.rows)} rows in ${time(claim.seconds)}, `
      + `estimated ${time(claim.estimated_seconds)}: ${claim.reason}`,
  }));
  // Copies are drawn over the claims that they belong to.
  const all = [...whole, ...pieces];
  return { pieces: all, lanes: [...new Set(all.map((piece) => piece.lane))].sort(compareLanes) };
}

function fact(text, kind) { return make("p", text, kind ? { class: kind } : {}); }

// Draws all that is known of one query.
function showQuery(place, query) {
  const open = new Set([...place.querySelectorAll("details[open]")].map((node) => node.dataset.path));
  const parts = [make("h2", `Query ${query.id}: ${query.state}`)];
  if (query.plan) parts.push(fact(query.verdict));
  const rows = `${count(query.rows)} ${query.rows === 1 ? "row" : "rows"}`;
  const waited = query.admission_seconds >= 1e-3 ? `, waited ${time(query.admission_seconds)}` : "";
  const held = query.peak_bytes ? `, at most ${bytes(query.peak_bytes)} of host memory` : "";
  parts.push(fact(`${rows} in ${time(query.seconds)}, planned in ${time(query.plan_seconds)}${waited}${held}`, "soft"));
  parts.push(make("pre", query.sql ?? "(no text)"));
  if (query.error) parts.push(fact(query.error, "bad"));
  if (query.note) parts.push(fact(query.note));
  place.replaceChildren(...parts);
  const to = Math.max(query.seconds, ...query.work.map((piece) => piece.end), ...query.claims.map((claim) => claim.end), 1e-6);
  const label = (at) => time(at);
  const work = workOf(query);
  if (work.pieces.length) {
    const picture = make("div");
    place.append(make("h3", "Work by time"), picture);
    showWork(picture, { ...work, from: 0, to, label });
  }
  if (query.memory.length > 1) {
    const picture = make("div");
    place.append(make("h3", "Memory of the process"), picture);
    showMemory(picture, { samples: query.memory, from: 0, to, label });
  }
  if (query.plan) {
    const picture = make("div");
    place.append(make("h3", "Plan"), legend([["host", "var(--host)"], ["device", "var(--device)"], ["both", "var(--both)"]]), picture);
    showPlan(picture, query);
    picture.querySelectorAll("details").forEach((node, index) => {
      node.dataset.path = `${index}`;
      node.open = open.has(`${index}`);
    });
  } else if (!query.error) {
    place.append(fact("What it did is known of the last hundred queries only.", "soft"));
  }
}
