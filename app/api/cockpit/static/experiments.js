// Experiments: shadow, canary and holdout of each target.
import { html, useState } from "./htm-preact.js";
import { Badge, Confirm, Fact, Loading, Table, moment, number, percent } from "./parts.js";
import { post, request, usePolled } from "./service.js";

const WHY = {
  pcoc: "PCOC of the challenger left its bound", "log-loss": "log loss of the challenger left its bound",
  "missing-metric": "no numbers of the challenger came",
};
const COLUMNS = [["PCOC", "pcoc"], ["GC-3", "gc_3"], ["log loss", "log_loss"], ["impressions", "n"]];

const shares = (one) => {
  const { challenger = 0, raw = 0 } = one.shares || {};
  return { champion: 1 - challenger - raw, challenger, raw };
};

// A link does not carry the key, so the answer is shown here.
function Analysis({ target }) {
  const [shown, setShown] = useState(null);
  const at = `/v1/experiments/${encodeURIComponent(target)}/analysis`;
  const show = (event) => { event.preventDefault(); request(at).then((found) => setShown(JSON.stringify(found, null, 2)), (error) => setShown(error.message)); };
  return html`<a href=${at} onClick=${show}>A/B analysis as JSON<span class="unseen"> of ${target}</span></a>${shown && html`<pre tabindex="0">${shown}</pre>`}`;
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
    return [span, arm, ...COLUMNS.map(([, name]) => number(row[name], name === "n" ? 0 : name === "log_loss" ? 5 : 3))];
  }));
  const watch = one.watch || {};
  return html`<section class="card ${aborted ? "warns" : ""}" aria-labelledby="experiment-${target}">
    <header><h2 id="experiment-${target}">${target}</h2><${Badge} tone=${aborted ? "bad" : "fine"}>${aborted ? "aborted" : live ? "running" : "shadow"}<//></header>
    ${aborted && html`<p>The canary was aborted: ${WHY[one.reason] || one.reason}. All units get the champion's maps.</p>`}
    <dl class="facts">
      <${Fact} name="challenger" value=${one.challenger.method || one.challenger.version || "none"} note=${one.challenger.method ? "fitted at every refit" : one.challenger.version ? "a version that is kept" : "a holdout"} />
      ${Object.entries(split).map(([arm, share]) => html`<${Fact} name=${`share: ${arm}`} value=${percent(share)} />`)}
      <${Fact} name="canary" value=${one.canary ? "watched" : "off"} note=${`since ${moment(one.since)}`} />
      ${watch.bound && html`<${Fact} name="evidence against it" value=${number(watch.evidence ?? 0, 1)} note=${`stopped at ${number(watch.bound, 1)}`} />
        <${Fact} name="clicks of its arm" value=${number(watch.positives, 0)} note=${`${number(watch.predicted, 0)} predicted`} />`}
    </dl>
    <h3>On the same traffic</h3>
    <${Table} label=${`Champion and challenger of ${target}`} heads=${["span", "maps", ...COLUMNS.map(([text]) => text)]} rows=${rows} />
    <p class="buttons">${admin && html`<button type="button" class="main" disabled=${aborted} onClick=${() => ask(ending("promote", target))}>Promote<span class="unseen"> ${target}</span></button>
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
