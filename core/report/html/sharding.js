// Sharding pictures: which devices hold which tile of a tensor.
// A sharding: {tiles: counts of each dim then of subgroups, axes: [size, stride] major to minor, or
// list: devices in row-major order}. See ir/tile_assignment.h.
function devicesInOrder(sharding) {
  if (sharding.list) return sharding.list;
  let devices = [0];
  for (const [size, stride] of sharding.axes) {
    const longer = [];
    for (const device of devices) for (let i = 0; i < size; ++i) longer.push(device + i * stride);
    devices = longer;
  }
  return devices;
}
// Runs are folded: "0–7, 16–23"; equal steps as "0, 8, .. 56".
function devicesText(devices) {
  const sorted = devices.slice().sort((a, b) => a - b), parts = [];
  for (let i = 0; i < sorted.length;) {
    let end = i + 1;
    const step = end < sorted.length ? sorted[end] - sorted[i] : 1;
    while (end < sorted.length && sorted[end] - sorted[end - 1] === step) ++end;
    if (step === 1 && end - i > 2) parts.push(`${sorted[i]}–${sorted[end - 1]}`);
    else if (end - i > 3) parts.push(`${sorted[i]}, ${sorted[i + 1]}, .. ${sorted[end - 1]}`);
    else { end = i + 1; parts.push(String(sorted[i])); }
    i = end;
  }
  return parts.length > 12 ? parts.slice(0, 12).join(', ') + `, .. ${sorted.length} in all` : parts.join(', ');
}
// Hues around the circle, by a step that keeps neighbours apart.
const tileColor = i => `hsl(${(i * 137.508) % 360} 55% ${44 + (i % 3) * 7}%)`;

function tilesOf(tensor) {
  const sharding = D.shardings[tensor.picture], rank = tensor.dims.length;
  const counts = sharding.tiles ? sharding.tiles.slice(0, rank) : tensor.dims.map(() => 1);
  const all = sharding.tiles ? devicesInOrder(sharding) : Array.from({length: R.devices}, (_, i) => i);
  const tiles = counts.reduce((product, size) => product * size, 1), copies = all.length / tiles;
  const held = Array.from({length: tiles}, (_, i) => all.slice(i * copies, (i + 1) * copies));
  return {counts, held};
}

// The array as a grid of tiles along two of its dims. Very many tiles along one dim alone are drawn
// in lines, as one reads.
function arrayPicture(tensor, tiles, rows, columns, fixed) {
  const size = dim => dim < 0 ? 1 : tiles.counts[dim];
  const shown = size(rows) * size(columns), folded = Math.min(size(rows), size(columns)) === 1 && shown > 48;
  const across = folded ? 2 ** Math.ceil(Math.log2(Math.sqrt(shown))) : size(columns), down = Math.ceil(shown / across);
  const height = Math.min(360, Math.max(120, down * 34)), width = 420, left = 46, top = 22;
  const picture = svg('svg', {viewBox: `0 0 ${width} ${height + top}`, height: height + top, role: 'img', 'aria-label': 'Tiles of the array'}, svg('defs', {}, HATCH()));
  const w = (width - left) / across, h = height / down;
  for (let i = 0; i < shown; ++i) {
    const at = {};
    at[columns] = i % size(columns);
    at[rows] = Math.floor(i / size(columns));
    const index = tiles.counts.reduce((flat, size, dim) => flat * size + (dim in at ? at[dim] : fixed[dim] || 0), 0);
    const dims = [rows, columns].filter(dim => dim >= 0);
    const ranges = dims.map(dim => `dim ${dim}: ${rangeText(tensor.dims[dim], tiles.counts[dim], at[dim])}`);
    const padded = dims.some(dim => isPadded(tensor.dims[dim], tiles.counts[dim], at[dim]));
    const held = tiles.held[index], label = devicesText(held);
    const box = {x: left + i % across * w, y: top + Math.floor(i / across) * h, width: w, height: h};
    picture.append(svg('rect', {...box, fill: tileColor(index), stroke: 'var(--bg)', 'stroke-width': Math.min(w, h) > 5 ? 1 : 0, on: tipOf(() =>
      `${ranges.join(', ')}${padded ? ', partly padding' : ''}\non ${held.length === 1 ? 'device' : held.length + ' devices'} ${label}`)}));
    if (padded) picture.append(svg('rect', {...box, fill: 'url(#hatch)', 'pointer-events': 'none'}));
    if (h > 13 && w > 6.4 * label.length + 4) picture.append(svg('text', {class: 'tile-text', x: box.x + w / 2, y: box.y + h / 2 + 4, 'text-anchor': 'middle'}, label));
  }
  const said = dim => `dim ${dim}: ${count(tensor.dims[dim])} in ${count(size(dim))} tile${size(dim) === 1 ? '' : 's'}`;
  if (folded) {
    const cut = size(rows) > 1 ? rows : columns;
    picture.append(svg('text', {x: left, y: 14}, said(cut) + ', in reading order'));
    return picture;
  }
  if (columns >= 0) picture.append(svg('text', {x: left, y: 14}, said(columns)));
  if (rows >= 0) picture.append(svg('text', {x: 12, y: top + height / 2, transform: `rotate(-90 12 ${top + height / 2})`, 'text-anchor': 'middle'}, said(rows)));
  return picture;
}
const tileSize = (size, tiles) => Math.ceil(size / tiles);
const isPadded = (size, tiles, i) => (i + 1) * tileSize(size, tiles) > size;
function rangeText(size, tiles, i) {
  const begin = Math.min(i * tileSize(size, tiles), size), end = Math.min(begin + tileSize(size, tiles), size);
  return begin === end ? 'nothing' : `${begin}:${end}`;
}

