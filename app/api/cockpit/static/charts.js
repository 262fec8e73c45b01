// Drawings as SVG; what they show stands in a table below each, too.
import { html } from "./htm-preact.js";
import { Table, count, moment, number, rate } from "./parts.js";

const W = 420, H = 250, LEFT = 64, RIGHT = 8, TOP = 10, BOTTOM = 40;
const across = (most) => (value) => LEFT + (W - LEFT - RIGHT) * Math.min(value / most, 1);
const up = (most) => (value) => H - BOTTOM - (H - BOTTOM - TOP) * Math.min(value / most, 1);
const line = (points) => points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");

// A round number at or above the value, for the end of an axis.
function roundUp(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return Math.min(1, power * [1, 2, 3, 4, 5, 6, 8, 10].find((step) => step * power >= value * 0.999));
}

const Axes = ({ x, y, xs, ys, xName, yName }) => html`
  ${ys.map(([value, text]) => html`<line class="grid" x1=${LEFT} x2=${W - RIGHT} y1=${y(value)} y2=${y(value)} />
    <text x=${LEFT - 6} y=${y(value) + 4} text-anchor="end">${text}</text>`)}
  ${xs.map(([value, text], i) => html`<text x=${x(value)} y=${H - BOTTOM + 16}
    text-anchor=${i ? (i === xs.length - 1 ? "end" : "middle") : "start"}>${text}</text>`)}
  <text class="name" x=${(LEFT + W) / 2} y=${H - 4} text-anchor="middle">${xName}</text>
  <text class="name" transform="translate(10 ${(H - BOTTOM) / 2}) rotate(-90)" text-anchor="middle">${yName}</text>`;

const ticks = (most) => [0, most / 2, most].map((value) => [value, rate(value)]);

const Drawing = ({ title, label, children, legend, table }) => html`
  <figure><figcaption>${title}</figcaption>
    <svg viewBox="0 0 ${W} ${H}" role="img" aria-label=${label}>${children}</svg>
    ${legend && html`<p class="legend">${legend.map(([kind, text]) => html`<span class=${kind}>${text}</span>`)}</p>`}
    <details><summary>Numbers<span class="unseen"> of: ${title}</span></summary>${table}</details>
  </figure>`;

export function ReliabilityDiagram({ title, kind, points, most }) {
  const x = across(most), y = up(most);
  const rows = points.map((p) => [rate(p.predicted), rate(p.observed), `${rate(p.lower)} to ${rate(p.upper)}`, count(p.n)]);
  const label = `${title}: ${points.map((p) => `predicted ${rate(p.predicted)}, observed ${rate(p.observed)}`).join("; ")}`;
  const heads = ["predicted", "observed", "95 % interval", "impressions"];
  return html`<${Drawing} title=${title} label=${label}
    table=${html`<${Table} label=${`Numbers of: ${title}`} heads=${heads} rows=${rows} />`}>
    <${Axes} x=${x} y=${y} xs=${ticks(most)} ys=${ticks(most)} xName="predicted" yName="observed" />
    <line class="right" x1=${x(0)} y1=${y(0)} x2=${x(most)} y2=${y(most)} />
    ${points.map((p) => html`<line class="interval ${kind}" x1=${x(p.predicted)} x2=${x(p.predicted)} y1=${y(p.lower)} y2=${y(p.upper)} />`)}
    <path class="line ${kind}" d=${line(points.map((p) => [x(p.predicted), y(p.observed)]))} />
    ${points.map((p) => html`<circle class=${kind} cx=${x(p.predicted)} cy=${y(p.observed)} r="3.5">
      <title>predicted ${rate(p.predicted)}, observed ${rate(p.observed)} of ${count(p.n)}</title></circle>`)}
  <//>`;
}

export const reach = (...series) =>
  roundUp(Math.max(0, ...series.flat().flatMap((p) => [p.predicted, Math.min(p.upper, 2 * Math.max(p.observed, p.predicted))])));

