// The views: each builds its elements once, and then only changes texts and rows, so that focus and selection stay.
import { act, go, place } from "./dashboard.js";

const folder = document.documentElement.dataset.folder;
const history = []; // points of the charts
const mostPoints = 120;
let parts = {}, drawn = 0;

// ---------------------------------------------------------------- elements and texts

function make(name, properties = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key === "text") element.textContent = value;
    else if (key in element) element[key] = value;
    else element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}

function set(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

const count = n => n == null ? "-" : Math.round(n).toLocaleString("en");

function bytes(n) {
  if (n == null) return "-";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  for (; n >= 1024 && at < units.length - 1; at++) n /= 1024;
  return `${at === 0 ? Math.round(n) : n.toFixed(1)} ${units[at]}`;
}

function time(ms) {
  if (ms == null) return "-";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const s = Math.floor(ms / 1000), m = Math.floor(s / 60), h = Math.floor(m / 60);
  if (s < 60) return `${s} s`;
  if (m < 60) return `${m} min ${s % 60} s`;
  return h < 48 ? `${h} h ${m % 60} min` : `${Math.floor(h / 24)} days ${h % 24} h`;
}

const drain = row => row.pending === 0 ? "-" : row.drainSeconds == null ? "stuck" : time(row.drainSeconds * 1000);
const clock = text => new Date(text).toLocaleTimeString("en-GB");
const addressOf = (data, server) => {
  for (const engine of data.engines) for (const s of engine.servers) if (s.id === server) return s.addresses[0] ?? "?";
  return server ? "stopped" : "client";
};
const linkTo = id => make("a", { className: "row", href: `#connection?id=${id.toString(16)}`, text: id.toString(16) });

// Rows keep their elements by key; columns: [title, text or element of an item, class, order].
function table(columns, { label, sorts = false } = {}) {
  const head = make("tr"), body = make("tbody");
  for (const [title, , kind, order] of columns) {
    const th = make("th", { className: kind || "", scope: "col" });
    if (sorts && order) {
      th.dataset.order = order;
      th.append(make("button", { type: "button", text: title, onclick: () => {
        const { query } = place(), same = (query.get("sort") || "queue") === order;
        go("connections", { sort: order, up: same && !query.has("up"), page: null });
      } }));
    } else th.textContent = title;
    head.append(th);
  }
  const element = make("table", {}, make("thead", {}, head), body);
  if (label) element.setAttribute("aria-label", label);
  return { element, head, body, columns, rows: new Map() };
}

function fill(into, items, keyOf) {
  const seen = new Set();
  let at = into.body.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    seen.add(key);
    let row = into.rows.get(key);
    if (!row) {
      row = make("tr", {}, ...into.columns.map(([, , kind]) => make("td", { className: kind || "" })));
      into.rows.set(key, row);
    }
    if (row === at) at = at.nextElementSibling; else into.body.insertBefore(row, at);
    into.columns.forEach(([, show], i) => {
      const cell = row.children[i], value = show(item, cell);
      if (value === undefined || value instanceof Node) {
        if (value && cell.dataset.key !== String(key)) { cell.replaceChildren(value); cell.dataset.key = key; }
      } else set(cell, String(value));
    });
  }
  for (const [key, row] of into.rows) if (!seen.has(key)) { row.remove(); into.rows.delete(key); }
}

function filterBox(hint) {
  let pending;
  const box = make("input", { type: "search", placeholder: hint, value: place().query.get("filter") || "" });
  box.setAttribute("aria-label", hint);
  box.maxLength = 300;
  box.oninput = () => { clearTimeout(pending); pending = setTimeout(() => go(place().view, { filter: box.value, page: null }), 200); };
  return box;
}

function pager() {
  const text = make("span", { className: "soft" });
  const step = by => go(place().view, { page: Math.max(0, (Number(place().query.get("page")) || 0) + by) || null });
  const back = make("button", { type: "button", text: "Previous", onclick: () => step(-1) });
  const next = make("button", { type: "button", text: "Next", onclick: () => step(1) });
  return { element: make("span", { className: "tools" }, back, text, next), show(data) {
    set(text, `page ${data.page + 1} of ${data.pages}, ${count(data.matching)} rows`);
    back.disabled = data.page === 0;
    next.disabled = data.page >= data.pages - 1;
  } };
}

