// The page of a dashboard: connection, keys, actions. The views are in views.js. All text of the server is set as text,
// never as markup.
import { draw, reset } from "./views.js";

const id = name => document.getElementById(name);
const folder = document.documentElement.dataset.folder;
const tabs = ["overview", "connections", "groups", "ended", "notices"];
const orders = ["queue", "slowest", "rate", "bytes", "age"];
const kept = []; // earlier messages, for rates
let socket, wait = 500, last = null, isFrozen = false;

// ---------------------------------------------------------------- the address: #connections?sort=queue&page=2

export function place() {
  const [view, query] = location.hash.slice(1).split("?");
  const known = tabs.includes(view) || view === "connection" ? view : "overview";
  return { view: known, query: new URLSearchParams(query || "") };
}

export function go(view, changes = {}) {
  const at = place(), query = at.view === view ? at.query : new URLSearchParams();
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === "" || value === false) query.delete(name);
    else query.set(name, value);
  }
  const text = query.toString();
  location.hash = view + (text ? "?" + text : "");
}

function wanted() {
  const { view, query } = place();
  const text = name => query.get(name) ?? undefined, number = name => Number(query.get(name)) || 0;
  return {
    view, sort: orders.includes(query.get("sort")) ? query.get("sort") : "queue", ascending: query.has("up"),
    page: number("page"), filter: (query.get("filter") || "").slice(0, 300), group: text("group"), node: text("node"),
    server: number("server"), id: parseInt(query.get("id"), 16) || 0,
  };
}

// ---------------------------------------------------------------- the connection

function ask() {
  if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify(wanted()));
}

function state(text, isOpen) {
  id("state").textContent = text;
  id("state").className = isOpen ? "open" : "";
}

function connect() {
  const url = new URL(folder + "live", location.href);
  url.protocol = url.protocol.replace("http", "ws");
  url.hash = "";
  socket = new WebSocket(url);
  socket.onopen = () => { wait = 500; ask(); };
  socket.onmessage = event => {
    const data = JSON.parse(event.data), now = data.engines[0].timeMs;
    if (kept[0]?.engines[0].pid !== data.engines[0].pid) kept.length = 0;
    // Rates are over a whole interval, also after an update that a change of the view has caused.
    while (kept.length > 1 && kept[1].engines[0].timeMs <= now - data.intervalMs * 0.8) kept.shift();
    kept.push(last = data);
    state(isFrozen ? "frozen" : "live", true);
    id("logout").hidden = !data.login;
    redraw();
  };
  socket.onclose = event => {
    if (event.code === 1008) return location.reload(); // the login has expired
    state(event.reason || "not connected, trying again", false);
    setTimeout(connect, wait);
    wait = Math.min(wait * 2, 15000);
  };
}

function redraw() {
  if (!last || isFrozen) return;
  const at = place();
  for (const tab of id("tabs").children) {
    const is = tab.hash.slice(1) === (at.view === "connection" ? "connections" : at.view);
    if (is) tab.setAttribute("aria-current", "page"); else tab.removeAttribute("aria-current");
  }
  // A message of the view before a change is of no use to the new one.
  if (last.view === at.view) draw(id("main"), last, kept[0] === last ? null : kept[0], at);
}

// ---------------------------------------------------------------- actions

export function say(text) {
  id("message").textContent = text;
  id("message").hidden = !text;
}

// The event of a close may come after the dialog was opened again: it then belongs to the question before, which counts
// as answered by no.
let asked = 0;
async function isConfirmed(question) {
  const dialog = id("confirm"), mine = ++asked;
  id("question").textContent = question;
  dialog.returnValue = "no";
  dialog.showModal();
  do await new Promise(done => dialog.addEventListener("close", done, { once: true }));
  while (mine === asked && dialog.open);
  return mine === asked && dialog.returnValue === "yes";
}

export async function act(action, target, question) {
  if (!await isConfirmed(question)) return;
  try {
    const answer = await fetch(new URL(`${folder}${action}/${target}`, location.href), { method: "POST" });
    say(answer.ok ? `${action}: done. The audit line is among the notices.` : await answer.text());
  } catch {
    say("The dashboard does not answer.");
  }
}

// ---------------------------------------------------------------- keys and buttons

function freeze() {
  isFrozen = !isFrozen;
  id("freeze").setAttribute("aria-pressed", isFrozen);
  state(isFrozen ? "frozen" : "live", true);
  redraw();
}

function theme(isNext) {
  const all = ["", "light", "dark"], root = document.documentElement;
  let at = all.indexOf(localStorage.getItem("whimbrel-theme") || "");
  if (isNext) localStorage.setItem("whimbrel-theme", all[at = (at + 1) % all.length]);
  if (all[at]) root.dataset.theme = all[at]; else delete root.dataset.theme;
  id("theme").textContent = "Theme: " + (all[at] || "auto");
}

function move(step) {
  const rows = [...document.querySelectorAll("tbody a.row")];
  const at = rows.indexOf(document.activeElement);
  rows[at < 0 ? 0 : Math.min(rows.length - 1, Math.max(0, at + step))]?.focus();
}

function turn(step) {
  if (last?.pages > 1) go(place().view, { page: Math.min(last.pages - 1, Math.max(0, last.page + step)) || null });
}

function nextOrder() {
  go("connections", { sort: orders[(orders.indexOf(wanted().sort) + 1) % orders.length], page: null });
}

const keys = {
  "/": () => document.querySelector("input[type=search]")?.focus(),
  j: () => move(1), k: () => move(-1), n: () => turn(1), p: () => turn(-1),
  s: nextOrder, r: () => go("connections", { up: !place().query.has("up"), page: null }),
  f: freeze, t: () => theme(true), "?": () => id("help").showModal(),
  Escape: () => { if (place().view === "connection") history.length > 1 ? history.back() : go("connections"); },
};
tabs.forEach((view, i) => keys[i + 1] = () => location.hash = view);

document.addEventListener("keydown", event => {
  if (event.ctrlKey || event.altKey || event.metaKey || document.querySelector("dialog[open]")) return;
  if (event.target.matches("input")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (!keys[event.key]) return;
  event.preventDefault();
  keys[event.key]();
});
addEventListener("hashchange", () => {
  say("");
  // A change within a view keeps its elements, so that the filter keeps the focus.
  if (place().view !== id("main").dataset.view) reset(id("main"), place());
  ask();
});
id("freeze").onclick = freeze;
id("theme").onclick = () => theme(true);
id("keys").onclick = () => id("help").showModal();
theme(false);
reset(id("main"), place());
connect();
