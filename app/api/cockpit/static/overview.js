// What ops see first: what is amiss, worker and store, each target; and delayed targets.
import { html } from "./htm-preact.js";
import { PcocBar } from "./charts.js";
import { Badge, Fact, Progress, Table, count, duration, moment, number, percent, plural, took } from "./parts.js";
import { key } from "./service.js";

const REASONS = {
  "store-away": "Redis does not answer. Scores are calibrated as before; events are refused until it is back.",
  "store-denied": "Redis denies access by SIROCCO_REDIS_URL: the log says why. Scores are calibrated as before; events are refused until it does not.",
  "store-refuses-writes": "Redis takes no writes: it is full, was demoted, denies them to this service, or too few replicas confirm. Scores are calibrated; events are refused.",
  "store-unreplicated": "Too few replicas confirm: the log names the Redis master. Events are refused, and nothing is refitted.",
  "store-replica": "Redis has become a replica.",
  "store-cluster": "Redis has become a node of a cluster.",
  "store-evicts": "Redis may evict what it holds: set its maxmemory-policy to noeviction.",
  "store-volatile": "Redis keeps no append-only file, or does not sync it: a crash loses acknowledged events.",
  "store-nearly-full": "Redis uses more than 90 % of its memory.",
  "serving-last-good": "The maps are those of this host's disk.",
  "version-damaged": "The version in force cannot be read; the newest whole one serves.",
  "version-missing": "The version in force is gone; the newest whole one serves.",
  "store-emptied": "Redis had lost its versions and got the last one back: events are missing.",
  "store-damaged": "Something in Redis could not be read within the last hour, and was set aside.",
  "refits-failing": "At least the last two refits failed. The maps in force stay.",
  "refit-held": "A refit waits for approval: see Versions. The maps in force stay.",
};
const STALE = 2 * 3600 + 900, SILENT = 120, STARTS = 60;

const isSilent = ({ now, worker }) => !worker || now - worker.at > SILENT;
// A worker of the same moment takes some seconds longer to begin.
const starts = (status) => isSilent(status) && status.now - status.started_at < STARTS;

// Sentences on all that is not as it should be, the worst first.
export function amiss(status) {
  const said = status.reasons.map((reason) => REASONS[reason] || reason);
  const worker = status.worker;
  if (status.campaigns.length) return said;
  const begins = starts(status);
  if (!worker && !begins) said.push("No worker gives a sign of life: nothing is refitted. Start one with: sirocco worker.");
  else if (status.store.up && isSilent(status) && !begins) said.push(`The worker has been silent for ${duration(status.now - worker.at)}.`);
  if (worker?.consecutive_failures === 1) said.push("The last refit failed; the next try comes by itself.");
  if (status.published_at && status.now - status.published_at > STALE)
    said.push(`The maps are ${duration(status.now - status.published_at)} old.`);
  for (const [name, target] of Object.entries(status.targets)) {
    const { over = 0, under = 0 } = target.bounds?.off || {};
    if (over + under) said.push(`${name}: ${plural(over + under, "campaign")} off beyond chance, ${count(over)} predicted too high and ${count(under)} too low.`);
    if (target.guard && target.guard.target !== "passed") said.push(`${name}: the guard ${DECISIONS[target.guard.target] || target.guard.target} the target's own map.`);
    if (target.method?.frozen) said.push(`${name}: the last refit froze its levels, because positives have collapsed. Is the tracker broken?`);
    if (target.model?.refused || target.model?.training?.refused) said.push(`${name}: the last training brought no new post-click model.`);
  }
  for (const [name, { off, window }] of Object.entries(status.products))
    if (off) said.push(`${name}: the product predicts ${number(window.predicted, 1)} where ${number(window.positives, 1)} came, though each of its factors may be calibrated.`);
  return said;
}

export const DECISIONS = {
  passed: "published", kept: "kept back", parent: "replaced by the target's map", bounded: "limited the move of",
};

