// What a fastprobe has in a target, seen from another one: listing it, and taking it out when its owner has died.

import { readdirSync, readlinkSync } from 'node:fs';
import { type Address, offsetBy } from '../address.js';
import { channelName } from '../channel/channel.js';
import { arenaSize, header, redirects } from '../channel/layout.js';
import { decodeActions, decodeRecords, noRecords, type Records } from '../channel/records.js';
import { FastprobeError } from '../errors.js';
import type { Span } from '../patch/space.js';
import { attach } from '../target/attach.js';
import { readMaps } from '../target/maps.js';
import { readProcessMemory } from '../target/memory-file.js';
import { startTime } from '../target/proc.js';
import { explainRefusal } from '../target/refusal.js';
import type { Target } from '../target/target.js';
import { refuseOverwritten } from './installer.js';
import { takeOut } from './take-out.js';

/** The probes of one fastprobe in a target. */
export interface FoundSession extends Records {
  /** Where its channel is in the target. */
  readonly channel: Address;
  /** All its memory there. */
  readonly mappings: readonly Span[];
  readonly isOwnerAlive: boolean;
}

/** What fastprobes have in a process. Does not attach to it, nor stop it. */
export function listProbes(pid: number): FoundSession[] {
  const views = findMaps(pid).filter(({ path }) => path === `/memfd:${channelName}`);
  // All views of a channel have its inode.
  const channels = [...new Map(views.map((view) => [view.inode, view])).values()];
  return channels.map(({ inode, start }) => {
    const records = decodeRecords(readProcessMemory(pid, start, redirects.offset)) ?? noRecords;
    const isOwnerAlive = startTime(records.owner.pid) === records.owner.startTime;
    const mappings = views
      .filter((view) => view.inode === inode)
      .map((view) => ({ low: view.start, high: offsetBy(view.end, arenaSize) }));
    return { ...records, mappings, channel: start, isOwnerAlive };
  });
}

function findMaps(pid: number) {
  try {
    return readMaps(pid);
  } catch (cause) {
    throw explainRefusal(
      pid,
      new FastprobeError('FASTPROBE_NO_SUCH_PROCESS', `process ${pid} can't be looked at`, {
        hint: 'check the process id',
        cause,
      }),
    );
  }
}

/**
 * Takes out what fastprobes have in a process: of dead ones only, or of all. Refuses, in the first case, when a living one
 * has something there. Returns how many patches were undone.
 */
export async function removeLeftovers(pid: number, options: { whoseOwner: 'is-dead' | 'is-any' }): Promise<number> {
  const sessions = listProbes(pid);
  const alive = sessions.find((session) => session.isOwnerAlive);
  if (alive !== undefined && options.whoseOwner === 'is-dead') {
    throw new FastprobeError(
      'FASTPROBE_TARGET_IN_USE',
      `fastprobe process ${alive.owner.pid} has ${alive.patches.length} patches in process ${pid}`,
      { hint: `end it first, or take its probes out with: fastprobe detach ${pid}` },
    );
  }
  if (sessions.length === 0) return 0;
  await using target = await attach(pid);
  for (const session of sessions) await removeSession(target, session);
  await closeMemoryFiles(target);
  return sessions.reduce((count, { patches }) => count + patches.length, 0);
}

async function removeSession(target: Target, session: FoundSession): Promise<void> {
  const channel = await target.read(session.channel, header.end);
  const actions = session.runtime === 0n ? new Map<number, Uint8Array>() : decodeActions(channel);
  const { left } = await takeOut(target, {
    patches: session.patches,
    // Where its threads stand in copies of displaced instructions only their maker knew; they run out of them by themselves.
    returns: new Map(),
    actions: () => actions,
    mappings: session.mappings,
    runtime: session.runtime,
    scratch: offsetBy(session.channel, header.scratch),
  });
  refuseOverwritten(left);
}

/** Closes memory files of ours that a fastprobe which died while making its channel left open in the target. */
async function closeMemoryFiles(target: Target): Promise<void> {
  const folder = `/proc/${target.pid}/fd`;
  for (const descriptor of readdirSync(folder)) {
    if (readlinkSync(`${folder}/${descriptor}`).startsWith(`/memfd:${channelName} `)) {
      await target.remote.call('close', [BigInt(descriptor)]);
    }
  }
}
