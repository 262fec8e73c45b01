// The list of campaigns, and the page of one.
import { html, useEffect, useState } from "./htm-preact.js";
import { HoursChart, MapChart, PcocBar, ReliabilityDiagram, reach } from "./charts.js";
import { Badge, Choice, Confirm, Fact, Loading, Table, campaignLink, count, number, path, plural } from "./parts.js";
import { request, usePolled } from "./service.js";

const ROWS = 50, TYPING = 200;

function useDelayed(value) {
  const [late, setLate] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setLate(value), TYPING);
    return () => clearTimeout(timer);
  }, [value]);
  return late;
}

const interval = (pcoc) => `${number(pcoc.lower, 2)} to ${pcoc.upper === null ? "∞" : number(pcoc.upper, 2)}`;

function row(target, { campaign, calibrator, pcoc, report }) {
  const link = html`<a href=${campaignLink(target, campaign)}>${campaign}</a>`;
  if (!pcoc) return [link, number(report?.pcoc_calibrated), number(report?.pcoc_raw), count(report?.n), calibrator || "raw score"];
  return [link, html`<${PcocBar} ...${pcoc} />`, html`${number(pcoc.value, 2)} ${pcoc.off && html`<${Badge} tone="bad">${pcoc.direction === "over" ? "too high" : "too low"}<//>`}`,
    interval(pcoc), number(pcoc.evidence, 1), number(pcoc.predicted, 1), number(pcoc.positives, 1), calibrator || "raw score"];
}

const HEADS = {
  evidence: ["campaign", html`<span class="unseen">PCOC, drawn</span>`, "PCOC", "95 % interval", "evidence", "predicted", "observed", "made by"],
  name: ["campaign", "PCOC", "PCOC raw", "impressions", "made by"],
};

export function Campaigns({ status, target, state }) {
  const names = Object.keys(status.targets);
  const chosen = names.includes(target) ? target : names[0];
  const delayed = status.targets[chosen].delayed;
  // Of the address, so that a reload and a way back find the same rows.
  const [wanted = "evidence", sought = "", ...passed] = state;
  const [search, setSearch] = useState(sought), [sort, setSort] = useState(wanted === "name" ? "name" : "evidence");
  const late = useDelayed(search.trim()), order = delayed ? "name" : sort, list = path("campaigns", chosen, order, late);
  const [pages, setPages] = useState({ list, before: passed });
  const before = pages.list === list ? pages.before : [], setBefore = (names) => setPages({ list, before: names });
  const place = [list, ...before.map(encodeURIComponent)].join("/");
  useEffect(() => history.replaceState(history.state, "", `#/${place}`), [place]);
  const after = before.length ? before[before.length - 1] : "";
  const query = new URLSearchParams({ target: chosen, sort: order, limit: ROWS, search: late, after });
  const asked = usePolled(`/v1/campaigns?${query}`, 5_000, true);
  return html`<h1 tabindex="-1">Campaigns</h1>
    <form class="bar" role="search" onSubmit=${(event) => event.preventDefault()}>
      <label>Search <input type="search" value=${search} onInput=${(event) => setSearch(event.target.value)} placeholder="part of a name" maxlength="256" /></label>
      <${Choice} label="Target" value=${chosen} options=${names.map((name) => [name, name])} onChange=${(name) => { location.hash = `#/campaigns/${name}`; }} />
      ${!delayed && html`<${Choice} label="Order" value=${sort} options=${[["evidence", "furthest off first"], ["name", "by name"]]} onChange=${setSort} />`}
    </form>
    <${Loading} asked=${asked}>${(page) => html`
      <p role="status">${plural(page.total, "campaign")}${late && ` with “${late}”`}${page.bound ? `; off beyond chance from evidence ${number(page.bound, 1)} on` : ""}.</p>
      <${Table} label="Campaigns" heads=${HEADS[page.bound === undefined ? "name" : "evidence"]} rows=${page.campaigns.map((one) => row(chosen, one))}
        empty=${late ? "No campaign has that in its name." : order === "evidence" ? "No hour has been evaluated yet: look by name." : "No campaign has a map of its own yet."} />
      <p class="buttons"><button type="button" disabled=${!before.length} onClick=${() => setBefore(before.slice(0, -1))}>Back</button>
        <button type="button" disabled=${!page.next} onClick=${() => setBefore([...before, page.next])}>Next ${ROWS}</button></p>`}<//>`;
}

const DECISION = {
  passed: "Its new map passed the guard and was published.",
  kept: "The guard kept the map before: on the newest hour the new one would have been worse.",
  parent: "The guard replaced its map by the target's: on the newest hour both its maps were worse.",
  bounded: "Its new map was published, but the guard limited how far it moved.",
};
const LEVELS = { campaign: "a map of its own", group: "its group's map", target: "the target's map", identity: "no map: the score itself" };

async function overrideOf(target, campaign) {
  for (let after = ""; after !== null;) {
    const page = await request(`/v1/admin/overrides?${new URLSearchParams({ target, after, limit: 1000 })}`);
    const found = page.overrides.find((one) => one.campaign === campaign);
    if (found) return found.calibrator;
    after = page.next;
  }
  return null;
}

