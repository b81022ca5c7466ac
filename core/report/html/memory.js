// Memory over the program, and what is alive at its peak.
function memoryChart(width) {
  const memory = D.memory, points = memory.names.length, height = 260, left = 64, bottom = 26;
  const plot = {w: width - left - 8, h: height - bottom - 8};
  const totals = memory.names.map((_, i) => memory.bytes.reduce((sum, row) => sum + row[i], 0));
  const peak = Math.max(...totals, 1), limit = memory.limit_bytes;
  const top = (limit > peak && limit < 3 * peak ? limit : peak) * 1.05;
  const x = i => left + plot.w * i / Math.max(points, 1), y = value => 8 + plot.h * (1 - value / top);
  const picture = svg('svg', {viewBox: `0 0 ${width} ${height}`, height, role: 'img', 'aria-label': 'Memory over the program'});
  for (const value of ticks(top, 4)) {
    picture.append(svg('line', {class: 'axis', x1: left, x2: width - 8, y1: y(value), y2: y(value)}),
      svg('text', {x: left - 6, y: y(value) + 4, 'text-anchor': 'end'}, bytes(value)));
  }
  const below = new Array(points).fill(0);
  memory.bytes.forEach((row, kind) => {
    if (!row.some(value => value > 0)) return;
    let up = '', down = '';
    for (let i = 0; i < points; ++i) {
      const high = y(below[i] + row[i]).toFixed(1), low = y(below[i]).toFixed(1);
      up += `${i ? 'L' : 'M'}${x(i).toFixed(1)} ${high}H${x(i + 1).toFixed(1)}`;
      down = `L${x(i + 1).toFixed(1)} ${low}H${x(i).toFixed(1)}` + down;
      below[i] += row[i];
    }
    picture.append(svg('path', {d: up + down + 'Z', fill: color(kind)}));
  });
  const at = x(memory.peak + 0.5);
  picture.append(svg('line', {x1: at, x2: at, y1: 8, y2: 8 + plot.h, stroke: 'var(--text)', 'stroke-dasharray': '2 3'}),
    svg('text', {x: at, y: height - 8, 'text-anchor': at > width / 2 ? 'end' : 'start'}, 'peak ' + bytes(peak)));
  if (limit > 0 && limit <= top) {
    picture.append(svg('line', {x1: left, x2: width - 8, y1: y(limit), y2: y(limit), stroke: 'var(--bad)', 'stroke-width': 2}),
      svg('text', {x: width - 10, y: y(limit) - 4, 'text-anchor': 'end', style: 'fill:var(--bad)'}, 'limit ' + bytes(limit)));
  }
  const cursor = svg('line', {y1: 8, y2: 8 + plot.h, stroke: 'var(--accent)', visibility: 'hidden'});
  const indexAt = event => {
    const box = picture.getBoundingClientRect();
    const i = Math.floor(((event.clientX - box.left) * width / box.width - left) / plot.w * points);
    return i >= 0 && i < points ? i : -1;
  };
  picture.append(cursor, svg('rect', {class: 'name', x: left, y: 8, width: plot.w, height: plot.h, fill: 'transparent', style: 'stroke:none', on: {
    mousemove: event => {
      const i = indexAt(event);
      if (i < 0) return;
      for (const end of ['x1', 'x2']) cursor.setAttribute(end, x(i + 0.5));
      cursor.setAttribute('visibility', 'visible');
      const kinds = memory.classes.map((kind, k) => [kind, memory.bytes[k][i]]).filter(([, value]) => value > 0);
      showTip(event, `${memory.names[i] || 'the end'}: ${bytes(totals[i])}\n` + kinds.map(([kind, value]) => `${kind} ${bytes(value)}`).join('\n'));
    },
    mouseleave: () => { hideTip(); cursor.setAttribute('visibility', 'hidden'); },
    click: event => { const i = indexAt(event); if (i >= 0 && memory.names[i]) select(memory.names[i]); },
  }}));
  return picture;
}

