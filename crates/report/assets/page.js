// The script of a report: draws the plots from the JSON in the page, keeps the switches in step, sorts tables, shows values.
'use strict';
(() => {
const $ = (selector, root = document) => root.querySelector(selector);
const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];
const data = JSON.parse($('#data').textContent);
const state = { group: 0, checkpoint: null, set: 0, beside: 'paper', theme: 'auto', log: false, off: data.groups.map(() => new Set()) };

// ---- elements

const SVG = 'http://www.w3.org/2000/svg';
function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) if (value != null) element.setAttribute(key, value);
  element.append(...children);
  return element;
}
function element(tag, className, ...children) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.append(...children);
  return made;
}
function swatch(style) {
  const line = svg('line', { x1: 2, y1: 5, x2: 26, y2: 5, stroke: color(style), 'stroke-dasharray': data.dashes[style.dash] });
  return svg('svg', { class: 'swatch', viewBox: '0 0 28 10', 'aria-hidden': 'true' }, line);
}
const color = style => `var(--c${style.color})`;
// also of lists that are too long for the arguments of a function
const least = list => list.reduce((a, b) => Math.min(a, b), Infinity);
const most = list => list.reduce((a, b) => Math.max(a, b), -Infinity);
const clamp = (value, low, high) => Math.min(high, Math.max(low, value));

// ---- numbers

const three = value => value == null ? '–' : value.toFixed(3);
function short(value) {
  if (value === 0) return '0';
  const size = Math.abs(value);
  if (size >= 1e5 || size < 1e-3) return value.toExponential(0).replace('e+', 'e');
  return String(+value.toPrecision(4));
}
function precise(value) {
  if (value == null) return '∞';
  return value !== 0 && Math.abs(value) < 1e-3 ? value.toExponential(3) : value.toFixed(6);
}
function ticks(low, high, count) {
  const span = high - low || 1;
  const power = 10 ** Math.floor(Math.log10(span / count));
  const step = [1, 2, 2.5, 5, 10].map(m => m * power).find(s => span / s <= count) || power * 10;
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) found.push(+(i * step).toPrecision(12));
  return found;
}
function logTicks(low, high) {
  const found = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
    for (const m of high / low > 200 ? [1] : [1, 2, 5]) {
      const value = m * 10 ** power;
      if (value >= low * 0.999 && value <= high * 1.001) found.push(value);
    }
  }
  return found;
}
const linear = (low, high, from, to) => value => from + (value - low) / (high - low || 1) * (to - from);
const logarithmic = (low, high, from, to) => value => linear(Math.log(low), Math.log(high), from, to)(Math.log(Math.max(value, low)));

// ---- tooltip

const tip = $('#tip');
let anchor = null; // where a tip asked for by key belongs; one asked for by pointing goes away when the page moves
function showTip(content, place, follows) {
  tip.replaceChildren(...(typeof content === 'string' ? titled(content) : content));
  tip.hidden = false;
  anchor = follows ? place : null;
  placeTip(...place());
}
function placeTip(x, y) {
  const box = tip.getBoundingClientRect();
  const left = x + 16 + box.width > innerWidth - 8 ? x - 16 - box.width : x + 16;
  tip.style.left = clamp(left, 8, Math.max(8, innerWidth - box.width - 8)) + 'px';
  tip.style.top = clamp(y + 14 + box.height > innerHeight - 8 ? y - box.height - 12 : y + 14, 8, Math.max(8, innerHeight - box.height - 8)) + 'px';
}
function titled(text) {
  const [first, ...rest] = text.split('\n');
  return rest.length ? [element('b', '', first), rest.join('\n')] : [text];
}
// The tip of a cell of results begins with the figures of all its runs, which stand in the data.
function tipOf(owner) {
  const table = owner.matches('td') && owner.closest('[data-told]');
  if (!table) return owner.dataset.tip;
  const group = data.groups[owner.closest('.group').dataset.group], row = owner.closest('tr').dataset.row;
  const { checkpoint, set } = table.dataset, { metrics } = set == null ? unfold(group.views, checkpoint) : unfold(group.out[checkpoint], set);
  const metric = metrics.find(m => m.id === $$('thead th', table)[owner.cellIndex].dataset.metric), cell = metric.rows[row];
  const seeds = seedsOf(cell).map(([seed, value]) => `\nseed ${seed}: ${precise(value)}`).join('');
  const deviation = cell[1] == null ? '' : `, deviation ${precise(cell[1])}`;
  return `${group.rows[row].name}, ${metric.name}${seeds}\nmean ${precise(cell[0])}${deviation}${owner.dataset.tip}`;
}
// [[seed, value], ..] of a cell
const seedsOf = cell => data.seeds[cell[2][0]].map((seed, i) => [seed, cell[2][i + 1]]);
function hideTip() { tip.hidden = true; anchor = null; }
function line(style, name, value, isNear) {
  const row = element('div', isNear ? 'row near' : 'row');
  if (style) row.append(swatch(style));
  row.append(element('span', '', name), element('span', '', value));
  return row;
}
document.addEventListener('pointerover', event => {
  const owner = event.target.closest && event.target.closest('[data-tip]');
  if (owner) showTip(tipOf(owner), () => [event.clientX, event.clientY]);
});
document.addEventListener('pointerout', event => {
  if (!anchor && event.target.closest && event.target.closest('[data-tip]')) hideTip();
});
document.addEventListener('focusin', event => {
  const owner = event.target.closest('[data-tip]');
  if (!owner || !owner.matches(':focus-visible')) return;
  showTip(tipOf(owner), () => { const box = owner.getBoundingClientRect(); return [box.left, box.bottom]; }, true);
});
document.addEventListener('focusout', hideTip);
document.addEventListener('keydown', event => { if (event.key === 'Escape') hideTip(); });
addEventListener('scroll', () => { if (anchor) placeTip(...anchor()); else hideTip(); }, { passive: true });