function Override({ target, campaign, calibrators, onDone }) {
  const [own, setOwn] = useState(undefined), [wanted, setWanted] = useState(calibrators[0]), [asks, setAsks] = useState(null);
  const [error, setError] = useState(null);
  const look = () => overrideOf(target, campaign).then(setOwn, setError);
  useEffect(look, [target, campaign]);
  const at = `/v1/admin/overrides/${path(target, campaign)}?retrain=true`;
  const change = (method, calibrator) => ({
    title: calibrator ? `Calibrate ${campaign} by ${calibrator}?` : `Leave ${campaign} to its target's calibrator?`,
    action: calibrator ? `Use ${calibrator} for ${campaign}` : `Take ${own} away from ${campaign}`,
    preview: () => [`Target ${target}: from ${own || "the target's calibrator"} to ${calibrator || "the target's calibrator"}.`, "A refit of this campaign is queued at once; its map changes when that is done, and the guard tests it."],
    act: () => request(at, { method, body: calibrator && { calibrator } }),
  });
  const closed = (done) => { setAsks(null); if (done) { look(); onDone(`${campaign}: ${done.calibrator}, refit queued as job ${done.job?.id}.`); } };
  // Where admin routes have a port of their own, they are not found here.
  if (error) return html`<p class="failed" role="alert">${error.message === "Not Found" ? "Admin routes are not served on this port: use sirocco overrides." : error.message}</p>`;
  return html`<form class="bar" onSubmit=${(event) => { event.preventDefault(); setAsks(change("PUT", wanted)); }}>
      <p>${own === undefined ? "Loading." : own ? html`It has a calibrator of its own: <b>${own}</b>.` : "It has no calibrator of its own."}</p>
      <${Choice} label="Calibrator" value=${wanted} options=${calibrators.map((name) => [name, name])} onChange=${setWanted} />
      <button>Set</button>${own && html`<button type="button" onClick=${() => setAsks(change("DELETE"))}>Take away</button>`}
    </form>${asks && html`<${Confirm} ...${asks} onClose=${closed} />`}`;
}

export function Campaign({ status, target, campaign, tell }) {
  const before = status.before ? `&before=${encodeURIComponent(status.before)}` : "";
  const asked = usePolled(`/v1/reliability/${path(target, campaign)}?hours=48${before}`, 60_000);
  const served = usePolled(`/v1/campaigns/${path(campaign)}`, 60_000);
  const known = status.targets[target];
  return html`<p class="crumbs"><a href="#/campaigns/${target}">Campaigns</a></p>
    <h1 tabindex="-1">${campaign}</h1>
    <${Loading} asked=${served}>${({ targets }) => {
      const one = targets[target] || {}, report = one.report || {};
      return html`<dl class="facts card">
        <${Fact} name="target" value=${target} note=${known?.delayed ? "delayed" : "immediate"} />
        <${Fact} name="served by" value=${LEVELS[one.level] || "–"} note=${`${plural(one.knots, "knot")}, by ${one.calibrator || "nothing"}`} />
        <${Fact} name="PCOC" value=${number(report.pcoc_calibrated)} note=${`raw ${number(report.pcoc_raw)}, whole window`} />
        <${Fact} name="impressions" value=${count(report.n)} note=${report.n ? `${count(report.positives)} positives` : "told of the largest only"} />
      </dl><p>${DECISION[report.decision] || "The guard's decision is told of the largest campaigns only."}</p>`;
    }}<//>
    <${Loading} asked=${asked}>${(found) => {
      const most = reach(found.raw, found.calibrated);
      const sum = (name) => found.hours.reduce((total, hour) => total + hour[name], 0);
      const after = sum("calibrated") / sum("positives"), raw = sum("raw") / sum("positives");
      return html`${found.hours.length > 0 ? html`
        <p>The newest ${plural(found.hours.length, "hour")}, each by the maps that served it: PCOC ${number(raw, 2)} before, <b>${number(after, 2)}</b> after.${found.cal_n["3"]?.calibrated != null && html` Cal-3 ${number(found.cal_n["3"].raw, 2)} before, <b>${number(found.cal_n["3"].calibrated, 2)}</b> after; chance alone gives ${number(found.cal_n["3"].floor, 2)}.`}</p>
        <div class="drawings">
          <${ReliabilityDiagram} title="Before: raw score" kind="raw" points=${found.raw} most=${most} />
          <${ReliabilityDiagram} title="After: calibrated" kind="calibrated" points=${found.calibrated} most=${most} />
          <${HoursChart} hours=${found.hours} />
          <${MapChart} map=${found.map} before=${found.map_before} most=${most} />
        </div>` : html`<p>${known?.delayed ? "Outcomes of a delayed target become final later: see Delayed." : "No hour of its traffic has been evaluated yet."}</p>
        <div class="drawings"><${MapChart} map=${found.map} before=${found.map_before} most=${1} /></div>`}`;
    }}<//>
    ${status.scopes.includes("admin") && html`<section class="card" aria-labelledby="own"><h2 id="own">Its calibrator</h2>
      <${Override} target=${target} campaign=${campaign} calibrators=${status.calibrators} onDone=${tell} /></section>`}`;
}
