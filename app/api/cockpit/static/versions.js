// Versions, the way back, frozen targets, what waits for approval, and jobs.
import { html, useEffect, useRef, useState } from "./htm-preact.js";
import { Badge, Choice, Confirm, Loading, Progress, Table, campaignLink, count, duration, moment, plural, rate } from "./parts.js";
import { post, request, usePolled } from "./service.js";

const ADMIN = "/v1/admin";
const HELD = {
  "no-maps": "the refit fitted no map at all", "campaigns-lost": "more than half of the campaigns would lose their own map",
  "moved-far": "the maps move further than refits of the last day did", "of-the-past": "the refit is of events long before those of the maps in force",
  "store-emptied": "Redis has lost the version that was in force", "versions-unreadable": "the versions in Redis are of a newer release than the worker",
};
const moved = (target, one) => `${target}: ${count(one.moved)} of ${plural(one.campaigns, "campaign")} would move` +
  (one.largest.length ? `, ${one.largest[0].campaign} most: ${rate(one.largest[0].before)} to ${rate(one.largest[0].after)} at score ${rate(one.largest[0].score)}.` : ".");

const diffOf = (version, limit = 1) => request(`${ADMIN}/versions/${encodeURIComponent(version)}/diff?limit=${limit}`);

function rollback(version, target) {
  const body = { version, freeze: true, ...(target && { target }) };
  const what = target || "all targets";
  return {
    title: `Roll ${what} back to ${version}?`, action: `Roll back ${what}`, danger: true,
    preview: async () => {
      const [would, diff] = await Promise.all([post(`${ADMIN}/rollback`, { ...body, dry_run: true }), diffOf(version)]);
      if (!would.changed) return [`Nothing would change: the maps of ${version} serve already.`, `No refit would replace them until they are released: ${would.targets.join(", ")}.`];
      return [`The maps of ${version} serve again in every process within seconds, in place of ${would.version}.`,
        ...would.targets.filter((name) => diff.targets[name]).map((name) => moved(name, diff.targets[name])),
        `Frozen until released: ${would.targets.join(", ")}. No refit replaces them.`];
    },
    act: async () => { const done = await post(`${ADMIN}/rollback`, body); return `Rolled back: ${done.version} serves the maps of ${version}; ${done.targets.join(", ")} frozen.`; },
  };
}

const freezing = (what, target) => ({
  title: `${what === "freeze" ? "Freeze" : "Release"} ${target}?`, action: `${what === "freeze" ? "Freeze" : "Release"} ${target}`,
  preview: async () => {
    const would = await post(`${ADMIN}/${what}`, { target, dry_run: true });
    if (!would.changed.length) return ["Nothing would change."];
    return [what === "freeze" ? `No refit replaces the maps of ${target} until it is released. It is still evaluated every hour.` : `The next refit replaces the maps of ${target} again.`, `Frozen then: ${would.frozen.join(", ") || "none"}.`];
  },
  act: async () => { await post(`${ADMIN}/${what}`, { target }); return `${target} is ${what === "freeze" ? "frozen" : "released"}.`; },
});

const decision = (what, held) => ({
  title: `${what === "approve" ? "Approve" : "Reject"} ${held.version}?`, action: `${what === "approve" ? "Approve" : "Reject"} ${held.version}`, danger: what === "reject",
  preview: () => [what === "approve" ? `The held maps of ${Object.keys(held.reasons || held.targets || {}).join(", ") || held.version} come into force.` : "The held maps are dropped; those in force stay until the next refit."],
  act: async () => { const job = await post(`${ADMIN}/versions/${encodeURIComponent(held.version)}/${what}`); return `Job ${job.id} is queued.`; },
});

const sent = (title, lines, at, body) => ({
  title, action: title.replace("?", ""), preview: () => lines,
  act: async () => { const job = await post(`${ADMIN}/${at}`, body); return `Job ${job.id}: ${job.status}.`; },
});

function Difference({ version, onClose }) {
  const asked = usePolled(`${ADMIN}/versions/${encodeURIComponent(version)}/diff?limit=10`, 0);
  const heading = useRef(null);
  useEffect(() => {
    // It is far below the button, which is gone to on the way back.
    const button = document.activeElement;
    heading.current.focus();
    return () => button.focus();
  }, []);
  return html`<section class="card" aria-labelledby="diff"><header><h2 id="diff" tabindex="-1" ref=${heading}>If ${version} served</h2><button type="button" onClick=${onClose}>Close</button></header>
    <${Loading} asked=${asked}>${({ against, targets }) => Object.entries(targets).map(([name, one]) => html`
      <h3>${name}</h3><p>Against ${against}: ${moved(name, one)} Everybody else: ${one.everybody_else.before === one.everybody_else.after ? "as now" : `${rate(one.everybody_else.before)} to ${rate(one.everybody_else.after)} at score ${rate(one.everybody_else.score)}`}.</p>
      ${one.largest.length > 0 && html`<${Table} label=${`Campaigns of ${name} that move most`} heads=${["campaign", "at score", "now", "then"]}
        rows=${one.largest.map((row) => [html`<a href=${campaignLink(name, row.campaign)}>${row.campaign}</a>`, rate(row.score), rate(row.before), rate(row.after)])} />`}`)}<//>
  </section>`;
}

const TONES = { running: "main", queued: "plain", done: "fine", failed: "bad", cancelled: "plain" };

