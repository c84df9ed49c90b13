// How states, times and durations are written.

const KINDS = {
  PENDING: "waiting",
  UNSPECIFIED: "unknown",
  ASSIGNED: "starting",
  BUILDING: "starting",
  RUNNING: "running",
  SUCCEEDED: "good",
  FAILED: "bad",
  UNSCHEDULABLE: "bad",
  KILLED: "killed",
  WORKER_FAILED: "lost",
  PREEMPTED: "lost",
  COSCHED_FAILED: "lost",
  MISSING: "unknown",
};

// A state of a newer Iris is shown under its own name.
export const kindOf = (state) => KINDS[state] ?? "unknown";

export const stateText = (state) => (state ?? "unknown").toLowerCase().replaceAll("_", " ");

export function duration(milliseconds) {
  const seconds = Math.max(0, Math.round(milliseconds / 1000));
  const parts = [
    [Math.floor(seconds / 86400), "d"],
    [Math.floor(seconds / 3600) % 24, "h"],
    [Math.floor(seconds / 60) % 60, "m"],
    [seconds % 60, "s"],
  ];
  const first = parts.findIndex(([count]) => count > 0);
  if (first < 0) return "<1 s";
  const shown = parts.slice(first, first + 2).filter(([count], place) => place === 0 || count > 0);
  return shown.map(([count, unit]) => `${count} ${unit}`).join(" ");
}

export function clock(milliseconds) {
  const moment = new Date(milliseconds);
  const time = moment.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
  return moment.toDateString() === new Date().toDateString() ? time : `${moment.toLocaleDateString()} ${time}`;
}

export const plural = (count, noun) => `${count.toLocaleString()} ${noun}${count === 1 ? "" : "s"}`;

// How long a job waited for its first replica to be placed, and how long it has run since.
export function spans(job, now = Date.now()) {
  if (!job.submitted) return { queued: 0, ran: 0 };
  const end = job.finished ?? now;
  return { queued: (job.started ?? end) - job.submitted, ran: job.started ? end - job.started : 0 };
}