// ---- what is shown

const group = () => data.groups[state.group];
const checkpoint = () => group().checkpoints.includes(state.checkpoint) ? state.checkpoint : group().checkpoints[0];
const set = () => state.set < group().sets.length ? state.set : 0;
const view = () => unfold(group().views, checkpoint());
const out = () => unfold(group().out[checkpoint()], set());
// Large parts of the data are JSON inside strings, read when they are asked for.
function unfold(owner, key) {
  if (typeof owner[key] === 'string') owner[key] = JSON.parse(owner[key]);
  return owner[key];
}
const isOn = row => !state.off[state.group].has(row);
const visible = () => group().rows.map((row, i) => ({ ...row, index: i })).filter(row => isOn(row.index));

// ---- plots

let drawn = 0;
// A plot with keyboard and pointer: `places` are the abscissas it can stop at, `show(i, y)` describes the i-th.
function plot(host, { width, height, label, title, fine, style }, draw) {
  const root = svg('svg', { class: 'plot', viewBox: `0 0 ${width} ${height}`, role: 'img', tabindex: 0, 'aria-label': label });
  const caption = element('figcaption', '');
  if (style) caption.append(swatch(style));
  caption.append(element('span', '', title));
  if (fine) caption.append(element('span', 'fine', fine));
  const figure = element('figure', '', caption, root);
  host.append(figure);
  const stops = draw(root);
  if (!stops) return;
  let at = -1;
  const point = event => {
    const box = root.getBoundingClientRect();
    return [(event.clientX - box.left) * width / box.width, (event.clientY - box.top) * height / box.height];
  };
  const leave = () => { at = -1; stops.leave(); hideTip(); };
  root.addEventListener('pointermove', event => {
    const [x, y] = point(event);
    at = stops.nearest(x, y);
    if (at < 0) return leave();
    showTip(stops.show(at, x, y), () => [event.clientX, event.clientY]);
  });
  root.addEventListener('pointerdown', event => root.dispatchEvent(new PointerEvent('pointermove', event)));
  root.addEventListener('pointerleave', () => { if (!anchor) leave(); });
  root.addEventListener('blur', leave);
  root.addEventListener('keydown', event => {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    at = clamp(at < 0 ? (step > 0 ? 0 : stops.count - 1) : at + step * (event.shiftKey ? 10 : 1), 0, stops.count - 1);
    const [x, y] = stops.place(at);
    showTip(stops.show(at, x, null), () => {
      const box = root.getBoundingClientRect();
      return [box.left + x * box.width / width, box.top + y * box.height / height];
    }, true);
  });
  drawn += 1;
}
function axes(root, frame, { x, y, xTicks, yTicks, xName, yName, xText = short, yText = short }) {
  const { left, right, top, bottom } = frame;
  for (const value of yTicks) {
    root.append(svg('line', { class: 'gridline', x1: left, x2: right, y1: y(value), y2: y(value) }),
      svg('text', { x: left - 6, y: y(value) + 3.5, 'text-anchor': 'end' }, yText(value)));
  }
  root.append(svg('line', { class: 'axis', x1: left, x2: right, y1: bottom, y2: bottom }));
  for (const value of xTicks) {
    root.append(svg('line', { class: 'axis', x1: x(value), x2: x(value), y1: bottom, y2: bottom + 4 }),
      svg('text', { x: x(value), y: bottom + 15, 'text-anchor': 'middle' }, xText(value)));
  }
  if (xName) root.append(svg('text', { x: (left + right) / 2, y: bottom + 30, 'text-anchor': 'middle' }, xName));
  if (yName) root.append(svg('text', { x: left - 6, y: top - 8, 'text-anchor': 'start' }, yName));
}
function path(points) {
  let d = '', pen = false;
  for (const [x, y] of points) {
    if (y == null || !isFinite(y)) { pen = false; continue; }
    d += `${pen ? 'L' : 'M'}${x.toFixed(1)} ${y.toFixed(1)}`;
    pen = true;
  }
  return d;
}

