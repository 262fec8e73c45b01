// Fields of each target: the values with the most evidence, predicted and observed positives, and effects.
import { html } from "./htm-preact.js";
import { Badge, Fact, Loading, Table, count, number, percent, plural } from "./parts.js";
import { usePolled } from "./service.js";

const SHOWN = 20, HEADS = ["value", "PCOC", "predicted", "positives", "effect on the odds", "90 % interval"];
const shown = (values) => values.map((value) => value || "other").join(" × ");
const times = (effect) => (effect === null ? "–" : `× ${number(Math.exp(effect), 3)}`);
const named = (fields) => Object.entries(fields).map(([field, value]) => `${field} ${value || "other"}`).join(", ");

const row = (one) => [
  shown(one.values), number(one.pcoc), count(one.expected), count(one.positives), times(one.effect),
  one.lower === null ? "–" : `${times(one.lower)} to ${times(one.upper)}`,
];

const Term = ({ target, name, term }) => html`<h3>${name.replace("*", " × ")}</h3>
  <p>${plural(term.seen, "value")} with events, ${count(term.effects)} with an effect.${term.rce !== null && ` Field-RCE ${percent(term.rce)}, by chance alone ${percent(term.floor)}.`}${term.share !== 1 && ` Other fields agree with it, so ${percent(term.share)} of its effects is served.`}</p>
  <${Table} label=${`${name} of ${target}`} heads=${HEADS} rows=${term.top.slice(0, SHOWN).map(row)} empty="No events yet." />`;

function Target({ target, one }) {
  const { mce } = one, off = mce && mce.chance < 1e-4 && mce.relative > 0.05;
  return html`<section class="card ${off ? "warns" : ""}" aria-labelledby="fields-${target}">
    <header><h2 id="fields-${target}">${target}</h2>${mce && html`<${Badge} tone=${off ? "bad" : "fine"}>${off ? "off beyond chance" : "as predicted"}<//>`}</header>
    ${mce && html`<dl class="facts">
      <${Fact} name="worst segment" value=${named(mce.fields)} note=${`of ${plural(mce.segments, "segment")}`} />
      <${Fact} name="its error" value=${`${number(mce.sigmas, 1)} sigmas`} note=${`${percent(mce.relative)} of its positives`} />
      <${Fact} name="by chance" value=${mce.chance < 1e-4 ? "below 0.01 %" : percent(mce.chance, 2)} note=${`in ${plural(one.hours, "hour")}`} />
    </dl>`}
    ${Object.entries(one.terms).map(([name, term]) => html`<${Term} target=${target} name=${name} term=${term} />`)}
  </section>`;
}

export function Fields() {
  const asked = usePolled("/v1/fields");
  const list = (found) => {
    const all = Object.entries(found.targets);
    return all.length > 0 ? all.map(([target, one]) => html`<${Target} key=${target} target=${target} one=${one} />`)
      : html`<p>${found.fields.length > 0 ? "No events with fields yet." : html`No field is declared. <code>SIROCCO_FIELDS=device,placement</code> declares two.`}</p>`;
  };
  return html`<h1 tabindex="-1">Fields</h1><${Loading} asked=${asked}>${list}<//>`;
}
