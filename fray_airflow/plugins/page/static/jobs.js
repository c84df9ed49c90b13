// The list: what Airflow's tasks have launched, the newest first.

import { airflowLink, ask, outsideLink, taskPath } from "./airflow.js";
import { fill, h } from "./dom.js";
import { badge, counts, empty, pager, problems, timeline } from "./parts.js";
import { clock } from "./words.js";

const PAGE = 25;

const EXAMPLE = `IrisSubmitJobOperator(
    task_id="hello",
    resource_config=ResourceConfig.with_cpu(cpu=1, ram="512m"),
    command=["echo", "hello"],
)`;

export class JobsView {
  constructor(element, open) {
    this.open = open;
    this.offset = 0;
    this.filter = "";
    this.body = h("div", {});
    const search = h("input", {
      type: "search",
      id: "filter",
      placeholder: "Part of a DAG's id",
      "data-key": "filter",
      on: { input: (event) => this.#filtered(event.target.value) },
    });
    fill(element, h("div", { class: "tools" }, h("label", { for: "filter" }, "DAG"), search), this.body);
  }

  async refresh() {
    const asked = { dag_contains: this.filter, offset: this.offset };
    const told = await ask("jobs", asked);
    // An answer that comes after the question has changed is not shown.
    if (asked.dag_contains !== this.filter || asked.offset !== this.offset) return;
    fill(this.body, problems(told.launches), told.launches.length ? this.#table(told) : this.#nothing());
  }

  #filtered(text) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      this.filter = text.trim();
      this.offset = 0;
      this.changed();
    }, 250);
  }

  #nothing() {
    if (this.filter) return empty("No jobs", h("p", {}, `No DAG with “${this.filter}” in its id has launched a job.`));
    return empty(
      "No jobs yet",
      h("p", {}, "A task that runs on Iris appears here as soon as it has submitted its job. The shortest one:"),
      h("pre", {}, EXAMPLE),
      h("p", {}, "It uses the connection iris_default, see ", airflowLink("connections", "Admin › Connections"), "."),
    );
  }

  #table({ launches, more }) {
    const heads = ["Task", "Job", "State", "Replicas", "Time", "Links"];
    const go = (to) => {
      this.offset = to;
      this.changed();
    };
    return [
      h(
        "div",
        { class: "scroll" },
        h(
          "table",
          {},
          h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col" }, head)))),
          h("tbody", {}, launches.map((launch) => this.#rows(launch))),
        ),
      ),
      pager({ offset: this.offset, size: PAGE, shown: launches.length, more, back: "Newer", forth: "Older", go }),
    ];
  }

  // One row a job; the task stands at its first job.
  #rows(launch) {
    const key = [launch.dag_id, launch.run_id, launch.task_id, launch.map_index].join(" ");
    const name = launch.map_index >= 0 ? `${launch.task_id} [${launch.map_index}]` : launch.task_id;
    const task = h(
      "th",
      { scope: "row", rowspan: launch.jobs.length },
      h("a", { href: this.open(launch), "data-key": `open ${key}` }, name),
      h("div", { class: "quiet" }, launch.dag_id),
      h("div", { class: "quiet small" }, launch.run_id),
    );
    return launch.jobs.map((job, index) =>
      h(
        "tr",
        {},
        index ? null : task,
        h("td", { class: "job" }, h("code", {}, job.id), reason(job)),
        h("td", {}, badge(job.state)),
        h("td", {}, job.replicas ? counts(job) : null),
        h("td", {}, job.submitted ? [timeline(job), h("div", { class: "quiet small" }, clock(job.submitted))] : null),
        h(
          "td",
          { class: "links" },
          index ? null : airflowLink(taskPath(launch), "Task", { "data-key": `task ${key}` }),
          job.url ? outsideLink(job.url, "Iris ↗", { "data-key": `iris ${job.id}` }) : null,
        ),
      ),
    );
  }
}

function reason(job) {
  if (job.problem === "unknown_job") return h("div", { class: "quiet small" }, "Iris does not know it any more.");
  const text = job.pending_reason || job.error;
  return text ? h("div", { class: "quiet small reason", title: text }, text) : null;
}
