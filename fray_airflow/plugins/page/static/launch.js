// What one task instance launched: each job with its times, its reason to wait or to fail, and all its replicas.

import { airflowLink, ask, outsideLink, taskPath } from "./airflow.js";
import { fill, h } from "./dom.js";
import { Grid } from "./grid.js";
import { badge, empty, pager, problem, timeline } from "./parts.js";
import { clock, duration, kindOf, plural, spans, stateText } from "./words.js";

const ANSWER = 500;
const ROWS = 25;
const OPENED = 4;

export class LaunchView {
  constructor(element, launch, back) {
    this.launch = launch;
    this.cards = new Map();
    this.head = h("div", {});
    this.jobs = h("div", {});
    fill(element, back ? h("p", {}, h("a", { href: back, "data-key": "back" }, "← All jobs")) : null, this.head, this.jobs);
    this.title = !back;
  }

  async refresh() {
    let told;
    try {
      told = await ask("launch", this.launch);
    } catch (refused) {
      if (refused.status !== 404) throw refused;
      fill(this.head);
      this.cards.clear();
      fill(this.jobs, this.#nothing());
      return;
    }
    this.#heading(told);
    if (told.jobs.some((job) => !this.cards.has(job.id)) || this.cards.size !== told.jobs.length) {
      this.cards = new Map(told.jobs.map((job, index) => [job.id, new JobCard(this.launch, job, index < OPENED)]));
      fill(this.jobs, [...this.cards.values()].map((card) => card.element));
    }
    await Promise.all(told.jobs.map((job) => this.cards.get(job.id).update(job, told.conn_id)));
  }

  #nothing() {
    return empty(
      "No Iris job for this task",
      h("p", {}, "A task that runs on Iris shows its job here as soon as it has submitted it: an IrisSubmitJobOperator, or a function under @task.iris."),
      h("p", {}, "A task that was cleared starts anew, and shows the job of its next try."),
    );
  }

  #heading(told) {
    const name = told.map_index >= 0 ? `${told.task_id} [${told.map_index}]` : told.task_id;
    const facts = [told.dag_id, told.run_id, `try ${told.try_number}`, `task ${stateText(told.task_state || "no status")}`];
    fill(
      this.head,
      this.title ? null : h("h1", {}, name, " ", airflowLink(taskPath(told), "Task in Airflow", { class: "button", "data-key": "task" })),
      this.title ? null : h("p", { class: "quiet" }, facts.join("  ·  ")),
    );
  }
}