// The mesh, a cell a device, coloured by the tile it holds: equal colours hold equal values.
function meshPicture(tiles) {
  if (R.devices > 16384) return el('p', {class: 'empty'}, `${count(R.devices)} devices are too many to draw.`);
  const tileAt = new Array(R.devices).fill(-1);
  tiles.held.forEach((held, i) => held.forEach(device => { tileAt[device] = i; }));
  const axes = D.mesh.length > 0 ? D.mesh : [{name: 'devices', size: R.devices}];
  let rows = axes[0].size, columns = R.devices / rows;
  if (axes.length === 1) { columns = Math.ceil(Math.sqrt(rows * 2)); rows = Math.ceil(R.devices / columns); }
  const width = 420, left = 46, top = 22, cell = Math.min(34, (width - left) / columns), tall = Math.min(cell, Math.max(3, 420 / rows));
  const picture = svg('svg', {viewBox: `0 0 ${width} ${top + rows * tall}`, height: top + rows * tall, role: 'img', 'aria-label': 'Devices of the mesh'});
  for (let device = 0; device < R.devices; ++device) {
    const r = Math.floor(device / columns), c = device % columns;
    let rest = device;
    const place = axes.map(axis => axis).reverse().map(axis => { const i = rest % axis.size; rest = Math.floor(rest / axis.size); return `${axis.name}=${i}`; }).reverse().join(', ');
    picture.append(svg('rect', {x: left + c * cell, y: top + r * tall, width: cell, height: tall, fill: tileAt[device] < 0 ? 'var(--panel)' : tileColor(tileAt[device]),
      stroke: 'var(--bg)', 'stroke-width': Math.min(cell, tall) > 5 ? 1 : 0, on: tipOf(() => `device ${device} (${place})\n${tileAt[device] < 0 ? 'holds nothing of it' : 'tile ' + tileAt[device]}`)}));
    if (cell >= 22 && tall >= 13) picture.append(svg('text', {class: 'tile-text', x: left + c * cell + cell / 2, y: top + r * tall + tall / 2 + 4, 'text-anchor': 'middle'}, String(device)));
  }
  const across = axes.length === 1 ? `${axes[0].name}: ${axes[0].size}` : axes.slice(1).map(axis => `${axis.name}: ${axis.size}`).join(' × ');
  picture.append(svg('text', {x: left, y: 14}, across));
  if (axes.length > 1) picture.append(svg('text', {x: 12, y: top + rows * tall / 2, transform: `rotate(-90 12 ${top + rows * tall / 2})`, 'text-anchor': 'middle'}, `${axes[0].name}: ${axes[0].size}`));
  return picture;
}

