const PERIOD_MS = 1000;
const WINDOW_MS = 120000;
const at = (id) => document.getElementById(id);
let token = sessionStorage.getItem("tidegate-token");
let timer = null;
let samples = [];
let stepMs = 500;
let chosen = null;

async function ask(path, method = "GET", body) {
  const headers = { "x-tidegate-request": "1" };
  if (token) headers.authorization = `Bearer ${token}`;
  if (body) headers["content-type"] = "application/json";
  const answer = await fetch(path, { method, headers, body: body && JSON.stringify(body) });
  const text = await answer.text();
  let content = null;
  try { content = text ? JSON.parse(text) : null; } catch { content = { error: text }; }
  if (!answer.ok) throw Object.assign(new Error(content?.error ?? answer.statusText), { status: answer.status });
  return content;
}

// The last two minutes: each step's work side by side in its lane.
function showTime() {
  const to = samples.length ? samples[samples.length - 1].time_ms : Date.now();
  const from = to - WINDOW_MS;
  const pieces = [];
  for (const sample of samples) {
    const lanes = new Map();
    for (const work of sample.work) lanes.set(work.lane, (lanes.get(work.lane) ?? 0) + work.seconds * 1000);
    const start = new Map();
    for (const work of sample.work) {
      const scale = Math.min(1, stepMs / lanes.get(work.lane));
      const begin = start.get(work.lane) ?? sample.time_ms - stepMs;
      const end = begin + work.seconds * 1000 * scale;
      start.set(work.lane, end);
      pieces.push({ lane: work.lane, operator: work.operator, is_copy: work.is_copy, start: begin, end,
        title: `${work.lane}: ${work.operator}${work.is_copy ? ", copies" : ""}, busy ${time(work.seconds)} of ${time(stepMs / 1000)}` });
    }
  }
  const lanes = [...new Set(pieces.map((piece) => piece.lane))].sort(compareLanes);
  const label = (moment) => (moment === to ? "now" : `${Math.round((to - moment) / 1000)} s ago`);
  showWork(at("lanes"), { lanes: lanes.length ? lanes : ["host 0"], pieces, from, to, label });
  at("idle").hidden = pieces.length > 0;
  showMemory(at("tiers"), { samples: samples.map((sample) => ({ at: sample.time_ms, memory: sample.memory })), from, to, label });
}

function showQueries(queries) {
  at("no-queries").hidden = queries.length > 0;
  at("queries").replaceChildren(...queries.map((query) => {
    const entry = make("div", null, { class: `query${query.id === chosen ? " chosen" : ""}`, "data-id": query.id, tabindex: 0, role: "button" });
    const line = make("div", null, { class: "line" });
    line.append(make("span", `#${query.id}`, { class: "soft" }), make("span", query.state, { class: `state-${query.state}` }),
      make("span", query.user ?? "(server)"), make("span", `${count(query.rows)} rows`), make("span", time(query.seconds)));
    const share = query.progress?.share;
    if (share !== undefined && share !== null) {
      const left = query.progress.seconds_left;
      line.append(make("b", `${Math.floor(share * 100)} %${left === null ? "" : `, ${time(left)} left`}`, { class: "share" }));
    }
    for (const place of query.places) {
      const why = place.reasons.map(([reason, times]) => `${reason} ×${count(times)}`).join(", ");
      line.append(make("span", `${place.place}: ${count(place.rows)} rows`, { title: why, class: "soft" }));
    }
    if (query.can_kill) {
      const button = make("button", "Kill", { class: "kill", "aria-label": `Kill query ${query.id}` });
      button.addEventListener("click", (event) => { event.stopPropagation(); kill(query.id, button); });
      line.append(button);
    }
    entry.append(line, make("div", query.sql ?? "(no text)", { class: "sql" }));
    if (share !== undefined && share !== null) {
      const meter = make("div", null, { class: "meter" });
      const fill = make("div");
      fill.style.width = `${share * 100}%`;
      meter.append(fill);
      entry.append(meter);
    }
    if (query.error) entry.append(make("div", query.error, { class: "bad" }));
    if (query.note) entry.append(make("div", query.note, { class: "soft" }));
    const choose = () => { chosen = chosen === query.id ? null : query.id; refresh(); };
    entry.addEventListener("click", choose);
    entry.addEventListener("keydown", (event) => { if (event.key === "Enter") choose(); });
    return entry;
  }));
}