// Lines over shared abscissas: series of {name, style, xs, ys, deviations?}.
function lines(host, { title, label, series, xName, yName, xLow, xHigh, yLow, yHigh, isLog, diagonal, xText }) {
  series = series.filter(one => one.ys);
  if (!series.length) return;
  const width = Math.round(clamp(columnWidth(host) || 380, 240, 640)), height = Math.round(clamp(width * 0.68, 210, 360));
  const frame = { left: 44, right: width - 10, top: 22, bottom: height - 36 };
  const finite = series.flatMap(one => one.ys.filter(y => y != null && (!isLog || y > 0)));
  if (yLow == null) {
    yLow = least(finite); yHigh = most(finite);
    const room = (yHigh - yLow) * 0.04 || Math.abs(yHigh) * 0.05 || 1;
    if (isLog) { yLow /= 1.08; yHigh *= 1.08; } else { yLow -= room; yHigh += room; }
  }
  const x = linear(xLow, xHigh, frame.left, frame.right);
  const y = (isLog ? logarithmic : linear)(yLow, yHigh, frame.bottom, frame.top);
  plot(host, { width, height, title, label: `${label} Focus and use the arrow keys to read values.` }, root => {
    axes(root, frame, { x, y, xTicks: ticks(xLow, xHigh, width < 300 ? 4 : 6), yTicks: isLog ? logTicks(yLow, yHigh) : ticks(yLow, yHigh, 6), xName, yName });
    if (diagonal) root.append(svg('line', { class: 'diagonal', x1: x(0), y1: y(0), x2: x(1), y2: y(1) }));
    const paths = series.map(one => {
      if (one.deviations && one.deviations.some(d => d != null)) {
        const edge = sign => one.xs.map((at, i) => [x(at), one.ys[i] == null ? null : clamp(y(isLog ? Math.max(one.ys[i] + sign * (one.deviations[i] || 0), yLow) : one.ys[i] + sign * (one.deviations[i] || 0)), frame.top - 6, frame.bottom)]).filter(p => p[1] != null);
        root.append(svg('path', { class: 'band', fill: color(one.style), d: path([...edge(1), ...edge(-1).reverse()]) + 'Z' }));
      }
      const drawnPath = svg('path', { class: 'line', stroke: color(one.style), 'stroke-dasharray': data.dashes[one.style.dash], d: path(one.xs.map((at, i) => [x(at), one.ys[i] == null ? null : y(one.ys[i])])), 'data-name': one.name });
      root.append(drawnPath);
      return drawnPath;
    });
    const cursor = svg('line', { class: 'cursor', y1: frame.top, y2: frame.bottom, visibility: 'hidden' });
    const dots = series.map(one => svg('circle', { r: 3.2, fill: color(one.style), visibility: 'hidden' }));
    root.append(cursor, ...dots);
    const stopsAt = [...new Set(series.flatMap(one => one.xs))].sort((a, b) => a - b);
    return {
      count: stopsAt.length,
      nearest(px, py) {
        if (px < frame.left - 8 || px > frame.right + 8 || py < 0 || py > frame.bottom + 8) return -1;
        let best = 0;
        stopsAt.forEach((at, i) => { if (Math.abs(x(at) - px) < Math.abs(x(stopsAt[best]) - px)) best = i; });
        return best;
      },
      place: i => [x(stopsAt[i]), (frame.top + frame.bottom) / 2],
      show(i, px, py) {
        const at = stopsAt[i];
        cursor.setAttribute('x1', x(at)); cursor.setAttribute('x2', x(at)); cursor.setAttribute('visibility', 'visible');
        const found = series.map((one, k) => {
          const j = one.xs.indexOf(at), value = j < 0 ? null : one.ys[j];
          dots[k].setAttribute('visibility', value == null ? 'hidden' : 'visible');
          if (value != null) { dots[k].setAttribute('cx', x(at)); dots[k].setAttribute('cy', y(value)); }
          return { k, one, value, deviation: one.deviations && j >= 0 ? one.deviations[j] : null, far: value == null || py == null ? Infinity : Math.abs(y(value) - py) };
        }).filter(f => f.value != null);
        const near = found.reduce((best, f) => f.far < (best ? best.far : 28) ? f : best, null);
        paths.forEach((p, k) => p.classList.toggle('dim', !!near && near.k !== k));
        found.sort((a, b) => b.value - a.value);
        return [element('b', '', `${xName} ${xText ? xText(at) : short(at)}`),
          ...found.map(f => line(f.one.style, f.one.name, three(f.value) + (f.deviation ? ` ± ${three(f.deviation)}` : ''), f === near))];
      },
      leave() {
        cursor.setAttribute('visibility', 'hidden');
        dots.forEach(dot => dot.setAttribute('visibility', 'hidden'));
        paths.forEach(p => p.classList.remove('dim'));
      },
    };
  });
}
// Widths of the columns of the hosts: asked for before anything is drawn, because a question after a change lays the page out anew.
const widths = new Map();
const columnWidth = host => widths.get(host);

