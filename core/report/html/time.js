// Collectives by cause, the timeline, kernels and the roofline.
function collectiveSection() {
  const node = section('collectives', 'Collectives');
  if (R.collectives.length === 0) return node.append(el('p', {class: 'empty'}, R.devices > 1 ? 'Nothing is sent between devices.' : 'One device: nothing is sent.'));
  node.append(el('p', {class: 'dim'}, 'In one step, loops multiplied. Exposed: while it runs, the compute units wait.'));
  const axes = row => row.axes.join(' + ') || '–';
  const figures = [
    {title: 'count', right: true, value: row => row.count, text: row => count(row.count)},
    {title: 'sent', right: true, value: row => row.bytes_per_device, text: row => bytes(row.bytes_per_device)},
    {title: 'time', right: true, value: row => row.time_s, text: row => seconds(row.time_s)},
    {title: 'exposed', right: true, value: row => row.exposed_s, text: row => seconds(row.exposed_s)},
  ];
  node.append(table([
    {title: 'collective', value: row => row.kind}, {title: 'mesh axes', value: axes}, ...figures,
    {title: 'most because of', long: true, value: row => row.cause},
  ], R.collectives, {sort: 3}));
  if (R.collective_calls.length === 0) return;
  const causes = new Map();
  for (const call of R.collective_calls) {
    const key = call.kind + '\n' + axes(call) + '\n' + call.cause;
    const sum = causes.get(key) || {kind: call.kind, axes: call.axes, cause: call.cause, name: call.name, count: 0, bytes_per_device: 0, time_s: 0, exposed_s: 0};
    for (const figure of ['count', 'bytes_per_device', 'time_s', 'exposed_s']) sum[figure] += call[figure];
    causes.set(key, sum);
  }
  node.append(el('h3', {}, 'By cause'), table([
    {title: 'because of', long: true, value: row => row.cause || 'written in the program'},
    {title: 'collective', value: row => row.kind}, {title: 'mesh axes', value: axes}, ...figures,
  ], [...causes.values()], {sort: 6, name: row => row.name}));
  node.append(el('h3', {}, 'Each instruction'), table([
    {title: 'instruction', long: true, value: row => row.name}, {title: 'mesh axes', value: axes}, ...figures,
    {title: 'group', right: true, value: row => row.group_size},
    {title: 'because of', long: true, value: row => row.cause},
    {title: 'op_name', long: true, value: row => row.op_name},
    {title: 'source', long: true, value: row => row.source},
  ], R.collective_calls, {sort: 5, name: row => row.name}));
}