function Target({ name, target }) {
  const after = target.window?.calibrated || {}, before = target.window?.raw || {}, hour = target.hour?.calibrated || {};
  const whole = target.bounds?.target || {};
  const bound = target.bounds?.bound;
  const off = bound !== undefined && Math.max(whole.over ?? 0, whole.under ?? 0) >= bound;
  const gained = before.log_loss ? 1 - after.log_loss / before.log_loss : null;
  const guard = target.guard || {};
  const held = ["kept", "parent", "bounded"].filter((one) => guard[one]).map((one) => `${count(guard[one])} ${one}`);
  const heading = `target-${name}`;
  return html`<section class="card" aria-labelledby=${heading}>
    <header><h2 id=${heading}>${name}</h2>
      ${target.delayed && html`<${Badge} tone="plain">delayed<//>`}
      ${off && html`<${Badge} tone="bad">off<//>`}
      ${after.pcoc && html`<div class="scale"><${PcocBar} value=${after.pcoc} raw=${before.pcoc} lower=${whole.lower} upper=${whole.upper} off=${off} />
        <p class="ends" aria-hidden="true"><span>½</span><span>PCOC 1</span><span>2</span></p></div>
        <p class="legend"><span class="calibrated">calibrated</span><span class="raw">raw score</span></p>`}
      <a href="#/campaigns/${name}">${plural(target.campaigns, "campaign")}</a></header>
    ${target.judged_until || target.window ? html`
    <dl class="facts">
      <${Fact} name="PCOC" value=${number(after.pcoc)} note=${`raw ${number(before.pcoc)}, last hour ${number(hour.pcoc)}`} tone=${off ? "bad" : ""} />
      <${Fact} name="GC-3" value=${number(after.gc_3)} note=${`floor ${number(after.gc_3_floor)}, raw ${number(before.gc_3)}`} />
      <${Fact} name="log loss gained" value=${percent(gained, 2)} note="over the raw score" />
      <${Fact} name="impressions" value=${count(before.n)} note=${`${count(before.positives)} positives`} />
      <${Fact} name="maps of their own" value=${count(target.fitted ?? target.campaigns)} note=${`by ${target.calibrator || "nothing yet"}`} />
      <${Fact} name="guard" value=${held.length ? held.join(", ") : target.guard ? "all passed" : "–"} note=${target.guard ? `${count(guard.passed)} passed` : "no decision yet"} />
    </dl>` : html`<p>${target.delayed ? "No labels yet: see Delayed." : "Nothing evaluated yet: an hour is evaluated once it has closed."}</p>`}
  </section>`;
}

function Products({ products }) {
  const rows = Object.entries(products).map(([name, { factors, evaluated_by, window, hour, off }]) => [
    html`${name} ${off && html`<${Badge} tone="bad">off<//>`}`, factors.join(" × "), number(window?.pcoc), number(window?.pcoc_floor), number(hour?.pcoc),
    count(window?.trials), number(window?.predicted, 1), number(window?.positives, 1), evaluated_by === "outcomes" ? "outcomes sent of it" : evaluated_by]);
  return html`<section class="card" aria-labelledby="products"><h2 id="products">Products of targets</h2>
    <${Table} label="How products do" heads=${["product", "factors", "PCOC", "floor", "last hour", "trials", "predicted", "positives", "evaluated by"]} rows=${rows} /></section>`;
}

// What is of all campaigns stays away from a key that sees some.
const Bound = ({ status, said }) => html`<h1 tabindex="-1">Overview</h1>
  <section class="card ${said.length ? "warns" : "fine"}" aria-labelledby="state"><h2 id="state">${said.length ? `${plural(said.length, "thing")} to look at` : "The service is well"}</h2>
    ${said.length > 0 && html`<ul>${said.map((text) => html`<li>${text}</li>`)}</ul>`}
    <dl class="facts"><${Fact} name="maps" value=${status.published_at ? `${duration(status.now - status.published_at)} old` : "none"} note=${status.version} />
      <${Fact} name="Redis" value=${status.store.up ? "up" : "away"} tone=${status.store.up ? "" : "bad"} /></dl></section>
  <section class="card" aria-labelledby="targets"><h2 id="targets">Your campaigns</h2><ul>
    ${Object.entries(status.targets).map(([name, { delayed }]) => html`<li><a href="#/campaigns/${name}">${name}</a>${delayed && ", delayed"}</li>`)}</ul></section>`;

// A worker publishes its first version, of no maps, before any event has come.
const unlearnt = ({ version, targets }) => version === "none" ||
  Object.values(targets).every(({ campaigns, delayed, window }) => !campaigns && (delayed || window?.raw.n === 0));

const step = (name, text, code) => html`<li><b>${name}.</b> ${text}<pre tabindex="0">${code}</pre></li>`;

export function FirstSteps() {
  const at = location.origin, by = key.get() && " -H 'Authorization: Bearer …'";
  return html`<section class="card" aria-labelledby="first"><h2 id="first">No maps yet: what to do first</h2><ol class="steps">
    ${step("Send events", "An impression with the score that your model gave, and its click if one comes.",
    `curl -s ${at}/v1/events${by} --json '[{"type": "impression", "id": "i-1", "campaign": "shoes",\n  "occurred_at": ${Math.floor(Date.now() / 1000) - 60}, "scores": {"click": 0.021}}]'`)}
    ${step("Have it learn", "The worker refits after every full hour; now, if you ask.", `curl -s -X POST ${at}/v1/admin/retrain${by}`)}
    ${step("Calibrate", "Until then every score comes back as it is.", `curl -s ${at}/v1/calibrate${by} \\\n  --json '{"target": "click", "campaign": "shoes", "scores": [0.02, 0.04]}'`)}
  </ol></section>`;
}

export function Overview({ status }) {
  const said = amiss(status), worker = status.worker || {}, store = status.store;
  if (status.campaigns.length) return html`<${Bound} status=${status} said=${said} />`;
  const begins = starts(status), silent = isSilent(status) && !begins;
  const busy = !begins && worker.phase && worker.phase !== "idle";
  const shares = Object.values(worker.progress || {});
  const share = shares.length ? shares.reduce((a, b) => a + b) / shares.length : undefined;
  const events = store.up ? (store.takes_writes ? "up" : "refuses writes") : "away";
  return html`<h1 tabindex="-1">Overview</h1>
    <section class="card ${said.length ? "warns" : "fine"}" aria-labelledby="state">
      <h2 id="state">${said.length ? `${plural(said.length, "thing")} to look at` : begins ? "Starting: no worker has given a sign of life yet" : "All is well"}</h2>
      ${said.length > 0 && html`<ul>${said.map((text) => html`<li>${text}</li>`)}</ul>`}
      <dl class="facts">
        <${Fact} name="maps" value=${status.published_at ? `${duration(status.now - status.published_at)} old` : "none"} note=${status.version} />
        <${Fact} name="worker" tone=${silent ? "bad" : ""} value=${begins ? "starting" : silent ? "silent" : worker.phase || "works"}
          note=${busy ? html`<${Progress} value=${share} label="Progress of the refit" />` : status.worker && !begins ? `refit took ${took(worker.last_refit_seconds ?? status.refit_seconds)}` : `no sign of life${begins ? " yet" : ""}`} />
        <${Fact} name="Redis" tone=${events === "up" ? "" : "bad"} value=${events} note=${!store.up ? "what waits is not known" : store.oldest_unfolded_seconds ? `oldest hour waits ${duration(store.oldest_unfolded_seconds)}` : "nothing waits"} />
        <${Fact} name="refits" value=${count(worker.refits)} note=${`${count(worker.failures ?? 0)} failed since the worker began`} />
      </dl></section>
    ${unlearnt(status) && html`<${FirstSteps} />`}
    ${Object.entries(status.targets).map(([name, target]) => html`<${Target} key=${name} name=${name} target=${target} />`)}
    ${Object.keys(status.products).length > 0 && html`<${Products} products=${status.products} />`}`;
}

const SOURCES = { model: "the post-click model", delays: "the delays alone", none: "nothing yet" };

export function Delayed({ status }) {
  const delayed = Object.entries(status.targets).filter(([, target]) => target.delayed);
  const clicks = status.worker?.clicks || {};
  return html`<h1 tabindex="-1">Delayed targets</h1>
    ${delayed.length === 0 && html`<p>There is none; <code>SIROCCO_DELAYED_TARGETS</code> names them.</p>`}
    ${delayed.length > 0 && html`<section class="card" aria-labelledby="open"><h2 id="open">Clicks</h2><dl class="facts">
      <${Fact} name="open" value=${count(clicks.open)} note="still gather behaviours" />
      <${Fact} name="closed" value=${count(clicks.closed)} note="moved into the click log" />
      <${Fact} name="awaited" value=${count(clicks.waiting)} note="behaviours without their click" />
      <${Fact} name="expired" value=${count(clicks.expired)} note="lost: no worker closed them" tone=${clicks.expired ? "bad" : ""} />
    </dl></section>`}
    ${delayed.map(([name, target]) => {
      const { labels = {}, model = {}, matured = {} } = Object.fromEntries(["labels", "model", "matured"].map((one) => [one, target[one] || {}]));
      const quality = matured.model || {};
      const days = (matured.days || []).map((day) => [moment(day.first).slice(0, 10), count(day.expected), count(day.observed), number(day.expected / day.observed, 2)]);
      return html`<section class="card" aria-labelledby="delayed-${name}"><h2 id="delayed-${name}">${name}</h2>
        <dl class="facts">
          <${Fact} name="labels come from" value=${SOURCES[target.source || "none"]} note=${labels.mode || ""} />
          <${Fact} name="conversions" value=${count(labels.seen)} note=${`seen so far; ${count(labels.expected)} expected in the end`} />
          <${Fact} name="seen / due" value=${number(labels.ratio, 2)} note="1 where delays are as they were" />
          <${Fact} name="half have come after" value=${duration(model.delay_median)} note="the median delay" />
          <${Fact} name="model" value=${model.trained_at ? `${duration(status.now - model.trained_at)} old` : "none"} note=${model.version || "not trained yet"} />
          <${Fact} name="model PCOC" value=${number(quality.pcoc)} note=${`AUC ${number(quality.auc)}, on matured clicks`} />
        </dl>
        <h3>Labels against what matured</h3>
        <${Table} label=${`Labels of ${name} by click day`} heads=${["click day", "labels added up to", "observed in the end", "PCOC"]} rows=${days} empty="No click has matured since labels were made." />
      </section>`;
    })}`;
}