// Means of one metric as dots, one line per method.
// A name of at most so many letters: its end, where sweeps write what they changed, is kept.
function fitted(name, most) {
  const end = Math.floor(most * 0.6);
  return name.length <= most ? name : `${name.slice(0, Math.max(0, Math.floor(most) - end - 1))}…${name.slice(-end)}`;
}
function dots(host, metric) {
  const rows = visible().filter(row => metric.rows[row.index] && metric.rows[row.index][0] != null);
  if (!rows.length) return;
  // names that are too long for a column stand above their dots
  const longest = most(rows.map(row => row.name.length)), above = longest > 17;
  const width = Math.round(clamp(columnWidth(host), 240, 520)), pitch = above ? 36 : 21, top = 8, height = top + rows.length * pitch + 24;
  const frame = { left: above ? 14 : Math.min(112, 18 + 6.1 * longest), right: width - 14, top, bottom: top + rows.length * pitch };
  const index = { paper: 3, reproduction: 4 }[state.beside];
  const spread = rows.flatMap(row => {
    const cell = metric.rows[row.index], theirs = index && cell[index];
    const reach = ([mean, deviation]) => [mean - (deviation || 0), mean + (deviation || 0)];
    return [...reach(cell), ...cell[2].slice(1).filter(v => v != null), ...(theirs ? reach(theirs) : [])];
  });
  let low = least(spread), high = most(spread);
  const room = (high - low) * 0.06 || Math.abs(high) * 0.05 || 0.5;
  low -= room; high += room;
  const x = linear(low, high, frame.left, frame.right);
  const all = metric.rows.filter((cell, i) => cell && cell[0] != null && !metric.chance.includes(i));
  const best = all.length && all.reduce((a, b) => (metric.higher ? b[0] > a[0] : b[0] < a[0]) ? b : a);
  plot(host, { width, height, title: metric.name, fine: metric.higher ? 'higher is better' : 'lower is better', label: `${metric.name} of ${rows.length} methods with deviations. Focus and use the arrow keys to read values.` }, root => {
    for (const value of ticks(low, high, 4)) {
      root.append(svg('line', { class: 'gridline', x1: x(value), x2: x(value), y1: top, y2: frame.bottom }), svg('text', { x: x(value), y: frame.bottom + 14, 'text-anchor': 'middle' }, short(value)));
    }
    if (best && rows.length > 1) {
      const from = Math.max(frame.left, x(best[0] - (best[1] || 0))), to = Math.min(frame.right, x(best[0] + (best[1] || 0)));
      root.append(svg('rect', { class: 'zone', x: from, y: top, width: Math.max(1.5, to - from), height: frame.bottom - top }));
    }
    const hits = rows.map((row, i) => {
      const [mean, deviation, values, ...theirs] = metric.rows[row.index];
      const y = top + (i + (above ? 0.72 : 0.5)) * pitch, other = index && theirs[index - 3], guesses = metric.chance.includes(row.index);
      const shift = other ? -2.5 : 0;
      const hit = svg('rect', { class: 'hit', x: 0, y: top + i * pitch, width, height: pitch });
      const name = svg('text', above ? { class: 'rowname', x: frame.left, y: y - 11 } : { class: 'rowname', x: frame.left - 8, y: y + 4, 'text-anchor': 'end' }, fitted(row.name, above ? (width - 20) / 6.1 : 17));
      root.append(hit, name);
      for (const value of values.slice(1)) if (value != null) root.append(svg('line', { x1: x(value), x2: x(value), y1: y - 4 + shift, y2: y + 4 + shift, stroke: color(row), opacity: 0.5 }));
      if (deviation) root.append(svg('line', { x1: x(mean - deviation), x2: x(mean + deviation), y1: y + shift, y2: y + shift, stroke: color(row), 'stroke-width': 2.2, 'stroke-linecap': 'round' }));
      root.append(svg('circle', { cx: x(mean), cy: y + shift, r: guesses ? 3.2 : 4, fill: guesses ? 'var(--card)' : color(row), stroke: color(row), 'stroke-width': guesses ? 1.6 : 0, 'data-row': row.index }));
      if (other) {
        const cy = y + 4.5, cx = x(other[0]);
        if (other[1]) root.append(svg('line', { class: 'whisker', x1: x(other[0] - other[1]), x2: x(other[0] + other[1]), y1: cy, y2: cy }));
        root.append(svg('path', { class: 'paper', d: index === 3 ? `M${cx} ${cy - 4}l4 4l-4 4l-4 -4Z` : `M${cx - 3} ${cy - 3}h6v6h-6Z` }));
      }
      return hit;
    });
    let lit = -1;
    const light = i => { if (lit >= 0) hits[lit].classList.remove('lit'); lit = i; if (i >= 0) hits[i].classList.add('lit'); };
    return {
      count: rows.length,
      nearest: (px, py) => py > frame.bottom ? -1 : clamp(Math.floor((py - top) / pitch), 0, rows.length - 1),
      place: i => [x(metric.rows[rows[i].index][0]), top + (i + 0.5) * pitch],
      show(i) {
        light(i);
        const [mean, deviation, , paper, again] = metric.rows[rows[i].index];
        const text = ([m, d]) => three(m) + (d != null ? ` ± ${three(d)}` : '');
        return [line(rows[i], rows[i].name, text([mean, deviation]), true), ...(metric.chance.includes(rows[i].index) ? [line(null, 'chance level', '')] : []),
          ...seedsOf(metric.rows[rows[i].index]).map(([seed, value]) => line(null, `seed ${seed}`, value == null ? '∞' : value.toFixed(4))),
          ...(paper ? [line(null, 'paper', text(paper))] : []), ...(again ? [line(null, 'independent reproduction', text(again))] : [])];
      },
      leave: () => light(-1),
    };
  });
}

