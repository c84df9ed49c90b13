// Pieces that several views show.

import { airflowLink } from "./airflow.js";
import { h } from "./dom.js";
import { clock, duration, kindOf, plural, spans, stateText } from "./words.js";

export function badge(state, text = stateText(state)) {
  return h("span", { class: `badge ${kindOf(state)}` }, h("i", { "aria-hidden": "true" }), text);
}

export function timeline(job) {
  const { queued, ran } = spans(job);
  const whole = Math.max(1, queued + ran);
  const words = job.submitted ? `queued ${duration(queued)}${job.started ? `, ran ${duration(ran)}` : ""}` : "";
  return h(
    "div",
    { class: "timeline" },
    h(
      "div",
      { class: "track", "aria-hidden": "true" },
      h("span", { class: "queued", style: { width: `${(100 * queued) / whole}%` } }),
      h("span", { class: `ran ${kindOf(job.state)}`, style: { width: `${(100 * ran) / whole}%` } }),
    ),
    h("div", { class: "quiet" }, words),
  );
}

export function counts(job) {
  const total = job.replicas ?? 0;
  const known = Object.entries(job.counts ?? {});
  return h(
    "div",
    { class: "counts" },
    h(
      "div",
      { class: "track", "aria-hidden": "true" },
      known.map(([state, count]) =>
        h("span", {
          class: kindOf(state.toUpperCase()),
          style: { width: `${(100 * count) / Math.max(1, total)}%` },
        }),
      ),
    ),
    h("div", { class: "quiet" }, known.map(([state, count]) => `${count.toLocaleString()} ${stateText(state)}`).join(", ")),
  );
}

export function empty(title, ...children) {
  return h("section", { class: "empty" }, h("h2", {}, title), children);
}

export function notice(kind, title, ...children) {
  return h("div", { class: `notice ${kind}`, role: kind === "bad" ? "alert" : "status" }, h("strong", {}, title), children);
}

const connectionsLink = () => airflowLink("connections", "Admin › Connections", { "data-key": "connections" });

// What keeps an answer from coming, and what to do about it.
export function problem(told, connection) {
  const code = told.code ? ` (${told.code.replaceAll("_", " ")})` : "";
  const since = told.at ? h("p", {}, `What you see is from ${clock(told.at)}.`) : null;
  switch (told.problem) {
    case "":
      return null;
    case "no_connection":
      return notice(
        "bad",
        `Airflow has no connection ${connection}`,
        h("p", {}, "Create one of type Iris with this id under ", connectionsLink(), "."),
      );
    case "bad_connection":
      return notice(
        "bad",
        `Connection ${connection} cannot be used`,
        h("p", {}, "One of its fields is wrong. Its Test button under ", connectionsLink(), " says which."),
      );
    case "unauthorised":
      return notice(
        "bad",
        `Iris refuses connection ${connection}${code}`,
        h("p", {}, "Renew its token under ", connectionsLink(), ". Jobs that run are not touched."),
        since,
      );
    case "unknown_job":
      return notice(
        "plain",
        "Iris does not know this job any more",
        h("p", {}, "It keeps finished jobs for seven days. The task's log in Airflow still tells how the job went."),
      );
    default:
      return notice(
        "bad",
        `Iris does not answer${code}`,
        h(
          "p",
          {},
          `Jobs go on without us, and this page keeps trying. If it stays so: is the controller of connection ${connection} `,
          "up, and can Airflow's API server reach it? See ",
          connectionsLink(),
          ".",
        ),
        since,
      );
  }
}

// One notice for each thing that is wrong, however many jobs it concerns.
export function problems(launches) {
  const found = new Map();
  for (const launch of launches)
    for (const job of launch.jobs)
      if (job.problem && job.problem !== "unknown_job") found.set(`${launch.conn_id} ${job.problem}`, [job, launch.conn_id]);
  return [...found.values()].map(([job, connection]) => problem(job, connection));
}

export function refusal(status) {
  if (status === 401)
    return empty("Your session has ended", h("p", {}, "Reload Airflow in your browser to log in again."));
  if (status === 403)
    return empty(
      "You may not see this",
      h("p", {}, "It takes the right to read the XComs of this DAG. Whoever manages Airflow's users can give it."),
    );
  if (status === 0)
    return empty("Airflow does not answer", h("p", {}, "Its API server cannot be reached. This page keeps trying."));
  return empty(
    "Airflow could not answer",
    h("p", {}, `HTTP ${status}. The log of its API server tells more. This page keeps trying.`),
  );
}

// `total` is left out where it is not known.
export function pager({ offset, size, shown, more, total, back, forth, go }) {
  if (!offset && !more) return null;
  const turn = (to, text, can) =>
    h("button", { type: "button", class: "plain", disabled: !can, "data-key": text, on: { click: () => go(to) } }, text);
  const range = shown ? `${offset + 1}–${offset + shown}` : "none";
  return h(
    "nav",
    { class: "pager", "aria-label": "Pages" },
    turn(Math.max(0, offset - size), back, offset > 0),
    h("span", { class: "quiet" }, total === undefined ? range : `${range} of ${total.toLocaleString()}`),
    turn(offset + size, forth, more),
  );
}
