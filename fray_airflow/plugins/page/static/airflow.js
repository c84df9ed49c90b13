// Everything that concerns the Airflow page around this one. Without one (opened by its own address) links are plain.

import { h } from "./dom.js";

const framed = window.parent !== window;

export class Refused extends Error {
  constructor(status) {
    super(`HTTP ${status}`);
    this.status = status;
  }
}

export async function ask(path, parameters = {}) {
  const query = new URLSearchParams(parameters);
  let reply;
  try {
    reply = await fetch(`api/${path}?${query}`, { headers: { accept: "application/json" } });
  } catch {
    throw new Refused(0);
  }
  if (!reply.ok) throw new Refused(reply.status);
  return reply.json();
}

// Airflow says its theme by a class of its root element, and changes that without loading anything.
export function followTheme(changed) {
  const root = framed ? parent.document.documentElement : null;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const apply = () => {
    const dark = root ? root.classList.contains("dark") : system.matches;
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    // Airflow's themes can be changed by who runs it, so its ground is taken as it is.
    const ground = root ? getComputedStyle(root).backgroundColor : "";
    if (ground && !ground.startsWith("rgba(")) document.documentElement.style.setProperty("--page", ground);
    changed();
  };
  if (root) new MutationObserver(apply).observe(root, { attributeFilter: ["class"] });
  else system.addEventListener("change", apply);
  apply();
}

const LAUNCH = ["dag_id", "run_id", "task_id", "map_index"];

// The launch that an address asks for: of this page (the tab of a task instance) or of Airflow's (a link to the page).
export function launchOf(search) {
  const given = new URLSearchParams(search);
  if (!LAUNCH.slice(0, 3).every((name) => given.get(name))) return null;
  return Object.fromEntries(LAUNCH.map((name) => [name, given.get(name) ?? "-1"]));
}

export const linkedLaunch = () => (framed ? launchOf(parent.location.search) : null);

function path(...parts) {
  return parts.map(encodeURIComponent).join("/");
}

export function taskPath(launch) {
  const task = `${path("dags", launch.dag_id, "runs", launch.run_id, "tasks", launch.task_id)}`;
  return launch.map_index >= 0 ? `${task}/mapped/${launch.map_index}` : task;
}

// A frame may not navigate the page around it, but it may tell that page's router.
export function airflowLink(to, text, attributes = {}) {
  const open = (event) => {
    if (!framed) return;
    event.preventDefault();
    const base = new URL(parent.document.baseURI).pathname.replace(/\/$/, "");
    parent.history.pushState({}, "", `${base}/${to}`);
    parent.dispatchEvent(new PopStateEvent("popstate", { state: {} }));
  };
  return h("a", { href: `../${to}`, ...attributes, on: { click: open } }, text);
}

// New windows are closed to a frame as well; a link of the page around it opens one.
export function outsideLink(url, text, attributes = {}) {
  const open = (event) => {
    if (!framed) return;
    event.preventDefault();
    const link = parent.document.createElement("a");
    Object.assign(link, { href: url, target: "_blank", rel: "noopener noreferrer" });
    parent.document.body.append(link);
    link.click();
    link.remove();
  };
  return h("a", { href: url, target: "_blank", rel: "noopener noreferrer", ...attributes, on: { click: open } }, text);
}
