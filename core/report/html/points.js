// Points of step time and peak memory, of a sweep or of plans, in one picture.
const D = JSON.parse(document.getElementById('gshard-data').textContent);
const meshText = mesh => Object.entries(mesh).map(([axis, size]) => `${axis}=${size}`).join(', ');
const pointText = point => point.label || [meshText(point.mesh), ...(point.stages > 0 ? [`K=${point.stages} M=${point.microbatches} ${point.schedule}`] : []), ...(point.batch > 0 ? [`batch=${point.batch}`] : [])].filter(part => part !== '').join('; ');

// What points are compared by: where batches are swept, the time of an example.
const comparedTime = point => point.step_time_per_example_s || point.step_time_s;

function plot(width, points, limit) {
  const height = 420, left = 72, bottom = 42, w = width - left - 20, h = height - bottom - 12;
  const range = values => {
    const low = Math.log10(Math.min(...values)), high = Math.log10(Math.max(...values)), room = Math.max(0.05, (high - low) * 0.08);
    return [low - room, high + room];
  };
  const [x0, x1] = range(points.map(point => comparedTime(point) || 1e-12)), [y0, y1] = range(points.map(point => point.peak_bytes || 1));
  const x = value => left + w * (Math.log10(value || 1e-12) - x0) / (x1 - x0), y = value => 12 + h * (1 - (Math.log10(value || 1) - y0) / (y1 - y0));
  const picture = svg('svg', {viewBox: `0 0 ${width} ${height}`, height, role: 'img', 'aria-label': 'Step time and peak memory of each mesh'});
  for (let i = 0; i <= 4; ++i) {
    const time = 10 ** (x0 + (x1 - x0) * i / 4), memory = 10 ** (y0 + (y1 - y0) * i / 4);
    picture.append(svg('line', {class: 'axis', x1: x(time), x2: x(time), y1: 12, y2: 12 + h}), svg('line', {class: 'axis', x1: left, x2: left + w, y1: y(memory), y2: y(memory)}),
      svg('text', {x: x(time), y: height - 24, 'text-anchor': 'middle'}, seconds(time)), svg('text', {x: left - 6, y: y(memory) + 4, 'text-anchor': 'end'}, bytes(memory)));
  }
  picture.append(svg('text', {x: left + w / 2, y: height - 6, 'text-anchor': 'middle'}, points.some(point => point.batch > 0) ? 'time per example' : 'step time'));
  if (limit > 0 && Math.log10(limit) > y0 && Math.log10(limit) < y1) {
    picture.append(svg('line', {x1: left, x2: left + w, y1: y(limit), y2: y(limit), stroke: 'var(--bad)', 'stroke-width': 2}),
      svg('text', {x: left + w, y: y(limit) - 4, 'text-anchor': 'end', style: 'fill:var(--bad)'}, 'limit ' + bytes(limit)));
  }
  const best = points.filter(point => point.pareto).sort((a, b) => comparedTime(a) - comparedTime(b));
  picture.append(svg('path', {d: best.map((point, i) => i === 0 ? `M${x(comparedTime(point))} ${y(point.peak_bytes)}` : `H${x(comparedTime(point))}V${y(point.peak_bytes)}`).join(''),
    fill: 'none', stroke: 'var(--accent)', 'stroke-width': 1.5}));
  for (const point of points.slice().sort((a, b) => a.pareto - b.pareto)) {
    const name = pointText(point);
    picture.append(svg('circle', {class: 'name', 'data-name': name, cx: x(comparedTime(point)), cy: y(point.peak_bytes), r: point.pareto ? 7 : 5,
      fill: !point.fits ? 'var(--bad)' : point.pareto ? 'var(--accent)' : 'var(--c5)', on: {click: () => select(name), ...tipOf(() =>
        `${name}: ${count(point.devices)} devices\n${seconds(point.step_time_s)}${point.batch > 0 ? ` (an example ${seconds(comparedTime(point))})` : ''}, exposed ${seconds(point.exposed_communication_s)}\n${bytes(point.peak_bytes)}${point.fits ? '' : ', does not fit'}\nMFU ${percent(point.mfu)}${point.stages > 0 ? `, bubble ${percent(point.bubble_share)}` : ''}`)}}));
    if (!point.pareto) continue;
    const at = x(comparedTime(point)), before = at > left + 0.8 * w;  // a name at the right edge stands before its point
    picture.append(svg('text', {x: before ? at - 10 : at + 10, y: y(point.peak_bytes) - 6, 'text-anchor': before ? 'end' : 'start'}, name));
  }
  return picture;
}
