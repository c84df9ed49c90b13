// The cluster behind a connection: the slices of each group, and the workers.

import { ask } from "./airflow.js";
import { fill, h } from "./dom.js";
import { Grid } from "./grid.js";
import { table } from "./launch.js";
import { badge, empty, pager, problem } from "./parts.js";
import { plural } from "./words.js";

const ROWS = 50;
const ORDER = ["free", "busy", "booting", "degraded", "failed"];

export class ClusterView {
  constructor(element) {
    this.connection = null;
    this.offset = 0;
    this.group = "";
    this.cards = new Map();
    this.tools = h("div", { class: "tools" });
    this.body = h("div", {});
    this.groups = h("div", { class: "groups" });
    this.workers = h("section", {});
    fill(element, this.tools, this.body, this.groups, this.workers);
  }

  async refresh() {
    const known = await ask("connections");
    if (!known.includes(this.connection)) this.connection = known[0];
    this.#choice(known);
    const told = await ask("cluster", { conn_id: this.connection });
    if (told.conn_id !== this.connection) return;
    fill(this.body, problem(told, this.connection), told.groups ? this.#unmet(told) : null);
    if (!told.groups) {
      this.cards.clear();
      fill(this.groups);
      fill(this.workers);
      return;
    }
    this.#show(told.groups);
    await this.#list(told.groups);
  }

  #choice(known) {
    const pick = (event) => {
      Object.assign(this, { connection: event.target.value, offset: 0, group: "" });
      this.changed();
    };
    const options = known.map((name) => h("option", { value: name, selected: name === this.connection }, name));
    fill(
      this.tools,
      h("label", { for: "connection" }, "Connection"),
      h("select", { id: "connection", "data-key": "connection", on: { change: pick } }, options),
    );
  }

  #unmet({ unmet }) {
    if (!unmet.length) return null;
    const words = unmet.map(({ device, count }) => `${count.toLocaleString()} for ${device}`).join(", ");
    return h("p", { class: "demand" }, h("strong", {}, "Waiting for room: "), words, h("span", { class: "quiet" }, " (a gang counts once)"));
  }

  #show(groups) {
    const names = groups.map(({ name }) => name);
    if (names.join("\n") !== [...this.cards.keys()].join("\n")) {
      this.cards = new Map(names.map((name) => [name, new GroupCard(name)]));
      fill(this.groups, [...this.cards.values()].map((card) => card.element));
      if (!groups.length) fill(this.groups, empty("No groups", h("p", {}, "This Iris has no group of machines that it scales.")));
    }
    for (const group of groups) this.cards.get(group.name).update(group);
  }

  async #list(groups) {
    const told = await ask("workers", { conn_id: this.connection, group: this.group, offset: this.offset, limit: ROWS });
    const go = (to) => {
      this.offset = to;
      this.changed();
    };
    const pick = (event) => {
      Object.assign(this, { group: event.target.value, offset: 0 });
      this.changed();
    };
    const names = ["", ...groups.map(({ name }) => name)];
    const more = this.offset + told.rows.length < told.total;
    const size = { offset: this.offset, size: ROWS, shown: told.rows.length, total: told.total };
    fill(
      this.workers,
      h(
        "div",
        { class: "tools" },
        h("h2", {}, "Workers"),
        h("label", { for: "group" }, "Group"),
        h(
          "select",
          { id: "group", "data-key": "group", on: { change: pick } },
          names.map((name) => h("option", { value: name, selected: name === this.group }, name || "all")),
        ),
      ),
      table(
        ["Worker", "Group", "Slice", "Zone", "Health", "Tasks"],
        told.rows.map((row) => [
          h("code", {}, row.id),
          row.group,
          h("code", {}, row.slice),
          row.zone || row.region,
          badge(row.healthy ? "SUCCEEDED" : "FAILED", row.healthy ? "healthy" : "unhealthy"),
          row.tasks.toLocaleString(),
        ]),
      ),
      pager({ ...size, more, back: "Previous", forth: "Next", go }),
    );
  }
}

class GroupCard {
  constructor(name) {
    this.name = name;
    this.head = h("div", {});
    this.chosen = h("p", { class: "quiet small" });
    this.grid = new Grid(`Slices of ${name}`, (key) => this.#choose(key));
    this.element = h("section", { class: "card" }, this.head, this.grid.canvas, this.chosen);
  }

  update(group) {
    this.group = group;
    const counted = new Map(ORDER.slice(0, 3).map((state) => [state, 0]));
    for (const { state } of group.slices) counted.set(state, (counted.get(state) ?? 0) + 1);
    const words = [...counted].map(([state, count]) => `${count.toLocaleString()} ${state}`);
    const sick = group.workers - group.healthy;
    fill(
      this.head,
      h("h2", {}, this.name, h("span", { class: "quiet" }, ` ${[group.device, group.region].filter(Boolean).join(" · ")}`)),
      h("div", { class: "legend" }, [...counted].map(([state, count]) => h("span", { class: `badge ${state} ${count ? "" : "none"}` }, h("i", { "aria-hidden": "true" }), `${count.toLocaleString()} ${state}`))),
      h("p", { class: "quiet small" }, plural(group.slices.length, "slice"), ", ", plural(group.workers, "worker"), sick ? `, ${sick} unhealthy` : ""),
      group.reason ? h("p", { class: "quiet small" }, group.reason) : null,
    );
    this.grid.canvas.hidden = !group.slices.length;
    this.grid.update(
      group.slices.map((slice) => ({
        key: slice.id,
        kind: ORDER.includes(slice.state) ? slice.state : "unknown",
        group: "",
        text: `${slice.id}, ${slice.state}, ${plural(slice.vms, "worker")}`,
      })),
      words.join(", "),
    );
  }

  #choose(key) {
    const slice = this.group.slices.find(({ id }) => id === key);
    fill(this.chosen, slice ? `${slice.id}: ${slice.state}, ${plural(slice.vms, "worker")}` : "");
  }
}
