// Numbers, times and pieces that every view is made of.
import { html, useEffect, useRef, useState } from "./htm-preact.js";

const MISSING = "–";
const known = (value) => value !== null && value !== undefined && Number.isFinite(value);

export const number = (value, digits = 3) => (known(value) ? value.toFixed(digits).replace(/^-(?=[0.]*$)/, "") : MISSING);
export const count = (value) => (known(value) ? Math.round(value).toLocaleString("en") : MISSING);
export const percent = (value, digits = 1) =>
  known(value) ? `${(100 * value).toFixed(digits)}\u00a0%` : MISSING;
export const rate = (value) => (known(value) ? `${Number((100 * value).toPrecision(3))}\u00a0%` : MISSING);
export const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;
export const moment = (seconds) =>
  known(seconds) ? new Date(1000 * seconds).toISOString().slice(0, 16).replace("T", " ") : MISSING;

export function duration(seconds) {
  if (!known(seconds)) return MISSING;
  const steps = [["s", 1, 90], ["min", 60, 90], ["h", 3600, 48], ["d", 86400, Infinity]];
  const [unit, size] = steps.find(([, size, most]) => seconds / size < most);
  return `${Math.max(0, Math.round(seconds / size))} ${unit}`;
}

export const took = (seconds) => (seconds > 0 && seconds < 1 ? `${Math.ceil(1000 * seconds)} ms` : duration(seconds));

export const campaignLink = (target, campaign) =>
  `#/campaign/${encodeURIComponent(target)}/${encodeURIComponent(campaign)}`;
// A slash of a campaign's name too: dots between slashes would lead to another route.
export const path = (...parts) => parts.map(encodeURIComponent).join("/");

export const Fact = ({ name, value, note, tone }) => html`
  <div class="fact ${tone || ""}"><dt>${name}</dt><dd>${value}${note && html`<small>${note}</small>`}</dd></div>`;

export const Badge = ({ tone, children }) => html`<span class="badge ${tone}">${children}</span>`;

export const Progress = ({ value, label }) => html`
  <progress max="1" value=${value} aria-label=${label}></progress>`;

export const Failed = ({ error }) => html`<p class="failed" role="alert">${error.message}</p>`;

export function Loading({ asked, children }) {
  // Always in one element: what becomes another loses its place among others.
  const failed = asked.error && html`<${Failed} error=${asked.error} />`;
  return html`<div>${failed || (!asked.data && html`<p class="waits">Loading.</p>`)}${asked.data && children(asked.data)}</div>`;
}

// A table that scrolls in a box of its own; `rows` are of cells, numbers to the right.
export const Table = ({ label, heads, rows, empty = "None." }) => rows.length === 0 ? html`<p>${empty}</p>` : html`
  <div class="scrolls" role="region" aria-label=${label} tabindex="0"><table>
    <thead><tr>${heads.map((head) => html`<th scope="col">${head || html`<span class="unseen">action</span>`}</th>`)}</tr></thead>
    <tbody>${rows.map((cells) => html`<tr>${cells.map((cell) => html`<td>${cell}</td>`)}</tr>`)}</tbody>
  </table></div>`;

export const Choice = ({ label, value, options, onChange }) => html`
  <label>${label} <select value=${value} onChange=${(event) => onChange(event.target.value)}>
    ${options.map(([name, text]) => html`<option value=${name} selected=${name === value}>${text}</option>`)}
  </select></label>`;

// Asks before anything changes: `preview` tells, by a dry run, what would; `act` does it.
export function Confirm({ title, preview, action, act, danger, onClose }) {
  const dialog = useRef(null);
  const [told, setTold] = useState({});
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    const shown = dialog.current;
    shown.showModal();
    Promise.resolve().then(preview).then((lines) => setTold({ lines }), (error) => setTold({ error }));
    return () => shown.close();
  }, []);
  const confirmed = async () => {
    setBusy(true);
    try {
      onClose(await act());
    } catch (error) {
      setTold({ ...told, error });
      setBusy(false);
    }
  };
  return html`<dialog ref=${dialog} aria-labelledby="confirm-title" onCancel=${() => onClose()}>
    <h2 id="confirm-title">${title}</h2>
    <div aria-live="polite">
      ${told.lines ? html`<ul>${told.lines.map((line) => html`<li>${line}</li>`)}</ul>` : !told.error && html`<p>Asking what would change.</p>`}
      ${told.error && html`<${Failed} error=${told.error} />`}
    </div>
    <p class="buttons">
      <button type="button" onClick=${() => onClose()}>Leave it as it is</button>
      <button type="button" class=${danger ? "danger" : "main"} disabled=${busy || !told.lines} onClick=${confirmed}>${action}</button>
    </p>
  </dialog>`;
}