export function HoursChart({ hours }) {
  const rates = hours.map((h) => ({ at: h.at, observed: h.positives / h.n, raw: h.raw / h.n, calibrated: h.calibrated / h.n }));
  const most = roundUp(Math.max(...rates.flatMap((r) => [r.observed, r.raw, r.calibrated])));
  const [first, last] = [hours[0].at, hours[hours.length - 1].at];
  const x = (at) => LEFT + (W - LEFT - RIGHT) * (last > first ? (at - first) / (last - first) : 0.5);
  const y = up(most);
  const of = (kind) => line(rates.map((r) => [x(r.at), y(r[kind])]));
  const xs = [[first, moment(first).slice(5)], ...(last > first ? [[last, moment(last).slice(5)]] : [])];
  const title = "Hour by hour";
  const rows = hours.map((h) => [moment(h.at), count(h.n), count(h.positives), number(h.raw, 1), number(h.calibrated, 1)]);
  const heads = ["hour (UTC)", "impressions", "observed", "predicted raw", "predicted"];
  return html`<${Drawing} title=${title} label=${`Observed and predicted rates of ${hours.length} hours`}
    legend=${[["observed", "observed"], ["raw", "raw score"], ["calibrated", "calibrated"]]}
    table=${html`<${Table} label=${`Numbers of: ${title}`} heads=${heads} rows=${rows} />`}>
    <${Axes} x=${x} y=${y} xs=${xs} ys=${ticks(most)} xName="hour (UTC)" yName="rate" />
    <path class="line raw" d=${of("raw")} /><path class="line calibrated" d=${of("calibrated")} />
    ${rates.map((r) => html`<circle class="observed" cx=${x(r.at)} cy=${y(r.observed)} r="3"><title>${moment(r.at)}: observed ${rate(r.observed)}, predicted ${rate(r.calibrated)}</title></circle>`)}
  <//>`;
}

export function MapChart({ map, before, most }) {
  const value = (one, score) => {
    const at = Math.max(1, one.knots.findIndex((knot) => knot >= score));
    const [x0, x1, y0, y1] = [one.knots[at - 1], one.knots[at], one.values[at - 1], one.values[at]];
    return x1 > x0 ? y0 + ((y1 - y0) * (score - x0)) / (x1 - x0) : y1;
  };
  const shown = (one) => {
    const inside = one.knots.filter((knot) => knot < most);
    return [...new Set([0, ...inside, most])].map((score) => [score, value(one, score)]);
  };
  const maps = [before, map].filter(Boolean);
  const highest = roundUp(Math.max(most, ...maps.flatMap((one) => shown(one).map(([, p]) => p))));
  const x = across(most), y = up(highest);
  const scores = Array.from({ length: 9 }, (_, i) => (most * i) / 8);
  const rows = scores.map((score) => [rate(score), ...maps.map((one) => rate(value(one, score)))]);
  const title = before ? "Its map, and the one before" : "Its map";
  const legend = [["calibrated", `in force: ${map.version}`], ...(before ? [["older", `before: ${before.version}`]] : []), ["right", "unchanged score"]];
  const heads = ["score", ...maps.map((one) => one.version)];
  return html`<${Drawing} title=${title} label=${`${title}: calibrated probability by score`} legend=${legend}
    table=${html`<${Table} label=${`Numbers of: ${title}`} heads=${heads} rows=${rows} />`}>
    <${Axes} x=${x} y=${y} xs=${ticks(most)} ys=${ticks(highest)} xName="score" yName="probability" />
    <line class="right" x1=${x(0)} y1=${y(0)} x2=${x(Math.min(most, highest))} y2=${y(Math.min(most, highest))} />
    ${before && html`<path class="line older" d=${line(shown(before).map(([s, p]) => [x(s), y(p)]))} />`}
    <path class="line calibrated" d=${line(shown(map).map(([s, p]) => [x(s), y(p)]))} />
  <//>`;
}

// Where PCOC lies, on a scale of logarithms from a half to twice; the line in the middle is 1.
export function PcocBar({ value, lower, upper, raw, off }) {
  const x = (pcoc) => 60 + 56 * Math.max(-1, Math.min(1, Math.log2(pcoc)));
  return html`<svg class="pcoc" viewBox="0 0 120 16" aria-hidden="true">
    <rect class="track" x="0" y="6" width="120" height="4" rx="2" /><line class="one" x1="60" x2="60" y1="1" y2="15" />
    ${lower > 0 && upper > 0 && html`<rect class=${off ? "bad" : "calibrated"} x=${x(lower)} y="5" width=${Math.max(1, x(upper) - x(lower))} height="6" rx="3" opacity=".45" />`}
    ${raw > 0 && html`<circle class="raw" cx=${x(raw)} cy="8" r="3" />`}
    ${value > 0 && html`<circle class=${off ? "bad" : "calibrated"} cx=${x(value)} cy="8" r="3" />`}
  </svg>`;
}
