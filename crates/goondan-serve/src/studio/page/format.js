// Formats numbers, times and texts.

const TIME = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
const DAY = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });

/** @param {string|number} at */
export function time(at) {
  return TIME.format(new Date(at));
}

/**
 * Formats a time. Adds the date if it is not today.
 * @param {string|number} at
 */
export function timeOrDate(at) {
  const date = new Date(at);
  const isToday = date.toDateString() === new Date().toDateString();
  return isToday ? TIME.format(date) : `${DAY.format(date)}, ${TIME.format(date)}`;
}

const DATE_TIME = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

/**
 * Formats a time with its date and year.
 * @param {string|number} at
 */
export function dateTime(at) {
  return DATE_TIME.format(new Date(at));
}

/** @param {number} milliseconds */
export function duration(milliseconds) {
  if (milliseconds < 1) return "0 ms";
  if (milliseconds < 1000) return `${Math.round(milliseconds)} ms`;
  if (milliseconds < 60_000) return `${(milliseconds / 1000).toFixed(milliseconds < 10_000 ? 2 : 1)} s`;
  return `${Math.floor(milliseconds / 60_000)} min ${Math.round((milliseconds % 60_000) / 1000)} s`;
}

/** Shortest wait for approvals that is shown, in milliseconds. */
const MIN_SHOWN_WAIT = 1_000;

/**
 * Formats a wait for approvals; empty for a short wait. Durations of calls and turns do not include waits.
 * @param {number} milliseconds
 * @param {string} [reason]
 */
export function waitText(milliseconds, reason = "") {
  return milliseconds >= MIN_SHOWN_WAIT ? `waited ${duration(milliseconds)}${reason}` : "";
}

/**
 * Formats the age of a time, in its largest unit.
 * @param {string|number} at
 */
export function age(at) {
  const minutes = Math.floor((Date.now() - new Date(at).getTime()) / 60_000);
  if (minutes < 1) return "just now";
  if (minutes < 60) return `${minutes} min ago`;
  if (minutes < 1440) return `${Math.floor(minutes / 60)} h ago`;
  return minutes < 43_200 ? counted(Math.floor(minutes / 1440), "day") + " ago" : DAY.format(new Date(at));
}

/**
 * Formats an amount of money. Small amounts have two significant digits.
 * @param {number} amount
 * @param {string} currency
 */
export function money(amount, currency) {
  const digits = amount >= 1 ? { maximumFractionDigits: 2 } : { maximumSignificantDigits: 2 };
  try {
    return new Intl.NumberFormat("en", { style: "currency", currency, minimumFractionDigits: 2, ...digits }).format(amount);
  } catch {
    return `${new Intl.NumberFormat("en", digits).format(amount)} ${currency}`.trim();
  }
}

/**
 * Formats a count with its noun.
 * @param {number} count
 * @param {string} singular
 * @param {string} [plural]
 */
export function counted(count, singular, plural = `${singular}s`) {
  return `${count.toLocaleString("en")} ${count === 1 ? singular : plural}`;
}

/**
 * Describes a retry of a model call in one line.
 * @param {{model: string, attempt: number, of: number, waitMs: number, reason: string}} event
 */
export function retry({ model, attempt, of, waitMs, reason }) {
  return `Retrying ${model} in ${duration(waitMs)} (${attempt} of ${of}): ${reason}`;
}

/** @param {any} value */
export function json(value) {
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}

/**
 * Returns the beginning of a text, in one line.
 * @param {string} text
 * @param {number} length
 */
export function excerpt(text, length) {
  const line = text.replace(/\s+/g, " ").trim();
  return line.length > length ? `${line.slice(0, length - 1)}…` : line;
}