// Confidence against accuracy of one method, counts at the foot.
function reliability(host, row, { bins, equal }, error) {
  const width = Math.round(clamp(columnWidth(host), 140, host.classList.contains('few') ? 380 : 300));
  const side = width - 44, foot = 34, height = side + foot + 54;
  const frame = { left: 34, right: 34 + side, top: 10, bottom: 10 + side };
  const x = linear(0, 1, frame.left, frame.right), y = linear(0, 1, frame.bottom, frame.top);
  const total = bins.reduce((sum, bin) => sum + bin[0], 0);
  const footTop = frame.bottom + 8, footBottom = footTop + foot;
  const most = Math.log10(1 + Math.max(...bins.map(bin => bin[0])));
  // bins of equal width stand side by side, others at their mean confidence
  const centre = i => equal ? (i + 0.5) / bins.length : bins[i][2];
  const wide = equal ? side / bins.length - 1.5 : clamp(side / bins.length - 1.5, 2, 5);
  const places = bins.map((_, i) => i).filter(i => equal || bins[i][0]);
  plot(host, { width, height, style: row, title: row.name, label: `Reliability diagram of ${row.name}, ${bins.length} bins, ${total} images. Focus and use the arrow keys to read values.` }, root => {
    axes(root, { ...frame, bottom: frame.bottom }, { x, y, xTicks: [], yTicks: [0, 0.5, 1] });
    const hits = places.map(i => {
      const bin = bins[i], left = x(centre(i)) - wide / 2;
      if (bin[0]) {
        const accuracy = bin[1] / bin[0], confidence = bin[2];
        root.append(svg('rect', { x: left, y: y(accuracy), width: wide, height: frame.bottom - y(accuracy), fill: color(row), opacity: 0.78 }));
        if (confidence != null) root.append(svg('rect', { class: 'gap', x: left, y: Math.min(y(accuracy), y(confidence)), width: wide, height: Math.abs(y(accuracy) - y(confidence)) }));
        const tall = foot * Math.log10(1 + bin[0]) / most;
        root.append(svg('rect', { class: 'count', x: left, y: footBottom - tall, width: wide, height: tall }));
      }
      return svg('rect', { class: 'hit', x: left - 0.75, y: frame.top, width: wide + 1.5, height: footBottom - frame.top });
    });
    root.append(svg('line', { class: 'diagonal', x1: x(0), y1: y(0), x2: x(1), y2: y(1) }), svg('line', { class: 'axis', x1: frame.left, x2: frame.right, y1: footBottom, y2: footBottom }), svg('text', { class: 'over', x: frame.left + 2, y: frame.top + 10 }, 'accuracy'));
    if (error != null) root.append(svg('text', { class: 'over strong', x: frame.left + 2, y: frame.top + 25 }, `ECE ${three(error)}`));
    root.append(...hits);
    for (const value of [0, 0.5, 1]) root.append(svg('text', { x: x(value), y: footBottom + 14, 'text-anchor': 'middle' }, short(value)));
    root.append(svg('text', { x: (frame.left + frame.right) / 2, y: footBottom + 28, 'text-anchor': 'middle' }, 'confidence'));
    let lit = -1;
    const light = i => { if (lit >= 0) hits[lit].classList.remove('lit'); lit = i; if (i >= 0) hits[i].classList.add('lit'); };
    return {
      count: places.length,
      nearest: px => px < frame.left - 2 || px > frame.right + 2 ? -1 : places.reduce((best, i, k) => Math.abs(x(centre(i)) - px) < Math.abs(x(centre(places[best])) - px) ? k : best, 0),
      place: k => [x(centre(places[k])), y(0.5)],
      show(k) {
        light(k);
        const i = places[k], [count, right, confidence] = bins[i];
        const head = element('b', '', equal ? `confidence ${(i / bins.length).toFixed(2)} to ${((i + 1) / bins.length).toFixed(2)}` : `bin ${i + 1} of ${bins.length}`);
        if (!count) return [head, 'no images'];
        return [head, line(null, 'images', count.toLocaleString('en')), line(null, 'mean confidence', three(confidence)), line(null, 'accuracy', three(right / count)), line(null, 'accuracy − confidence', three(right / count - confidence))];
      },
      leave: () => light(-1),
    };
  });
}

// Scores of test and other images of one method.
function scores(host, row, [from, to, inside, outside]) {
  const width = Math.round(clamp(columnWidth(host), 140, host.classList.contains('few') ? 380 : 300)), height = Math.round(width * 0.62) + 34;
  const frame = { left: 38, right: width - 6, top: 8, bottom: height - 34 };
  const share = counts => { const sum = counts.reduce((a, b) => a + b, 0) || 1; return counts.map(c => c / sum); };
  const [a, b] = [share(inside), share(outside)];
  const high = Math.max(...a, ...b), low = Math.min(1e-3, ...[...a, ...b].filter(v => v > 0)) / 1.3;
  const x = linear(from, to, frame.left, frame.right), y = logarithmic(low, high * 1.1, frame.bottom, frame.top);
  const steps = values => values.flatMap((v, i) => [from + i * (to - from) / values.length, from + (i + 1) * (to - from) / values.length].map(at => [x(at), v > 0 ? y(v) : frame.bottom]));
  plot(host, { width, height, style: row, title: row.name, label: `Histogram of the scores of ${row.name}, test set against ${group().sets[set()]}. Focus and use the arrow keys to read values.` }, root => {
    const percent = value => `${short(value * 100)} %`;
    axes(root, frame, { x, y, xTicks: ticks(from, to, 3), yTicks: logTicks(low, high).filter(t => Math.abs(Math.log10(t) - Math.round(Math.log10(t))) < 1e-6), yText: percent, xName: 'score' });
    const area = values => path([[frame.left, frame.bottom], ...steps(values), [frame.right, frame.bottom]]) + 'Z';
    root.append(svg('path', { class: 'in', fill: color(row), stroke: color(row), d: area(a) }), svg('path', { class: 'out', d: area(b) }));
    const cursor = svg('line', { class: 'cursor', y1: frame.top, y2: frame.bottom, visibility: 'hidden' });
    root.append(cursor);
    const centre = i => x(from + (i + 0.5) * (to - from) / a.length);
    return {
      count: a.length,
      nearest: px => px < frame.left || px > frame.right ? -1 : clamp(Math.floor((px - frame.left) / (frame.right - frame.left) * a.length), 0, a.length - 1),
      place: i => [centre(i), (frame.top + frame.bottom) / 2],
      show(i) {
        cursor.setAttribute('x1', centre(i)); cursor.setAttribute('x2', centre(i)); cursor.setAttribute('visibility', 'visible');
        const edge = k => short(from + k * (to - from) / a.length);
        const text = (s, c) => `${(100 * s).toFixed(2)} %  (${c.toLocaleString('en')})`;
        return [element('b', '', `score ${edge(i)} to ${edge(i + 1)}`), line(null, 'test set', text(a[i], inside[i])), line(null, group().sets[set()], text(b[i] || 0, outside[i] || 0))];
      },
      leave: () => cursor.setAttribute('visibility', 'hidden'),
    };
  });
}