class JobCard {
  constructor(launch, job, open) {
    this.launch = launch;
    this.id = job.id;
    this.offset = 0;
    this.only = "";
    this.rows = [];
    this.selected = null;
    this.summary = h("div", { class: "summary" });
    this.legend = h("div", { class: "legend", role: "group", "aria-label": "States" });
    this.grid = new Grid(`Replicas of ${job.id}`, (key) => this.#choose(key));
    this.detail = h("div", { class: "detail" });
    this.table = h("div", {});
    const list = h("details", { on: { toggle: () => this.#list() } }, h("summary", { "data-key": "list" }, "As a table"), this.table);
    this.list = list;
    this.replicas = h("div", {}, h("h3", {}, "Replicas"), this.legend, this.grid.canvas, this.detail, list);
    this.element = h(
      "details",
      { class: "card", open, on: { toggle: () => this.element.open && this.#load() } },
      h("summary", {}, h("code", {}, job.id)),
      this.summary,
      this.replicas,
    );
  }

  async update(job, connection) {
    this.job = job;
    const reason = job.pending_reason || job.error;
    const facts = [
      job.replicas ? plural(job.replicas, "replica") : null,
      job.band ? `${job.band} band` : null,
      job.failures ? plural(job.failures, "failure") : null,
      job.preemptions ? plural(job.preemptions, "preemption") : null,
    ].filter(Boolean);
    fill(
      this.summary,
      problem(job, connection),
      h(
        "div",
        { class: "line" },
        badge(job.state),
        h("span", { class: "quiet" }, facts.join("  ·  ")),
        job.url ? outsideLink(job.url, "Job in Iris ↗", { class: "button", "data-key": "iris" }) : null,
      ),
      job.submitted ? [timeline(job), moments(job)] : null,
      reason ? [h("h3", {}, job.pending_reason ? "Why it waits" : "What Iris says"), h("pre", { class: "reason" }, reason)] : null,
    );
    if (this.element.open) await this.#load();
  }

  async #load() {
    if (!this.job || this.job.problem === "unknown_job") {
      this.replicas.hidden = true;
      return;
    }
    const rows = [];
    let page;
    do {
      page = await ask("replicas", { ...this.launch, job_id: this.id, offset: rows.length, limit: ANSWER });
      rows.push(...page.rows);
    } while (page.rows.length && rows.length < page.total);
    this.rows = rows;
    this.replicas.hidden = !rows.length;
    this.#draw();
  }

  #draw() {
    const counted = new Map();
    for (const row of this.rows) counted.set(row.state, (counted.get(row.state) ?? 0) + 1);
    const words = [...counted].map(([state, count]) => `${count.toLocaleString()} ${stateText(state)}`);
    fill(this.legend, [...counted].map(([state, count]) => this.#chip(state, count)));
    this.grid.update(
      this.rows.map((row) => ({ key: row.index, kind: this.#dimmed(row) ? "dim" : kindOf(row.state), group: row.slice, text: line(row) })),
      `${plural(this.rows.length, "replica")}, ${words.join(", ")}`,
    );
    this.#show();
    this.#list();
  }

  #dimmed(row) {
    return this.only && row.state !== this.only;
  }

  #chip(state, count) {
    const pick = () => {
      this.only = this.only === state ? "" : state;
      this.offset = 0;
      this.#draw();
    };
    return h(
      "button",
      { type: "button", class: "chip", "aria-pressed": String(this.only === state), "data-key": `chip ${state}`, on: { click: pick } },
      badge(state, `${stateText(state)} ${count.toLocaleString()}`),
    );
  }

  #choose(key) {
    this.selected = key;
    this.#show();
  }

  #show() {
    const row = this.rows.find(({ index }) => index === this.selected);
    if (!row) {
      fill(this.detail, this.rows.length > 1 ? h("p", { class: "quiet" }, "Choose a replica to see where and how it runs.") : null);
      if (this.rows.length === 1 && this.selected === null) {
        this.selected = this.rows[0].index;
        this.grid.select(this.selected);
        this.#show();
      }
      return;
    }
    fill(this.detail, h("h4", {}, `Replica ${row.index} `, badge(row.state)), facts(row), attempts(row));
  }

  #list() {
    if (!this.list.open) return;
    const chosen = this.rows.filter((row) => !this.#dimmed(row));
    const shown = chosen.slice(this.offset, this.offset + ROWS);
    const go = (to) => {
      this.offset = to;
      this.#list();
    };
    const more = this.offset + ROWS < chosen.length;
    fill(
      this.table,
      table(
        ["Replica", "State", "Worker", "Slice", "Tries", "Exit code", "Ran"],
        shown.map((row) => [row.index, badge(row.state), mono(row.worker), mono(row.slice), row.tries || "", exitCode(row), ran(row)]),
      ),
      pager({ offset: this.offset, size: ROWS, shown: shown.length, more, total: chosen.length, back: "Previous", forth: "Next", go }),
    );
  }
}

function moments(job) {
  const { queued, ran: run } = spans(job);
  const steps = [
    ["Submitted", job.submitted, ""],
    ["First replica placed", job.started, job.started ? `after ${duration(queued)}` : ""],
    ["Ended", job.finished, job.finished && job.started ? `after ${duration(run)}` : ""],
  ];
  return h(
    "dl",
    { class: "moments" },
    steps.map(([name, at, after]) => h("div", {}, h("dt", {}, name), h("dd", {}, at ? `${clock(at)} ${after}` : "not yet"))),
  );
}

const mono = (text) => (text ? h("code", {}, text) : "");
const ran = (row) => (row.started ? duration((row.finished ?? Date.now()) - row.started) : "");
const exitCode = (row) => (row.finished || row.exit_code ? row.exit_code : "");
const line = (row) => [`Replica ${row.index}`, stateText(row.state), row.worker && `on ${row.worker}`].filter(Boolean).join(", ");

function facts(row) {
  const known = [
    ["Worker", mono(row.worker)],
    ["Slice", mono(row.slice)],
    ["Tries", row.tries || ""],
    ["Started", row.started ? clock(row.started) : ""],
    ["Ran", ran(row)],
    ["Exit code", exitCode(row)],
    ["Waits for", row.pending_reason],
  ].filter(([, value]) => value !== "" && value !== null);
  return [
    h("dl", {}, known.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
    row.error ? h("pre", { class: "reason" }, row.error) : null,
  ];
}

function attempts(row) {
  if (!row.attempts.length) return null;
  return [
    h("h4", {}, "Attempts that Iris lists"),
    table(
      ["Attempt", "State", "Worker", "Slice", "Exit code", "Ran", "Error"],
      row.attempts.map((each) => [each.attempt, badge(each.state), mono(each.worker), mono(each.slice), exitCode(each), ran(each), each.error]),
    ),
  ];
}

export function table(heads, rows) {
  return h(
    "div",
    { class: "scroll" },
    h(
      "table",
      {},
      h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col" }, head)))),
      h("tbody", {}, rows.map((cells) => h("tr", {}, cells.map((cell) => h("td", {}, cell))))),
    ),
  );
}
