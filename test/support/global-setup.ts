// Runs before and after all tests: says what this machine lacks, and that no traced or test process is left behind.

import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';
import { isInstalled } from './installed.js';

const targets = join(import.meta.dirname, '..', '..', 'build', 'test-targets');

/** Processes that run one of our test programs. */
function leftOver(): string[] {
  return readdirSync('/proc').filter((entry) => {
    try {
      const state = readFileSync(`/proc/${entry}/stat`, 'utf8').split(') ')[1]?.charAt(0);
      return /^\d+$/.test(entry) && state !== 'Z' && readlinkSync(`/proc/${entry}/exe`).startsWith(targets);
    } catch {
      return false;
    }
  });
}

export function setup(): void {
  const missing = ['gdb', 'clang'].filter((tool) => !isInstalled(tool));
  if (missing.length > 0) console.warn(`left out, because not installed: comparisons with ${missing.join(', ')}`);
}

export async function teardown(): Promise<void> {
  for (let patience = 20; leftOver().length > 0 && patience > 0; patience--) {
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  const pids = leftOver();
  if (pids.length > 0) throw new Error(`tests left processes behind: ${pids.join(', ')}`);
}
