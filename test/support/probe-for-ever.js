// Puts probes in and takes them out in a loop until it is killed. Arguments: the pid, and a seed for the order.

import { attach } from '../../dist/src/index.js';

const pid = Number(process.argv[2]);
const seed = Number(process.argv[3]);
const specs = [
  { at: 'step', capture: 'nothing' },
  { at: 'find', when: 'p->next->next->id == 7', capture: ['p->next->id'] },
  { at: 'count_down', capture: 'nothing' },
  { at: 'count_down+2', capture: 'nothing' },
];
for (let round = seed; ; round++) {
  const session = await attach(pid);
  const probe = await session.probe(specs[round % 4]);
  await session.probe(specs[(round + 1) % 4]).catch(() => {});
  if (round % 2 === 0) await probe.remove();
  await session.close();
  // Not before all modules are loaded: from now on it is quick, and a kill finds it at work.
  if (round === seed) console.log('ready');
}