function shardingSection() {
  const node = section('shardings', 'Shardings');
  const tensors = D.tensors;
  if (tensors.length === 0) {
    return node.append(el('p', {class: 'empty'}, R.devices === 1 ? 'One device holds everything.' :
      'Of a program that was partitioned before, shardings are not known. Give gshard-cost the text with its shardings.'));
  }
  const choice = el('select', {'aria-label': 'tensor', style: 'max-width:100%'}, ...tensors.map((tensor, i) =>
    el('option', {value: i}, `${bytes(tensor.bytes)}  ${tensor.name}  ${tensor.global_shape} ${tensor.sharding}`.slice(0, 160))));
  const dims = el('span'), pictures = el('div', {class: 'grids'}), words = el('p');
  function show(tensor, rows, columns, fixed) {
    const tiles = tilesOf(tensor);
    const cut = tensor.dims.map((_, dim) => dim).sort((a, b) => tiles.counts[b] - tiles.counts[a] || a - b).slice(0, 2).sort((a, b) => a - b);
    if (rows === undefined) [rows, columns] = cut.length === 2 ? cut : [-1, cut.length === 1 ? cut[0] : -1];
    const pick = (now, set) => el('select', {on: {change: event => set(Number(event.target.value))}}, ...tensor.dims.map((size, dim) =>
      el('option', {value: dim, selected: dim === now ? '' : null}, `dim ${dim} (${size})`)));
    dims.replaceChildren();
    if (tensor.dims.length > 2) {
      dims.append(' down ', pick(rows, dim => show(tensor, dim, dim === columns ? rows : columns, fixed)), ' across ', pick(columns, dim => show(tensor, dim === rows ? columns : rows, dim, fixed)));
      tensor.dims.forEach((_, dim) => {
        if (dim === rows || dim === columns || tiles.counts[dim] === 1) return;
        dims.append(` tile of dim ${dim} `, el('input', {type: 'number', min: 0, max: tiles.counts[dim] - 1, value: fixed[dim] || 0,
          on: {change: event => show(tensor, rows, columns, {...fixed, [dim]: Math.min(Math.max(0, Number(event.target.value)), tiles.counts[dim] - 1)})}}));
      });
    }
    const copies = tiles.held[0] ? tiles.held[0].length : 0;
    const waste = 1 - tensor.dims.reduce((share, size, dim) => share * (size || 1) / (tileSize(size, tiles.counts[dim]) * tiles.counts[dim] || 1), 1);
    words.replaceChildren(el('b', {}, tensor.name), ` ${tensor.global_shape}, ${tensor.sharding}: ${count(tiles.held.length)} tile${tiles.held.length === 1 ? '' : 's'} ${tensor.shape}, ` +
      (copies > 1 ? `each on ${count(copies)} devices` : 'each on one device') + (tensor.free_axes ? `; copies along ${tensor.free_axes}` : '') + (waste > 0 ? `; ${percent(waste)} of it is padding` : ''));
    pictures.replaceChildren(el('div', {}, el('h3', {}, 'The array, by tile'), arrayPicture(tensor, tiles, rows, columns, fixed)),
      el('div', {}, el('h3', {}, 'The mesh, a colour a tile'), meshPicture(tiles)));
  }
  choice.addEventListener('change', () => { show(tensors[choice.value], undefined, undefined, {}); select(tensors[choice.value].name); });
  selection.listeners.push(name => {
    const i = tensors.findIndex(tensor => tensor.name === name);
    if (i >= 0 && String(i) !== choice.value) { choice.value = i; show(tensors[i], undefined, undefined, {}); }
  });
  node.append(el('p', {}, choice, dims), words, pictures);
  show(tensors[0], undefined, undefined, {});
}