// The losses of a sweep's runs over one of its settings.
function trials(host, sweep, key) {
  const shown = sweep.runs.map((run, i) => ({ ...run, index: i })).filter(run => run.row == null || isOn(run.row));
  if (!shown.length) return;
  const width = Math.round(clamp(columnWidth(host), 240, 420)), height = Math.round(width * 0.62) + 20;
  const frame = { left: 44, right: width - 14, top: 12, bottom: height - 36 };
  const losses = shown.map(run => run.loss), room = (most(losses) - least(losses)) * 0.06 || 0.05;
  const low = least(losses) - room, high = most(losses) + room;
  const y = linear(low, high, frame.bottom, frame.top), across = scale(key, frame.left + 12, frame.right - 12);
  plot(host, { width, height, title: key.name, label: `Validation loss of ${shown.length} runs over ${key.name}. Focus and use the arrow keys to read values.` }, root => {
    axes(root, frame, { x: value => value, y, xTicks: [], yTicks: ticks(low, high, 5), xName: across.isLog ? 'logarithmic' : '' });
    for (const [at, text] of across.marks) root.append(svg('line', { class: 'axis', x1: at, x2: at, y1: frame.bottom, y2: frame.bottom + 4 }), svg('text', { x: at, y: frame.bottom + 15, 'text-anchor': 'middle' }, text));
    const place = run => [across.at(run.index), y(run.loss)];
    const marks = shown.map(run => {
      const [cx, cy] = place(run), isBest = run.index === sweep.best;
      return svg('circle', { class: isBest ? 'trial best' : 'trial', r: isBest ? 5 : 3.6, cx, cy, stroke: trialColor(run), fill: isBest ? trialColor(run) : 'var(--card)' });
    });
    root.append(...marks);
    const order = shown.map((_, i) => i).sort((a, b) => place(shown[a])[0] - place(shown[b])[0] || shown[a].loss - shown[b].loss);
    const light = k => marks.forEach((mark, i) => mark.classList.toggle('lit', k >= 0 && i === order[k]));
    return {
      count: order.length,
      nearest(px, py) {
        let best = -1, far = 40;
        order.forEach((i, k) => { const [a, b] = place(shown[i]), d = Math.hypot(a - px, b - py); if (d < far) { best = k; far = d; } });
        return best;
      },
      place: k => place(shown[order[k]]),
      show(k) { light(k); return describe(sweep, shown[order[k]]); },
      leave: () => light(-1),
    };
  });
}
const trialColor = run => run.row == null ? 'var(--accent)' : color(group().rows[run.row]);
function describe(sweep, run) {
  return [element('b', '', run.name), line(null, 'validation loss', three(run.loss)), ...sweep.keys.map(key => line(null, key.name, key.texts[run.index]))];
}
// Where the values of a setting lie: numbers on a line, logarithmic if they span a power of ten, words side by side.
function scale(key, from, to) {
  const numbers = key.numbers;
  if (!numbers) {
    const words = [...new Set(key.texts)], at = linear(0, Math.max(words.length - 1, 1), from, to);
    return { at: i => at(words.indexOf(key.texts[i])), marks: words.map((word, i) => [at(i), fitted(word, words.length > 3 ? 12 : 20)]) };
  }
  const low = least(numbers), high = most(numbers), isLog = low > 0 && high / low >= 10;
  const at = (isLog ? logarithmic : linear)(low, high, from, to), distinct = [...new Set(numbers)];
  const shown = distinct.length <= 4 ? distinct : isLog ? logTicks(low, high).filter(t => t >= low && t <= high) : ticks(low, high, 4);
  return { isLog, at: i => at(numbers[i]), marks: shown.map(value => [at(value), short(value)]) };
}
// A line per run through all its settings to its loss.
function parallel(host, sweep) {
  const shown = sweep.runs.map((run, i) => ({ ...run, index: i })).filter(run => run.row == null || isOn(run.row));
  if (sweep.keys.length < 2 || !shown.length) return;
  const width = Math.round(clamp(columnWidth(host), 300, 860)), height = 300, top = 34, bottom = height - 14;
  const loss = { name: 'validation loss', numbers: sweep.runs.map(run => run.loss), texts: [] };
  const lanes = [...sweep.keys, loss].map(key => ({ key, scale: scale(key, bottom, top) }));
  const x = linear(0, lanes.length - 1, 60, width - 60);
  plot(host, { width, height, title: 'All settings at once', fine: 'a line per run, the best one thick', label: `Parallel coordinates of ${shown.length} runs over ${sweep.keys.map(key => key.name).join(', ')} and validation loss. Focus and use the arrow keys to read runs from the best on.` }, root => {
    lanes.forEach((lane, i) => {
      const end = i === lanes.length - 1;
      root.append(svg('line', { class: 'axis', x1: x(i), x2: x(i), y1: top, y2: bottom }), svg('text', { class: 'strong', x: x(i), y: 14, 'text-anchor': 'middle' }, lane.key.name.split('.').pop()));
      for (const [at, text] of lane.scale.marks) root.append(svg('text', { class: 'over', x: x(i) + (end ? 6 : -6), y: at + 3.5, 'text-anchor': end ? 'start' : 'end' }, text));
    });
    const order = shown.slice().sort((a, b) => a.loss - b.loss);
    const points = run => lanes.map((lane, i) => [x(i), lane.scale.at(run.index)]);
    const paths = order.map(run => svg('path', { class: run.index === sweep.best ? 'line best' : 'line', stroke: trialColor(run), d: path(points(run)), 'data-name': run.name }));
    root.append(...paths.slice().reverse());
    return {
      count: order.length,
      nearest(px, py) {
        let best = -1, far = 30;
        order.forEach((run, k) => {
          const at = points(run), i = clamp(at.findIndex(p => p[0] >= px), 1, at.length - 1), share = clamp((px - at[i - 1][0]) / (at[i][0] - at[i - 1][0]), 0, 1);
          const d = Math.abs(at[i - 1][1] + share * (at[i][1] - at[i - 1][1]) - py);
          if (d < far) { best = k; far = d; }
        });
        return best;
      },
      place: k => points(order[k])[lanes.length - 1],
      show(k) { paths.forEach((p, i) => p.classList.toggle('dim', i !== k)); return describe(sweep, order[k]); },
      leave: () => paths.forEach(p => p.classList.remove('dim')),
    };
  });
}

