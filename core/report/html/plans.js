// The page of automatic sharding: every plan by step time and peak memory, its annotations and its command.
const plans = D.plans.map((plan, i) => ({...plan, number: i + 1, devices: D.devices, stages: plan.stages > 1 ? plan.stages : 0}));
const limit = D.limit_bytes;
const planText = plan => [pointText(plan), ...(plan.zero ? ['ZeRO'] : []), ...(plan.remat ? ['recomputed'] : [])].join('; ');
for (const plan of plans) plan.text = planText(plan);
for (const plan of plans) plan.label = `${plan.number}: ${plan.text}`;

function verdict() {
  const best = plans[0], node = section('verdict', 'Verdict');
  const fact = (value, name) => el('div', {class: 'fact'}, el('b', {}, value), el('span', {}, name));
  node.append(el('p', {class: 'verdict ' + (best.fits ? 'fits' : 'over')},
    `${seconds(best.step_time_s)} a step, ${bytes(best.peak_bytes)} a device` + (best.fits ? '' : ', which does not fit')),
  el('div', {class: 'facts'}, fact(best.text, 'best plan'), fact(count(best.annotations), 'annotated instructions'), fact(percent(best.mfu), 'MFU'),
    fact(seconds(D.bound_s), 'perfect scaling'), fact(percent(D.gap), 'the plan is longer by'), ...(limit > 0 ? [fact(bytes(limit), 'limit')] : []),
    fact(count(D.evaluations), 'plans priced')), el('p', {class: 'dim'}, D.searched));
}

function planSections() {
  section('plot', 'Time and memory').append(
    el('p', {class: 'dim'}, `${plans.length} plans for ${count(D.devices)} ${D.chip}; on the line: fits, and no other of these is better in time or memory and no worse in the other.`),
    legend([['var(--accent)', 'optimal among these'], ['var(--c5)', 'others'], ...(plans.some(plan => !plan.fits) ? [['var(--bad)', 'does not fit']] : [])]),
    chart(width => plot(width, plans, limit)));
  const hasStages = plans.some(plan => plan.stages > 0);
  section('plans', 'Plans').append(table([
    {title: 'plan', right: true, value: plan => plan.number, text: plan => count(plan.number)},
    {title: 'mesh', value: plan => meshText(plan.mesh)},
    {title: 'optimal', value: plan => plan.pareto ? 'yes' : ''},
    ...(hasStages ? [{title: 'stages', right: true, value: plan => plan.stages || '', text: plan => plan.stages || ''},
      {title: 'micro-batches', right: true, value: plan => plan.stages > 0 ? plan.microbatches : ''},
      {title: 'schedule', value: plan => plan.schedule},
      {title: 'bubble', right: true, value: plan => plan.bubble_share, text: plan => plan.stages > 0 ? percent(plan.bubble_share) : ''}] : []),
    {title: 'ZeRO', value: plan => plan.zero ? 'yes' : ''},
    {title: 'recomputed', value: plan => plan.remat ? 'yes' : ''},
    {title: 'step time', right: true, value: plan => plan.step_time_s, text: plan => seconds(plan.step_time_s)},
    {title: 'exposed', right: true, value: plan => plan.exposed_communication_s, text: plan => seconds(plan.exposed_communication_s)},
    {title: 'MFU', right: true, value: plan => plan.mfu, text: plan => percent(plan.mfu)},
    {title: 'peak memory', right: true, value: plan => plan.peak_bytes, text: plan => bytes(plan.peak_bytes)},
    {title: 'fits', value: plan => plan.fits ? 'yes' : 'no'},
    {title: 'most of the time', value: plan => plan.why},
    {title: 'annotations', right: true, value: plan => plan.annotations, text: plan => count(plan.annotations)},
  ], plans, {sort: 0, ascending: true, name: plan => plan.label}));
  const node = section('commands', 'Annotations and commands');
  for (const plan of plans) {
    node.append(el('details', {open: plan.number === 1 ? '' : null}, el('summary', {}, `${plan.label}: ${seconds(plan.step_time_s)}, ${bytes(plan.peak_bytes)}`),
      plan.rules.length === 0 ? el('p', {}, 'No annotations.') : el('ul', {}, ...plan.rules.map(rule => el('li', {}, el('code', {}, rule)))),
      el('p', {}, el('code', {}, plan.command))));
  }
}

document.body.append(tip);
tools();
verdict();
planSections();
