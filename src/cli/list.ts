// `list`: what fastprobes have in a process.

import type { ProbeRecord } from '../channel/records.js';
import type { FoundSession } from '../probe/leftovers.js';

export function sessionFacts({ owner, isOwnerAlive, created, probes, patches }: FoundSession) {
  return {
    type: 'session',
    owner: owner.pid,
    ownerAlive: isOwnerAlive,
    created: created.toISOString(),
    probes: probes
      .filter((probe) => !probe.removed)
      .map(({ id, description, hits, faults, dropped }) => ({ probe: id, ...description, hits, faults, dropped })),
    patches: patches.map(({ site, tactic, probe }) => ({ address: `0x${site.toString(16)}`, tactic, probe })),
  };
}

export function describeSessions(sessions: readonly FoundSession[]): string[] {
  if (sessions.length === 0) return ['there is no probe'];
  return sessions.flatMap(({ owner, isOwnerAlive, created, probes, patches }) => [
    `of fastprobe process ${owner.pid}${isOwnerAlive ? '' : ' (which has ended)'}, since ${created.toLocaleString()}:`,
    ...probes.filter((probe) => !probe.removed).map(describeProbe),
    ...patches.map(({ site, tactic }) => `  patch at 0x${site.toString(16)} (${tactic})`),
  ]);
}

function describeProbe({ id, description, hits, faults, dropped }: ProbeRecord): string {
  const condition = description.when === undefined ? '' : ` if ${String(description.when)}`;
  return `  probe ${id} at ${String(description.at)}${condition}: ${hits} hits, ${dropped} dropped, ${faults} faults`;
}