function jobRow(job, now, ask) {
  const open = job.status === "queued" || job.status === "running";
  const { as_of, ...request } = job.request;
  const asks = (Object.values(request).join(" ") || "everything") + (as_of ? ` as of ${moment(as_of)}` : "");
  return [job.id, html`<span class="long">${job.kind}: ${asks}</span>`, html`<${Badge} tone=${TONES[job.status]}>${job.status}<//>`,
    open ? html`${job.progress || (job.status === "running" ? "begins" : "waits")} ${job.fraction !== null && html`<${Progress} value=${job.fraction} label=${`Progress of job ${job.id}`} />`}` : job.error || (job.finished_at ? `${duration(now - job.finished_at)} ago` : "–"),
    open && ask && html`<button type="button" onClick=${() => ask(sent(`Cancel job ${job.id}?`, ["It ends at its next step, before it publishes: the maps in force stay."], `jobs/${job.id}/cancel`))}>Cancel<span class="unseen"> job ${job.id}</span></button>`];
}

export function Versions({ status, tell, reload }) {
  const versions = usePolled(`${ADMIN}/versions`), jobs = usePolled(`${ADMIN}/jobs`, 2_000);
  const [asks, setAsks] = useState(null), [compared, setCompared] = useState(null), [target, setTarget] = useState("");
  if (versions.error?.status === 404) return html`<h1 tabindex="-1">Versions</h1><p>The admin routes have a port of their own here (<code>SIROCCO_ADMIN_PORT</code>): open this page there.</p>`;
  const names = Object.keys(status.targets), admin = status.scopes.includes("admin");
  const closed = (done) => { setAsks(null); if (done) { tell(done); versions.reload(); jobs.reload(); reload(); } };
  const named = (version, label) => html`${label}<span class="unseen"> ${version}</span>`;
  return html`<h1 tabindex="-1">Versions</h1>
    <${Loading} asked=${versions}>${(list) => html`
      ${list.held && html`<section class="card warns" aria-labelledby="held"><h2 id="held">${list.held.version} waits for approval</h2>
        <ul>${Object.entries(list.held.reasons || {}).map(([name, why]) => html`<li>${name}: ${HELD[why] || why} (<code>${why}</code>).</li>`)}</ul>
        ${admin && html`<p class="buttons"><button type="button" class="main" onClick=${() => setAsks(decision("approve", list.held))}>Approve</button>
          <button type="button" onClick=${() => setAsks(decision("reject", list.held))}>Reject</button></p>`}</section>`}
      <section class="card" aria-labelledby="frozen"><h2 id="frozen">Targets</h2>
        <${Table} label="Targets and their refits" heads=${["target", "calibrator", "refits", ""]} rows=${names.map((name) => {
          const since = list.frozen[name];
          return [name, list.calibrators[name] || "–", since === undefined ? "replace its maps" : html`<${Badge} tone="warns">frozen<//> since ${moment(since)}`,
            admin && html`<button type="button" onClick=${() => setAsks(freezing(since === undefined ? "freeze" : "unfreeze", name))}>${since === undefined ? "Freeze" : "Release"}<span class="unseen"> ${name}</span></button>`];
        })} />
        ${list.rolled_back && html`<p>Rolled back to ${list.rolled_back.to}: ${(list.rolled_back.targets || []).join(", ")}.</p>`}</section>
      <section class="card" aria-labelledby="kept"><header><h2 id="kept">Kept</h2>
        ${admin && html`<${Choice} label="Roll back" value=${target} options=${[["", "all targets"], ...names.map((name) => [name, name])]} onChange=${setTarget} />`}</header>
        <${Table} label="Versions kept" heads=${["version", "published (UTC)", "events until", "", ""]} empty="Nothing has been published yet." rows=${list.versions.map((one) => [
          html`${one.version} ${one.version === list.serving && html`<${Badge} tone="fine">serves<//>`}`, moment(one.published_at), moment(one.as_of),
          html`<button type="button" onClick=${() => setCompared(one.version)}>${named(one.version, "Compare")}</button>`,
          admin && html`<button type="button" disabled=${one.version === list.serving} onClick=${() => setAsks(rollback(one.version, target))}>${named(one.version, "Roll back")}</button>`])} />
      </section>
      ${compared && html`<${Difference} key=${compared} version=${compared} onClose=${() => setCompared(null)} />`}`}<//>
    <section class="card" aria-labelledby="jobs"><header><h2 id="jobs">Jobs</h2>
      ${admin && html`<span class="buttons"><button type="button" class="main" onClick=${() => setAsks(sent("Refit everything now?", ["Every target and campaign is refitted on the events so far; the guard tests each map before it is published."], "retrain"))}>Refit now</button>
      ${names.some((name) => status.targets[name].delayed) && html`<button type="button" onClick=${() => setAsks(sent("Train post-click models now?", ["The models of all delayed targets are trained on the clicks that are mature now; the next refit uses them."], "pccem/train"))}>Train models</button>`}</span>`}</header>
      <${Loading} asked=${jobs}>${(list) => html`<${Table} label="The last jobs" heads=${["job", "what", "state", "progress", ""]} rows=${list.jobs.map((job) => jobRow(job, status.now, admin && setAsks))} empty="None of the last day." />`}<//>
    </section>
    ${asks && html`<${Confirm} ...${asks} onClose=${closed} />`}`;
}
