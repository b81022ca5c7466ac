// Quantities, elements, the tip under the pointer, tables that sort and search.
const UNITS = {
  bytes: ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'],
  flops: ['FLOP', 'kFLOP', 'MFLOP', 'GFLOP', 'TFLOP', 'PFLOP', 'EFLOP'],
};
function scaled(value, base, units) {
  let unit = 0, size = Math.abs(value);
  while (size >= base && unit + 1 < units.length) { size /= base; ++unit; }
  const digits = size === Math.floor(size) && size < 1000 ? 0 : size < 10 ? 2 : 1;
  return (value < 0 ? '-' : '') + size.toFixed(digits) + ' ' + units[unit];
}
const bytes = value => scaled(value, 1024, UNITS.bytes);
const flops = value => scaled(value, 1000, UNITS.flops);
function seconds(value) {
  if (value === 0) return '0 s';
  if (value < 1e-3) return (value * 1e6).toFixed(value < 1e-5 ? 2 : 1) + ' µs';
  if (value < 1) return (value * 1e3).toFixed(2) + ' ms';
  return value.toFixed(2) + ' s';
}
const percent = share => (100 * share).toFixed(share < 0.1 && share > 0 ? 1 : 0) + '%';
const count = value => Number.isInteger(value) ? value.toLocaleString('en') : value.toFixed(1);

function element(make, tag, attributes, children) {
  const node = make(tag);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key === 'on') for (const [event, run] of Object.entries(value)) node.addEventListener(event, run);
    else node.setAttribute(key, value);
  }
  for (const child of children) {
    if (child !== null && child !== undefined) node.append(child);
  }
  return node;
}
const el = (tag, attributes, ...children) =>
  element(name => document.createElement(name), tag, attributes, children);
const svg = (tag, attributes, ...children) =>
  element(name => document.createElementNS('http://www.w3.org/2000/svg', name), tag, attributes, children);

// What stands under the pointer; `text` is given when it is needed.
const tip = el('div', {class: 'tip'});
function showTip(event, text) {
  tip.textContent = text;
  tip.style.display = 'block';
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.min(event.clientX + 14, window.innerWidth - box.width - 8) + 'px';
  tip.style.top = Math.min(event.clientY + 14, window.innerHeight - box.height - 8) + 'px';
}
function hideTip() { tip.style.display = 'none'; }
const tipOf = text => ({mousemove: event => showTip(event, text()), mouseleave: hideTip});

// One instruction is selected at a time, in all views; the address tells which.
const selection = {name: null, listeners: []};
function select(name) {
  selection.name = name;
  for (const marked of document.querySelectorAll('.sel')) marked.classList.remove('sel');
  if (name !== null) {
    for (const node of document.querySelectorAll('[data-name]')) {
      if (node.getAttribute('data-name') === name) node.classList.add('sel');
    }
    history.replaceState(null, '', '#i=' + encodeURIComponent(name));
  }
  for (const listener of selection.listeners) listener(name);
}

const search = {query: '', listeners: []};
function matches(texts) {
  if (search.query === '') return true;
  return texts.some(text => String(text).toLowerCase().includes(search.query));
}

const SHOWN = 25;
// columns: {title, value: row => number or text, text: row => what is shown, right, long}.
// Columns that say nothing of any row are left out.
function table(given, rows, options) {
  const columns = given.filter((column, i) => i === options.sort || rows.some(row => column.value(row) !== ''));
  options = {...options, sort: columns.indexOf(given[options.sort])};
  let sorted = options.sort, descending = !options.ascending, all = false;
  const head = el('tr'), body = el('tbody'), more = el('p', {class: 'more'});
  columns.forEach((column, i) => head.append(
    el('th', {class: column.right ? 'right' : null, scope: 'col'}, el('button', {title: 'Sort', on: {click: () => {
      descending = sorted === i ? !descending : Boolean(column.right);
      sorted = i;
      draw();
    }}}, column.title))));
  function compare(a, b) {
    const left = columns[sorted].value(a), right = columns[sorted].value(b);
    return (left < right ? -1 : left > right ? 1 : 0) * (descending ? -1 : 1);
  }
  function draw() {
    const kept = rows.filter(row => matches(columns.map(column => column.value(row))));
    kept.sort(compare);
    const shown = all ? kept : kept.slice(0, SHOWN);
    [...head.children].forEach((cell, i) =>
      cell.setAttribute('aria-sort', i !== sorted ? 'none' : descending ? 'descending' : 'ascending'));
    body.replaceChildren(...shown.map(row => {
      const name = options.name ? options.name(row) : null;
      return el('tr', {class: name === null ? null : 'row' + (name === selection.name ? ' sel' : ''), 'data-name': name,
        on: name === null ? {} : {click: () => select(name)}},
        ...columns.map(column => el('td', {class: (column.right ? 'right' : '') + (column.long ? ' long' : '')},
          (column.text || column.value)(row))));
    }));
    more.replaceChildren();
    if (kept.length === 0) more.append(el('span', {class: 'empty'}, search.query ? 'nothing here has “' + search.query + '”' : 'none'));
    if (kept.length > shown.length) {
      more.append(el('button', {on: {click: () => { all = true; draw(); }}}, 'show all ' + kept.length));
    }
  }
  search.listeners.push(draw);
  draw();
  return el('div', {class: 'scroll'}, el('table', {}, el('thead', {}, head), body), more);
}

function legend(entries) {
  return el('p', {class: 'legend'}, ...entries.map(([color, text]) =>
    el('span', {}, el('i', {style: 'background:' + color}), text)));
}
const color = i => 'var(--c' + (i % 7) + ')';
const WORK = {dot: 0, attention: 3, movement: 1, other: 4, collective: 2, loop: 5};
const workColor = work => color(WORK[work] === undefined ? 6 : WORK[work]);

function section(id, title, ...children) {
  const node = el('section', {id}, el('h2', {}, title), ...children);
  document.querySelector('main').append(node);
  document.querySelector('nav').append(el('a', {href: '#' + id}, title));
  return node;
}
// Charts are drawn again where the width changes.
function chart(draw) {
  const box = el('div');
  let width = 0;
  const redraw = () => {
    const now = Math.max(320, Math.round(box.clientWidth));
    if (now === width) return;
    width = now;
    box.replaceChildren(draw(width));
    if (selection.name !== null) select(selection.name);
  };
  new ResizeObserver(() => requestAnimationFrame(redraw)).observe(box);
  return box;
}
function ticks(most, wanted) {
  const step = most / wanted;
  return Array.from({length: wanted + 1}, (_, i) => i * step);
}
const HATCH = () => svg('pattern', {id: 'hatch', width: 6, height: 6, patternUnits: 'userSpaceOnUse', patternTransform: 'rotate(45)'},
  svg('rect', {width: 2, height: 6, fill: 'rgba(255,255,255,.55)'}));
const themeListeners = [];
function tools() {
  const input = el('input', {type: 'search', placeholder: 'search ( / )', 'aria-label': 'Search all tables', on: {input: event => {
    search.query = event.target.value.trim().toLowerCase();
    for (const listener of search.listeners) listener();
  }}});
  const root = document.documentElement;
  const set = dark => { root.setAttribute('data-theme', dark ? 'dark' : 'light'); for (const listener of themeListeners) listener(); };
  set(window.matchMedia('(prefers-color-scheme: dark)').matches);
  const theme = el('button', {title: 'Light or dark', 'aria-label': 'Light or dark', on: {click: () => set(root.getAttribute('data-theme') === 'light')}}, '◐');
  document.querySelector('.tools').append(input, theme);
}