const painters = {
  'glance-in': host => view().metrics.forEach(metric => dots(host, metric)),
  'glance-out': host => { if (out()) out().metrics.forEach(metric => dots(host, metric)); },
  reliability(host) {
    const ece = view().metrics.find(metric => metric.id === 'ece');
    for (const row of visible()) {
      const bins = view().reliability[row.index];
      if (bins) reliability(host, row, bins, ece && ece.rows[row.index] && ece.rows[row.index][0]);
    }
  },
  risk(host) {
    const shown = visible().filter(row => view().risk[row.index]);
    const series = shown.map(row => ({ name: `${row.name}, AURC ${three(view().risk[row.index].area)}`, style: row, xs: data.grids.recall, ys: view().risk[row.index].ys }));
    lines(host, { xLow: 0, xHigh: 1, title: 'Risk over coverage', label: `Error rate of ${shown.length} methods over the share of images that is answered.`, series, xName: 'coverage', yName: 'share of wrong answers' });
  },
  detection(host) {
    const curves = out(), name = group().sets[set()];
    if (!curves) return;
    const series = (column, xs) => visible().map(row => ({ name: row.name, style: row, xs, ys: column[row.index] }));
    const count = visible().length;
    const unit = { xLow: 0, xHigh: 1 };
    lines(host, { ...unit, yLow: 0, yHigh: 1, title: 'ROC', label: `ROC curves of ${count} methods against ${name}.`, series: series(curves.roc, data.grids.roc), xName: 'false positive rate', yName: 'true positive rate', diagonal: true });
    lines(host, { ...unit, title: 'Precision-recall (test set)', label: `Precision-recall curves of ${count} methods, test images positive, against ${name}.`, series: series(curves.precision_in, data.grids.recall), xName: 'recall', yName: 'precision' });
    lines(host, { ...unit, title: 'Precision-recall (out-of-domain)', label: `Precision-recall curves of ${count} methods, out-of-domain images positive, against ${name}.`, series: series(curves.precision_out, data.grids.recall), xName: 'recall', yName: 'precision' });
  },
  scores(host) {
    const { histogram } = out() || { histogram: [] };
    for (const row of visible()) if (histogram[row.index]) scores(host, row, histogram[row.index]);
  },
  sweep: host => group().sweep.keys.forEach(key => trials(host, group().sweep, key)),
  parallel: host => parallel(host, group().sweep),
  training(host) {
    const shown = unfold(group(), 'training').map((family, i) => {
      const own = family.rows.map(r => ({ ...group().rows[r], index: r })).filter(row => isOn(row.index));
      return { ...family, style: own[0] || (family.rows.length ? null : { color: i % 10, dash: 0 }) };
    }).filter(family => family.style);
    if (!shown.length) return;
    const part = key => shown.filter(family => family[key]).map(family => ({ name: family.label, style: family.style, xs: family.epochs, ys: family[key][0], deviations: family[key][1] }));
    const epochs = shown.flatMap(family => family.epochs), low = least(epochs), high = Math.max(most(epochs), low + 1);
    const chart = (key, title, yName, isLog) => lines(host, { title, series: part(key), label: `${title} of ${shown.length} kinds of runs over the epochs.`, xName: 'epoch', yName, xLow: low, xHigh: high, isLog });
    chart('train_loss', 'Training loss', 'cross-entropy', state.log);
    chart('validation_loss', 'Validation loss', 'cross-entropy', state.log);
    chart('train_accuracy', 'Training accuracy', 'accuracy', false);
    chart('validation_accuracy', 'Validation accuracy', 'accuracy', false);
    chart('lr', 'Learning rate', 'rate', true);
    chart('gap_not_positive', 'Gap not positive', 'share of updates', false);
  },
};

function hatches() {
  const pattern = (id, stroke, opacity) => svg('pattern', { id, width: 5, height: 5, patternUnits: 'userSpaceOnUse', patternTransform: 'rotate(45)' }, svg('line', { x1: 0, y1: 0, x2: 0, y2: 5, stroke, 'stroke-width': 1.6, opacity }));
  document.body.append(svg('svg', { width: 0, height: 0, 'aria-hidden': 'true', style: 'position:absolute' }, svg('defs', {}, pattern('hatch', 'var(--c1)', 0.85), pattern('hatch-out', 'var(--ink)', 0.35))));
}

// With many rows a plot is drawn when it comes near the window.
const near = new IntersectionObserver(entries => paint(entries.filter(entry => entry.isIntersecting).map(entry => entry.target)), { rootMargin: '50% 0px' });
const waiting = new Set();
function paint(hosts) {
  for (const host of hosts) widths.set(host, parseFloat(getComputedStyle(host).gridTemplateColumns) || host.clientWidth);
  for (const host of hosts) {
    near.unobserve(host);
    waiting.delete(host);
    painters[host.dataset.chart](host);
    host.style.minHeight = host.firstChild ? '' : 0;
  }
}
addEventListener('beforeprint', () => paint([...waiting]));

function draw() {
  if (!data.groups.length) return;
  drawn = 0;
  hideTip();
  const hosts = $$(`main .group[data-group="${state.group}"] [data-chart]`), shown = visible().length, isMany = shown > data.many;
  for (const host of hosts) host.classList.toggle('few', shown < 4);
  [...waiting].forEach(host => near.unobserve(host));
  waiting.clear();
  // the old height is kept while drawing, so that the page does not jump
  const heights = hosts.map(host => host.firstChild ? host.clientHeight : 0);
  hosts.forEach((host, i) => {
    host.style.minHeight = heights[i] ? `${heights[i]}px` : '';
    host.replaceChildren();
    if (!isMany) return;
    waiting.add(host);
    near.observe(host);
  });
  if (!isMany) paint(hosts);
}