function bar(cell, share, text) {
  if (!cell.firstElementChild) cell.replaceChildren(make("span"), make("span", { className: "bar" }, make("i")));
  const [label, box] = cell.children;
  set(label, text);
  box.classList.toggle("full", share > 0.9);
  box.firstElementChild.style.width = `${Math.min(100, Math.max(0, share * 100))}%`;
}

// ---------------------------------------------------------------- rates from two messages

const sum = (data, number) => data.engines.reduce((s, e) => s + e.servers.reduce((t, x) => t + number(x), 0), 0);
const seconds = (before, data) => before ? (data.engines[0].timeMs - before.engines[0].timeMs) / 1000 : 0;

function rate(before, data, number) {
  const s = seconds(before, data);
  return s > 0 ? Math.max(0, number(data) - number(before)) / s : null;
}

function earlierServer(before, server) {
  if (before) for (const engine of before.engines) for (const s of engine.servers) if (s.id === server.id) return s;
  return null;
}

function perSecond(before, data, server, field) {
  const earlier = earlierServer(before, server), s = seconds(before, data);
  return earlier && s > 0 ? (server[field] - earlier[field]) / s : null;
}

function loopsOf(data, before) {
  return data.engines.flatMap((engine, e) => engine.loops.map((loop, i) => {
    const old = before?.engines[e]?.loops[i], ms = old ? engine.timeMs - before.engines[e].timeMs : 0;
    const per = field => ms > 0 ? (loop[field] - old[field]) * 1000 / ms : null;
    return { ...loop, key: `${e}.${i}`, engine: engine.engine.kind, lag: engine.lagMs[i],
      load: ms > 0 && loop.cpuMs != null ? Math.min(1, (loop.cpuMs - old.cpuMs) / ms) : null,
      turnRate: per("turns"), inRate: per("bytesReceived"), outRate: per("bytesSent") };
  }));
}

// ---------------------------------------------------------------- charts

function chart(title) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", `0 0 ${mostPoints - 1} 40`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  const value = make("span", { className: "big" }), more = make("span");
  return { svg, value, more, lines: [],
    element: make("section", {}, make("h2", { text: title }), make("div", {}, value, " ", more), svg) };
}

function plot(into, series) {
  const most = Math.max(1e-9, ...series.flatMap(([, field]) => history.map(point => point[field] ?? 0)));
  series.forEach(([kind, field], i) => {
    let line = into.lines[i];
    if (!line) {
      into.lines.push(line = document.createElementNS("http://www.w3.org/2000/svg", "polyline"));
      line.setAttribute("class", kind);
      into.svg.append(line);
    }
    line.setAttribute("points", history.map((point, at) =>
      `${mostPoints - history.length + at},${(39 - 37 * (point[field] ?? 0) / most).toFixed(2)}`).join(" "));
  });
}

function record(data, before) {
  const now = data.engines[0].timeMs;
  if (!before || now - drawn < data.intervalMs * 0.8) return;
  drawn = now;
  history.push({
    connections: sum(data, s => s.sessions), accepted: rate(before, data, d => sum(d, s => s.accepted)),
    in: rate(before, data, d => sum(d, s => s.bytesReceived)), out: rate(before, data, d => sum(d, s => s.bytesSent)),
    messages: rate(before, data, d => sum(d, s => s.messagesReceived)), queued: sum(data, s => s.bytesPending),
  });
  if (history.length > mostPoints) history.shift();
}

// ---------------------------------------------------------------- the views

