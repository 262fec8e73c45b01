// The frame: where one is, the key, what was done last, and whether the service answers.
import { html, render, useEffect, useRef, useState } from "./htm-preact.js";
import { Campaign, Campaigns } from "./campaigns.js";
import { Experiments } from "./experiments.js";
import { Fields } from "./fields.js";
import { Delayed, Overview, amiss } from "./overview.js";
import { moment } from "./parts.js";
import { Versions } from "./versions.js";
import { key, usePolled } from "./service.js";

const VIEWS = { __proto__: null, "": ["Overview", Overview], campaigns: ["Campaigns", Campaigns], versions: ["Versions", Versions], experiments: ["Experiments", Experiments], fields: ["Fields", Fields], delayed: ["Delayed", Delayed] };

// Who sees some campaigns only has the views that are of single ones.
const viewsOf = (status) => (status?.campaigns.length ? { __proto__: null, "": VIEWS[""], campaigns: VIEWS.campaigns } : VIEWS);

function decoded(part) {
  try { return decodeURIComponent(part); } catch { return part; }
}

function useRoute() {
  const read = () => location.hash.replace(/^#\/?/, "").split("/").map(decoded);
  const [route, setRoute] = useState(read);
  useEffect(() => {
    const changed = () => setRoute((was) => (read().join("/") === was.join("/") ? was : read()));
    addEventListener("hashchange", changed);
    // What changed before anybody listened.
    changed();
    return () => removeEventListener("hashchange", changed);
  }, []);
  return route;
}

function AskForKey({ error, onGiven }) {
  const [text, setText] = useState("");
  const given = (event) => { event.preventDefault(); key.set(text.trim()); onGiven(); };
  return html`<h1 tabindex="-1">An API key, please</h1>
    <form class="card" onSubmit=${given}>
      ${key.get() && html`<p class="failed" role="alert">${error.status === 403 ? `This key may not read: ${error.message}.` : "This key is not valid: it is wrong, has ended or was revoked."}</p>`}
      <label>API key <input type="password" name="key" autocomplete="off" spellcheck="false" value=${text} onInput=${(event) => setText(event.target.value)} required pattern="\\s*[!-~]+\\s*" title="as it was shown, such as sir_…" placeholder="sir_…" /></label>
      <button class="main">Open</button>
      <p>The scope <code>read</code> shows everything, or the campaigns that the key is bound to; <code>admin</code> changes it, too. The key stays in this tab until that is closed; <code>sirocco keys create</code> makes one.</p>
    </form>`;
}

function Shown({ asked, route, tell }) {
  const [view, ...rest] = route, status = asked.data;
  if ([401, 403].includes(asked.error?.status)) return html`<${AskForKey} error=${asked.error} onGiven=${asked.reload} />`;
  if (!status) return html`<h1 tabindex="-1">sirocco</h1><p class="waits">${asked.error ? asked.error.message : "Loading."}</p>`;
  if (view === "campaign" && Object.hasOwn(status.targets, rest[0])) return html`<div key=${route.join("/")}><${Campaign} status=${status} target=${rest[0]} campaign=${rest[1]} tell=${tell} /></div>`;
  const [, View] = viewsOf(status)[view] || VIEWS[""];
  return html`<div key=${view}><${View} status=${status} target=${rest[0]} state=${rest.slice(1)} tell=${tell} reload=${asked.reload} /></div>`;
}

// What the key cannot do, said on every view.
function Limits({ status }) {
  const bound = status.campaigns.length > 0;
  if (status.scopes.includes("admin")) return null;
  return html`<p class="limits">${bound && html`This key sees only campaigns that begin with ${status.campaigns.map((prefix, i) => html`${i > 0 && " or "}<code>${prefix}</code>`)}. Totals of targets, the worker, versions, jobs, experiments, fields and delayed targets are of all campaigns, and are not shown. `}This key may look, and change nothing: that takes the scope <code>admin</code>.</p>`;
}

function Page() {
  const asked = usePolled("/v1/status"), route = useRoute(), status = asked.data;
  const [done, setDone] = useState(""), main = useRef(null), seen = useRef(false);
  useEffect(() => {
    if (seen.current) main.current.querySelector("h1")?.focus();
    seen.current = true;
    scrollTo(0, 0);
    document.title = `${(VIEWS[route[0]] || [route[2] || "Overview"])[0]} · sirocco`;
  }, [route.join("/")]);
  useEffect(() => {
    const timer = done && setTimeout(() => setDone(""), 15_000);
    return () => clearTimeout(timer);
  }, [done]);
  const refused = [401, 403].includes(asked.error?.status), away = asked.error && status && !refused;
  const things = status ? amiss(status).length : 0;
  const current = (view) => (view === route[0] || (view === "campaigns" && route[0] === "campaign") ? "page" : undefined);
  const forget = () => { key.set(""); asked.reload(); };
  const skip = (event) => { event.preventDefault(); main.current.focus(); };
  return html`<a class="skip" href="#main" onClick=${skip}>To the content</a>
    <header class="top"><a class="brand" href="#/">sirocco</a>
      <nav aria-label="Views">${Object.entries(viewsOf(status)).map(([view, [name]]) => html`<a href="#/${view}" aria-current=${current(view)}>${name}${view === "" && things > 0 && html`<b class="dot">${things}<span class="unseen"> things to look at</span></b>`}</a>`)}</nav>
      ${key.get() && html`<button type="button" onClick=${forget}>Forget the key</button>`}</header>
    <div class="tells" aria-live="polite">
      ${away && html`<p class="failed">${asked.error.message}: what is shown is of ${moment(asked.at / 1000)} UTC.</p>`}
      ${status && !status.store.up && html`<p class="failed">Redis is away: maps and reports are the last that were read.</p>`}
      ${done && html`<p class="did">${done}</p>`}</div>
    <main id="main" ref=${main} tabindex="-1">${status && !refused && html`<${Limits} status=${status} />`}<${Shown} asked=${asked} route=${route} tell=${setDone} /></main>
    <footer>Version ${status?.version || "–"} · ${!key.get() && html`<a href="/docs">HTTP reference</a> · `} <a href="/page/licences.html">Licences</a></footer>`;
}

const root = document.getElementById("page");
root.replaceChildren();
render(html`<${Page} />`, root);