// Lanes are streams; a loop spans its lane, one trip of it is drawn inside, at its beginning.
function timelineSection() {
  const node = section('timeline', 'Timeline');
  const {streams, events, dropped} = D.timeline;
  if (events.length === 0 || R.step_time_s === 0) return node.append(el('p', {class: 'empty'}, 'Nothing takes time.'));
  const lane = 34, left = 110, top = 22, height = top + lane * streams.length + 4;
  const canvas = el('canvas', {tabindex: 0, role: 'img', 'aria-label': 'Timeline of one step'});
  const view = {from: 0, to: R.step_time_s};
  let width = 0, drag = null, hovered = -1;
  const depth = events.map(() => 0);
  events.forEach((event, i) => { depth[i] = event.parent < 0 ? 0 : depth[event.parent] + 1; });
  const drawn = new Map(Object.keys(WORK).map(work => [work, '']));
  function x(time) { return left + (time - view.from) / (view.to - view.from) * (width - left); }
  function box(i) {
    const event = events[i], inset = Math.min(depth[i], 4) * 3 + 2;
    return [x(event.start), top + event.stream * lane + inset, Math.max(x(event.end) - x(event.start), 0.5), lane - 2 * inset];
  }
  function draw() {
    const scale = window.devicePixelRatio || 1, style = getComputedStyle(document.documentElement);
    canvas.width = width * scale;
    canvas.height = height * scale;
    canvas.style.height = height + 'px';
    for (const work of drawn.keys()) drawn.set(work, style.getPropertyValue('--c' + WORK[work]).trim());
    const g = canvas.getContext('2d'), text = style.getPropertyValue('--text').trim(), dim = style.getPropertyValue('--dim').trim();
    g.scale(scale, scale);
    g.font = '11px system-ui, sans-serif';
    g.save();
    g.beginPath();
    g.rect(left, 0, width - left, height);
    g.clip();
    events.forEach((event, i) => {
      if (event.end < view.from || event.start > view.to) return;
      const [bx, by, bw, bh] = box(i);
      g.globalAlpha = event.work === 'loop' ? 0.3 : matches([event.name]) ? 1 : 0.15;
      g.fillStyle = drawn.get(event.work);
      g.fillRect(bx, by, bw, bh);
      g.globalAlpha = 1;
      if (event.critical && event.work !== 'loop' && bw > 2) { g.fillStyle = text; g.fillRect(bx, by + bh - 2, bw, 2); }
      if (event.name === selection.name || i === hovered) { g.strokeStyle = text; g.lineWidth = 2; g.strokeRect(bx, by, bw, bh); }
      if (bw > 60) {
        g.fillStyle = event.work === 'loop' ? text : '#fff';
        const letters = Math.floor(bw / 6.5), label = event.name + (event.trips > 1 && event.work === 'loop' ? ` ×${event.trips}` : '');
        const wide = event.work === 'loop' ? by + 9 : by + bh / 2 + 4;
        const from = Math.max(bx, left) + 3;
        if (event.work !== 'loop' || bh > 20) g.fillText(label.length > letters ? label.slice(0, letters - 1) + '…' : label, from, wide);
      }
    });
    g.restore();
    g.fillStyle = dim;
    streams.forEach((stream, i) => g.fillText(stream.length > 17 ? stream.slice(0, 16) + '…' : stream, 4, top + i * lane + lane / 2 + 4));
    const wanted = Math.max(2, Math.floor((width - left) / 160));
    for (let i = 0; i <= wanted; ++i) {
      const time = view.from + (view.to - view.from) * i / wanted;
      g.textAlign = i === wanted ? 'right' : 'left';
      g.fillText(seconds(time), i === wanted ? width - 2 : x(time), 13);
      g.fillRect(Math.min(x(time), width - 1), 16, 1, 4);
    }
    g.textAlign = 'left';
  }
  function at(event) {
    const area = canvas.getBoundingClientRect(), px = event.clientX - area.left, py = event.clientY - area.top;
    for (let i = events.length - 1; i >= 0; --i) {
      const [bx, by, bw, bh] = box(i);
      if (px >= Math.max(bx - 1, left) && px <= bx + bw + 1 && py >= by && py <= by + bh) return i;
    }
    return -1;
  }
  function show(from, to) {
    const span = Math.min(Math.max(to - from, R.step_time_s * 1e-7), R.step_time_s);
    view.from = Math.min(Math.max(from, 0), R.step_time_s - span);
    view.to = view.from + span;
    draw();
  }
  function zoom(factor, around) {
    const middle = around === undefined ? (view.from + view.to) / 2 : around;
    show(middle - (middle - view.from) * factor, middle + (view.to - middle) * factor);
  }
  function tripOf(i) {
    const inside = events.filter(event => event.parent === i);
    return inside.length === 0 ? events[i] : {start: events[i].start, end: Math.max(...inside.map(event => event.end))};
  }
  canvas.addEventListener('mousemove', event => {
    if (drag) {
      const moved = (drag.x - event.clientX) / (width - left) * (drag.to - drag.from);
      if (Math.abs(drag.x - event.clientX) > 3) drag.moved = true;
      show(drag.from + moved, drag.to + moved);
      return;
    }
    const i = at(event);
    if (i !== hovered) { hovered = i; draw(); }
    if (i < 0) return hideTip();
    const e = events[i];
    showTip(event, `${e.name}\n${e.work}, ${seconds(e.end - e.start)}${e.trips > 1 ? `, ${count(e.trips)} times in a step` : ''}${e.critical ? '\non the critical path' : ''}`);
  });
  canvas.addEventListener('mouseleave', () => { hideTip(); if (hovered >= 0) { hovered = -1; draw(); } });
  canvas.addEventListener('mousedown', event => { drag = {x: event.clientX, from: view.from, to: view.to, moved: false}; event.preventDefault(); });
  window.addEventListener('mouseup', () => { setTimeout(() => { drag = null; }); });
  canvas.addEventListener('click', event => {
    if (drag && drag.moved) return;
    const i = at(event);
    if (i >= 0) select(events[i].name);
  });
  canvas.addEventListener('dblclick', event => {
    const i = at(event);
    if (i < 0) return show(0, R.step_time_s);
    const part = events[i].work === 'loop' ? tripOf(i) : events[i];
    show(part.start, part.end);
  });
  canvas.addEventListener('wheel', event => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    const area = canvas.getBoundingClientRect();
    zoom(event.deltaY > 0 ? 1.25 : 0.8, view.from + (event.clientX - area.left - left) / (width - left) * (view.to - view.from));
  }, {passive: false});
  canvas.addEventListener('keydown', event => {
    const span = view.to - view.from;
    if (event.key === '+') zoom(0.6);
    else if (event.key === '-') zoom(1.7);
    else if (event.key === '0') show(0, R.step_time_s);
    else if (event.key === 'ArrowLeft') show(view.from - span / 5, view.to - span / 5);
    else if (event.key === 'ArrowRight') show(view.from + span / 5, view.to + span / 5);
    else return;
    event.preventDefault();
  });
  const loops = events.map((event, i) => [event, i]).filter(([event]) => event.work === 'loop')
    .sort(([a], [b]) => (b.end - b.start) - (a.end - a.start)).slice(0, 6);
  node.append(el('p', {class: 'dim'}, 'One step on one device; underlined: on the critical path. Of a loop one trip is drawn, at its beginning. ' +
    `Drag, Ctrl+wheel, + and − move and zoom; a double click shows one thing.${dropped > 0 ? ` ${count(dropped)} shorter events are not drawn.` : ''}`));
  node.append(legend(Object.keys(WORK).filter(work => events.some(event => event.work === work)).map(work => [workColor(work), work])));
  node.append(el('p', {}, el('button', {on: {click: () => show(0, R.step_time_s)}}, 'whole step'), ' ',
    el('button', {on: {click: () => zoom(0.5)}}, '+'), ' ', el('button', {on: {click: () => zoom(2)}}, '−'), ' ',
    ...loops.map(([event, i]) => el('button', {on: {click: () => { const trip = tripOf(i); show(trip.start, trip.end); }}}, `one trip of ${event.name} `))));
  node.append(canvas);
  new ResizeObserver(() => requestAnimationFrame(() => {
    const now = Math.round(canvas.clientWidth);
    if (now !== width && now > 0) { width = now; draw(); }
  })).observe(canvas);
  selection.listeners.push(draw);
  search.listeners.push(draw);
  themeListeners.push(draw);
}