let shown = null;
async function showChosen() {
  at("query").hidden = chosen === null;
  if (chosen === null) { shown = null; return; }
  try {
    // What has ended does not change.
    if (shown?.id === chosen && !shown.is_live) return;
    const query = await ask(`/api/queries/${chosen}`);
    if (query.id !== chosen) return;
    shown = query;
    showQuery(at("query"), query);
  } catch (error) {
    if (error.status !== 404) throw error;
    chosen = null;
    at("query").hidden = true;
  }
}

async function kill(id, button) {
  button.disabled = true;
  try { await ask(`/api/queries/${id}/kill`, "POST"); at("trouble").textContent = ""; }
  catch (error) { at("trouble").textContent = error.message; }
  refresh();
}

// Of statements' consumers only the sum is shown: names of operators belong to no query.
function memoryName(line) {
  if (line.tier === "device") return line.consumer === "all" ? line.device : `${line.device}: ${line.consumer}`;
  return `${line.tier}: ${line.consumer}`;
}
function showMeters(memory) {
  at("memory").replaceChildren(...memory.filter((line) => !line.consumer.startsWith("statements:")).flatMap((line) => {
    const of = line.limit ? ` of ${bytes(line.limit)}` : "";
    const parts = [make("div", `${memoryName(line)} — ${bytes(line.used)}${of}`, { "data-consumer": line.consumer })];
    if (line.limit) parts.push(meterOf(line.used, line.limit));
    return parts;
  }));
}

function meterOf(used, limit) {
  const meter = make("div", null, { class: "meter" });
  const fill = make("div");
  fill.style.width = `${Math.min(100, used / limit * 100)}%`;
  meter.append(fill);
  return meter;
}

function showExecutors(executors) {
  at("cluster").hidden = executors === null;
  if (executors === null) return;
  at("no-executors").hidden = executors.length > 0;
  at("executors").replaceChildren(...executors.map((executor) => {
    const row = make("tr", null, { "data-executor": executor.name });
    const state = make("td", executor.state, { class: executor.state === "ready" ? "state-finished" : "bad" });
    if (executor.reason) state.append(make("div", executor.reason, { class: "soft" }));
    const memory = make("td", `${bytes(executor.memory_used)} of ${bytes(executor.memory_limit)}`);
    if (executor.memory_limit) memory.append(meterOf(executor.memory_used, executor.memory_limit));
    const end = make("td");
    if (executor.can_drain) {
      const button = make("button", "Drain", { class: "drain", "aria-label": `Drain executor ${executor.name}`,
        title: "It finishes its tasks, takes no others, and ends." });
      button.addEventListener("click", () => drain(executor.name, button));
      end.append(button);
    }
    row.append(make("td", executor.name), state, memory, make("td", executor.devices.join(", ") || "host"),
      make("td", count(executor.cores), { class: "number" }),
      make("td", executor.speed === null ? "–" : `${executor.speed.toFixed(2)} ×`,
        { class: "number", title: "next to its cores, among all executors" }),
      make("td", count(executor.tasks), { class: "number" }), make("td", bytes(executor.received_bytes), { class: "number" }),
      make("td", time(executor.silent_seconds), { class: "number" }), end);
    return row;
  }));
}

// A lane for each task that an executor runs at one time; lost ones stand out.
function showTasks(tasks) {
  at("no-tasks").hidden = tasks.length > 0;
  at("tasks").hidden = tasks.length === 0;
  if (!tasks.length) return;
  const to = Date.now();
  const from = to - WINDOW_MS;
  const ends = new Map();
  const pieces = tasks.map((task) => {
    const end = task.ended_ms ?? to;
    const lanes = ends.get(task.executor) ?? ends.set(task.executor, []).get(task.executor);
    const free = lanes.findIndex((before) => before <= task.started_ms);
    const slot = free < 0 ? lanes.length : free;
    lanes[slot] = end;
    const query = task.query === null ? `statement ${task.statement}` : `query ${task.query}`;
    const name = task.executor.length > 10 ? `…${task.executor.slice(-9)}` : task.executor;
    return { lane: `${name} · ${slot + 1}`, operator: task.state === "lost" ? "lost" : `stage ${task.stage}`, is_copy: false,
      start: task.started_ms, end, title: `${query}, stage ${task.stage}, task ${task.task} on ${task.executor}: ${task.state}, ` +
        time(Math.max(0, end - task.started_ms) / 1000) };
  });
  const lanes = [...new Set(pieces.map((piece) => piece.lane))].sort((left, right) => left.localeCompare(right, "en", { numeric: true }));
  const label = (moment) => (moment === to ? "now" : `${Math.round((to - moment) / 1000)} s ago`);
  showWork(at("tasks"), { lanes, pieces, from, to, label });
}