const views = {
  overview: {
    build(main) {
      const charts = ["Connections", "Bytes per second", "Messages per second", "Queued bytes"].map(chart);
      const can = action => parts.data.actions.includes(action);
      const servers = table([
        ["Server", s => make("a", { className: "row", href: `#connections?server=${s.id}`, text: s.addresses.join(", ") || "?" }), "text"], ["State", s => s.accepting ? "accepting" : "closed", "text"],
        ["Connections", s => count(s.sessions)], ["New/s", s => count(perSecond(parts.before, parts.data, s, "accepted"))],
        ["Turned away", s => count(s.rejected + s.refused + s.shed)], ["Messages/s", s => count(perSecond(parts.before, parts.data, s, "messagesReceived"))],
        ["In/s", s => bytes(perSecond(parts.before, parts.data, s, "bytesReceived"))], ["Out/s", s => bytes(perSecond(parts.before, parts.data, s, "bytesSent"))],
        ["Queued", s => bytes(s.bytesPending)], ["Slow, ended", s => count(s.slowConsumers)], ["Exceptions", s => count(s.userExceptions)],
        ["", (s, cell) => {
          if (cell.dataset.key === String(s.id)) return undefined;
          const box = make("span");
          if (can("reload") && s.tls) box.append(make("button", { type: "button", text: "Reload certificate", onclick: () =>
            act("reload", s.id, `Load the certificate files of ${s.addresses[0]} again?`) }), " ");
          if (can("drain")) box.append(make("button", { type: "button", className: "risky", text: "Drain", onclick: () =>
            act("drain", s.id, `Stop ${s.addresses[0]}? It stops accepting, drains its sessions and ends. The process continues.`) }));
          return box;
        }],
      ], { label: "Servers" });
      const loops = table([
        ["Loop", l => l.index], ["Engine", l => l.engine, "text"], ["Connections", l => count(l.connections)],
        ["CPU", (l, cell) => l.load == null ? "-" : bar(cell, l.load, `${(l.load * 100).toFixed(1)} %`)],
        ["Lag", l => `${l.lag.toFixed(l.lag < 10 ? 2 : 0)} ms`], ["Turns/s", l => count(l.turnRate)],
        ["In/s", l => bytes(l.inRate)], ["Out/s", l => bytes(l.outRate)], ["Queued", l => bytes(l.bytesPending)],
        ["Timers", l => count(l.timers)], ["Blocked turns", l => count(l.blockedTurns)], ["Runs now", l => l.running ?? "", "text wide"],
      ], { label: "Loops" });
      const slow = table([
        ["Slowest", s => linkTo(s.id), "text"], ["Peer", s => s.peer, "text"], ["Loop", s => s.loop], ["Queued", s => bytes(s.bytesPending)],
        ["Of limit", s => s.limitBytes ? `${Math.round(s.bytesPending * 100 / s.limitBytes)} %` : "-"],
      ], { label: "Slowest connections" });
      const engine = make("p", { className: "soft" });
      main.append(make("div", { className: "charts" }, ...charts.map(c => c.element)), make("section", {}, servers.element),
        make("section", {}, loops.element, engine), make("section", {}, slow.element));
      return { charts, servers, loops, slow, engine };
    },
    show(p, data, before) {
      const now = history.at(-1) ?? {}, [connections, traffic, messages, queued] = p.charts;
      set(connections.value, count(sum(data, s => s.sessions)));
      set(connections.more, `${count(now.accepted)} new/s`);
      traffic.value.replaceChildren(make("span", { text: bytes(now.in) }), make("span", { className: "key in", text: " in  " }),
        make("span", { text: bytes(now.out) }), make("span", { className: "key out", text: " out" }));
      set(messages.value, count(now.messages));
      set(queued.value, bytes(sum(data, s => s.bytesPending)));
      plot(connections, [["in", "connections"]]);
      plot(traffic, [["in", "in"], ["out", "out"]]);
      plot(messages, [["in", "messages"]]);
      plot(queued, [["out", "queued"]]);
      fill(p.servers, data.engines.flatMap(e => e.servers), s => s.id);
      fill(p.loops, loopsOf(data, before), l => l.key);
      fill(p.slow, data.engines.flatMap(e => e.servers.flatMap(s => s.slowest)).sort((a, b) => b.bytesPending - a.bytesPending).slice(0, 10), s => s.id);
      set(p.engine, data.engines.map(e => `Process ${e.pid}, ${e.engine.kind} (${e.engine.reason}); ${bytes(e.engine.mailboxBytes)} in mailboxes, `
        + `${count(e.engine.sendsRefused)} sends and ${count(e.engine.broadcastsRefused)} broadcasts refused, ${count(e.engine.userExceptions)} exceptions.`).join(" ")
        + (data.serversOfOtherEngines ? ` Servers of other engines that are not shown: ${data.serversOfOtherEngines}. Name their engines in DashboardOptions.Engines.` : ""));
    },
  },

  connections: {
    build(main) {
      const filter = filterBox("Filter by address or class (/)"), pages = pager();
      const about = make("span"), all = make("a", { href: "#connections", text: "show all", hidden: true });
      const list = table([
        ["Id", c => linkTo(c.id), "text"], ["Peer", c => c.peer, "text"], ["Session", c => c.type, "text"],
        ["Server", c => addressOf(parts.data, c.server), "text"], ["Loop", c => c.loop], ["Age", c => time(c.ageMs), "", "age"],
        ["Queue", c => c.pending ? bytes(c.pending) : "0", "", "queue"], ["Drains in", drain, "", "slowest"],
        ["In/s", c => bytes(c.inPerSecond), "", "rate"], ["Out/s", c => bytes(c.outPerSecond)],
        ["Received", c => bytes(c.received), "", "bytes"], ["Sent", c => bytes(c.sent)],
      ], { label: "Connections", sorts: true });
      main.append(make("section", {}, make("div", { className: "tools" }, filter, about, all, pages.element), list.element));
      return { list, pages, about, all };
    },
    show(p, data, before, at) {
      const group = at.query.get("group"), server = Number(at.query.get("server"));
      set(p.about, group ? `members of ${group}` : server ? `of ${addressOf(data, server)}` : "");
      p.all.hidden = !group && !server;
      p.pages.show(data);
      for (const th of p.list.head.children) {
        if (!th.dataset.order) continue;
        if (th.dataset.order === (at.query.get("sort") || "queue")) th.setAttribute("aria-sort", at.query.has("up") ? "ascending" : "descending");
        else th.removeAttribute("aria-sort");
      }
      fill(p.list, data.rows, c => c.id);
    },
  },

  connection: {
    build(main) {
      const title = make("h2"), list = make("dl"), buttons = make("div", { className: "tools" });
      const target = () => parts.data.id.toString(16), ask = (action, text) => act(action, target(), text);
      const close = make("button", { type: "button", className: "risky", text: "Close", onclick: () => ask("disconnect", "Close this connection? Queued data is sent first.") });
      const abort = make("button", { type: "button", className: "risky", text: "Reset", onclick: () => ask("abort", "Reset this connection? Queued data is lost.") });
      buttons.append(close, abort);
      main.append(make("section", {}, title, list, buttons));
      return { title, list, buttons, shown: [] };
    },
    show(p, data) {
      set(p.title, `Connection ${data.id.toString(16)}: ${data.state}`);
      p.buttons.hidden = data.state !== "open" || !data.actions.includes("disconnect");
      const facts = data.state === "unknown" ? [["", "There is no such connection. Ends are kept while the dashboard is open."]] : data.state === "ending" ? [["", "It is ending."]] : [
        ["Peer", data.peer], ["Session", data.type],
        ...(data.state === "ended" ? [["Reason", data.reason], ["Cause", data.cause], ["Ended by", data.initiator],
          ["Graceful", data.isGraceful ? "yes" : "no"], ["Bytes lost", count(data.bytesLost)], ["Ended at", clock(data.endedAt)], ["Lasted", time(data.lastedMs)]] : [
          ["Server", addressOf(data, data.server)], ["Local address", data.local], ["Connected", `${new Date(data.connectedAt).toLocaleString("en-GB")} (${time(data.ageMs)} ago)`],
          ["Loop", data.loop], ["Callbacks", data.scheduling], ["Queue", `${bytes(data.pending)} of ${bytes(data.limit)}${data.isAboveHighWaterMark ? ", above the high-water mark" : ""}`],
          ["Queue drains in", drain(data)], ["Receiving", data.isPaused ? "paused by the session" : "yes"], ["Rates", `${bytes(data.inPerSecond)}/s in, ${bytes(data.outPerSecond)}/s out`],
          ["Timeouts", `idle ${limit(data.idleTimeoutMs)}, receive ${limit(data.receiveTimeoutMs)}, send ${limit(data.sendTimeoutMs)}`],
          ["TLS", data.tls ?? "no"], ...(data.tls ? [["Server name", data.serverName || "-"], ["Protocol", data.applicationProtocol || "-"], ["Client certificate", data.peerCertificate || "-"]] : []),
          ["Groups", data.groups.join(", ") || "-"]]),
        ["Received", bytes(data.received)], ["Sent", bytes(data.sent)],
      ];
      // The same names as before: only the values change, so that a selection stays.
      const names = facts.map(([name]) => name).join("\n");
      if (p.names !== names) {
        p.names = names;
        p.list.replaceChildren(...facts.flatMap(([name]) => [make("dt", { text: name }), make("dd")]));
      }
      facts.forEach(([, value], i) => set(p.list.children[i * 2 + 1], String(value)));
    },
  },

  groups: {
    build(main) {
      const filter = filterBox("Filter by name (/)"), pages = pager(), clusters = make("p", { className: "soft" });
      const list = table([
        ["Group", g => make("a", { className: "row", text: g.name, href: "#connections?" + new URLSearchParams(g.node ? { group: g.name, node: g.node } : { group: g.name, server: g.server }) }), "text"],
        ["Members", g => count(g.members)], ["Of", g => g.node ? `cluster ${g.node}` : addressOf(parts.data, g.server), "text"],
        ["Members by loop or node", g => g.nodes ? g.nodes.map(n => `${n.node}: ${count(n.members)}`).join(", ") : g.loops.map(count).join(" + "), "text wide"],
        ["", g => g.isCongested ? "congested" : "", "text"],
      ], { label: "Groups" });
      main.append(make("section", {}, make("div", { className: "tools" }, filter, pages.element), list.element, clusters));
      return { list, pages, clusters };
    },
    show(p, data) {
      p.pages.show(data);
      fill(p.list, data.rows, g => JSON.stringify([g.node, g.server, g.name]));
      set(p.clusters, data.clusters.map(c => `Node ${c.node}: ${c.state}${c.reason ? `, ${c.reason}` : ""}.`
        + (c.hasPresence ? "" : " Members of other nodes are not counted: set ClusterOptions.PresenceInterval.")).join(" ")
        + (data.rows.length || place().query.get("filter") ? "" : " There are no groups of Server.Groups or of a cluster. A group made by new SessionGroup() is named at its members."));
    },
  },

  ended: {
    build(main) {
      const filter = filterBox("Filter by address, class or cause (/)"), pages = pager(), about = make("span", { className: "soft" });
      const list = table([
        ["Id", e => linkTo(e.id), "text"], ["At", e => clock(e.endedAt)], ["Peer", e => e.peer, "text"], ["Session", e => e.type, "text"],
        ["Lasted", e => time(e.lastedMs)], ["Received", e => bytes(e.received)], ["Sent", e => bytes(e.sent)],
        ["By", e => e.initiator, "text"], ["Cause", (e, cell) => { cell.classList.toggle("risk", !e.isGraceful); return e.cause; }, "text"], ["Reason", e => e.reason, "text wide"],
      ], { label: "Ended connections" });
      main.append(make("section", {}, make("div", { className: "tools" }, filter, about, pages.element), list.element));
      return { list, pages, about };
    },
    show(p, data) {
      p.pages.show(data);
      set(p.about, `${count(data.ends)} ends since the dashboard is open; the last ${data.kept} are kept`);
      fill(p.list, data.rows, e => e.id);
    },
  },

  notices: {
    build(main) {
      const about = make("p", { className: "soft" });
      const list = table([
        ["At", n => new Date(n.at).toLocaleString("en-GB"), "text"], ["Kind", n => n.kind, "text"], ["Message", n => n.message, "text wide"],
        ["", n => make("a", { className: "row", href: `${folder}help/${n.page}`, target: "_blank", rel: "noopener", text: "What to do" }), "text"],
      ], { label: "Notices" });
      main.append(make("section", {}, about, list.element));
      return { list, about };
    },
    show(p, data) {
      set(p.about, data.rows.length ? `The last ${data.kept} of each engine.` : "There have been no notices.");
      fill(p.list, data.rows, n => n.at + n.kind + n.message);
    },
  },
};

const limit = ms => ms ? time(ms) : "none";

/** Removes the elements of the view before. */
export function reset(main, at) {
  main.replaceChildren();
  main.dataset.view = at.view;
  parts = {};
}

/** Shows a message; `before` is one of an interval earlier, or null. */
export function draw(main, data, before, at) {
  record(data, before);
  parts.data = data;
  parts.before = before;
  if (!parts.built) parts.built = views[at.view].build(main);
  views[at.view].show(parts.built, data, before, at);
}
