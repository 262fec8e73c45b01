// Experiments: shadow, canary and holdout of each target.
import { html, useState } from "./htm-preact.js";
import { Badge, Confirm, Fact, Loading, Table, count, moment, number, percent, plural } from "./parts.js";
import { post, request, usePolled } from "./service.js";

const WHY = {
  pcoc: "PCOC of the challenger left its bound", "log-loss": "log loss of the challenger left its bound",
  "missing-metric": "no numbers of the challenger came",
};
const COLUMNS = [["PCOC", "pcoc"], ["GC-3", "gc_3"], ["its floor", "gc_3_floor"], ["log loss", "log_loss"], ["impressions", "n"]];

const shares = (one) => {
  const { challenger = 0, raw = 0 } = one.shares || {};
  return { champion: 1 - challenger - raw, challenger, raw };
};

const NAMES = { rpm: "RPM", ctr: "CTR", roi: "ROI", cvr: "CVR", value_per_click: "value of a click" };
const interval = ({ lower, upper }, text) => html`<small>${text(lower)} to ${text(upper)}</small>`;
const metric = (value, lift) => html`${number(value, 4)}${lift && html`<small>${percent(lift.value)} lift:</small>${interval(lift, percent)}`}`;

// Metrics of each arm, and below each its lift over the champion with an interval.
function Arms({ label, found, ratios }) {
  const metrics = Object.keys(Object.values(found.arms)[0].metrics);
  const rows = Object.entries(found.arms).map(([arm, one]) => [arm, count(one.impressions ?? one.clicks),
    ...metrics.map((name) => metric(one.metrics[name]?.value, found.lifts[arm]?.[name])),
    ...(ratios ? [ratios[arm] ? html`${number(ratios[arm].value)}${interval(ratios[arm], number)}` : "–"] : [])]);
  const heads = ["arm", "trials", ...metrics.map((name) => NAMES[name] || name), ...(ratios ? ["predicted / actual"] : [])];
  return html`<h3>${label}</h3><${Table} label=${label} heads=${heads} rows=${rows} />`;
}

// Asked for when it is wanted: it takes the service a second.
function Analysis({ target }) {
  const [shown, setShown] = useState(null);
  const at = `/v1/experiments/${encodeURIComponent(target)}/analysis`;
  const show = () => request(at).then((found) => setShown({ found }), (error) => setShown({ error }));
  const { found, error } = shown || {}, analysis = found?.analysis;
  return html`<p><button type="button" onClick=${show}>A/B analysis<span class="unseen"> of ${target}</span></button></p><div aria-live="polite">
    ${error && html`<p class="failed">${error.message}</p>`}
    ${found && !analysis && html`<p>It begins with the first whole day, ${found.first_day} (UTC).</p>`}
    ${analysis && html`<p>${plural(found.days, "day")} since ${found.first_day}, ${plural(found.days_before, "day")} before it. The intervals hold the true lift on all days together, 95 times in 100.</p>
      ${analysis.sample_ratio.mismatch && html`<p class="failed">The arms have not got the impressions that their shares call for: the split is wrong, or an arm changes who sees ads.</p>`}
      <${Arms} label=${`Arms of ${target}`} found=${analysis} ratios=${analysis.predicted_over_actual} />
      ${Object.entries(found.delayed).map(([name, one]) => html`<${Arms} label=${`Conversions: ${name}`} found=${one} />`)}`}</div>`;
}

// What a dry run says, in lines; the keys are those of the answer.
const told = (answer) => Object.entries(answer).filter(([, value]) => value !== null && typeof value !== "object")
  .map(([name, value]) => `${name.replaceAll("_", " ")}: ${value}`);