function kernelTable() {
  return table([
    {title: 'time', right: true, value: row => row.time_s, text: row => seconds(row.time_s)},
    {title: 'of the step', right: true, value: row => row.time_s, text: row => percent(row.time_s / (R.step_time_s || 1))},
    {title: 'kernel', long: true, value: row => row.name},
    {title: 'opcode', value: row => row.opcode},
    {title: 'class', value: row => row.class},
    {title: 'count', right: true, value: row => row.count, text: row => count(row.count)},
    {title: 'work', right: true, value: row => row.flops, text: row => flops(row.flops)},
    {title: 'HBM', right: true, value: row => row.bytes, text: row => bytes(row.bytes)},
    {title: 'of peak', right: true, value: row => row.flops / (row.time_s || 1), text: row => percent(row.flops / (row.time_s || 1) / D.chip.nominal_flops)},
    {title: 'op_name', long: true, value: row => row.op_name},
    {title: 'source', long: true, value: row => row.source},
  ], R.kernels, {sort: 0, name: row => row.name});
}

function rooflineChart(width) {
  const height = 340, left = 84, bottom = 40, w = width - left - 12, h = height - bottom - 12;
  const kernels = R.kernels.filter(row => row.flops > 0 && row.bytes > 0 && row.time_s > 0);
  const peak = D.chip.nominal_flops, bandwidth = D.chip.hbm_bytes_per_s, ridge = peak / bandwidth;
  const reached = kernels.map(row => row.flops / row.time_s), dense = kernels.map(row => row.flops / row.bytes);
  const range = (values, low, high) => [Math.floor(Math.log10(Math.min(low, ...values))), Math.ceil(Math.log10(Math.max(high, ...values)))];
  const [x0, x1] = range(dense, 0.1, ridge * 10), [y0, y1] = range(reached, peak / 1e4, peak * 1.2);
  const x = value => left + w * (Math.log10(value) - x0) / (x1 - x0), y = value => 12 + h * (1 - (Math.log10(value) - y0) / (y1 - y0));
  const picture = svg('svg', {viewBox: `0 0 ${width} ${height}`, height, role: 'img', 'aria-label': 'Roofline'});
  for (let e = x0; e <= x1; ++e) {
    picture.append(svg('line', {class: 'axis', x1: x(10 ** e), x2: x(10 ** e), y1: 12, y2: 12 + h}),
      svg('text', {x: x(10 ** e), y: height - 22, 'text-anchor': 'middle'}, e < 0 ? (10 ** e).toFixed(-e) : String(10 ** e)));
  }
  for (let e = y0; e <= y1; ++e) {
    picture.append(svg('line', {class: 'axis', x1: left, x2: left + w, y1: y(10 ** e), y2: y(10 ** e)}),
      svg('text', {x: left - 6, y: y(10 ** e) + 4, 'text-anchor': 'end'}, flops(10 ** e) + '/s'));
  }
  picture.append(svg('text', {x: left + w / 2, y: height - 5, 'text-anchor': 'middle'}, 'FLOPs per byte of memory traffic'));
  const low = Math.max(10 ** x0, 10 ** y0 / bandwidth);
  picture.append(svg('path', {d: `M${x(low)} ${y(low * bandwidth)}L${x(ridge)} ${y(peak)}L${x(10 ** x1)} ${y(peak)}`, fill: 'none', stroke: 'var(--text)', 'stroke-width': 1.5}),
    svg('text', {x: left + w - 4, y: y(peak) - 5, 'text-anchor': 'end'}, `${flops(peak)}/s, ${D.chip.name}`));
  const longest = Math.max(...kernels.map(row => row.time_s), 1e-30);
  kernels.slice().reverse().forEach(row => picture.append(svg('circle', {
    class: 'name', 'data-name': row.name, cx: x(row.flops / row.bytes), cy: y(row.flops / row.time_s), r: 3 + 14 * Math.sqrt(row.time_s / longest),
    fill: workColor(row.class), 'fill-opacity': 0.75, on: {click: () => select(row.name), ...tipOf(() =>
      `${row.name}\n${flops(row.flops)}, ${bytes(row.bytes)}: ${(row.flops / row.bytes).toFixed(1)} FLOP/byte\n${seconds(row.time_s)}: ${flops(row.flops / row.time_s)}/s, ${percent(row.flops / row.time_s / peak)} of the peak\n${row.source || row.op_name}`)},
  })));
  return picture;
}

function workSection() {
  const node = section('roofline', 'Kernels');
  if (R.kernels.length === 0) return node.append(el('p', {class: 'empty'}, 'The program computes nothing.'));
  if (R.kernels.some(row => row.flops > 0 && row.bytes > 0 && row.time_s > 0)) {
    const kinds = [...new Set(R.kernels.filter(row => row.flops > 0).map(row => row.class))];
    node.append(el('p', {class: 'dim'}, 'Roofline: a circle a kernel, its area the time it takes. On the slope memory is the bound, under the flat roof the matrix units (bf16).'),
      legend(kinds.map(kind => [workColor(kind), kind])), chart(rooflineChart));
  } else {
    node.append(el('p', {class: 'empty'}, 'No kernel does arithmetic that a roofline could show.'));
  }
  node.append(el('h3', {}, R.kernels.length >= 200 ? 'The 200 longest kernels' : 'All kernels'), kernelTable());
}