// Squarified treemap (Bruls, Huizing, van Wijk 2000): rows of tiles as square as they can be.
function squarify(items, box) {
  const tiles = [];
  let rest = items.slice(), {x, y, w, h} = box;
  let left = rest.reduce((sum, item) => sum + item.size, 0);
  while (rest.length > 0 && left > 0 && w > 0 && h > 0) {
    const side = Math.min(w, h), scale = w * h / left;
    const worst = (row, sum) => Math.max(...row.map(item => {
      const area = item.size * scale, thick = sum * scale / side, length = area / thick;
      return Math.max(thick / length, length / thick);
    }));
    let row = [rest[0]], sum = rest[0].size;
    while (row.length < rest.length) {
      const next = rest[row.length];
      if (worst([...row, next], sum + next.size) > worst(row, sum)) break;
      row.push(next);
      sum += next.size;
    }
    const thick = sum * scale / side;
    let along = 0;
    for (const item of row) {
      const length = item.size * scale / thick;
      tiles.push(w >= h ? {item, x, y: y + along, w: thick, h: length} : {item, x: x + along, y, w: length, h: thick});
      along += length;
    }
    if (w >= h) { x += thick; w -= thick; } else { y += thick; h -= thick; }
    rest = rest.slice(row.length);
    left -= sum;
  }
  return tiles;
}

function peakText(row) {
  const lines = [`${row.name}: ${bytes(row.bytes)}, ${percent(row.bytes / R.memory.peak_bytes)} of the peak`, row.shape];
  if (row.global_shape) lines.push(`of ${row.global_shape} ${row.sharding}`);
  if (row.free_axes) lines.push(`copies along ${row.free_axes}`);
  if (row.source) lines.push(row.source);
  return lines.filter(Boolean).join('\n');
}

function treemap(width) {
  const height = 340, rows = R.memory.at_peak.filter(row => row.bytes > 0).slice(0, 300);
  const listed = rows.reduce((sum, row) => sum + row.bytes, 0);
  const items = rows.map(row => ({size: row.bytes, row}));
  if (R.memory.peak_bytes > listed * 1.0001) items.push({size: R.memory.peak_bytes - listed, row: null});
  items.sort((a, b) => b.size - a.size);
  const picture = svg('svg', {viewBox: `0 0 ${width} ${height}`, height, role: 'img', 'aria-label': 'Tensors at the memory peak'}, svg('defs', {}, HATCH()));
  for (const {item, x, y, w, h} of squarify(items, {x: 0, y: 0, w: width, h: height})) {
    const row = item.row, kind = row ? D.memory.classes.indexOf(row.class) : 5;
    const shape = {x, y, width: w, height: h};
    const events = row ? {...tipOf(() => peakText(row)), click: () => select(row.name)} : tipOf(() => 'smaller ones: ' + bytes(item.size));
    picture.append(svg('rect', {...shape, class: 'name', fill: color(kind), 'data-name': row && row.name, on: events}));
    if (row && row.free_axes) picture.append(svg('rect', {...shape, fill: 'url(#hatch)', 'pointer-events': 'none'}));
    const letters = Math.floor((w - 8) / 6.6), label = row ? row.name : 'smaller ones';
    if (h > 16 && letters > 3) {
      picture.append(svg('text', {class: 'tile-text', x: x + 4, y: y + 13}, label.length > letters ? label.slice(0, letters - 1) + '…' : label));
    }
    if (h > 30 && letters > 6) picture.append(svg('text', {class: 'tile-text', x: x + 4, y: y + 26}, bytes(item.size)));
  }
  return picture;
}

function memorySection() {
  const node = section('memory', 'Memory');
  if (R.memory.peak_bytes === 0) return node.append(el('p', {class: 'empty'}, 'The program holds no arrays.'));
  node.append(el('p', {class: 'dim'}, `What one device holds while the program runs${D.memory.points > D.memory.names.length ?
    `, the highest of each ${Math.ceil(D.memory.points / D.memory.names.length)} program points` : ''}. A loop's body appears once, at its loop.`));
  node.append(legend(D.memory.classes.map((kind, i) => [color(i), kind])), chart(memoryChart));
  node.append(el('h3', {}, 'Alive at the peak'),
    el('p', {class: 'dim'}, 'Area is bytes; hatched: equal copies along a mesh axis that could cut it.'), chart(treemap));
  node.append(table([
    {title: 'bytes', right: true, value: row => row.bytes, text: row => bytes(row.bytes)},
    {title: 'tensor', long: true, value: row => row.name},
    {title: 'class', value: row => row.class},
    {title: 'on a device', long: true, value: row => row.shape},
    {title: 'global', long: true, value: row => row.global_shape},
    {title: 'sharding', value: row => row.sharding},
    {title: 'copies along', value: row => row.free_axes},
    {title: 'op_name', long: true, value: row => row.op_name},
    {title: 'source', long: true, value: row => row.source},
  ], R.memory.at_peak, {sort: 0, name: row => row.name}));
}
