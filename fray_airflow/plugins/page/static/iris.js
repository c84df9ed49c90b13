// The page: which view, and when it is read again.

import { followTheme, launchOf, linkedLaunch, Refused } from "./airflow.js";
import { ClusterView } from "./cluster.js";
import { fill, h } from "./dom.js";
import { JobsView } from "./jobs.js";
import { LaunchView } from "./launch.js";
import { refusal } from "./parts.js";
import { clock } from "./words.js";

const EVERY = 5000;

const bar = document.getElementById("bar");
const main = document.getElementById("view");
// The tab of a task instance shows that task alone. Airflow's address is read now: it changes it after loading.
const alone = launchOf(location.search);
const linked = alone ? null : linkedLaunch();
const fresh = h("span", { class: "quiet small" });
const trouble = h("div", {});
const content = h("div", {});

let view = null;
let turn = 0;
let timer = 0;

const launchHref = (launch) => {
  const { dag_id, run_id, task_id, map_index } = launch;
  return `#launch?${new URLSearchParams({ dag_id, run_id, task_id, map_index })}`;
};

function route() {
  const [name, query] = location.hash.slice(1).split(/\?(.*)/s);
  const launch = alone ?? (name === "launch" ? launchOf(query) : null);
  fill(trouble);
  fill(content);
  if (launch) view = new LaunchView(content, launch, alone ? null : "#jobs");
  else if (name === "cluster") view = new ClusterView(content);
  else view = new JobsView(content, launchHref);
  view.changed = refresh;
  fill(bar, alone ? null : [tab("#jobs", "Jobs", name !== "cluster"), tab("#cluster", "Cluster", name === "cluster")], tools());
  bar.hidden = false;
  document.body.dataset.ready = "0";
  refresh();
}

function tab(href, text, current) {
  return h("a", { href, class: "tab", "aria-current": current ? "page" : null, "data-key": `tab ${href}` }, text);
}

function tools() {
  const again = h("button", { type: "button", class: "plain", "data-key": "again", on: { click: () => refresh() } }, "Refresh");
  return h("div", { class: "right" }, fresh, again);
}

async function refresh() {
  clearTimeout(timer);
  const mine = ++turn;
  const shown = view;
  let failed = null;
  try {
    await shown.refresh();
  } catch (error) {
    failed = error;
  }
  if (mine !== turn || shown !== view) return;
  if (failed && !(failed instanceof Refused)) console.error(failed);
  fill(trouble, failed ? refusal(failed.status ?? 0) : null);
  content.hidden = failed !== null;
  if (!failed) fill(fresh, `Updated ${clock(Date.now())}`);
  document.body.dataset.ready = "1";
  main.setAttribute("aria-busy", "false");
  timer = setTimeout(() => (document.hidden ? null : refresh()), EVERY);
}

fill(main, trouble, content);
if (linked && !location.hash) location.replace(launchHref(linked));
addEventListener("hashchange", route);
document.addEventListener("visibilitychange", () => document.hidden || refresh());
followTheme(() => dispatchEvent(new Event("themechange")));
route();