function ending(what, target) {
  const at = `/v1/admin/experiments/${what}`;
  const text = what === "stop" ? "All units get the champion's maps again." : "The challenger becomes the champion, for all units.";
  return {
    title: `${what === "stop" ? "Stop" : "Promote"} the challenger of ${target}?`, danger: what === "stop",
    action: `${what === "stop" ? "Stop" : "Promote"} ${target}'s challenger`,
    preview: async () => [text, ...told(await post(at, { target, dry_run: true }))],
    act: async () => { await post(at, { target, dry_run: false }); return `${target}: ${what === "stop" ? "stopped" : "promoted"}.`; },
  };
}

function Experiment({ target, one, admin, ask }) {
  const split = shares(one), aborted = one.state === "aborted", live = split.challenger + split.raw > 0;
  const rows = ["hour", "window"].flatMap((span) => ["champion", "challenger"].map((arm) => {
    const row = one.shadow?.[arm]?.[span] || {};
    return [span, arm, ...COLUMNS.map(([, name]) => name === "n" ? count(row[name]) : number(row[name], name === "log_loss" ? 5 : 3))];
  }));
  const watch = one.watch || {};
  return html`<section class="card ${aborted ? "warns" : ""}" aria-labelledby="experiment-${target}">
    <header><h2 id="experiment-${target}">${target}</h2><${Badge} tone=${aborted ? "bad" : "fine"}>${aborted ? "aborted" : live ? "running" : "shadow"}<//></header>
    ${aborted && html`<p>The canary was aborted: ${WHY[one.reason] || one.reason}. All units get the champion's maps.</p>`}
    ${one.failed && html`<p class="failed">The last fit of its maps failed: ${one.failed}. Those before stay on trial.</p>`}
    ${one.ready === false && !one.failed && html`<p>Nothing is split yet: its maps come with the next refit.</p>`}
    <dl class="facts">
      <${Fact} name="challenger" value=${one.challenger.method || one.challenger.version || "none"} note=${one.challenger.method ? "fitted at every refit" : one.challenger.version ? "a version that is kept" : "a holdout"} />
      ${Object.entries(split).map(([arm, share]) => html`<${Fact} name=${`share: ${arm}`} value=${percent(share)} />`)}
      <${Fact} name="canary" value=${one.canary && split.challenger > 0 ? "watched" : "off"} note=${`since ${moment(one.since)}`} />
      ${watch.bound && html`<${Fact} name="evidence against it" value=${number(watch.evidence ?? 0, 1)} note=${`stopped at ${number(watch.bound, 1)}`} />
        <${Fact} name="clicks of its arm" value=${count(watch.positives)} note=${`${count(watch.predicted)} predicted`} />`}
    </dl>
    <h3>On the same traffic</h3>
    <${Table} label=${`Champion and challenger of ${target}`} heads=${["span", "maps", ...COLUMNS.map(([text]) => text)]} rows=${rows} />
    <p class="buttons">${admin && html`<button type="button" class="main" disabled=${aborted || !Object.keys(one.challenger).length} onClick=${() => ask(ending("promote", target))}>Promote<span class="unseen"> ${target}</span></button>
      <button type="button" onClick=${() => ask(ending("stop", target))}>Stop<span class="unseen"> ${target}</span></button>`}
      </p><${Analysis} target=${target} />
  </section>`;
}

export function Experiments({ status, tell }) {
  const asked = usePolled("/v1/experiments");
  const [asks, setAsks] = useState(null);
  const none = asked.error?.status === 404;
  const closed = (done) => { setAsks(null); if (done) { tell(done); asked.reload(); } };
  const list = (found) => {
    const all = Object.entries(found.experiments || {});
    return all.length === 0 ? html`<p>No experiment runs. <code>sirocco experiment start</code> begins one, as a shadow or on a share of units.</p>`
      : all.map(([target, one]) => html`<${Experiment} key=${target} target=${target} one=${one} admin=${status.scopes.includes("admin")} ask=${setAsks} />`);
  };
  return html`<h1 tabindex="-1">Experiments</h1>
    ${none ? list({}) : html`<${Loading} asked=${asked}>${list}<//>`}
    ${asks && html`<${Confirm} ...${asks} onClose=${closed} />`}`;
}