async function drain(name, button) {
  button.disabled = true;
  try { await ask(`/api/executors/${encodeURIComponent(name)}/drain`, "POST"); at("trouble").textContent = ""; }
  catch (error) { at("trouble").textContent = error.message; }
  refresh();
}

function show(status) {
  at("board").hidden = false;
  at("login").hidden = true;
  at("logout").hidden = !token;
  at("who").textContent = status.is_admin ? `${status.user} (admin)` : status.user;
  at("summary").textContent = `${status.version}, up ${time(status.uptime_seconds)}, ` +
    `${status.is_ready ? "ready" : "shutting down"}, ${status.running} running, ${status.waiting} waiting`;
  stepMs = status.timeline.step_ms;
  const known = samples.length ? samples[samples.length - 1].time_ms : 0;
  samples = [...samples, ...status.timeline.samples.filter((sample) => sample.time_ms > known)];
  const last = samples.length ? samples[samples.length - 1].time_ms : 0;
  samples = samples.filter((sample) => sample.time_ms > last - WINDOW_MS);
  showTime();
  showQueries(status.queries);
  showMeters(status.memory);
  showExecutors(status.executors);
  showTasks(status.tasks);
  at("devices").replaceChildren(...(status.devices.length
    ? status.devices.map((device) => make("p", device.description))
    : [make("p", "No device: everything runs on the host.", { class: "soft" })]));
  const cache = status.cache;
  const looked = cache.host_hits + cache.host_misses;
  at("cache").replaceChildren(make("p",
    `host: ${count(cache.host_hits)} of ${count(looked)} chunks found, ${count(cache.host_evictions)} evicted; ` +
    `devices: ${count(cache.device_hits)} found`));
  const now = Date.now();
  at("sessions").replaceChildren(...status.sessions.map((session) => {
    const row = make("tr");
    row.append(make("td", session.id, { class: "number" }), make("td", session.is_admin ? `${session.user} (admin)` : session.user),
      make("td", count(session.queries), { class: "number" }), make("td", session.running, { class: "number" }),
      make("td", time(Math.max(0, (now - session.opened_ms) / 1000))));
    return row;
  }));
}

async function refresh() {
  clearTimeout(timer);
  try {
    const since = samples.length ? samples[samples.length - 1].time_ms : 0;
    show(await ask(`/api/status?since=${since}`));
    await showChosen();
    if (at("trouble").dataset.from === "refresh") { at("trouble").textContent = ""; delete at("trouble").dataset.from; }
  } catch (error) {
    if (error.status === 401) {
      forget();
      return;
    }
    at("trouble").textContent = error.status ? error.message : "The server does not answer.";
    at("trouble").dataset.from = "refresh";
  }
  clearTimeout(timer);
  timer = setTimeout(refresh, PERIOD_MS);
}

function forget() {
  token = null;
  samples = [];
  chosen = null;
  sessionStorage.removeItem("tidegate-token");
  at("board").hidden = true;
  at("logout").hidden = true;
  at("login").hidden = false;
  at("who").textContent = "";
  at("summary").textContent = "";
}

at("login-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  try {
    const answer = await ask("/api/login", "POST", { name: at("name").value, password: at("password").value });
    token = answer.token;
    sessionStorage.setItem("tidegate-token", token);
    at("password").value = "";
    at("trouble").textContent = "";
    refresh();
  } catch (error) { at("trouble").textContent = error.message; }
});
at("logout").addEventListener("click", async () => {
  try { await ask("/api/logout", "POST"); } catch { /* It has expired. */ }
  clearTimeout(timer);
  forget();
});
window.addEventListener("resize", () => {
  if (at("board").hidden) return;
  showTime();
  if (shown) showQuery(at("query"), shown);
});
refresh();