// ---- switches

function show() {
  document.body.classList.toggle('beside-paper', state.beside === 'paper');
  document.body.classList.toggle('beside-reproduction', state.beside === 'reproduction');
  if (state.theme === 'auto') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = state.theme;
  for (const part of $$('[data-group]')) part.hidden = +part.dataset.group !== state.group;
  if (data.groups.length) {
    for (const part of $$(`.group[data-group="${state.group}"] [data-checkpoint]`)) {
      part.hidden = part.dataset.checkpoint !== checkpoint() || (part.dataset.set != null && +part.dataset.set !== set());
      if (!part.hidden) reveal(part);
    }
    for (const row of $$(`main .group[data-group="${state.group}"] tr[data-row]`)) row.classList.toggle('off', !isOn(+row.dataset.row));
    for (const box of $$(`.methods[data-group="${state.group}"] input`)) box.checked = isOn(+box.dataset.method);
  }
  const chosen = { group: String(state.group), checkpoint: data.groups.length ? checkpoint() : '', set: String(data.groups.length ? set() : 0), beside: state.beside, theme: state.theme };
  for (const input of $$('input[data-switch]')) input.checked = input.value === chosen[input.dataset.switch];
}
// A table that nobody has chosen yet stands in a comment.
function reveal(part) {
  const comment = [...part.childNodes].find(node => node.nodeType === Node.COMMENT_NODE);
  if (comment) part.innerHTML = comment.data;
}
document.addEventListener('change', event => {
  const input = event.target;
  if (input.dataset.switch) {
    const purpose = input.dataset.switch;
    state[purpose] = purpose === 'group' || purpose === 'set' ? +input.value : input.value;
    if (purpose === 'group') state.set = 0;
    if (purpose === 'theme') remember(input.value);
    show();
    if (purpose !== 'theme') draw();
  } else if (input.dataset.method) {
    state.off[state.group][input.checked ? 'delete' : 'add'](+input.dataset.method);
    show();
    draw();
  } else if ('log' in input.dataset) {
    state.log = input.checked;
    $$('input[data-log]').forEach(other => { other.checked = state.log; });
    draw();
  }
});
document.addEventListener('click', event => {
  const button = event.target.closest('button');
  if (!button) return;
  if (button.dataset.all) {
    state.off[state.group] = new Set(button.dataset.all === 'on' ? [] : group().rows.keys());
    show();
    draw();
  } else if (button.classList.contains('side-toggle')) {
    const open = button.closest('.side').classList.toggle('open');
    button.setAttribute('aria-expanded', open);
  } else if (button.closest('.sortable thead')) {
    sort(button.closest('th'), button.dataset.better);
  }
});

// ---- sorting: better first, then the other way, then as it was

function sort(head, better) {
  const table = head.closest('table'), body = table.tBodies[0], column = head.cellIndex;
  const rows = [...body.rows];
  rows.forEach((row, i) => { row.dataset.place ??= i; });
  const first = better === 'high' ? 'descending' : 'ascending', second = better === 'high' ? 'ascending' : 'descending';
  const now = head.getAttribute('aria-sort'), next = now === 'none' ? first : now === first ? second : 'none';
  $$('th', head.parentNode).forEach(other => other.setAttribute('aria-sort', other === head ? next : 'none'));
  const value = row => {
    const cell = row.cells[column];
    if (cell.classList.contains('none')) return null;
    return cell.dataset.v != null ? +cell.dataset.v : cell.textContent.trim();
  };
  const direction = next === 'descending' ? -1 : 1;
  rows.sort((a, b) => {
    const place = a.dataset.place - b.dataset.place;
    if (next === 'none') return place;
    const x = value(a), y = value(b);
    if (x == null || y == null) return (x == null) - (y == null) || place;
    return (typeof x === 'string' ? x.localeCompare(y, 'en', { numeric: true }) : x === y ? 0 : x < y ? -1 : 1) * direction || place;
  });
  body.append(...rows);
}

// ---- theme, place on the page, size

function remember(theme) { try { localStorage.setItem('maxitive-theme', theme); } catch { /* a page from a file may have no storage */ } }
try { state.theme = localStorage.getItem('maxitive-theme') || 'auto'; } catch { /* likewise */ }
if (!['auto', 'light', 'dark'].includes(state.theme)) state.theme = 'auto';
const firstBeside = $('input[data-switch="beside"]');
state.beside = firstBeside ? firstBeside.value : 'nothing';
const spy = new IntersectionObserver(entries => {
  for (const entry of entries) {
    if (!entry.isIntersecting) continue;
    $$('nav a').forEach(a => a.classList.toggle('here', a.getAttribute('href') === '#' + entry.target.id));
  }
}, { rootMargin: '-15% 0px -75% 0px' });
$$('main section').forEach(section => spy.observe(section));
$$('nav a').forEach(a => a.addEventListener('click', () => {
  $('.side').classList.remove('open');
  $('.side-toggle').setAttribute('aria-expanded', 'false');
}));
let wide = innerWidth, timer;
addEventListener('resize', () => {
  if (innerWidth === wide) return;
  wide = innerWidth;
  clearTimeout(timer);
  timer = setTimeout(draw, 120);
});
hatches();
show();
draw();
document.documentElement.dataset.ready = 'yes';
})();
